"""What SQLite alone can do wrong, and how it is told."""

import os
import re
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import cast

import anyio
import apsw
import pytest

from hermes.errors import (
    ConcurrencyError,
    ConfigError,
    ConflictError,
    NotFoundError,
    StoreBrokenError,
    StoreError,
    StoreUnavailableError,
)
from hermes.store import SQLiteStore, TaskQuery
from hermes.store.driver import Connection, connect
from hermes.store.queries import migrations
from hermes.store.sqlite import Synchronous
from hermes.testing.clock import START, FakeClock
from tests.journal import WORKER, enroll, message, progress, start, submit, texts


def store_at(
    path: Path, *, wait_s: float = 10.0, synchronous: Synchronous = "NORMAL"
) -> SQLiteStore:
    return SQLiteStore(path, clock=FakeClock(), synchronous=synchronous, wait_s=wait_s)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hermes.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    async with store_at(path) as opened:
        yield opened


# Opening


async def test_the_journal_outlives_the_store(path: Path) -> None:
    async with store_at(path) as first:
        lease = await start(first)
        await first.append(lease, [progress("task_1", 4, "写好了")])

    async with store_at(path) as second:
        assert await texts(second) == ["写好了"]
        await second.append(lease, [progress("task_1", 5, "again")])


async def test_folders_are_created_and_the_locks_get_one_of_their_own(
    tmp_path: Path,
) -> None:
    path = tmp_path / "新 folder" / "deep" / "hermes.db"
    async with store_at(path) as store:
        assert path.is_file()
        assert store.run_dir == str(path.parent / ".hermes" / "run")
    assert os.listdir(path.parent) == ["hermes.db"]  # not before somebody needs it


async def test_a_closed_store_leaves_one_file_behind(path: Path) -> None:
    async with store_at(path) as store:
        await submit(store)
        assert path.with_name("hermes.db-wal").exists()

    assert os.listdir(path.parent) == ["hermes.db"]


@pytest.mark.parametrize(("synchronous", "level"), [("FULL", 2), ("NORMAL", 1)])
async def test_the_setting_decides_what_a_commit_waits_for(
    path: Path, synchronous: Synchronous, level: int
) -> None:
    seen: list[tuple[object, object]] = []

    def look(connection: apsw.Connection) -> None:
        connection.set_exec_trace(remember)  # pyright: ignore[reportUnknownMemberType]  # Buffer is 3.12

    def remember(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        if sql.startswith("COMMIT"):
            connection = cast("Connection", cursor.connection)
            seen.append((connection.pragma("synchronous"), connection.pragma("journal_mode")))
        return True

    apsw.connection_hooks.append(look)
    try:
        async with store_at(path, synchronous=synchronous) as store:
            await enroll(store)
    finally:
        apsw.connection_hooks.remove(look)
    assert set(seen) == {(level, "wal")}


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_a_store_needs_a_file(path: str) -> None:
    with pytest.raises(ConfigError, match="MemoryStore"):
        SQLiteStore(path, clock=FakeClock())


async def refusal(path: Path) -> StoreError:
    """The error of opening `path`; it names the path and says what to do next."""
    with pytest.raises(StoreError) as caught:
        async with store_at(path):
            pass
    assert str(path.parent) in caught.value.message
    assert caught.value.hint
    return caught.value


async def test_a_folder_is_no_journal(tmp_path: Path) -> None:
    assert "is a folder" in (await refusal(tmp_path)).message


async def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    error = await refusal(tmp_path / "file" / "hermes.db")

    assert isinstance(error, StoreUnavailableError)


async def test_a_place_that_takes_no_files_is_named() -> None:
    error = await refusal(Path("/proc/self/hermes.db"))

    assert isinstance(error, StoreUnavailableError)


@pytest.mark.parametrize("content", [b"not a database", "日志\n".encode() * 5_000])
async def test_another_file_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)

    assert "not a SQLite database" in (await refusal(path)).message
    assert path.read_bytes() == content


