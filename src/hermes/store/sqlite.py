"""The journal in one SQLite file: durable, for one machine, shared by any number of processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from hermes.core.clock import Clock, to_micros
from hermes.core.events import Recorded
from hermes.core.message import Message
from hermes.core.task import Task
from hermes.errors import ConfigError, InputError, NotFoundError, StoreError
from hermes.store import reads, transactions
from hermes.store.base import (
    NO_BLOBS,
    Lease,
    MessageRow,
    Submitted,
    TaskQuery,
    Worker,
)
from hermes.store.connection import Synchronous, open_reader, open_writer, translated
from hermes.store.driver import Connection, Cursor
from hermes.store.rows import batch, new_task_row, outgoing, worker_row
from hermes.store.rules import new_task
from hermes.store.thread import ConnectionThread, Job, More
from hermes.store.writer import GroupCommit

R = TypeVar("R")


class SQLiteStore:
    """A `Store` in the file at `path`, opened and closed by `async with`.

    Writes go through one thread and share commits; reads have a connection and a thread of their
    own. A caller that is cancelled while it waits for a write is held until the write is settled.

    After a commit that failed by I/O, or anything else that leaves open what is on the disk, every
    later write fails with `StoreUnavailableError`: whoever runs the process should end it and start
    again.

    Args:
        path: The database file; it and its folders are created when missing.
        clock: Decides when a delayed message is due.
        synchronous: FULL syncs each commit to the disk; NORMAL leaves out that wait, and may lose
            the last commits when the machine (not only the process) stops.
        wait_s: How long to wait for another process that writes, at most.

    Source:
        SQLite, "PRAGMA synchronous": in WAL mode, FULL syncs at each commit, NORMAL at checkpoints.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock,
        synchronous: Synchronous = "FULL",
        wait_s: float = 10.0,
    ) -> None:
        if str(path) in ("", ":memory:"):
            raise ConfigError(f"{str(path)!r} names no file", hint="MemoryStore needs none")
        self._path = Path(path).absolute()
        self._clock, self._pid = clock, os.getpid()
        group = GroupCommit(self._path, monotonic=clock.monotonic)
        self._writer = ConnectionThread(
            "hermes-store-writer",
            connect=partial(open_writer, self._path, synchronous=synchronous, wait_s=wait_s),
            serve=group.serve,
        )
        self._reader = ConnectionThread(
            "hermes-store-reader",
            connect=partial(open_reader, self._path, wait_s=wait_s),
            serve=self._serve_read,
        )

    @property
    def run_dir(self) -> str:
        home = self._path.parent
        return str((home if home.name == ".hermes" else home / ".hermes") / "run")

    async def __aenter__(self) -> SQLiteStore:
        try:
            await self._writer.start()
            await self._reader.start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._check_process()
        try:
            await self._reader.close()
        finally:
            # Last, since the last connection moves the WAL into the file.
            await self._writer.close()

    async def submit(
        self, records: Sequence[Recorded], message: Message, *, claim_for: str | None = None
    ) -> Submitted:
        task = new_task_row(new_task(records, message))
        events, envelope, now = batch(records), outgoing(message), self._now()
        return await self._write(
            lambda cursor: transactions.submit(
                cursor, task, events, envelope, now=now, claim_for=claim_for
            )
        )

    async def claim(
        self,
        worker_id: str,
        *,
        receivers: Sequence[str] = (),
        task_id: str | None = None,
        limit: int = 1,
    ) -> list[Lease]:
        if limit < 1:
            raise InputError(f"a claim takes at least 1 message, got limit {limit}")
        return await self._write(
            partial(
                transactions.claim,
                worker_id=worker_id,
                receivers=receivers,
                task_id=task_id,
                limit=limit,
                now=self._now(),
            )
        )

    async def append(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        messages: Sequence[Message] = (),
        blobs: Mapping[str, bytes] = NO_BLOBS,
    ) -> None:
        events, now = batch(records, blobs), self._now()
        envelopes = [outgoing(message) for message in messages]
        await self._write(
            lambda cursor: transactions.append(cursor, lease, events, envelopes, now=now)
        )

    async def finish(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        messages: Sequence[Message] = (),
        blobs: Mapping[str, bytes] = NO_BLOBS,
    ) -> None:
        events, now = batch(records, blobs), self._now()
        envelopes = [outgoing(message) for message in messages]
        await self._write(
            lambda cursor: transactions.finish(cursor, lease, events, envelopes, now=now)
        )

    async def fail(
        self, lease: Lease, records: Sequence[Recorded], *, retry_at: datetime | None, reason: str
    ) -> None:
        await self._write(
            partial(
                transactions.fail,
                lease=lease,
                batch=batch(records),
                retry_at=None if retry_at is None else to_micros(retry_at),
                # An exception's text may hold bytes of a file name as lone surrogates.
                reason=reason.encode("utf-8", "replace").decode(),
                now=self._now(),
            )
        )

    async def release(self, lease: Lease) -> None:
        await self._write(partial(transactions.release, lease=lease))

    async def send(self, message: Message) -> bool:
        return await self._write(
            partial(transactions.send, outgoing=outgoing(message), now=self._now())
        )

    async def task(self, task_id: str) -> Task:
        return await self._read(partial(reads.task, task_id=task_id))

    async def tasks(self, query: TaskQuery) -> list[Task]:
        return await self._read(partial(reads.tasks, query=query))

    async def events(self, task_id: str, *, after: int = 0) -> list[Recorded]:
        return await self._read(partial(reads.events, task_id=task_id, after=after))

    async def blob(self, sha256: str) -> bytes:
        return await self._read(partial(reads.blob, name=sha256))

    async def messages(self, *, task_id: str | None = None) -> list[MessageRow]:
        return await self._read(partial(reads.messages, task_id=task_id))

    async def register(self, worker: Worker) -> None:
        await self._write(partial(transactions.register, worker=worker_row(worker)))

    async def renew(self, worker_id: str) -> bool:
        return await self._write(partial(transactions.renew, worker_id=worker_id, now=self._now()))

    async def retire(self, worker_id: str, *, crashed: bool) -> int:
        return await self._write(partial(transactions.retire, worker_id=worker_id, crashed=crashed))

    async def workers(self) -> list[Worker]:
        return await self._read(reads.workers)

    async def _write(self, work: Callable[[Cursor], R]) -> R:
        self._check_process()
        return await self._writer.call(work)

    async def _read(self, work: Callable[[Cursor], R]) -> R:
        self._check_process()
        return await self._reader.call(work)

    def _serve_read(self, connection: Connection, job: Job, _: More) -> None:
        try:
            job.run(connection.cursor())
        except UnicodeEncodeError as exc:
            job.fail(NotFoundError(f"no stored id holds a lone surrogate: {exc.object!r:.80}"))
        except Exception as exc:  # told to the caller, whatever it is
            job.fail(translated(exc, self._path))

    def _now(self) -> int:
        return to_micros(self._clock.now())

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self._path} was opened by process {self._pid} and cannot be used in its fork "
                f"{os.getpid()}",
                hint="open a store of its own in the child process",
            )
