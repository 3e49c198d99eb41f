"""What spares a run's writes time: its own thread while it is alone, and no reading before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from threading import current_thread, main_thread

import anyio
import apsw
import pytest

from hermes.core.task import fold
from hermes.errors import ConcurrencyError, StaleLeaseError
from hermes.store import SQLiteStore, transactions
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


async def test_a_run_writes_in_its_own_thread_as_long_as_it_is_alone(
    store: SQLiteStore, threads: list[bool]
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
