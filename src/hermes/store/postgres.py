"""The journal in a PostgreSQL database, shared by processes on any number of machines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from hermes.core import json
from hermes.core.budget import Bounds, Draw, Drawn
from hermes.core.clock import Clock, SystemClock, to_micros
from hermes.core.events import Recorded, ReviewDecision
from hermes.core.message import Message
from hermes.core.quota import Meter
from hermes.core.task import Task
from hermes.core.todo import Todo
from hermes.errors import CodecError, InputError, NotFoundError, StoreError
from hermes.store import budgets_postgres as budgets
from hermes.store import postgres_prune as prune
from hermes.store import postgres_quota as quota
from hermes.store import postgres_reads as reads
from hermes.store import postgres_transactions as transactions
from hermes.store import postgres_upkeep as upkeep
from hermes.store import postgres_waits as waits
from hermes.store.budgets import TreeBudget
from hermes.store.deeds import BEGINNING, PAGE, Deed, Place, deed_values
from hermes.store.postgres_connection import Connection, connect, read_address, translating
from hermes.store.postgres_group import GroupCommit
from hermes.store.postgres_hints import Hints
from hermes.store.postgres_migrate import check, migrate
from hermes.store.postgres_pool import Pool
from hermes.store.postgres_quick import LastWrites
from hermes.store.postgres_silent import ending_silent
from hermes.store.postgres_transaction import Quick, Transaction, Transactor
from hermes.store.postgres_writes import Change
from hermes.store.rows import Child, batch, new_task_row, outgoing, prepare, todo_row, worker_row
from hermes.store.rules import new_task
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

R = TypeVar("R")

POOL_SIZE = 8
WAIT_S = 10.0
ANSWER_S = 60.0


class PostgresStore:
    """A `Store` in the database at `url`, opened and closed by `async with`, in one event loop.

    The tables live in a schema `hermes`, or where the URL's `options` set a search path. A
    transaction whose connection broke is done again, for `wait_s` seconds at most, so that a
    restart of the server is not noticed. A caller that is cancelled while it waits for a write is
    held until the write is settled.

    Args:
        url: `postgresql://user:password@host:port/name`, with libpq's options.
        clock: Decides when a delayed message is due. Signs of life are noted by the database's
            clock, unless this one is not the machine's own.
        migrate: Bring an older schema up to date; else that is a `StoreError`.
        pool_size: At most so many connections; two more carry hints of new work.
        wait_s: How long to wait for a free connection, for a lock, or for a server that is away.
        answer_s: How long one transaction may take before the server counts as dead.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        migrate: bool = True,
        pool_size: int = POOL_SIZE,
        wait_s: float = WAIT_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._address, self._migrate = read_address(url), migrate
        self._clock, self._wait_s, self._pid = clock, wait_s, os.getpid()
        self._has_machine_clock = isinstance(clock, SystemClock)
        self._pool_size, self._answer_s = pool_size, answer_s
        self._open: _Open | None = None

    @property
    def run_dir(self) -> str:
        return self._address.run_dir

    async def __aenter__(self) -> PostgresStore:
        with translating(self._address):
            async with await connect(self._address, wait_s=self._wait_s) as connection:
                await (migrate if self._migrate else check)(connection, self._address)
        pool = Pool(self._address, size=self._pool_size, wait_s=self._wait_s)
        transactor = Transactor(pool, self._address, wait_s=self._wait_s, answer_s=self._answer_s)
        hints = Hints(self._address, wait_s=self._wait_s)
        group = GroupCommit(pool, answer_s=self._answer_s)
        self._open = _Open(pool, transactor, group, hints)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._open is None:
            return
        opened = self._opened()
        self._open = None
        try:
            await opened.hints.close()
        finally:
            await opened.pool.close()

    async def submit(
        self, records: Sequence[Recorded], message: Message, *, claim_for: str | None = None
    ) -> Submitted:
        task = new_task(records, message)
        new = Child(task=new_task_row(task), batch=batch(records), outgoing=outgoing(message))
        submitted = await self._write(
            partial(transactions.submit, new=new, now=self._now(), claim_for=claim_for)
        )
        self._tell(submitted.is_new and submitted.lease is None)
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
        self._opened().hints.look()
        claim = transactions.Claim(
            worker_id,
            receivers=list(receivers) or None,
            task_id=task_id,
            root_id=root_id,
            limit=limit,
            now=self._now(),
        )
        return await self._write(claim)

    async def append(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        messages: Sequence[Message] = (),
        blobs: Mapping[str, bytes] = NO_BLOBS,
        also: Also = NOTHING,
    ) -> None:
        change = self._change(lease, records, messages=messages, blobs=blobs, also=also)
        opened = self._opened()
        last, group = opened.last, opened.group
        following = last.next(lease, change)
        written = await self._write(
            partial(transactions.append, lease=lease, change=change, now=self._now()),
            quick=None if following is None else partial(group.write, following),
        )
        last.note(lease, written)
        self._tell(bool(messages) or bool(also))

    async def finish(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        messages: Sequence[Message] = (),
        blobs: Mapping[str, bytes] = NO_BLOBS,
        also: Also = NOTHING,
    ) -> None:
        change = self._change(lease, records, messages=messages, blobs=blobs, also=also)
        await self._write(partial(transactions.finish, lease=lease, change=change, now=self._now()))
        self._tell()

    async def fail(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        retry_at: datetime | None,
        reason: str,
        also: Also = NOTHING,
    ) -> None:
        await self._write(
            partial(
                transactions.fail,
                lease=lease,
                change=self._change(lease, records, also=also),
                retry_at=None if retry_at is None else to_micros(retry_at),
                # An exception's text may hold bytes of a file name as lone surrogates.
                reason=reason.encode("utf-8", "replace").decode(),
                now=self._now(),
            )
        )
        self._tell()

    async def release(self, lease: Lease) -> None:
        await self._write(partial(transactions.release, lease=lease))
        self._tell()

    async def send(self, message: Message) -> bool:
        is_new = await self._write(
            partial(transactions.send, outgoing=outgoing(message), now=self._now())
        )
        self._tell(is_new)
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
        self._tell()
        return review

    async def signal(self, name: str, payload: object = None) -> bool:
        json.encode(name)
        is_first = await self._write(
            partial(waits.signal, name=name, payload=json.encode(payload), now=self._now())
        )
        self._tell(is_first)
        return is_first

    async def draw(self, lease: Lease, wanted: Draw) -> Drawn:
        return await self._write(partial(budgets.draw, lease=lease, wanted=wanted))

    async def put_budget(self, root_id: str, bounds: Bounds) -> None:
        await self._write(partial(budgets.put, root_id=root_id, bounds=bounds))

    async def meter(self, key: str, turn: Callable[[Meter, int], tuple[Meter, R]]) -> R:
        now = None if self._has_machine_clock else self._now()
        return await self._write(partial(quota.meter, key=key, now=now, turn=turn))

    async def put_todo(self, todo: Todo) -> Todo:
        return await self._write(partial(transactions.put_todo, row=todo_row(todo)))

    async def request_cancel(self, task_id: str) -> list[str]:
        marked = await self._write(
            partial(waits.request_cancel, task_id=task_id, now=self._now()),
            surrogate=NotFoundError,
        )
        self._tell()
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
        due = await self._read(reads.next_due)
        if due is not None:
            timeout_s = min(timeout_s, max(0.0, (due - self._clock.now()).total_seconds()))
        await self._opened().hints.wait(timeout_s)

    async def register(self, worker: Worker) -> None:
        row = dict(worker_row(worker))
        if self._has_machine_clock:
            row["renewed_at"] = None
        await self._write(lambda tx: tx.send("register_worker", row))

    async def renew(self, worker_id: str) -> bool:
        now = None if self._has_machine_clock else self._now()
        row = await self._write(lambda tx: tx.row("renew_worker", (now, worker_id)))
        return row is not None

    async def retire(self, worker_id: str, *, crashed: bool) -> int:
        async def retire(tx: Transaction) -> int:
            async with ending_silent(self._address, tx.backend_pid):
                return await transactions.retire(tx, worker_id, crashed=crashed)

        freed = await self._write(retire)
        self._tell(freed > 0)
        return freed

    async def workers(self) -> list[Worker]:
        now = self._clock.now() if self._has_machine_clock else None
        return await self._read(partial(reads.workers, now=now))

    async def status(self) -> StoreStatus:
        return await self._read(upkeep.status)

    async def backup(self, target: Path) -> None:
        self._opened()
        await upkeep.backup(self._address, target)

    async def prune(self, before: datetime, *, dry_run: bool = False) -> Pruned:
        return await prune.prune(
            self._opened().transactor,
            self._address,
            to_micros(before),
            dry_run=dry_run,
            wait_s=self._wait_s,
        )

    def _change(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        messages: Sequence[Message] = (),
        blobs: Mapping[str, bytes] = NO_BLOBS,
        also: Also = NOTHING,
    ) -> Change:
        return Change(
            batch=batch(records, blobs),
            outgoing=[outgoing(message) for message in messages],
            also=prepare(also, lease.message.task_id),
        )

    async def _write(
        self,
        work: Callable[[Transaction], Awaitable[R]],
        *,
        quick: Quick[R] | None = None,
        surrogate: type[InputError] = CodecError,
    ) -> R:
        try:
            return await self._opened().transactor.write(work, quick=quick)
        except UnicodeEncodeError as exc:
            raise surrogate(f"text holds a lone surrogate: {exc.object!r:.80}") from exc

    async def _read(self, work: Callable[[Connection], Awaitable[R]]) -> R:
        try:
            return await self._opened().transactor.read(work)
        except UnicodeEncodeError as exc:
            raise NotFoundError(f"no stored id holds a lone surrogate: {exc.object!r:.80}") from exc

    def _tell(self, is_news: bool = True) -> None:
        if is_news and self._open is not None:
            self._open.hints.tell()

    def _now(self) -> int:
        return to_micros(self._clock.now())

    def _opened(self) -> _Open:
        if os.getpid() != self._pid:
            raise StoreError(
                f"PostgreSQL at {self._address.label} was opened by process {self._pid} and cannot "
                f"be used in its fork {os.getpid()}",
                hint="open a store of its own in the child process",
            )
        if self._open is None or asyncio.get_running_loop() is not self._open.loop:
            raise StoreError(
                "the store is not open in this event loop", hint="use it inside its `async with`"
            )
        return self._open


class _Open:
    """What an open store has, and the loop that it works in."""

    def __init__(
        self, pool: Pool, transactor: Transactor, group: GroupCommit, hints: Hints
    ) -> None:
        self.pool, self.transactor, self.group, self.hints = pool, transactor, group, hints
        self.last = LastWrites()
        self.loop = asyncio.get_running_loop()
