"""The journal in one SQLite file: durable, for one machine, shared by any number of processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from anyio import to_thread

from hermes.core import json
from hermes.core.budget import Bounds, Draw, Drawn
from hermes.core.clock import Clock, to_micros
from hermes.core.events import Recorded, ReviewDecision
from hermes.core.message import Message
from hermes.core.quota import Meter
from hermes.core.task import Task
from hermes.core.todo import Todo
from hermes.errors import CodecError, ConfigError, InputError, NotFoundError, StoreError
from hermes.store import budgets_sqlite as budgets
from hermes.store import lanes, prune, quota, reads, transactions, upkeep, waits
from hermes.store.budgets import TreeBudget
from hermes.store.checkpoint import Checkpoints
from hermes.store.connection import Synchronous, open_reader, open_writer, translated
from hermes.store.deeds import BEGINNING, PAGE, Deed, Place, deed_values
from hermes.store.driver import Connection, Cursor
from hermes.store.hints import Hints
from hermes.store.rows import batch, new_task_row, outgoing, prepare, todo_row, worker_row
from hermes.store.rules import new_task
from hermes.store.thread import ConnectionThread, Job, More
from hermes.store.values import (
    NO_BLOBS,
    NOTHING,
    Also,
    EffectRow,
    Lease,
    MessageRow,
    Pruned,
    Review,
    StoreStatus,
    Submitted,
    TaskQuery,
    Wait,
    Worker,
)
from hermes.store.writer import GroupCommit

R = TypeVar("R")


class SQLiteStore:
    """A `Store` in the file at `path`, opened and closed by `async with`.

    Writes go through one thread and share commits; reads have a connection and a thread of their
    own. A caller that is cancelled while it waits for a write is held until the write is settled.
    As long as commits are quick, short writes are made in the event loop's own thread: those of one
    run that is alone at once, those of many together.

    After a commit that failed by I/O, or anything else that leaves open what is on the disk, every
    later write fails with `StoreUnavailableError`: whoever runs the process should end it and start
    again.

    Args:
        path: The database file; it and its folders are created when missing.
        clock: Decides when a delayed message is due.
        synchronous: FULL syncs each commit to the disk; NORMAL leaves out that wait, and may lose
            the last commits when the machine (not only the process) stops.
        wait_s: How long to wait for another process that writes, at most.
        migrate: Bring an older schema up to date; else it is refused.

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
        migrate: bool = True,
    ) -> None:
        if str(path) in ("", ":memory:"):
            raise ConfigError(f"{str(path)!r} names no file", hint="MemoryStore needs none")
        self._path = Path(path).absolute()
        self._clock, self._pid = clock, os.getpid()
        self._synchronous: Synchronous = synchronous
        self._hints = Hints()
        self._held: dict[str, transactions.Left | None] = {}
        checkpoints = Checkpoints()
        group = GroupCommit(
            self._path, monotonic=clock.monotonic, is_busy=lambda: checkpoints.is_due
        )
        self._suits = group.suits
        self._writer = ConnectionThread(
            "hermes-store-writer",
            connect=partial(
                open_writer,
                self._path,
                synchronous=synchronous,
                wait_s=wait_s,
                checkpoints=checkpoints,
                migrate=migrate,
            ),
            serve=group.serve,
            serve_now=group.serve_now,
            suits=group.suits,
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
        submitted = await self._write(
            lambda cursor: transactions.submit(
                cursor, task, events, envelope, now=now, claim_for=claim_for
            ),
            alone=claim_for is not None and not self._held,
            short=True,
        )
        if submitted.lease is None:
            self._hints.give()
        else:
            self._held[message.message_id] = None
        return submitted

    async def claim(
        self,
        worker_id: str,
        *,
        receivers: Sequence[str] = (),
        task_id: str | None = None,
        root_id: str | None = None,
        limit: int = 1,
    ) -> list[Lease]:
        if limit < 1:
            raise InputError(f"a claim takes at least 1 message, got limit {limit}")
        self._hints.look()
        leases = await self._write(
            partial(
                transactions.claim,
                worker_id=worker_id,
                receivers=receivers,
                task_id=task_id,
                root_id=root_id,
                limit=limit,
                now=self._now(),
            )
        )
        self._held.update({lease.message.message_id: None for lease in leases})
        return leases

    async def append(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        messages: Sequence[Message] = (),
        blobs: Mapping[str, bytes] = NO_BLOBS,
        also: Also = NOTHING,
    ) -> None:
        events = batch(records, blobs)
        envelopes = [outgoing(message) for message in messages]
        more = prepare(also, lease.message.task_id)
        held, message_id = self._held, lease.message.message_id
        left = held.get(message_id)
        left = await self._write(
            lambda cursor: transactions.append(
                cursor, lease, events, envelopes, more, now=self._now, left=left
            ),
            alone=len(held) == 1 and message_id in held,
            short=True,
        )
        if message_id in held:
            held[message_id] = left
        if envelopes or more is not None:
            self._hints.give()

    async def finish(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        messages: Sequence[Message] = (),
        blobs: Mapping[str, bytes] = NO_BLOBS,
        also: Also = NOTHING,
    ) -> None:
        events, now = batch(records, blobs), self._now()
        envelopes = [outgoing(message) for message in messages]
        more = prepare(also, lease.message.task_id)
        self._held.pop(lease.message.message_id, None)
        await self._write(
            lambda cursor: transactions.finish(cursor, lease, events, envelopes, more, now=now),
            alone=not self._held,
            short=True,
        )
        self._hints.give()

    async def fail(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        retry_at: datetime | None,
        reason: str,
        also: Also = NOTHING,
    ) -> None:
        self._held.pop(lease.message.message_id, None)
        await self._write(
            partial(
                transactions.fail,
                lease=lease,
                batch=batch(records),
                also=prepare(also, lease.message.task_id),
                retry_at=None if retry_at is None else to_micros(retry_at),
                # An exception's text may hold bytes of a file name as lone surrogates.
                reason=reason.encode("utf-8", "replace").decode(),
                now=self._now(),
            )
        )
        self._hints.give()

    async def release(self, lease: Lease) -> None:
        self._held.pop(lease.message.message_id, None)
        await self._write(partial(transactions.release, lease=lease))
        self._hints.give()

    async def send(self, message: Message) -> bool:
        is_new = await self._write(partial(lanes.send, outgoing=outgoing(message), now=self._now()))
        self._hints.give()
        return is_new

    async def decide(
        self, review_id: str, decision: ReviewDecision, *, answer: object = None, by: str
    ) -> Review:
        json.encode([answer, by])
        review = await self._write(
            partial(
                waits.decide,
                review_id=review_id,
                decision=decision,
                answer=answer,
                by=by,
                now=self._now(),
            )
        )
        self._hints.give()
        return review

    async def signal(self, name: str, payload: object = None) -> bool:
        json.encode(name)
        is_new = await self._write(
            partial(waits.signal, name=name, payload=json.encode(payload), now=self._now())
        )
        self._hints.give()
        return is_new

    async def draw(self, lease: Lease, wanted: Draw) -> Drawn:
        return await self._write(partial(budgets.draw, lease=lease, wanted=wanted))

    async def put_budget(self, root_id: str, bounds: Bounds) -> None:
        await self._write(partial(budgets.put, root_id=root_id, bounds=bounds))

    async def meter(self, key: str, turn: Callable[[Meter, int], tuple[Meter, R]]) -> R:
        return await self._write(partial(quota.meter, key=key, now=self._now(), turn=turn))

    async def put_todo(self, todo: Todo) -> Todo:
        return await self._write(partial(transactions.put_todo, row=todo_row(todo)))

    async def request_cancel(self, task_id: str) -> list[str]:
        marked = await self._write(
            partial(waits.request_cancel, task_id=task_id, now=self._now()),
            surrogate=NotFoundError,
        )
        self._hints.give()
        return marked

    async def task(self, task_id: str) -> Task:
        return await self._read(partial(reads.task, task_id=task_id))

    async def tasks(self, query: TaskQuery) -> list[Task]:
        return await self._read(partial(reads.tasks, query=query))

    async def events(self, task_id: str, *, after: int = 0) -> list[Recorded]:
        return await self._read(partial(reads.events, task_id=task_id, after=after))

    async def blob(self, sha256: str) -> bytes:
        return await self._read(partial(reads.blob, name=sha256))

    async def messages(
        self, *, task_id: str | None = None, lane: str | None = None
    ) -> list[MessageRow]:
        return await self._read(partial(reads.messages, task_id=task_id, lane=lane))

    async def waits(self, task_id: str) -> list[Wait]:
        return await self._read(partial(reads.waits, task_id=task_id, now=self._clock.now()))

    async def review(self, review_id: str) -> Review:
        return await self._read(partial(reads.review, review_id=review_id))

    async def reviews(
        self, *, task_id: str | None = None, is_open: bool | None = True, limit: int = 100
    ) -> list[Review]:
        return await self._read(
            partial(reads.reviews, task_id=task_id, is_open=is_open, limit=limit)
        )

    async def effect(self, scope: str, tool: str, key: str) -> EffectRow | None:
        return await self._read(partial(reads.effect, key=(scope, tool, key)))

    async def budget(self, root_id: str) -> TreeBudget:
        return await self._read(partial(budgets.budget, root_id=root_id))

    async def deeds(
        self, *, after: Place = BEGINNING, since: datetime | None = None, limit: int = PAGE
    ) -> list[Deed]:
        values = deed_values(after, since, limit)
        return await self._read(partial(reads.deeds, values=values))

    async def todos(self, *, is_open: bool = True, limit: int = 100) -> list[Todo]:
        return await self._read(partial(reads.todos, is_open=is_open, limit=limit))

    async def cancels(self, worker_id: str) -> list[str]:
        return await self._read(partial(reads.cancels, worker_id=worker_id))

    async def work_hint(self, timeout_s: float) -> None:
        await self._hints.wait(timeout_s, self._pulse)

    async def register(self, worker: Worker) -> None:
        await self._write(partial(transactions.register, worker=worker_row(worker)))

    async def renew(self, worker_id: str) -> bool:
        return await self._write(partial(transactions.renew, worker_id=worker_id, now=self._now()))

    async def retire(self, worker_id: str, *, crashed: bool) -> int:
        freed = await self._write(
            partial(transactions.retire, worker_id=worker_id, crashed=crashed)
        )
        self._hints.give()
        return freed

    async def workers(self) -> list[Worker]:
        return await self._read(reads.workers)

    async def status(self) -> StoreStatus:
        return await self._read(
            partial(upkeep.status, path=self._path, synchronous=self._synchronous)
        )

    async def backup(self, target: Path) -> None:
        self._check_process()
        await to_thread.run_sync(upkeep.backup, self._path, target)

    async def prune(self, before: datetime, *, dry_run: bool = False) -> Pruned:
        if dry_run:
            return await prune.count(self._read, to_micros(before))
        pruned = await prune.prune(self._write, self._read, to_micros(before))
        await to_thread.run_sync(upkeep.shrink, self._path)
        return pruned

    async def _write(
        self,
        work: Callable[[Cursor], R],
        *,
        alone: bool = False,
        short: bool = False,
        surrogate: type[InputError] = CodecError,
    ) -> R:
        self._check_process()
        try:
            # Who holds too few leases for that need not wait for others to come.
            short = short and self._suits(len(self._held))
            return await self._writer.call(work, alone=alone, short=short)
        except UnicodeEncodeError as exc:
            raise surrogate(f"text holds a lone surrogate: {exc.object!r:.80}") from exc

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

    async def _pulse(self) -> tuple[int, bool]:
        return await self._read(partial(reads.pulse, now=self._now()))

    def _now(self) -> int:
        return to_micros(self._clock.now())

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self._path} was opened by process {self._pid} and cannot be used in its fork "
                f"{os.getpid()}",
                hint="open a store of its own in the child process",
            )
