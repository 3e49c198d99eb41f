"""A journal that an older Hermes has written goes on under this one."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from hermes.core import codec, json
from hermes.core.clock import to_micros
from hermes.core.events import ArtifactSaved, Recorded, TaskCreated, TaskSettled, ToolReturned
from hermes.core.task import fold
from hermes.errors import StoreError
from hermes.store import SQLiteStore
from hermes.store.driver import Connection, connect
from hermes.store.migrate import APPLICATION_ID
from hermes.store.queries import migrations
from hermes.store.rows import encode_status
from hermes.testing.clock import START, FakeClock
from tests.journal import TRACE, enroll, record, start

LARGE = "日志" * 4000
FILE = b"\x00\x01" * 3000
FULL = b"the whole result" * 400


def write(database: Connection, key: int, records: Sequence[Recorded]) -> None:
    """A settled task as version 1 stored it."""
    task = fold(records)
    assert task is not None
    at, status = to_micros(START), encode_status(task.status)
    database.execute(
        "INSERT INTO task (key, task_id, trace_id, agent, state, created_at, updated_at, status) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (key, task.task_id, TRACE, task.spec.agent, task.state.value, at, at, status),
    )
    for each in records:
        event = codec.encode(each.event)
        for name, data in event.blobs.items():
            put(database, name, data)
        database.execute(
            "INSERT INTO event (task, seq, event_id, type, version, token, at, data, refs) "
            "VALUES (?, ?, ?, ?, 1, 1, ?, ?, ?)",
            (
                key,
                each.seq,
                bytes.fromhex(each.event_id),
                event.type,
                to_micros(each.at),
                event.data,
                json.encode(event.refs) if event.refs else None,
            ),
        )


def put(database: Connection, name: str, data: bytes) -> None:
    insert = "INSERT INTO blob (sha256, data) VALUES (?, ?) ON CONFLICT DO NOTHING"
    database.execute(insert, (bytes.fromhex(name), data))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of version 1: a task with blobs, and a child of it."""
    path = tmp_path / "hermes.db"
    database = connect(str(path))
    database.pragma("journal_mode", "wal")
    ((_, first), *_) = migrations()
    database.execute(first)
    database.pragma("application_id", APPLICATION_ID)
    database.pragma("user_version", 1)
    returned = ToolReturned(
        path="/t",
        call_id="c",
        name="n",
        content=LARGE,
        size_chars=len(FULL),
        blob=codec.sha256(FULL),
    )
    saved = ArtifactSaved(path="/t", name="f", sha256=codec.sha256(FILE), size_bytes=len(FILE))
    parent = [
        record("task_1", 1, TaskCreated(agent="a", goal="count")),
        record("task_1", 2, returned),
        record("task_1", 3, saved),
    ]
    made = TaskCreated(agent="a", goal="a part", parent_id="task_1", root_id="task_1")
    cancelled = TaskSettled(outcome="cancelled")
    write(database, 1, [*parent, record("task_1", 4, cancelled)])
    write(database, 2, [record("task_2", 1, made), record("task_2", 2, cancelled)])
    put(database, codec.sha256(FULL), FULL)
    put(database, codec.sha256(FILE), FILE)
    database.close()
    return path


def store_at(path: Path, *, migrate: bool = True) -> SQLiteStore:
    return SQLiteStore(path, clock=FakeClock(), synchronous="NORMAL", migrate=migrate)


async def test_what_was_written_before_reads_as_before(path: Path) -> None:
    async with store_at(path) as store:
        _, returned, saved, _ = [item.event for item in await store.events("task_1")]
        assert isinstance(returned, ToolReturned)
        assert returned.content == LARGE
        assert isinstance(saved, ArtifactSaved)
        assert await store.blob(saved.sha256) == FILE
        assert (await store.status()).version == 5


async def test_the_blobs_of_older_events_outlive_a_prune_of_others(path: Path) -> None:
    async with store_at(path) as store:
        lease = await start(store, "task_3")
        await store.append(lease, [], blobs={codec.sha256(b"new"): b"new"})

        assert (await store.prune(START)).blobs == 0

        for data in (FILE, FULL, LARGE.encode(), b"new"):
            assert await store.blob(codec.sha256(data)) == data


async def test_older_tasks_go_in_trees_with_their_blobs(path: Path) -> None:
    async with store_at(path) as store:
        pruned = await store.prune(START + timedelta(days=1))

        assert (pruned.tasks, pruned.events, pruned.blobs) == (2, 6, 3)
        assert pruned.blob_bytes == len(FILE) + len(FULL) + len(LARGE.encode())


async def test_an_older_child_is_found_by_its_parent(path: Path) -> None:
    async with store_at(path) as store:
        raw = connect(str(path))
        rows = raw.execute("SELECT task_id, parent_id, parent_path, root_id FROM task").fetchall()
        assert rows == [("task_1", None, None, "task_1"), ("task_2", "task_1", "", "task_1")]
        assert (await store.task("task_2")).root_id == "task_1"


async def test_two_processes_that_start_at_once_migrate_once(path: Path) -> None:
    async def work(number: int) -> None:
        async with store_at(path) as store:
            await enroll(store, f"worker-{number}")

    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(work, number)

    async with store_at(path) as store:
        assert len(await store.workers()) == 4


async def test_an_older_schema_is_refused_where_it_is_not_to_be_changed(path: Path) -> None:
    with pytest.raises(StoreError, match="schema version 1, this Hermes needs 5"):
        await store_at(path, migrate=False).__aenter__()

    assert connect(str(path)).pragma("user_version") == 1


async def test_a_file_of_an_older_hermes_is_written_anew_once_nobody_works(path: Path) -> None:
    database = connect(str(path))
    for number in range(300):
        put(database, codec.sha256(b"%d" % number), b"%d" % number * 2000)
    database.close()
    before = path.stat().st_size
    async with store_at(path) as store:
        await enroll(store)
        await store.prune(START + timedelta(days=1))
        busy = await store.status()
        assert any("gives them back" in note for note in busy.notes)

        await store.retire("worker-1", crashed=False)
        await store.prune(START + timedelta(days=1))

        idle = await store.status()
        assert not any("free" in note for note in idle.notes)
        assert idle.size_bytes < before / 2 < busy.size_bytes
