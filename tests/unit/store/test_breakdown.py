"""What happens when SQLite, its thread or a caller's patience breaks in the middle."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import apsw
import pytest

from hermes.core.message import Message
from hermes.errors import ConcurrencyError, ConflictError, StoreError, StoreUnavailableError
from hermes.store import Lease, SQLiteStore
from hermes.store.driver import connect
from hermes.testing.clock import FakeClock
from tests.journal import message, progress, start, states


def store_at(path: Path, *, wait_s: float = 10.0) -> SQLiteStore:
    return SQLiteStore(path, clock=FakeClock(), synchronous="NORMAL", wait_s=wait_s)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hermes.db"


class Statements:
    """Makes a statement fail on every connection opened while it is installed."""

    def __init__(self, start: str, error: BaseException) -> None:
        self.start, self.error = start, error
        self.is_on = False

    def install(self, connection: apsw.Connection) -> None:
        connection.set_exec_trace(self.look)  # pyright: ignore[reportUnknownMemberType]  # Buffer is 3.12

    def look(self, cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        if self.is_on and sql.startswith(self.start):
            raise self.error
        return True


@contextmanager
def failing(start: str, error: BaseException) -> Generator[Statements]:
    statements = Statements(start, error)
    apsw.connection_hooks.append(statements.install)
    try:
        yield statements
    finally:
        apsw.connection_hooks.remove(statements.install)


async def refused_writes(store: SQLiteStore) -> list[StoreUnavailableError]:
    """What a crowd of writes gets, none of which can be done."""
    refused: list[StoreUnavailableError] = []
    # Of a message that is in use with another body, the write itself fails too.
    clash = replace(message("msg_first"), priority=5)

    async def write(envelope: Message) -> None:
        with pytest.raises(StoreUnavailableError) as caught:
            await store.send(envelope)
        refused.append(caught.value)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(write, message(f"msg_{number}"))
                tasks.start_soon(write, clash)
    return refused


async def test_a_write_that_cannot_be_taken_back_ends_all_writing(path: Path) -> None:
    with failing("ROLLBACK", apsw.IOError("disk on fire")) as statements:
        async with store_at(path) as store:
            await store.send(message("msg_first"))
            statements.is_on = True
            with anyio.fail_after(10), pytest.raises(ConflictError):
                await store.send(replace(message("msg_first"), priority=5))
            statements.is_on = False

            refused = await refused_writes(store)

            assert all("disk on fire" in str(error) for error in refused)
            assert all("start the process again" in error.hint for error in refused)
            assert len(await store.messages()) == 1
    async with store_at(path) as store:
        assert await store.send(message("msg_0"))


async def late_end(store: SQLiteStore, lease: Lease) -> None:
    """A write that is refused when it has put its message aside already: its event is too far."""
    await store.fail(lease, [progress("task_1", 99)], retry_at=None, reason="broken")


async def test_what_a_refused_write_has_written_is_undone_and_the_others_are_kept(
    path: Path,
) -> None:
    async with store_at(path) as store:
        lease = await start(store)
        with anyio.fail_after(10):
            results = await asyncio.gather(
                store.send(message("msg_0")),
                store.append(lease, [progress("task_1", 4)]),
                late_end(store, lease),
                store.send(message("msg_1")),
                return_exceptions=True,
            )
        assert isinstance(results[2], ConcurrencyError)
        assert [result for result in results if not isinstance(result, Exception)] == [
            True,
            None,
            True,
        ]
    async with store_at(path) as store:
        found = await states(store)
        assert found.pop("msg_0") == found.pop("msg_1") == "ready"
        assert list(found.values()) == ["leased"]
        assert [record.seq for record in await store.events("task_1")] == [1, 2, 3, 4]


async def test_a_batch_that_cannot_be_taken_back_is_refused_whole(path: Path) -> None:
    with failing("ROLLBACK", apsw.IOError("disk on fire")) as statements:
        async with store_at(path) as store:
            lease = await start(store)
            statements.is_on = True
            with anyio.fail_after(10):
                results = await asyncio.gather(
                    store.send(message("msg_0")),
                    store.send(message("msg_1")),
                    late_end(store, lease),
                    store.send(message("msg_2")),
                    return_exceptions=True,
                )
    assert isinstance(results[2], StoreError)
    assert isinstance(results[3], StoreUnavailableError)
    async with store_at(path) as store:
        stored = {row.message.message_id for row in await store.messages()}
    for name, result in zip(("msg_0", "msg_1"), results, strict=False):
        assert (name in stored) == (result is True)
    assert "msg_2" not in stored


class Panic(BaseException):
    """What native code raises when it gives up."""


@pytest.mark.parametrize("start", ["BEGIN", "COMMIT"])
@pytest.mark.parametrize("error", [ValueError("a bug"), Panic("a bug")], ids=["bug", "panic"])
async def test_a_fault_that_nobody_foresaw_is_told_to_every_writer(
    path: Path, start: str, error: BaseException
) -> None:
    with failing(start, error) as statements:
        async with store_at(path) as store:
            await store.send(message("msg_first"))
            statements.is_on = True
            assert all(each.__cause__ is error for each in await refused_writes(store))
            statements.is_on = False
            assert all(each.__cause__ is error for each in await refused_writes(store))
            assert len(await store.messages()) == 1  # reading goes on
    async with store_at(path) as store:
        assert await store.send(message("msg_0"))


async def test_a_panic_while_reading_is_told(path: Path) -> None:
    with failing("SELECT", Panic("a bug")) as statements:
        async with store_at(path) as store:
            statements.is_on = True
            for _ in range(2):
                with anyio.fail_after(10), pytest.raises(StoreUnavailableError, match="a bug"):
                    await store.workers()


async def test_a_panic_while_opening_is_told(path: Path) -> None:
    with failing("BEGIN", Panic("a bug")) as statements:
        statements.is_on = True
        with anyio.fail_after(10), pytest.raises(StoreUnavailableError, match="a bug"):
            async with store_at(path):
                pass


async def test_a_close_that_is_cancelled_again_and_again_still_answers_everybody(
    path: Path,
) -> None:
    store = store_at(path, wait_s=1)
    await store.__aenter__()
    other = connect(str(path))
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.ensure_future(store.send(message("msg_0")))
    await anyio.lowlevel.checkpoint()
    closing = asyncio.ensure_future(store.__aexit__())
    for _ in range(4):  # two for the reader, two for the writer
        await anyio.wait_all_tasks_blocked()
        closing.cancel()

    with anyio.fail_after(10):
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(StoreUnavailableError, match="locked"):
            await writing


async def test_an_opening_that_is_cancelled_twice_ends(path: Path) -> None:
    """A second cancellation reaches a caller before the thread has opened the file."""
    async with store_at(path):
        other = connect(str(path))
    other.execute("BEGIN IMMEDIATE")
    opening = asyncio.ensure_future(store_at(path, wait_s=3600).__aenter__())
    for _ in range(2):
        await anyio.wait_all_tasks_blocked()
        opening.cancel()
    await anyio.wait_all_tasks_blocked()  # by now it is closing
    other.execute("ROLLBACK")
    with anyio.fail_after(10), pytest.raises(asyncio.CancelledError):
        await opening
