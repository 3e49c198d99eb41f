"""The raw limit of SQLite: plain commits, grouped ones, and a disk that takes its time."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import cast

import apsw

from hermes.store import connection
from hermes.store.driver import Connection, Cursor

from .steps import ROWS, Step, rate

SLOW = "slow_sync"
ADDED_S = 0.001


def raw_table(path: Path, synchronous: str, vfs: str | None) -> Connection:
    """A table for rows, with the settings that the store has."""
    database = cast("Connection", apsw.Connection(str(path), vfs=vfs))
    database.pragma("journal_mode", "wal")
    database.pragma("synchronous", synchronous)
    database.execute("CREATE TABLE row (id INTEGER PRIMARY KEY, data BLOB NOT NULL)")
    return database


INSERT = "INSERT INTO row (data) VALUES (?)"


def raw_commits(path: Path, synchronous: str, vfs: str | None, count: int) -> float:
    """Commits a second of one row each, in a plain loop."""
    database = raw_table(path, synchronous, vfs)
    cursor = database.cursor()
    began = time.perf_counter()
    for number in range(count):
        cursor.execute("BEGIN IMMEDIATE")
        cursor.execute(INSERT, (ROWS[number % 2],))
        cursor.execute("COMMIT")
    took = time.perf_counter() - began
    database.close()
    return count / took


Write = Callable[[Cursor, int, bytes], None]
"""Writes one row of the run with this number."""
Handed = tuple[int, bytes, asyncio.Future[None]]


def write_row(cursor: Cursor, _: int, data: bytes) -> None:
    """The bytes, and nothing else."""
    cursor.execute(INSERT, (data,))


JOURNAL = """
CREATE TABLE message (place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, task_id TEXT NOT NULL,
    state TEXT NOT NULL, worker TEXT NOT NULL, token INTEGER NOT NULL);
CREATE TABLE task (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL,
    status BLOB NOT NULL);
CREATE TABLE event (position INTEGER PRIMARY KEY, task INTEGER NOT NULL, seq INTEGER NOT NULL,
    id BLOB NOT NULL, data BLOB NOT NULL);
CREATE UNIQUE INDEX event_stream ON event (task, seq);
CREATE UNIQUE INDEX event_id ON event (id);
"""
FENCE = """
SELECT t.key, t.seq, t.status FROM message AS m JOIN task AS t ON t.id = m.task_id
WHERE m.id = ? AND m.state = 'leased' AND m.worker = 'bench' AND m.token = 1
"""


def write_event(cursor: Cursor, run: int, data: bytes) -> None:
    """What a journal has to do for one event."""
    cursor.execute("SAVEPOINT job")
    row = cursor.execute(FENCE, (_id("msg", run),)).fetchone()
    key, seq, status = cast("tuple[int, int, bytes]", row)
    cursor.execute(
        "INSERT INTO event (task, seq, id, data) VALUES (?, ?, ?, ?)",
        (key, seq + 1, os.urandom(16), data),
    )
    cursor.execute("UPDATE task SET seq = ?, status = ? WHERE key = ?", (seq + 1, status, key))
    cursor.execute("RELEASE job")


def _id(kind: str, run: int) -> str:
    return f"{kind}_019ad000-0000-7000-8000-{run:012d}"


def begin_journal(database: Connection, runs: int) -> None:
    """Tables, and a task and its leased message for each run."""
    database.execute(JOURNAL)
    for run in range(runs):
        named = (_id("msg", run), _id("task", run))
        database.execute("INSERT INTO message VALUES (NULL, ?, ?, 'leased', 'bench', 1)", named)
        database.execute("INSERT INTO task VALUES (NULL, ?, 0, ?)", (_id("task", run), bytes(150)))


class GroupLoop:
    """Callers hand in rows; one thread commits together whatever waits, and answers."""

    def __init__(self, database: Connection, write: Write) -> None:
        self._database, self._loop, self._write = database, asyncio.get_running_loop(), write
        self._queue: SimpleQueue[Handed | None] = SimpleQueue()
        self._thread = Thread(target=self._serve)
        self._thread.start()

    async def step(self, run: int) -> None:
        """An intent and its outcome, each committed before the next."""
        for data in ROWS:
            done: asyncio.Future[None] = self._loop.create_future()
            self._queue.put((run, data, done))
            await done

    def close(self) -> None:
        """Let the thread end."""
        self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        cursor = self._database.cursor()
        while (handed := self._queue.get()) is not None:
            group = [handed, *self._waiting()]
            cursor.execute("BEGIN IMMEDIATE")
            for run, data, _ in group:
                self._write(cursor, run, data)
            cursor.execute("COMMIT")
            self._loop.call_soon_threadsafe(_answer, [done for _, _, done in group])

    def _waiting(self) -> Iterator[Handed]:
        with suppress(Empty):
            while (handed := self._queue.get_nowait()) is not None:
                yield handed


def _answer(group: Sequence[asyncio.Future[None]]) -> None:
    for done in group:
        done.set_result(None)


async def raw_group_rate(
    database: Connection, runs: int, steps: int, write: Write = write_row
) -> float:
    """Steps a second of the loop that groups commits and does nothing else."""
    if write is write_event:
        begin_journal(database, runs)
    loop = GroupLoop(database, write)

    def step_of(run: int) -> Step:
        return lambda _: loop.step(run)

    try:
        return await rate([step_of(run) for run in range(runs)], steps)
    finally:
        loop.close()
        database.close()


class _SlowFile(apsw.VFSFile):
    def xSync(self, flags: int) -> None:  # SQLite's name
        super().xSync(flags)
        time.sleep(ADDED_S)


class _SlowDisk(apsw.VFS):
    """The disk as it is, and `ADDED_S` more for every sync."""

    def __init__(self) -> None:
        super().__init__(SLOW, base="")

    def xOpen(  # SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        return _SlowFile("", name, flags)


@contextmanager
def slow_disk() -> Generator[str]:
    """Have stores opened meanwhile use a slow disk; yields the VFS's name."""
    disk, connect = _SlowDisk(), connection.connect

    def connect_slowly(path: str) -> Connection:
        return cast("Connection", apsw.Connection(path, vfs=SLOW, statementcachesize=1024))

    connection.connect = connect_slowly
    try:
        yield SLOW
    finally:
        connection.connect = connect
        disk.unregister()
