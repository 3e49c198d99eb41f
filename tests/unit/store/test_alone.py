"""What spares a run's writes time: their caller's own thread, and no reading before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from threading import current_thread, main_thread

import anyio
import apsw
import pytest

from hermes.core.failpoints import set_hook
from hermes.core.task import fold
from hermes.errors import ConcurrencyError, StaleLeaseError, StoreBrokenError
from hermes.store import Lease, SQLiteStore, transactions
from hermes.store.driver import connect
from hermes.testing.clock import FakeClock
from tests.journal import WORKER, progress, start


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hermes.db"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(path: Path, clock: FakeClock) -> AsyncIterator[SQLiteStore]:
    async with SQLiteStore(path, clock=clock) as opened:
        yield opened


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each append, whether it was made in the thread of the event loop."""
    seen: list[bool] = []
    append = transactions.append

    def noting(*args: object, **options: object) -> object:
        seen.append(current_thread() is main_thread())
        return append(*args, **options)  # pyright: ignore[reportArgumentType]  # passed on as they are

    monkeypatch.setattr(transactions, "append", noting)
    return seen


class Disk:
    """Makes each commit take so long."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock, self.commit_s = clock, 0.000_2

    def passes(self, name: str) -> None:
        if name == "store.commit.before":
            self._clock.advance(self.commit_s)


@pytest.fixture
def disk(clock: FakeClock) -> Iterator[Disk]:
    disk = Disk(clock)
    set_hook(disk.passes)
    yield disk
    set_hook(None)


async def crowd(store: SQLiteStore, count: int = 20) -> list[Lease]:
    return [await start(store, f"task_{number}") for number in range(1, count + 1)]


async def together(store: SQLiteStore, leases: list[Lease], seq: int) -> list[object]:
    """The same event for all at once; what each append came to."""
    told = [
        store.append(lease, [progress(lease.message.task_id, seq, salt=lease.message.task_id)])
        for lease in leases
    ]
    return await asyncio.gather(*told, return_exceptions=True)


async def test_writes_of_many_runs_at_once_are_done_in_their_own_thread_while_commits_are_quick(
    store: SQLiteStore, disk: Disk, threads: list[bool]
) -> None:
    leases = await crowd(store)
    threads.clear()
    assert await together(store, leases, 4) == [None] * 20
    assert threads == [True] * 20

    disk.commit_s = 0.001
    for seq in range(5, 20):
        await together(store, leases, seq)
    assert not any(threads[-20:])
    for lease in leases:
        task_id = lease.message.task_id
        assert await store.task(task_id) == fold(await store.events(task_id))


async def test_what_comes_while_the_writer_is_at_work_is_done_when_it_has_answered(
    store: SQLiteStore, threads: list[bool]
) -> None:
    leases = await crowd(store)
    threads.clear()
    async with anyio.create_task_group() as group:
        group.start_soon(store.renew, WORKER)  # the writer thread's
        group.start_soon(together, store, leases, 4)
    assert len(threads) == 20
    assert [(await store.task(each.message.task_id)).status.seq for each in leases] == [4] * 20


async def test_one_that_is_refused_among_many_does_not_hold_up_the_others(
    store: SQLiteStore, threads: list[bool]
) -> None:
    leases = await crowd(store)
    await store.append(leases[3], [progress("task_4", 4)])
    threads.clear()
    told = await together(store, leases, 4)
    assert [type(each) for each in told if each is not None] == [ConcurrencyError]
    assert threads == [True] * 20


async def test_where_one_of_many_is_refused_half_done_the_writer_thread_does_each_by_itself(
    store: SQLiteStore, threads: list[bool]
) -> None:
    first, second, *rest = await crowd(store, 6)
    threads.clear()
    told = await asyncio.gather(
        store.append(first, [progress("task_1", 4)]),
        store.finish(second, [progress("task_2", 99)]),  # has taken its message out by then
        *(store.append(each, [progress(each.message.task_id, 4)]) for each in rest),
        return_exceptions=True,
    )
    assert [type(each) for each in told if each is not None] == [ConcurrencyError]
    assert threads[0] is True
    assert not any(threads[1:])
    assert [row.state for row in await store.messages()] == ["leased"] * 6
    stored = [(await store.task(each.message.task_id)).status.seq for each in (first, *rest)]
    assert stored == [4] * 5


async def test_many_writes_wait_in_the_writer_thread_for_another_process(
    store: SQLiteStore, path: Path, threads: list[bool]
) -> None:
    leases = await crowd(store)
    threads.clear()
    other = connect(str(path))
    other.execute("BEGIN IMMEDIATE")
    async with anyio.create_task_group() as group:
        group.start_soon(together, store, leases, 4)
        for _ in range(5):
            await anyio.sleep(0.001)
        assert threads == []
        other.execute("ROLLBACK")
    assert threads == [False] * 20


async def test_an_interrupt_among_many_writes_leaves_nobody_waiting(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = await crowd(store, 3)
    append = transactions.append
    loop = asyncio.get_running_loop()

    class Panic(BaseException):
        """Stands for KeyboardInterrupt, which would end the loop of this test."""

    def interrupted(*args: object, **options: object) -> object:
        if args[1] is leases[1]:
            raise Panic
        return append(*args, **options)  # pyright: ignore[reportArgumentType]  # passed on as they are

    told: list[object] = []
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    with monkeypatch.context() as patch, anyio.fail_after(10):
        patch.setattr(transactions, "append", interrupted)
        results = await together(store, leases, 4)
    assert [type(each) for each in told] == [Panic]
    assert [type(each) for each in results] == [StoreBrokenError, StoreBrokenError, type(None)]
    connect(str(path)).execute("BEGIN IMMEDIATE; ROLLBACK")
    assert [(await store.task(each.message.task_id)).status.seq for each in leases] == [3, 3, 4]


async def test_a_run_writes_at_once_as_long_as_it_is_alone(
    store: SQLiteStore, disk: Disk, threads: list[bool]
) -> None:
    lease = await start(store)  # appends once itself
    await store.append(lease, [progress("task_1", 4)])
    other = await start(store, "task_2")
    await store.append(lease, [progress("task_1", 5)])
    await store.release(other)
    await store.append(lease, [progress("task_1", 6)])

    assert threads == [True, True, False, False, True]
    assert (await store.task("task_1")).status.seq == 6


async def test_slow_commits_are_left_to_the_writer_until_they_are_quick_again(
    store: SQLiteStore, clock: FakeClock, threads: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await start(store)
    append = transactions.append
    slow = True

    def taking_time(*args: object, **options: object) -> object:
        if slow:
            clock.advance(0.1)
        return append(*args, **options)  # pyright: ignore[reportArgumentType]  # passed on as they are

    monkeypatch.setattr(transactions, "append", taking_time)
    for seq in range(4, 8):
        await store.append(lease, [progress("task_1", seq)])
    assert threads[-1] is False
    slow = False
    for seq in range(8, 30):
        await store.append(lease, [progress("task_1", seq)])
    assert threads[-1] is True


async def test_the_loop_goes_on_while_another_process_writes(
    store: SQLiteStore, path: Path, threads: list[bool]
) -> None:
    lease = await start(store)
    other = connect(str(path))
    other.execute("BEGIN IMMEDIATE")

    async with anyio.create_task_group() as group:
        group.start_soon(store.append, lease, [progress("task_1", 4)])
        for _ in range(5):
            await anyio.sleep(0.001)
        assert len(threads) == 1
        other.execute("ROLLBACK")

    assert threads == [True, False]
    assert (await store.task("task_1")).status.seq == 4


async def test_an_interrupt_in_the_middle_of_a_write_leaves_no_transaction_open(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await start(store)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(transactions, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            await store.append(lease, [progress("task_1", 4)])

    connect(str(path)).execute("BEGIN IMMEDIATE; ROLLBACK")
    await store.append(lease, [progress("task_1", 4)])
    assert (await store.task("task_1")).status.seq == 4


async def test_a_fault_of_a_write_is_told_and_the_next_one_works(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await start(store)

    def full(*_: object, **__: object) -> None:
        raise apsw.FullError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(transactions, "append", full)
        with pytest.raises(Exception, match="no room left"):
            await store.append(lease, [progress("task_1", 4)])
    await store.append(lease, [progress("task_1", 4)])


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the statements that appends use."""
    seen: list[str] = []
    named = transactions.sql

    def noting(name: str) -> str:
        seen.append(name)
        return named(name)

    monkeypatch.setattr(transactions, "sql", noting)
    return seen