async def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    other = connect(str(path))
    other.execute("CREATE TABLE note (text)")
    before = path.read_bytes()

    assert "another program" in (await refusal(path)).message
    assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("note",)]
    assert len(path.read_bytes()) == len(before)


async def test_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    async with store_at(path) as store:
        await submit(store)
    raw = connect(str(path))
    raw.pragma("user_version", 999)

    error = await refusal(path)

    assert "999" in error.message
    assert "upgrade" in error.hint
    assert raw.pragma("user_version") == 999


async def test_a_damaged_journal_is_told_as_such(path: Path) -> None:
    async with store_at(path) as store:
        await submit(store)
    content = bytearray(path.read_bytes())
    content[100:8192] = b"\xff" * (8192 - 100)
    path.write_bytes(content)

    assert "damaged" in (await refusal(path)).message


async def test_damage_found_while_reading_is_told_as_such(path: Path) -> None:
    async with store_at(path) as store:
        await submit(store)
    raw = connect(str(path))
    root = raw.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'task'").fetchone()
    raw.close()
    assert root is not None
    page = int(str(root[0]))
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(content)

    async with store_at(path) as store:
        with pytest.raises(StoreError, match="damaged"):
            await store.tasks(TaskQuery())
        await enroll(store)


async def test_a_store_that_was_not_opened_says_so(path: Path) -> None:
    store = store_at(path)

    with pytest.raises(StoreError, match="not open"):
        await store.tasks(TaskQuery())
    async with store:
        pass
    with pytest.raises(StoreError, match="not open"):
        await submit(store)


def test_a_store_belongs_to_the_loop_that_opened_it(path: Path) -> None:
    async def in_one_loop() -> None:
        async with store_at(path) as store:
            await anyio.to_thread.run_sync(lambda: anyio.run(in_another, store))

    async def in_another(store: SQLiteStore) -> None:
        with pytest.raises(StoreError, match="event loop"):
            await enroll(store)

    anyio.run(in_one_loop)


# Migrations


def test_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _ in migrations()] == list(range(1, len(migrations()) + 1))


def test_migrations_say_when_they_are_safe() -> None:
    for _, script in migrations():
        assert re.search(r"^-- .*Safe (before|after) the code upgrade", script, re.MULTILINE)


async def test_a_new_journal_has_the_newest_schema(path: Path) -> None:
    async with store_at(path):
        raw = connect(str(path))
        assert raw.pragma("user_version") == migrations()[-1][0]
        assert raw.pragma("application_id") == int.from_bytes(b"Herm")


async def test_many_stores_may_create_one_file_at_once(path: Path) -> None:
    async def create(number: int) -> None:
        async with store_at(path) as store:
            await store.send(message(f"msg_{number}"))

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(create, number)

    async with store_at(path) as store:
        assert len(await store.messages()) == 8


# Group commit


class Commits:
    """Counts the write transactions of every connection opened while it is installed."""

    def __init__(self) -> None:
        self.count = 0

    def install(self, connection: apsw.Connection) -> None:
        connection.set_commit_hook(self.on_commit)

    def on_commit(self) -> bool:
        self.count += 1
        return False


@pytest.fixture
async def counted(path: Path) -> AsyncIterator[tuple[SQLiteStore, Commits]]:
    commits = Commits()
    apsw.connection_hooks.append(commits.install)
    try:
        async with store_at(path) as store:
            yield store, commits
    finally:
        apsw.connection_hooks.remove(commits.install)


async def test_requests_that_wait_together_share_commits(
    counted: tuple[SQLiteStore, Commits],
) -> None:
    store, commits = counted
    before = commits.count

    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(store.send, message(f"msg_{number}"))

    assert len(await store.messages()) == 100
    assert 0 < commits.count - before < 50


async def test_one_request_in_a_batch_that_fails_half_done_leaves_no_trace_and_harms_no_other(
    counted: tuple[SQLiteStore, Commits],
) -> None:
    store, commits = counted
    lease = await start(store)
    clash = replace(lease.message, payload={"differs": True})
    refused: list[Exception] = []

    async def fail(number: int) -> None:
        try:
            await store.finish(lease, [], messages=[message(f"msg_lost_{number}"), clash])
        except ConflictError as exc:
            refused.append(exc)

    before = commits.count
    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(store.send, message(f"msg_{number}"))
            tasks.start_soon(fail, number)

    names = {"msg_task_1", *(f"msg_{number}" for number in range(30))}
    assert {row.message.message_id for row in await store.messages()} == names
    assert len(refused) == 30
    assert 0 < commits.count - before < 31


