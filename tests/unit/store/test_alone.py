"""A run that is alone writes in its own thread, and never makes the event loop wait for that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from threading import current_thread, main_thread

import anyio
import apsw
import pytest

from hermes.store import SQLiteStore, transactions
from hermes.store.driver import connect
from hermes.testing.clock import FakeClock
from tests.journal import progress, start


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

    def noting(*args: object, **options: object) -> None:
        seen.append(current_thread() is main_thread())
        append(*args, **options)  # pyright: ignore[reportArgumentType]  # passed on as they are

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

    def taking_time(*args: object, **options: object) -> None:
        if slow:
            clock.advance(0.1)
        append(*args, **options)  # pyright: ignore[reportArgumentType]  # passed on as they are

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
