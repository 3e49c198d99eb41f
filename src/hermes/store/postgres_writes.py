"""What the holder of a lease writes to a PostgreSQL journal, and the fence around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from hermes.core.clock import to_micros
from hermes.core.events import TaskSettled
from hermes.core.task import TaskStatus
from hermes.errors import NotFoundError
from hermes.store import postgres_lanes as lanes
from hermes.store import postgres_waits as waits
from hermes.store.driver import Row
from hermes.store.postgres_transaction import Transaction
from hermes.store.rows import (
    Batch,
    Child,
    Outgoing,
    Prepared,
    StoredEvent,
    decode_status,
    effect_row,
    encode_status,
    read_effect,
)
from hermes.store.rules import advance, check_stream, claim_effect
from hermes.store.values import EffectRow, Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A task as it stands."""

    key: int
    trace_id: str
    status: TaskStatus
    agent: str
    parent_id: str | None
    parent_path: str | None
    cancel_requested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A leased message, and the task it is about unless that is not stored here."""

    place: int
    stream: Stream | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a lease's holder brings."""

    batch: Batch
    outgoing: Sequence[Outgoing] = ()
    also: Prepared | None = None

    @property
    def settles(self) -> bool:
        return any(isinstance(record.event, TaskSettled) for record in self.batch.records)

    @property
    def is_plain(self) -> bool:
        """Whether it touches no message and no task but the lease's own."""
        return not self.outgoing and self.also is None and not self.settles

    def lanes(self, lease: Lease) -> set[str]:
        """Keys of the lanes whose messages this may touch, but for the parent's."""
        keys = {lease.message.lane, *(each.message.lane for each in self.outgoing)}
        if self.also is not None:
            keys |= {child.outgoing.message.lane for child in self.also.children}
        if self.also is not None or self.settles:
            keys.add(lease.message.task_id)
        return keys


async def hold(tx: Transaction, lease: Lease) -> Held | None:
    """The fence in one statement; None also for a task that is not stored here."""
    row = await tx.row("hold", (lease.message.message_id, lease.worker_id, lease.token))
    if row is None:
        return None
    stream = _read_stream(lease.message.task_id, [row[1:]])
    return Held(place=cast("int", row[0]), stream=stream)


async def find_held(tx: Transaction, lease: Lease, change: Change) -> Held | None:
    """The fence: what a lease gives its holder, as long as the lease stands; locked."""
    message, keys = lease.message, list(change.lanes(lease))
    fence = (message.message_id, lease.worker_id, lease.token)
    if change.also is not None:
        names = [wait.key for wait in change.also.waits if wait.kind == "event"]
        if names:
            await tx.send("lock_event_names", (names,))
    if change.settles:
        await tx.send("ensure_lanes", (keys,))
        await tx.send("ensure_parent_lane", (message.task_id,))
        await tx.send("lock_lanes_and_parents", (keys, message.task_id))
        tasks = await tx.send("lock_task_and_parent", {"task_id": message.task_id})
    else:
        await lanes.lock(tx, keys, are_known=keys == [message.lane])
        tasks = await tx.send("lock_task", (message.task_id,))
    row = await tx.row("leased_message", fence)
    if row is None:
        return None
    stream = _read_stream(message.task_id, await tasks.fetchall())
    return Held(place=cast("int", row[0]), stream=stream)


def _read_stream(task_id: str, rows: Iterable[Row]) -> Stream | None:
    for found, *row in rows:
        if found == task_id:
            key, trace_id, status, agent, parent_id, parent_path, cancel_requested = cast(
                "tuple[int, str, bytes, str, str | None, str | None, int]", tuple(row)
            )
            return Stream(
                key=key,
                trace_id=trace_id,
                status=decode_status(status),
                agent=agent,
                parent_id=parent_id,
                parent_path=parent_path,
                cancel_requested=bool(cancel_requested),
            )
    return None


