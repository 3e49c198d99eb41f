"""Whether a worker lives, as others and as its own process see it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from hermes.errors import StoreError, StoreUnavailableError
from hermes.runtime import LEASE_S, WorkerProcess, is_gone
from hermes.runtime.locks import LifeLock
from hermes.store import MemoryStore, SQLiteStore, Store, Worker
from hermes.testing.clock import START, FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SQLiteStore]:
    path = tmp_path / "jobs.db"
    async with SQLiteStore(path, clock=clock, synchronous="NORMAL") as opened:
        yield opened


@pytest.fixture
def lock_path(tmp_path: Path) -> Path:
    """A lock file that nobody keeps locked."""
    path = tmp_path / "w.lock"
    path.touch()
    return path


@pytest.fixture
def as_another_user(lock_path: Path) -> Iterator[None]:
    """The lock file may not be opened, not even by a superuser's test."""
    lock_path.chmod(0)
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65534)
    yield
    if was_root:
        os.seteuid(0)


def neighbour(lock_path: Path) -> Worker:
    """A worker on this host, under this process's own number."""
    host = socket.gethostname()
    return Worker(
        worker_id="w", host=host, pid=os.getpid(), lock_path=str(lock_path), renewed_at=START
    )


async def started(store: Store, clock: FakeClock) -> tuple[WorkerProcess, Worker]:
    process = WorkerProcess(store, clock=clock)
    async with anyio.create_task_group() as group:
        await process.start(group)
        group.cancel_scope.cancel()
    [row] = [row for row in await store.workers() if row.worker_id == process.worker_id]
    return process, row


async def test_a_process_counts_its_own_workers_as_alive_until_they_stop(
    store: SQLiteStore, clock: FakeClock
) -> None:
    one, first = await started(store, clock)
    other, second = await started(store, clock)
    clock.advance(10 * LEASE_S)
    assert not is_gone(first, clock=clock)
    assert not is_gone(second, clock=clock)

    await one.stop()

    assert is_gone(first, clock=clock)
    assert not is_gone(second, clock=clock)
    await other.stop()


async def test_a_worker_without_a_lock_lives_as_long_as_its_process_says(clock: FakeClock) -> None:
    store = MemoryStore(clock=clock)
    process, row = await started(store, clock)
    clock.advance(10 * LEASE_S)
    assert not is_gone(row, clock=clock)

    await process.stop()

    assert is_gone(row, clock=clock)


def test_a_dead_worker_with_the_number_of_this_process_is_gone(
    lock_path: Path, clock: FakeClock
) -> None:
    """As in a container that was started again: same host name, same process number."""
    assert is_gone(neighbour(lock_path), clock=clock)


def test_a_worker_whose_lock_file_is_missing_is_gone(tmp_path: Path, clock: FakeClock) -> None:
    assert is_gone(neighbour(tmp_path / "none.lock"), clock=clock)


@pytest.mark.usefixtures("as_another_user")
def test_a_lock_that_cannot_be_probed_leaves_the_signs_of_life(
    lock_path: Path, clock: FakeClock
) -> None:
    worker = neighbour(lock_path)
    assert not is_gone(worker, clock=clock)
    clock.advance(LEASE_S + 1)
    assert is_gone(worker, clock=clock)


def test_a_worker_elsewhere_is_gone_after_its_lease(clock: FakeClock) -> None:
    worker = Worker(worker_id="w", host="elsewhere", pid=1, lock_path="/x", renewed_at=START)
    assert not is_gone(worker, clock=clock)
    clock.advance(LEASE_S + 1)
    assert is_gone(worker, clock=clock)


async def test_a_fork_does_not_take_the_workers_of_its_parent_for_its_own(
    store: SQLiteStore, clock: FakeClock
) -> None:
    process, row = await started(store, clock)
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            theirs.send(b"gone" if is_gone(row, clock=clock) else b"lives")
            theirs.recv(1)
            theirs.send(b"gone" if is_gone(row, clock=clock) else b"lives")
        finally:
            os._exit(0)
    theirs.close()
    before = ours.recv(9)
    await process.stop()
    ours.send(b"\0")
    after = ours.recv(9)
    await anyio.to_thread.run_sync(os.waitpid, child, 0)
    ours.close()

    assert (before, after) == (b"lives", b"gone")


def looks_gone(row: Worker) -> bool:
    """What a process of its own says of a worker."""
    code = (
        "from hermes.runtime.locks import are_proved_dead;"
        f"print(are_proved_dead([{row.worker_id!r}], {str(Path(row.lock_path).parent)!r}))"
    )
    words = [sys.executable, "-c", code]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout == "True\n"


async def test_a_process_that_reads_its_own_lock_file_still_proves_that_it_lives(
    store: SQLiteStore, clock: FakeClock
) -> None:
    """As a tool does that searches the folder."""
    process, row = await started(store, clock)
    Path(row.lock_path).read_bytes()
    assert not looks_gone(row)
    await process.stop()
    assert looks_gone(row)


async def test_a_fork_neither_keeps_the_lock_of_its_parent_nor_removes_it(
    clock: FakeClock, tmp_path: Path
) -> None:
    lock, same_file = LifeLock("w1", str(tmp_path)), tmp_path / "same.lock"
    lock.take()
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            lock.release()
            theirs.send(b"here")
            theirs.recv(1)
        finally:
            os._exit(0)
    theirs.close()
    ours.recv(4)
    before = is_gone(neighbour(tmp_path / "w1.lock"), clock=clock)
    os.link(tmp_path / "w1.lock", same_file)
    lock.release()
    after = is_gone(neighbour(same_file), clock=clock)
    ours.send(b"\0")
    await anyio.to_thread.run_sync(os.waitpid, child, 0)
    ours.close()
    assert (before, after) == (False, True)


async def test_other_users_may_look_at_the_lock(store: SQLiteStore, clock: FakeClock) -> None:
    umask = os.umask(0o027)
    try:
        process, row = await started(store, clock)
    finally:
        os.umask(umask)

    assert Path(row.lock_path).stat().st_mode & 0o777 == 0o640
    await process.stop()


async def test_a_place_that_takes_no_lock_file_is_named(
    store: SQLiteStore, clock: FakeClock, tmp_path: Path
) -> None:
    (tmp_path / ".hermes").touch()

    with pytest.raises(StoreUnavailableError, match="lock file") as caught:
        await WorkerProcess(store, clock=clock).start(None)  # pyright: ignore[reportArgumentType]  # not reached

    assert str(tmp_path / ".hermes" / "run") in caught.value.message
    assert caught.value.hint


async def test_a_worker_that_cannot_be_registered_leaves_no_lock(
    tmp_path: Path, clock: FakeClock
) -> None:
    store = SQLiteStore(tmp_path / "jobs.db", clock=clock)
    process = WorkerProcess(store, clock=clock)

    async with anyio.create_task_group() as group:
        with pytest.raises(StoreError, match="not open"):
            await process.start(group)

    assert list((tmp_path / ".hermes" / "run").iterdir()) == []
    assert not [fd for fd in Path("/proc/self/fd").iterdir() if process.worker_id in target(fd)]


def target(fd: Path) -> str:
    return os.readlink(fd) if fd.is_symlink() else ""
