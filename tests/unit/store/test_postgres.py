"""What the PostgreSQL store does beyond the contract of all stores."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import anyio
import psycopg
import pytest

from hermes.core.clock import SystemClock
from hermes.errors import (
    CodecError,
    ConfigError,
    InputError,
    NotFoundError,
    StoreError,
    StoreUnavailableError,
)
from hermes.store import Lease, TaskQuery, Worker, open_store, pending_migrations
from hermes.store.postgres import PostgresStore
from hermes.testing.clock import START, FakeClock
from tests.journal import (
    WORKER,
    dispatch,
    enroll,
    message,
    opening,
    progress,
    settled,
    start,
    states,
    submit,
)
from tests.postgres import Line, clear, count_waiting, database


@pytest.fixture(scope="module")
def shared() -> Iterator[str]:
    with database() as made:
        yield made


@pytest.fixture
def url(shared: str) -> str:
    """A database without rows, and at first without tables."""
    clear(shared)
    return shared


@pytest.fixture
def empty() -> Iterator[str]:
    """A database without anything."""
    with database() as made:
        yield made


class FastClock(SystemClock):
    """A machine whose clock is an hour ahead."""

    def now(self) -> datetime:
        return super().now() + timedelta(hours=1)


# Opening


def test_the_driver_is_loaded_only_for_postgresql() -> None:
    program = (
        "import sys, hermes, hermes.store\n"
        "assert 'psycopg' not in sys.modules\n"
        "sys.modules['psycopg'] = None\n"
        "from hermes.core.clock import SystemClock\n"
        "hermes.store.open_store('postgresql://u:s3cret@h/x', clock=SystemClock())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    last = done.stderr.splitlines()[-1]
    assert "ConfigError" in last
    assert "pip install 'hermes-courier[postgres]'" in last
    assert "s3cret" not in done.stderr


@pytest.mark.parametrize(
    "url",
    ["postgresql://ann:s3cret@h/x?colour=red",
     "postgresql://ann:s3cret%zz@h/x"],
)  # fmt: skip
def test_a_url_that_cannot_be_read_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PostgresStore(url, clock=FakeClock())
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_a_database_that_does_not_exist_is_said_at_once(url: str) -> None:
    with pytest.raises(StoreUnavailableError, match='_none" does not exist'):
        async with PostgresStore(f"{url}_none", clock=FakeClock(), wait_s=1000):
            pass


async def test_several_that_open_a_new_database_at_once_build_it_once(empty: str) -> None:
    async def use(number: int) -> None:
        async with PostgresStore(empty, clock=FakeClock()) as store:
            await submit(store, f"task_{number}")

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(use, number)

    async with PostgresStore(empty, clock=FakeClock()) as store:
        assert len(await store.tasks(TaskQuery())) == 6
        status = await store.status()
        assert (status.backend, status.version, status.newest) == ("postgresql", 5, 5)


async def test_migrations_can_be_listed_and_left_alone(empty: str) -> None:
    pending = await pending_migrations(empty)

    assert [migration.name for migration in pending] == [
        "0001_journal",
        "0002_waits",
        "0003_todos",
        "0004_quota",
        "0005_budget",
    ]
    with pytest.raises(StoreError, match="hermes db migrate"):
        async with open_store(empty, clock=FakeClock(), migrate=False):
            pass
    assert await pending_migrations(empty) == pending
    async with open_store(empty, clock=FakeClock()):
        pass
    assert await pending_migrations(empty) == []
    async with open_store(empty, clock=FakeClock(), migrate=False):
        pass


async def test_a_newer_schema_is_refused(empty: str) -> None:
    async with PostgresStore(empty, clock=FakeClock()):
        pass
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(b"INSERT INTO hermes.hermes_schema (version) VALUES (99)")

    for again in (PostgresStore(empty, clock=FakeClock()), open_store(empty, clock=FakeClock())):
        with pytest.raises(StoreError, match="schema version 99"):
            async with again:
                pass
    with pytest.raises(StoreError, match="schema version 99"):
        await pending_migrations(empty)


async def test_tables_of_another_program_are_left_alone(empty: str) -> None:
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(b"CREATE TABLE task (n int)")
        async with PostgresStore(empty, clock=FakeClock()) as store:
            await submit(store)
        assert connection.execute(b"SELECT * FROM public.task").fetchall() == []

    into_public = f"{empty}?options=-csearch_path%3Dpublic"
    with pytest.raises(StoreError, match="another program"):
        async with PostgresStore(into_public, clock=FakeClock()):
            pass


async def test_a_search_path_in_the_url_holds(empty: str) -> None:
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(b"CREATE SCHEMA mine")
        async with PostgresStore(
            f"{empty}?options=-csearch_path%3Dmine", clock=FakeClock()
        ) as store:
            await submit(store)
        assert connection.execute(b"SELECT count(*) FROM mine.task").fetchone() == (1,)


def test_the_folder_for_locks_follows_from_the_database_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = PostgresStore("postgresql://ann:a@h/x", clock=FakeClock()).run_dir
    monkeypatch.chdir(tmp_path)
    assert PostgresStore("postgres://ben:b@h:5432/x", clock=FakeClock()).run_dir == one
    assert PostgresStore("postgresql://ann:a@h/y", clock=FakeClock()).run_dir != one


async def test_a_store_works_only_where_it_was_opened(url: str) -> None:
    store = PostgresStore(url, clock=FakeClock())
    with pytest.raises(StoreError, match="not open"):
        await store.task("task_1")
    async with store:
        with pytest.raises(StoreError, match="event loop"):
            await asyncio.to_thread(asyncio.run, store.workers())
        child = os.fork()
        if child == 0:
            try:
                store.workers().send(None)
            except StoreError:
                os._exit(0)
            os._exit(1)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    with pytest.raises(StoreError, match="not open"):
        await store.workers()


# Text


@pytest.mark.parametrize("name", ["a\0b", "\0", "\ue000", "\ue0000", "\ue000\0\ue0000", "任务 🙂"])
async def test_an_id_may_hold_what_postgresql_cannot(url: str, name: str) -> None:
    async with PostgresStore(url, clock=FakeClock()) as store:
        await enroll(store, name)
        await store.submit(opening(name, session_id=name), replace(dispatch(name), dedupe_key=name))
        (lease,) = await store.claim(name, task_id=name)
        await store.fail(lease, [], retry_at=None, reason=name)

        assert (await store.task(name)).spec.session_id == name
        assert [task.task_id for task in await store.tasks(TaskQuery(session_id=name))] == [name]
        assert [row.reason for row in await store.messages(task_id=name)] == [name]
        again = await store.submit(opening("task_2"), replace(dispatch("task_2"), dedupe_key=name))
        assert again.task_id == name


async def test_a_lone_surrogate_is_refused_or_not_found(url: str) -> None:
    async with PostgresStore(url, clock=FakeClock()) as store:
        await enroll(store)
        with pytest.raises(CodecError):
            await store.signal("\ud800")
        with pytest.raises(CodecError):
            await store.claim(WORKER, task_id="\ud800")
        for unknown in (store.task("\ud800"), store.review("\ud800"), store.blob("\ud800")):
            with pytest.raises(NotFoundError):
                await unknown
        assert await store.claim(WORKER) == []


async def test_a_key_beyond_what_an_index_holds_is_the_callers_to_change(url: str) -> None:
    long = "".join(chr(0x4E00 + n) for n in range(9_000))
    async with PostgresStore(url, clock=FakeClock()) as store:
        with pytest.raises(InputError, match="too long"):
            await store.send(replace(message("a"), dedupe_key=long))
        await store.send(message("a"))


# Connections


async def test_a_pool_that_is_used_up_says_its_size_and_its_setting(url: str) -> None:
    said: list[str] = []
    async with PostgresStore(url, clock=FakeClock(), pool_size=2, wait_s=0.3) as store:
        lease = await start(store)
        with psycopg.connect(url) as other:
            other.execute(b"SELECT 1 FROM hermes.message FOR UPDATE")

            async def append() -> None:
                try:
                    await store.append(lease, [progress("task_1", 4)])
                except StoreUnavailableError as exc:
                    said.append(str(exc))

            for _ in range(10):  # who waits for a connection may get one as another gives up
                async with anyio.create_task_group() as group:
                    for _ in range(3):
                        group.start_soon(append)
                if any("all 2 connections" in each for each in said):
                    break

        assert any("all 2 connections" in each for each in said)
        assert any("HERMES_POSTGRES_POOL_SIZE" in each for each in said)
        assert any("kept a row locked" in each for each in said)
        await store.append(lease, [progress("task_1", 4)])


async def test_more_writers_than_connections_take_turns(url: str) -> None:
    async with PostgresStore(url, clock=FakeClock(), pool_size=2) as store:
        leases = [await start(store, f"task_{n}") for n in range(12)]

        async def work(lease: Lease) -> None:
            for seq in range(4, 9):
                await store.append(lease, [progress(lease.message.task_id, seq)])

        async with anyio.create_task_group() as group:
            for lease in leases:
                group.start_soon(work, lease)
        with psycopg.connect(url) as connection:
            (used,) = connection.execute(
                b"SELECT count(*) FROM pg_stat_activity"
                b" WHERE datname = current_database() AND application_name = 'hermes'"
            ).fetchall()[0]

        assert [(await store.task(f"task_{n}")).status.seq for n in range(12)] == [8] * 12
        assert used <= 2 + 2


async def test_two_that_lock_each_other_out_both_succeed(url: str) -> None:
    """Each finishes its message and sends into the lane of the other."""
    async with PostgresStore(url, clock=FakeClock()) as store:
        await enroll(store)
        for round_ in range(5):
            names = [f"a{round_}", f"b{round_}"]
            for name in names:
                await store.send(message(name, lane=f"lane-{name}"))
            leases = await store.claim(WORKER, limit=2)
            other = {f"lane-{names[0]}": f"lane-{names[1]}", f"lane-{names[1]}": f"lane-{names[0]}"}
            async with anyio.create_task_group() as group:
                for lease in leases:
                    lane = lease.message.lane
                    sent = message(f"from-{lane}", lane=other[lane])
                    group.start_soon(partial(store.finish, lease, [], messages=[sent]))
            assert set((await states(store)).values()) == {"ready"}
            for lease in await store.claim(WORKER, limit=9):
                await store.finish(lease, [])


async def test_claims_at_the_same_time_never_take_the_same_message(url: str) -> None:
    async with PostgresStore(url, clock=FakeClock()) as store:
        for number in range(8):
            await enroll(store, f"w{number}")
        for number in range(40):
            await store.send(message(f"msg_{number:02}"))
        taken: list[Lease] = []

        async def work(worker: str) -> None:
            while leases := await store.claim(worker, limit=3):
                taken.extend(leases)

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(work, f"w{number}")

        names = [lease.message.message_id for lease in taken]
        assert len(names) == len(set(names))
        assert set((await states(store)).values()) == {"leased"}


async def test_a_deadlock_is_tried_again(url: str) -> None:
    """Another session takes the lanes one by one, in the order that leads to a deadlock."""
    async with PostgresStore(url, clock=FakeClock()) as store:
        await enroll(store)
        await store.send(message("a", lane="a"))
        await store.send(message("b", lane="b"))
        (lease, _) = await store.claim(WORKER, limit=2)
        async with await psycopg.AsyncConnection.connect(url) as other:
            await other.execute(b"SET search_path = hermes; SET deadlock_timeout = '20s'")
            await other.execute(b"SELECT * FROM lane WHERE key = 'b' FOR UPDATE")
            finishing = asyncio.ensure_future(
                store.finish(lease, [], messages=[message("c", lane="b")])
            )
            while not await count_waiting(url):
                assert not finishing.done()
            await other.execute(b"SELECT * FROM lane WHERE key = 'a' FOR UPDATE")
            await other.rollback()
        await finishing
        assert await states(store) == {"b": "leased", "c": "held"}


@pytest.mark.parametrize("is_in_pipeline", [False, True])
async def test_who_fell_silent_in_the_midst_of_a_write_is_retired_in_spite_of_its_locks(
    url: str, is_in_pipeline: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """As a process that is frozen does; the server takes one in a pipeline for active."""
    async with (
        PostgresStore(url, clock=SystemClock()) as store,
        await psycopg.AsyncConnection.connect(url) as frozen,
    ):
        lease = await start(store)
        await frozen.execute(b"SET search_path = hermes")
        with suppress(psycopg.OperationalError):  # it finds itself cut off, at the latest here
            async with frozen.pipeline() if is_in_pipeline else nullcontext():
                lock = b"SELECT 1 FROM worker JOIN lane ON true FOR UPDATE"
                await (await frozen.execute(lock)).fetchall()
                assert await store.retire(WORKER, crashed=True) == 1
                await frozen.execute(b"COMMIT")
        assert "it keeps a lock in silence" in caplog.text
        assert (await states(store))[lease.message.message_id] == "ready"


async def test_who_waits_for_others_is_not_taken_for_silent(url: str) -> None:
    async with (
        PostgresStore(url, clock=SystemClock()) as store,
        await psycopg.AsyncConnection.connect(url) as busy,
    ):
        await start(store)
        await busy.execute(b"SET search_path = hermes")
        await busy.execute(b"SELECT 1 FROM worker FOR UPDATE")
        working = asyncio.ensure_future(busy.execute(b"SELECT pg_sleep(3)"))
        retiring = asyncio.ensure_future(store.retire(WORKER, crashed=True))
        await working
        await busy.commit()
        assert await retiring == 1


async def test_connections_that_died_idle_are_replaced_unseen(url: str) -> None:
    async with Line(url).laid() as line, PostgresStore(line.url, clock=FakeClock()) as store:
        lease = await start(store)
        with psycopg.connect(url, autocommit=True) as other:
            other.execute(
                b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                b" WHERE datname = current_database() AND application_name = 'hermes'"
            )

        assert (await store.task("task_1")).status.seq == 3
        await store.finish(lease, [settled("task_1", 4)])


async def test_a_server_that_gives_no_answer_is_waited_for_only_so_long(url: str) -> None:
    async with (
        Line(url).laid() as line,
        PostgresStore(line.url, clock=FakeClock(), wait_s=0.1, answer_s=0.3) as store,
    ):
        lease = await start(store)
        line.is_mute = True
        with pytest.raises(StoreUnavailableError, match="no answer for 0.3 s"):
            await store.append(lease, [progress("task_1", 4)])
        line.is_mute = False
        await store.append(lease, [progress("task_1", 4)])


# Workers and hints


async def test_signs_of_life_are_told_by_the_databases_clock(url: str) -> None:
    worker = Worker(worker_id="w", host="h", pid=1, lock_path="", renewed_at=START)
    async with (
        PostgresStore(url, clock=FastClock()) as fast,
        PostgresStore(url, clock=SystemClock()) as right,
    ):
        await fast.register(worker)
        await fast.renew("w")

        for store, clock in ((fast, FastClock()), (right, SystemClock())):
            (found,) = await store.workers()
            assert abs((clock.now() - found.renewed_at).total_seconds()) < 60


async def test_new_work_of_another_process_is_heard_of_at_once(url: str) -> None:
    async with (
        PostgresStore(url, clock=SystemClock()) as one,
        PostgresStore(url, clock=SystemClock()) as two,
    ):
        await enroll(one)
        await one.work_hint(5)  # begins to listen
        assert await one.claim(WORKER) == []
        with anyio.fail_after(10):
            await submit(two)
            await one.work_hint(60)
        assert len(await one.claim(WORKER)) == 1


async def test_a_hint_comes_when_a_delayed_message_is_due(url: str) -> None:
    async with PostgresStore(url, clock=SystemClock()) as store:
        await enroll(store)
        due = SystemClock().now() + timedelta(seconds=0.4)
        await store.send(replace(message("a"), not_before=due))
        with anyio.fail_after(10):
            while not await store.claim(WORKER):
                await store.work_hint(60)
        assert SystemClock().now() >= due


# Upkeep


async def test_a_backup_can_be_restored(url: str, empty: str, tmp_path: Path) -> None:
    async with PostgresStore(url, clock=FakeClock()) as store:
        await submit(store)
        await store.backup(tmp_path / "copy.dump")
        with pytest.raises(InputError, match="exists"):
            await store.backup(tmp_path / "copy.dump")

    restored = ["pg_restore", "--dbname", empty, str(tmp_path / "copy.dump")]
    subprocess.run(restored, check=True, capture_output=True)
    async with PostgresStore(empty, clock=FakeClock()) as store:
        assert (await store.task("task_1")).task_id == "task_1"
    assert [file.name for file in tmp_path.iterdir()] == ["copy.dump"]


async def test_a_backup_without_its_tool_says_what_is_missing(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with PostgresStore(url, clock=FakeClock()) as store:
        with pytest.raises(StoreUnavailableError, match="pg_dump"):
            await store.backup(tmp_path / "none" / "copy.dump")
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(StoreUnavailableError, match="pg_dump"):
            await store.backup(tmp_path / "copy.dump")


async def test_a_prune_gives_space_back_to_the_disk(url: str) -> None:
    async with PostgresStore(url, clock=FakeClock()) as store:
        noise = os.urandom(400_000).hex()
        for number in range(10):
            name = f"task_{number}"
            lease = await start(store, name)
            await store.append(lease, [progress(name, 4, f"{number}{noise}")])
            await store.finish(lease, [settled(name, 5)])
        await store.retire(WORKER, crashed=False)
        before = (await store.status()).size_bytes

        planned = await store.prune(START + timedelta(days=1), dry_run=True)
        assert len(await store.tasks(TaskQuery())) == 10
        done = await store.prune(START + timedelta(days=1))

        assert planned == done
        assert (done.tasks, done.events, done.blobs) == (10, 50, 10)
        with anyio.fail_after(30):
            # The server's own housekeeping may still look at the old rows when they go.
            while (await store.status()).size_bytes >= before - 5_000_000:
                assert (await store.prune(START + timedelta(days=1))).tasks == 0