async def write(
    tx: Transaction, held: Held, lease: Lease, change: Change, *, now: int
) -> TaskStatus | None:
    """Write what a lease brings; returns how the task stands then, if it is stored here."""
    task_id, stream, batch = lease.message.task_id, held.stream, change.batch
    if not batch.records:
        await _keep_blobs(tx, None if stream is None else task_id, batch)
        status = None if stream is None else stream.status
    else:
        if stream is None:
            raise NotFoundError(f"there is no task {task_id!r} to append to")
        check_stream(batch.records, task_id=task_id, trace_id=stream.trace_id)
        if await _is_written(tx, stream, batch):
            return stream.status
        status = advance(stream.status, batch.records)
        await _keep_blobs(tx, task_id, batch)
        await tx.send(
            "append_event" if len(batch.rows) == 1 else "append_events",
            {
                "key": stream.key,
                "token": lease.token,
                "updated_at": to_micros(status.updated_at),
                "status": encode_status(status),
                "state": status.state.value,
                **event_values(batch.rows),
            },
        )
    if change.also is not None:
        await _write_also(tx, held, lease, change.also, now=now)
    if stream is not None and status is not None and _has_just_settled(stream, status):
        await waits.settled(
            tx,
            task_id,
            parent_id=stream.parent_id,
            parent_path=stream.parent_path,
            now=now,
        )
    return status


def _has_just_settled(stream: Stream, status: TaskStatus) -> bool:
    return status.state.is_terminal and not stream.status.state.is_terminal


async def _write_also(
    tx: Transaction, held: Held, lease: Lease, also: Prepared, *, now: int
) -> None:
    task_id, stream = lease.message.task_id, held.stream
    if stream is None:
        raise NotFoundError(f"there is no task {task_id!r} that could wait or have children")
    for child in also.children:
        if await lanes.accept(tx, child.outgoing) is None:
            await create(tx, child, now=now)
    await waits.take_in(tx, also.ended_waits, now=now)
    for review in also.reviews:
        await tx.send("insert_review", review)
    address = waits.Address(task_id=task_id, agent=stream.agent, trace_id=stream.trace_id)
    await waits.begin(tx, address, also.waits, now=now)
    for effect in sorted(also.effects, key=lambda each: (each.scope, each.tool, each.key)):
        await _write_effect(tx, effect)


async def _write_effect(tx: Transaction, effect: EffectRow) -> None:
    row = effect_row(effect)
    if effect.state == "started" and await tx.row("lock_effect", row) is not None:
        return
    known = await tx.row("locked_effect", (effect.scope, effect.tool, effect.key))
    if claim_effect(None if known is None else read_effect(known), effect):
        await tx.send("update_effect", row)


async def create(tx: Transaction, new: Child, *, now: int) -> None:
    """Add a task whose message was accepted in this transaction; its lane is locked."""
    await tx.send("insert_task", new.task)
    task_id = new.outgoing.message.task_id
    await _keep_blobs(tx, task_id, new.batch)
    await tx.send("insert_events", {"task_id": task_id, **columns(new.batch.rows)})
    await lanes.put(tx, new.outgoing, now=now)


async def _keep_blobs(tx: Transaction, task_id: str | None, batch: Batch) -> None:
    """Store blobs, and that the task, if it is stored here, needs them."""
    if batch.blobs or batch.uses:
        await tx.send("keep_blobs")
    if batch.blobs:
        names = list(batch.blobs)
        await tx.send("insert_blobs", (names, [batch.blobs[name] for name in names]))
    if batch.uses and task_id is not None:
        await tx.send("insert_blob_uses", (task_id, list(batch.uses)))


def event_values(rows: Sequence[StoredEvent]) -> dict[str, object]:
    """The columns of one event, or those of several as lists."""
    if len(rows) == 1:
        return dict(zip(_COLUMNS, rows[0], strict=True))
    return columns(rows)


def columns(rows: Sequence[StoredEvent]) -> dict[str, object]:
    """Events by columns: each statement takes all of its events at once."""
    return dict(zip(_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))


async def _is_written(tx: Transaction, stream: Stream, batch: Batch) -> bool:
    """Whether an earlier commit, whose outcome the caller never learned, wrote these events."""
    first = batch.records[0]
    if first.seq > stream.status.seq:
        return False
    stored = await tx.rows("event_ids_from", (first.task_id, first.seq, len(batch.rows)))
    return stored == [(row[1],) for row in batch.rows]


_COLUMNS = ("seqs", "event_ids", "types", "versions", "ats", "datas", "refs")
NOTHING = Change(batch=Batch(records=(), rows=(), blobs={}, uses=frozenset()))
