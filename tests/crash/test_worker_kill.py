"""Workers that are killed, frozen, or killed by their message."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process

from hermes import Hermes
from hermes.core.events import TaskResumed, TaskStarted
from hermes.store import TaskQuery, Worker
from tests.postgres import database
from tests.workers import Site, is_in, settled, until


@pytest.fixture
def site(workdir: Path) -> Site:
    return Site(workdir)


@pytest.fixture(params=["sqlite", "postgresql"])
def each_site(workdir: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """The same on both databases."""
    if request.param == "sqlite":
        yield Site(workdir)
    else:
        with database() as url:
            yield Site(workdir, url)


async def reasons(app: Hermes, task_id: str) -> list[str]:
    """How its work began each time."""
    events = [record.event for record in await app.store.events(task_id)]
    return [
        "started" if isinstance(event, TaskStarted) else event.reason
        for event in events
        if isinstance(event, TaskStarted | TaskResumed)
    ]


async def test_a_worker_killed_during_a_tool_is_replaced_by_the_next_live_one(
    each_site: Site,
) -> None:
    site = each_site
    (site.folder / "hang").touch()
    async with Hermes(site.database) as app:
        [task_id] = await site.submit(app, "hang")
        async with site.worker() as first, site.worker():
            await until(lambda: site.calls == ["hang"])
            [holder] = [row.worker_id for row in await app.store.messages() if row.worker_id]
            [victim] = [row.pid for row in await app.store.workers() if row.worker_id == holder]
            os.kill(victim, signal.SIGKILL)
            (site.folder / "hang").unlink()
            [task] = await settled(app, [task_id], within_s=10)
            assert first.pid
        assert task.state.value == "succeeded"
        assert await reasons(app, task_id) == ["started", "after 1 crash(es)"]


async def test_an_unsafe_call_of_a_killed_worker_waits_for_a_person_and_is_not_repeated(
    each_site: Site,
) -> None:
    site = each_site
    (site.folder / "hang").touch()
    async with Hermes(site.database) as app:
        [task_id] = await site.submit(app, "pay")
        async with site.worker() as worker:
            await until(lambda: site.calls == ["pay"])
            worker.kill()
            await worker.wait()
        async with site.worker():
            await until(lambda: is_in(app, task_id, "waiting"))
            assert site.calls == ["pay"]
            [review] = await app.store.reviews(task_id=task_id)
            assert review.reason == "in_doubt"
            await app.store.decide(review.review_id, "done", by="test")
            [task] = await settled(app, [task_id])
        assert task.state.value == "succeeded"
        assert site.calls == ["pay"]


async def test_a_worker_killed_between_claim_and_first_step_leaves_a_task_that_is_carried(
    site: Site,
) -> None:
    async with Hermes(site.database) as app:
        [task_id] = await site.submit(app, "look")
        # What such a worker leaves: its row, a lock that nobody holds, and the lease.
        gone = Worker(
            worker_id="worker_gone",
            host=os.uname().nodename,
            pid=1,
            lock_path=str(site.folder / "gone.lock"),
            renewed_at=(await app.store.task(task_id)).created_at,
        )
        await app.store.register(gone)
        assert len(await app.store.claim("worker_gone")) == 1
        async with site.worker():
            [task] = await settled(app, [task_id])
        assert task.state.value == "succeeded"
        assert await reasons(app, task_id) == ["started"]


async def test_a_task_that_waits_stays_so_when_its_worker_is_killed(site: Site) -> None:
    async with Hermes(site.database) as app:
        [task_id] = await site.submit(app, "ask")
        async with site.worker() as worker:
            await until(lambda: is_in(app, task_id, "waiting"))
            worker.kill()
            await worker.wait()
        async with site.hermes("worker", "--once") as worker:
            assert await worker.wait() == 0
        assert await is_in(app, task_id, "waiting")
        [review] = await app.store.reviews(task_id=task_id)
        await app.store.decide(review.review_id, "answer", answer="yes", by="test")
        async with site.hermes("worker", "--once") as worker:
            assert await worker.wait() == 0
        assert await is_in(app, task_id, "succeeded")
        assert site.calls == ["ask"]


async def freeze(process: Process, site: Site) -> None:
    """Stop a process, but not while it writes: SQLite would keep everybody out for as long."""
    is_file = site.database.startswith("sqlite:///")
    while True:
        process.send_signal(signal.SIGSTOP)
        if not is_file or is_unlocked(Path(site.database.removeprefix("sqlite:///"))):
            return
        process.send_signal(signal.SIGCONT)
        await anyio.sleep(0.05)


def is_unlocked(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=0.5, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        connection.execute("ROLLBACK")
        return True


async def test_a_frozen_worker_is_fenced_and_does_no_harm_when_it_wakes(each_site: Site) -> None:
    site = each_site
    (site.folder / "hang").touch()
    async with Hermes(site.database) as app:
        [task_id] = await site.submit(app, "hang")
        async with site.worker() as frozen:
            await until(lambda: site.calls == ["hang"])
            await freeze(frozen, site)
            async with site.worker():
                await until(lambda: site.calls == ["hang", "hang"])
                frozen.send_signal(signal.SIGCONT)
                (site.folder / "hang").unlink()
                [task] = await settled(app, [task_id])
                # It sees its own clock, or that others have taken it for dead: whichever is first.
                words = ("declared dead", "could not renew its lease in time")
                await until(lambda: any(word in site.log.read_text() for word in words))
            frozen.send_signal(signal.SIGTERM)
            assert await frozen.wait() == 0
        assert task.state.value == "succeeded"
        kinds = [record.event.type for record in await app.store.events(task_id)]
        assert kinds.count("tool.returned") == kinds.count("task.settled") == 1


async def test_a_message_that_kills_its_process_stops_after_three_deaths_alone(
    each_site: Site,
) -> None:
    site = each_site
    (site.folder / "die").touch()
    async with Hermes(site.database) as app:
        poison, *good = await site.submit(app, "die", *["look"] * 5)
        async with site.worker(), site.worker():
            await until(lambda: is_in(app, poison, "waiting"))
            tasks = await settled(app, good)
            assert {task.state.value for task in tasks} == {"succeeded"}
            assert site.calls.count("die") == 4
            [review] = await app.store.reviews(task_id=poison)
            assert (review.reason, review.data["crashes"]) == ("dead_letter", 4)
            (site.folder / "die").unlink()
            await app.store.decide(review.review_id, "retry", by="test")
            [task] = await settled(app, [poison])
        assert task.state.value == "succeeded"
        assert (await reasons(app, poison))[-1] == "what it waited for has come"
        assert await app.store.messages() == []


async def test_the_death_of_a_worker_that_only_waits_for_a_child_process_is_not_counted(
    site: Site,
) -> None:
    (site.folder / "hang").touch()
    async with Hermes(site.database) as app:
        [task_id] = await site.submit(app, "hang")
        async with site.worker() as first:
            await until(lambda: site.calls == ["hang"])
            first.kill()
            await first.wait()
        async with site.worker() as parent:
            await until(lambda: site.calls == ["hang", "hang"])
            [row] = await app.store.messages(task_id=task_id)
            assert row.worker_id is not None
            parent.kill()
            await parent.wait()
            # The child sees that, and gives the task back at the next border.
            (site.folder / "hang").unlink()
            await until(lambda: is_free_or_settled(app, task_id))
        for row in await app.store.messages(task_id=task_id):
            assert (row.state, row.crashes) == ("ready", 1)
        async with site.hermes("worker", "--once") as last:
            assert await last.wait() == 0
        assert await is_in(app, task_id, "succeeded")


async def test_a_stop_signal_reaches_the_child_process_too(site: Site) -> None:
    (site.folder / "hang").touch()
    site.settings["HERMES_DRAIN_S"] = "1"
    async with Hermes(site.database) as app:
        [task_id] = await site.submit(app, "hang")
        async with site.worker() as first:
            await until(lambda: site.calls == ["hang"])
            first.kill()
            await first.wait()
        async with site.worker() as parent:
            await until(lambda: site.calls == ["hang", "hang"])
            parent.send_signal(signal.SIGTERM)
            assert await parent.wait() == 0
        [row] = await app.store.messages(task_id=task_id)
        assert (row.state, row.attempts, row.crashes) == ("ready", 0, 1)
        assert await app.store.workers() == []


async def is_free_or_settled(app: Hermes, task_id: str) -> bool:
    rows = await app.store.messages(task_id=task_id)
    return all(row.state == "ready" for row in rows)


async def test_two_processes_with_one_session_take_turns(site: Site) -> None:
    """As two servers that get requests of one conversation within 10 ms."""
    (site.folder / "hang").touch()
    words = [
        "run", "hang", "--session", "s", "--json",
        "--tools", "tools.py", "--playbook", "rules.yaml",
    ]  # fmt: skip
    async with Hermes(site.database) as app:
        async with site.hermes(*words) as one, site.hermes(*words) as other:
            await until(lambda: site.calls == ["hang"])
            await anyio.sleep(0.3)  # the other one has time to do what it must not
            assert site.calls == ["hang"]
            (site.folder / "hang").unlink()
            assert [await one.wait(), await other.wait()] == [0, 0]
        assert site.calls == ["hang", "hang"]
        tasks = await app.store.tasks(TaskQuery(session_id="s"))
        assert [task.state.value for task in tasks] == ["succeeded", "succeeded"]