async def test_an_append_after_an_append_reads_neither_lease_nor_task(
    store: SQLiteStore, statements: list[str]
) -> None:
    lease = await start(store)
    statements.clear()
    await store.append(lease, [progress("task_1", 4), progress("task_1", 5)])
    assert statements == ["update_next_status", "insert_event"]
    assert await store.task("task_1") == fold(await store.events("task_1"))


async def test_an_append_notices_that_another_process_took_the_lease(
    store: SQLiteStore, path: Path, clock: FakeClock
) -> None:
    lease = await start(store)
    async with SQLiteStore(path, clock=clock) as other:
        await other.retire(WORKER, crashed=True)
    with pytest.raises(StaleLeaseError):
        await store.append(lease, [progress("task_1", 4)])
    assert (await store.task("task_1")).status.seq == 3


async def test_an_append_notices_that_another_process_wrote_under_the_same_lease(
    store: SQLiteStore, path: Path, clock: FakeClock
) -> None:
    lease = await start(store)
    async with SQLiteStore(path, clock=clock) as other:
        await other.append(lease, [progress("task_1", 4)])
    with pytest.raises(ConcurrencyError):
        await store.append(lease, [replace(progress("task_1", 4), event_id="f" * 32)])
    await store.append(lease, [progress("task_1", 5)])
    assert [event.seq for event in await store.events("task_1")] == [1, 2, 3, 4, 5]


async def test_a_repeated_append_changes_nothing(store: SQLiteStore) -> None:
    lease = await start(store)
    again = [progress("task_1", 4)]
    await store.append(lease, again)
    await store.append(lease, again)
    await store.append(lease, [progress("task_1", 5)])
    assert (await store.task("task_1")).status.seq == 5


async def test_a_lease_that_was_taken_anew_in_this_process_fences_the_older_one(
    store: SQLiteStore,
) -> None:
    old = await start(store)
    await store.release(old)
    (new,) = await store.claim(WORKER, task_id="task_1")
    await store.append(new, [progress("task_1", 4)])
    with pytest.raises(StaleLeaseError):
        await store.append(old, [progress("task_1", 5)])
