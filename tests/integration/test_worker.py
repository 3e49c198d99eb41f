"""`hermes worker` as a process: it carries, drains, goes on after waits, and cancels."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes import Hermes
from hermes.core.events import ToolStarted
from tests.postgres import database
from tests.workers import HeldModel, Site, is_in, settled, until


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


async def test_a_worker_carries_what_is_submitted_while_it_runs(each_site: Site) -> None:
    site = each_site
    async with Hermes(site.database) as app, site.worker():
        tasks = await settled(app, await site.submit(app, "look", "look", "split"))
        assert [task.state.value for task in tasks] == ["succeeded"] * 3
        assert site.calls == ["look"] * 4
        assert await app.store.messages() == []


async def test_of_five_tasks_at_a_stop_signal_two_finish_one_fails_and_two_are_given_back(
    each_site: Site,
) -> None:
    site = each_site
    (site.folder / "hang").touch()
    async with HeldModel() as model:
        site.settings |= {"API_BASE": model.url, "MODEL_NAME": "m", "HERMES_DRAIN_S": "4"}
        site.settings["HERMES_MODEL_ATTEMPTS"] = "1"
        async with Hermes(site.database) as app:
            goals = ["one", "two", "fails", "slow", "pays"]
            ids = await site.submit(app, *goals)
            model.answer("pays", call="pay")
            async with site.worker() as worker:
                await until(lambda: sorted(model.asked) == sorted(goals) and "pay" in site.calls)
                worker.send_signal(signal.SIGTERM)
                await until(lambda: "no new work" in site.log.read_text())
                model.answer("one", "done")
                model.answer("two", "done")
                model.refuse("fails")
                assert await worker.wait() == 0
            states = [(await app.store.task(task_id)).state.value for task_id in ids]
            assert states == ["succeeded", "succeeded", "failed", "processing", "processing"]
            left = {row.message.task_id: row for row in await app.store.messages()}
            assert left.keys() == set(ids[3:])
            for row in left.values():
                assert (row.state, row.attempts, row.crashes) == ("ready", 0, 0)
            paying = [item.event for item in await app.store.events(ids[4])]
            assert isinstance(paying[-1], ToolStarted)
            assert await app.store.workers() == []


async def test_a_second_signal_ends_a_worker_without_waiting_for_steps(site: Site) -> None:
    (site.folder / "hang").touch()
    site.settings["HERMES_DRAIN_S"] = "600"
    async with Hermes(site.database) as app:
        [task_id] = await site.submit(app, "hang")
        async with site.worker() as worker:
            await until(lambda: site.calls == ["hang"])
            worker.send_signal(signal.SIGINT)
            await until(lambda: "no new work" in site.log.read_text())
            worker.send_signal(signal.SIGTERM)
            began = time.monotonic()
            assert await worker.wait() == 130
            assert time.monotonic() - began < 5
        [row] = await app.store.messages(task_id=task_id)
        assert (row.state, row.attempts, row.crashes) == ("ready", 0, 0)


async def test_a_step_under_way_at_a_stop_signal_ends_and_is_not_made_again(site: Site) -> None:
    (site.folder / "hang").touch()
    site.settings["HERMES_DRAIN_S"] = "600"
    async with Hermes(site.database) as app:
        [task_id] = await site.submit(app, "hang")
        async with site.worker() as worker:
            await until(lambda: site.calls == ["hang"])
            worker.send_signal(signal.SIGTERM)
            await until(lambda: "no new work" in site.log.read_text())
            (site.folder / "hang").unlink()
            assert await worker.wait() == 0
        assert await is_in(app, task_id, "processing")
        async with site.worker():
            [task] = await settled(app, [task_id])
        assert task.state.value == "succeeded"
        assert site.calls == ["hang"]


@pytest.mark.parametrize("goal", ["ask", "listen"])
async def test_a_waiting_task_holds_nothing_and_goes_on_at_the_answer(
    each_site: Site, goal: str
) -> None:
    site = each_site
    async with Hermes(site.database) as app:
        [task_id] = await site.submit(app, goal)
        async with site.worker():
            await until(lambda: is_in(app, task_id, "waiting"))
        assert await app.store.messages() == []
        async with site.worker():
            if goal == "ask":
                [review] = await app.store.reviews(task_id=task_id)
                words = ["review", "answer", review.review_id, "yes"]
            else:
                words = ["signal", "bell", "--payload", '"yes"']
            async with site.hermes(*words, "--json") as command:
                assert await command.wait() == 0
            began = time.monotonic()
            [task] = await settled(app, [task_id])
            assert time.monotonic() - began < 3  # a second at most, on a machine that is not busy
        assert task.state.value == "succeeded"
        response = (await app.store.events(task_id))[-2:]
        assert any("yes" in str(record.event) for record in response)


async def test_a_task_that_waits_for_a_moment_is_gone_on_with_by_a_later_worker(
    site: Site,
) -> None:
    async with Hermes(site.database) as app:
        [task_id] = await site.submit(app, "nap")
        async with site.hermes("worker", "--once") as worker:
            assert await worker.wait() == 0
        assert await is_in(app, task_id, "waiting")
        async with site.worker():
            [task] = await settled(app, [task_id])
        assert task.state.value == "succeeded"


async def test_an_unknown_agent_is_tried_again_and_then_put_before_a_person(site: Site) -> None:
    async with Hermes(site.database) as app:
        ids = await site.submit(app, "delegate")
        async with site.hermes("worker", "--once") as worker:
            assert await worker.wait() == 0
        [row] = await app.store.messages()
        assert row.state == "delayed"
        assert 1 <= row.attempts <= 2  # twice, where the worker takes longer than the pause
        assert "knows agent 'other'" in row.reason
        assert await is_in(app, ids[0], "waiting")


async def test_a_plain_tool_that_sleeps_stalls_neither_heartbeats_nor_others_nor_its_cancel(
    site: Site,
) -> None:
    (site.folder / "hang").touch()
    async with Hermes(site.database) as app:
        [blocked] = await site.submit(app, "block")
        async with site.worker():
            await until(lambda: site.calls == ["block"])
            [before] = [row.renewed_at for row in await app.store.workers()]

            async def is_renewed() -> bool:
                return [row.renewed_at for row in await app.store.workers()] > [before]

            began = time.monotonic()
            await until(is_renewed)
            others = await settled(app, await site.submit(app, "look"))
            assert time.monotonic() - began < 3
            assert others[0].state.value == "succeeded"
            async with site.hermes("cancel", blocked, "--json") as command:
                assert command.stdout is not None
                said = json.loads(b"".join([piece async for piece in command.stdout]))
                assert await command.wait() == 0
        assert said["status"] == "cancelled"


@pytest.mark.parametrize("goal", ["model", "hang", "block", "pay", "ask"])
async def test_a_cancel_stops_the_work_within_three_seconds(site: Site, goal: str) -> None:
    (site.folder / "hang").touch()
    async with HeldModel() as model:
        if goal == "model":
            site.settings |= {"API_BASE": model.url, "MODEL_NAME": "m"}
        async with Hermes(site.database) as app:
            [task_id] = await site.submit(app, goal)
            async with site.worker():
                await until(lambda: bool(model.asked or site.calls))
                if goal == "ask":
                    await until(lambda: is_in(app, task_id, "waiting"))
                began = time.monotonic()
                assert await app.cancel(task_id) == []
                assert time.monotonic() - began < 3
            assert await is_in(app, task_id, "cancelled")
            kinds = [record.event.type for record in await app.store.events(task_id)]
            assert ("tool.in_doubt" in kinds) == (goal == "pay")
            assert await app.store.messages() == []


async def test_a_cancel_reaches_the_children(site: Site) -> None:
    (site.folder / "hang").touch()
    async with Hermes(site.database) as app:
        [task_id] = await site.submit(app, "share")
        async with site.worker():
            await until(lambda: site.calls == ["hang"])
            assert await app.cancel(task_id) == []
        async with site.hermes("tasks", "--json") as command:
            assert command.stdout is not None
            said = json.loads(b"".join([piece async for piece in command.stdout]))
        assert [task["status"] for task in said["tasks"]] == ["cancelled", "cancelled"]