async def test_a_cancelled_write_is_still_carried_out_whole(store: SQLiteStore) -> None:
    lease = await start(store)
    await start(store, "task_2")  # beside another one, a run's writes are the writer thread's
    written: list[str] = []

    async def write() -> None:
        await store.append(lease, [progress("task_1", 4), progress("task_1", 5)])
        written.append("went on")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()

    assert written == []
    assert (await store.task("task_1")).status.seq == 5


async def test_a_cancelled_caller_is_held_until_its_write_is_settled(
    store: SQLiteStore, path: Path
) -> None:
    lease = await start(store)

    async with anyio.create_task_group() as tasks:
        for seq in range(4, 54):
            tasks.start_soon(store.append, lease, [progress("task_1", seq)])
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()

    # No waiting: everything that was queued is settled by now.
    raw = connect(str(path))
    assert raw.execute("SELECT count(*) FROM event").fetchall() == [(53,)]


async def test_closing_carries_out_what_is_queued(path: Path) -> None:
    async with store_at(path) as store, anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(store.send, message(f"msg_{number}"))

    async with store_at(path) as store:
        assert len(await store.messages()) == 20


# Faults of the disk


class Disk(apsw.VFS):
    """The default file system, with commits that fail while `fault` is set."""

    def __init__(self) -> None:
        self.fault: type[apsw.Error] | None = None
        self.base = apsw.vfs_names()[0]
        super().__init__("faulty", self.base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return DiskFile(self, name, flags)


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        self._is_wal = bool(flags[0] & apsw.SQLITE_OPEN_WAL)
        super().__init__(disk.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self._is_wal and self._disk.fault is not None:
            raise self._disk.fault
        super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType]  # Buffer is 3.12


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.unregister()


async def test_a_commit_that_fails_by_io_ends_all_writing(disk: Disk, path: Path) -> None:
    async with store_at(path) as store:
        await submit(store)
        disk.fault = apsw.IOError
        failures: list[str] = []

        async def write(number: int) -> None:
            with pytest.raises(StoreBrokenError) as caught:
                await store.send(message(f"msg_{number}"))
            failures.append(str(caught.value))

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(write, number)
        disk.fault = None
        await write(5)

        assert all(str(path) in text and "start the process again" in text for text in failures)
        assert (await store.task("task_1")).status.seq == 2
        assert len(await store.messages()) == 1

    async with store_at(path) as store:
        assert await store.send(message("msg_0"))


async def test_a_full_disk_is_told_and_may_be_freed(disk: Disk, path: Path) -> None:
    async with store_at(path) as store:
        disk.fault = apsw.FullError
        with pytest.raises(StoreUnavailableError, match="no room"):
            await submit(store)
        disk.fault = None

        await submit(store)
        assert (await store.task("task_1")).status.seq == 2


async def test_a_transaction_that_sqlite_gives_up_is_done_again_one_by_one(
    path: Path,
) -> None:
    """A full disk in the middle of a batch takes back what stood before it in the batch."""
    async with store_at(path) as store:
        await enroll(store)
        raw = connect(str(path))
        raw.execute(
            "CREATE TRIGGER bomb BEFORE INSERT ON message WHEN new.message_id = 'msg_bomb' "
            "BEGIN SELECT RAISE(ROLLBACK, 'given up'); END"
        )
        raw.close()
        failed: list[Exception] = []

        async def bomb() -> None:
            try:
                await store.send(message("msg_bomb"))
            except StoreError as exc:
                failed.append(exc)

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(store.send, message(f"msg_{number}"))
            tasks.start_soon(bomb)
            for number in range(10, 20):
                tasks.start_soon(store.send, message(f"msg_{number}"))

        assert len(failed) == 1
        assert len(await store.messages()) == 20


# Several processes


async def test_a_write_waits_for_another_process_only_so_long(path: Path) -> None:
    async with store_at(path, wait_s=0.05) as store:
        await submit(store)
        other = connect(str(path))
        other.execute("BEGIN IMMEDIATE")

        failures: list[StoreUnavailableError] = []

        async def write(number: int) -> None:
            with pytest.raises(StoreUnavailableError, match="locked") as caught:
                await store.send(message(f"msg_{number}"))
            failures.append(caught.value)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(write, number)
            assert (await store.task("task_1")).status.seq == 2  # reading goes on

        other.execute("ROLLBACK")
        assert await store.send(message("msg_0"))
        assert all(error.hint for error in failures)


async def test_an_opening_waits_for_another_process_only_so_long(path: Path) -> None:
    async with store_at(path):
        other = connect(str(path))
    other.execute("BEGIN IMMEDIATE")
    connections: list[apsw.Connection] = []

    apsw.connection_hooks.append(connections.append)
    try:
        with anyio.fail_after(10), pytest.raises(StoreUnavailableError, match="locked"):
            async with store_at(path, wait_s=0.2):
                pass
    finally:
        apsw.connection_hooks.remove(connections.append)

    assert len(connections) == 1  # which has waited as long as it may
    other.close()


async def test_a_write_goes_on_when_another_process_is_done(path: Path) -> None:
    async with store_at(path) as store:
        other = connect(str(path))
        other.execute("BEGIN IMMEDIATE")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.send, message("msg_0"))
            await anyio.lowlevel.checkpoint()
            await anyio.to_thread.run_sync(lambda: other.execute("COMMIT"))

        assert len(await store.messages()) == 1


