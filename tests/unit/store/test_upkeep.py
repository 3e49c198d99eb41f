"""Copies, room on the disk, and the side file of a SQLite journal."""

import hashlib
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from threading import Event

import anyio
import pytest

from hermes.core.events import ArtifactSaved
from hermes.errors import StoreUnavailableError
from hermes.store import SQLiteStore, open_store
from hermes.store.checkpoint import RESTART_PAGES
from hermes.store.driver import connect
from hermes.testing.clock import START, FakeClock
from tests.journal import WORKER, enroll, progress, record, settled, start, submit

LATER = START + timedelta(days=1)
PAGE_BYTES = 4096
STEPS = 500
ATTACHMENT = os.urandom(2_000_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hermes.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    async with SQLiteStore(path, clock=FakeClock(), synchronous="NORMAL") as opened:
        yield opened


def noise(number: int) -> str:
    """20 KB of text that differs in every place."""
    return "".join(hashlib.sha256(b"%d/%d" % (number, n)).hexdigest() for n in range(320))


async def long_run(store: SQLiteStore, steps: int = STEPS) -> None:
    """A settled task whose every step adds 20 KB and names the same file."""
    lease = await start(store)
    name = hashlib.sha256(ATTACHMENT).hexdigest()
    saved = ArtifactSaved(path="/t", name="file", sha256=name, size_bytes=len(ATTACHMENT))
    for step in range(steps):
        seq = 4 + 2 * step
        records = [progress("task_1", seq, noise(step)), record("task_1", seq + 1, saved)]
        await store.append(lease, records, blobs={name: ATTACHMENT})
    await store.finish(lease, [settled("task_1", 4 + 2 * steps)])


# Room


async def test_500_steps_take_little_more_room_than_what_they_hold(
    store: SQLiteStore, path: Path
) -> None:
    await long_run(store)

    payload = STEPS * len(noise(0)) + len(ATTACHMENT)
    assert (await store.status()).size_bytes < payload + 20_000_000
    assert payload < path.stat().st_size


async def test_a_prune_gives_the_room_back_to_the_disk(store: SQLiteStore, path: Path) -> None:
    empty = (await store.status()).size_bytes
    await long_run(store)
    full = (await store.status()).size_bytes

    pruned = await store.prune(LATER)

    assert (pruned.tasks, pruned.blobs) == (1, STEPS + 1)
    assert (await store.status()).size_bytes < empty + (full - empty) / 20
    assert path.stat().st_size < 1_000_000


async def test_others_work_on_while_a_prune_runs(store: SQLiteStore, path: Path) -> None:
    await long_run(store, 100)
    async with SQLiteStore(path, clock=FakeClock(), synchronous="NORMAL", wait_s=5) as other:
        lease = await start(other, "task_2")
        done, pruned = 0, None

        async def work() -> None:
            nonlocal done
            while True:
                await other.append(lease, [progress("task_2", 4 + done)])
                done += 1

        async with anyio.create_task_group() as group:
            group.start_soon(work)
            pruned = await store.prune(LATER)
            group.cancel_scope.cancel()

        assert pruned is not None
        assert pruned.tasks == 1
        assert done > 0
        assert (await other.task("task_2")).status.seq >= 3 + done


def read_without_a_gap(path: Path, stop: Event) -> None:
    """Two readers, of whom one always reads; neither for long."""
    readers = [connect(str(path)) for _ in range(2)]
    for reader in readers:
        reader.execute("BEGIN; SELECT 1 FROM event LIMIT 1").fetchall()
    while not stop.is_set():
        for reader in readers:
            reader.execute("COMMIT; BEGIN; SELECT 1 FROM event LIMIT 1").fetchall()
            stop.wait(0.001)


async def test_readers_without_a_gap_do_not_let_the_side_file_grow(
    store: SQLiteStore, path: Path
) -> None:
    lease = await start(store)
    wal, peak, stop = path.with_name("hermes.db-wal"), 0, Event()

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, read_without_a_gap, path, stop)
        for seq in range(4, 1204):
            await store.append(lease, [progress("task_1", seq, f"{seq} " * 3000)])
            peak = max(peak, wal.stat().st_size)
        stop.set()

    assert path.stat().st_size > (RESTART_PAGES + 1000) * PAGE_BYTES
    assert peak < 4 * RESTART_PAGES * PAGE_BYTES  # twice that without the restarts


async def test_a_read_that_somebody_keeps_open_holds_up_no_commit(
    store: SQLiteStore, path: Path
) -> None:
    lease = await start(store)
    shell = connect(str(path))
    shell.execute("BEGIN; SELECT count(*) FROM event")

    with anyio.fail_after(30):
        for seq in range(4, 1804):
            await store.append(lease, [progress("task_1", seq, "x" * 8000)])

    assert path.with_name("hermes.db-wal").stat().st_size > RESTART_PAGES * PAGE_BYTES
    shell.execute("COMMIT")
    await store.append(lease, [progress("task_1", 1804, "x")])
    await store.append(lease, [progress("task_1", 1805, "x")])
    raw = connect(str(path))
    assert raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall() == [(0, 0, 0)]


async def test_the_status_says_when_commits_are_not_synced(
    store: SQLiteStore, tmp_path: Path
) -> None:
    assert any("synchronous=NORMAL" in note for note in (await store.status()).notes)

    async with open_store(f"sqlite:///{tmp_path / 'full.db'}", clock=FakeClock()) as full:
        assert (await full.status()).notes == []


# Copies


async def test_a_copy_is_made_while_others_write(store: SQLiteStore, tmp_path: Path) -> None:
    lease = await start(store)
    written = before = 0

    async def write() -> None:
        nonlocal written
        while True:
            await store.append(lease, [progress("task_1", 4 + written)])
            written += 1

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        while written < 20:
            await anyio.lowlevel.checkpoint()
        before = written
        await store.backup(tmp_path / "copy.db")
        group.cancel_scope.cancel()

    copied = SQLiteStore(tmp_path / "copy.db", clock=FakeClock(), synchronous="NORMAL")
    async with copied as copy:
        seqs = [item.seq for item in await copy.events("task_1")]
        assert seqs == list(range(1, len(seqs) + 1))
        assert before + 3 <= len(seqs) <= written + 4
        assert (await copy.task("task_1")).status.seq == len(seqs)


async def test_a_copy_is_one_whole_file(store: SQLiteStore, tmp_path: Path) -> None:
    await start(store)
    (tmp_path / "copies").mkdir()

    await store.backup(tmp_path / "copies" / "备份.db")

    assert os.listdir(tmp_path / "copies") == ["备份.db"]
    copy = connect(str(tmp_path / "copies" / "备份.db"))
    assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_a_copy_that_cannot_be_written_is_told_and_leaves_nothing(
    store: SQLiteStore, tmp_path: Path
) -> None:
    with pytest.raises(StoreUnavailableError, match="no such folder|cannot write"):
        await store.backup(tmp_path / "missing" / "copy.db")

    assert not (tmp_path / "missing").exists()


# Hints


async def test_work_that_another_process_sends_is_hinted_at(store: SQLiteStore, path: Path) -> None:
    await enroll(store)
    async with SQLiteStore(path, clock=FakeClock(), synchronous="NORMAL") as other:
        await store.claim(WORKER)
        with anyio.move_on_after(0.5):
            while True:  # use up what the opening left
                await store.work_hint(10)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(store.work_hint, 60)
                await anyio.lowlevel.checkpoint()
                await submit(other)

        assert len(await store.claim(WORKER)) == 1