async def test_reading_holds_nothing_open(store: SQLiteStore, path: Path) -> None:
    lease = await start(store)
    await store.tasks(TaskQuery())
    await store.events("task_1")
    await store.messages()
    with pytest.raises(NotFoundError):
        await store.task("task_9")
    await store.append(lease, [progress("task_1", 4)])

    raw = connect(str(path))
    assert raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall() == [(0, 0, 0)]
    assert path.with_name("hermes.db-wal").stat().st_size == 0


async def test_a_fork_cannot_use_the_store_of_its_parent(store: SQLiteStore) -> None:
    await submit(store)
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        # Never leaves this block: a forked test must not report on behalf of its parent.
        try:
            coroutine = store.task("task_1")
            coroutine.send(None)
        except StoreError as exc:
            theirs.send(str(exc).encode())
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    theirs.close()
    await anyio.to_thread.run_sync(os.waitpid, child, 0)

    said = ours.recv(1000).decode()
    ours.close()
    assert re.search(rf"process {os.getpid()} .* fork {child}", said)
    assert (await store.task("task_1")).status.seq == 2


async def test_two_stores_on_one_file_see_each_other(store: SQLiteStore, path: Path) -> None:
    lease = await start(store)
    async with store_at(path) as other:
        await other.append(lease, [progress("task_1", 4, "from the other")])
        with pytest.raises(ConcurrencyError):
            await store.append(lease, [progress("task_1", 4, "from here", salt="x")])
        await store.append(lease, [progress("task_1", 5, "then here")])
        assert await texts(other) == ["from the other", "then here"]
        assert await other.claim(WORKER) == []


async def test_a_task_at_work_moves_among_the_last_changed_once_a_second(path: Path) -> None:
    async with store_at(path) as store:
        first = await start(store, "task_1")
        await start(store, "task_2")
        order = TaskQuery(order_by="updated")

        async def at(seconds: float, seq: int) -> list[str]:
            when = START + timedelta(seconds=seconds)
            await store.append(first, [replace(progress("task_1", seq), at=when)])
            assert (await store.task("task_1")).status.updated_at == when
            return [task.task_id for task in await store.tasks(order)]

        assert await at(0.5, 4) == ["task_2", "task_1"]
        assert await at(1.5, 5) == ["task_1", "task_2"]
