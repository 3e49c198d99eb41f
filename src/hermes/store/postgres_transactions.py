"""The writes of `PostgresStore`, as functions over an open transaction.

Each reads what it decides on inside the transaction, under its locks, so it may be done again from
the start. What each promises stands with its namesake in `base`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from hermes.core.clock import to_micros
from hermes.core.events import TaskSettled
from hermes.core.task import TaskStatus
from hermes.errors import ConflictError, NotFoundError, StaleLeaseError
from hermes.store import postgres_lanes as lanes
from hermes.store import postgres_waits as waits
from hermes.store.base import EffectRow, Lease, Submitted
from hermes.store.driver import Row
from hermes.store.postgres_transaction import Transaction
from hermes.store.rows import (
    Batch,
    Child,
    Outgoing,
    Prepared,
    decode_status,
    effect_row,
    encode_status,
    read_effect,
    read_lease,
)
from hermes.store.rules import advance, check_stream, claim_effect, settles_again


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


async def submit(
    tx: Transaction, new: Child, *, now: int, claim_for: str | None = None
) -> Submitted:
    """Create a task, unless its message is a repeat."""
    message = new.outgoing.message
    if claim_for is not None:
        await tx.send("keep_worker", (claim_for,))
    await lanes.lock(tx, [message.lane])
    earlier = await lanes.accept(tx, new.outgoing)
    if earlier is not None:
        return await _find_submitted(tx, earlier, new, claim_for=claim_for)
    await _create(tx, new, now=now)
    if claim_for is None:
        return Submitted(task_id=message.task_id, is_new=True)
    wanted = {"lane": message.lane, "message_id": message.message_id, "worker_id": claim_for}
    taking = await tx.send("claim_new", wanted)
    await tx.commit()
    row = await taking.fetchone()
    lease = None
    if row is not None:
        lease = Lease(message=message, token=cast("int", row[0]), worker_id=claim_for)
    return Submitted(task_id=message.task_id, is_new=True, lease=lease)


async def _find_submitted(
    tx: Transaction, task_id: str, new: Child, *, claim_for: str | None
) -> Submitted:
    """The task of an earlier submit; of this very one, if its commit was in doubt."""
    row = await tx.row("first_event_id", (task_id,))
    if row is None:
        raise ConflictError(
            f"message {new.outgoing.message.message_id} or its dedupe key was sent before, "
            "without creating a task"
        )
    if not tx.is_again or row[0] != new.batch.rows[0][1]:
        return Submitted(task_id=task_id, is_new=False)
    message, lease = new.outgoing.message, None
    held = await tx.row("lease_of", (message.message_id, claim_for))
    if claim_for is not None and held is not None:
        token, attempts, crashes = cast("tuple[int, int, int]", held)
        lease = Lease(
            message=message,
            token=token,
            worker_id=claim_for,
            attempts=attempts,
            crashes=crashes,
        )
    return Submitted(task_id=task_id, is_new=True, lease=lease)


class Claim:
    """Leases ready messages to a worker; one object for all tries, so that none is lost.

    Args:
        worker_id: Who takes them.
        receivers: Only messages to these; None for any.
        task_id: Only messages about this task.
        root_id: Only messages about this task and those below it.
        limit: At most so many.
        now: Microseconds.
    """

    def __init__(
        self,
        worker_id: str,
        *,
        receivers: list[str] | None,
        task_id: str | None,
        root_id: str | None,
        limit: int,
        now: int,
    ) -> None:
        self._worker_id, self._now = worker_id, now
        self._wanted = {
            "worker_id": worker_id,
            "receivers": receivers,
            "task_id": task_id,
            "root_id": root_id,
            "limit": limit,
        }
        self._rows: list[Row] = []

    async def __call__(self, tx: Transaction) -> list[Lease]:
        worker = await tx.send("keep_worker", (self._worker_id,))
        if tx.is_again and await self._is_granted(tx):
            return self._leases()
        await tx.send("promote_due", (self._now,))
        claiming = await tx.send("claim", self._wanted)
        self._rows = await claiming.fetchall()
        if await worker.fetchone() is None:
            raise NotFoundError(
                f"worker {self._worker_id!r} is not registered", hint="register it again"
            )
        return self._leases()

    async def _is_granted(self, tx: Transaction) -> bool:
        """Whether the commit of the earlier try has taken place after all."""
        places = [row[0] for row in self._rows]
        found = await tx.rows("still_leased", (places, self._worker_id))
        return {(row[0], row[5]) for row in self._rows} <= set(found) and bool(found)

    def _leases(self) -> list[Lease]:
        return [
            read_lease(self._worker_id, cast("int", token), tuple(row))
            for *row, token in self._rows
        ]


async def append(tx: Transaction, lease: Lease, change: Change, *, now: int) -> None:
    """Append events to the lease's task, and send."""
    held = await _hold(tx, lease) if change.is_plain else None
    held = held or await _find_held(tx, lease, change)
    if held is None:
        raise StaleLeaseError(lease.message.message_id, token=lease.token)
    await _write(tx, held, lease, change, now=now)
    for each in change.outgoing:
        await lanes.send(tx, each, now=now)


async def finish(tx: Transaction, lease: Lease, change: Change, *, now: int) -> None:
    """Append, send, and take the message out of its lane."""
    held = await _find_held(tx, lease, change)
    if held is None:
        await _check_repeat(tx, lease, change.batch, left=None)
        return
    await tx.send("delete_message", (held.place,))
    status = None
    if not _is_settled_again(held, change.batch):
        status = await _write(tx, held, lease, change, now=now)
        for each in change.outgoing:
            await lanes.send(tx, each, now=now)
    await _leave(tx, held, lease, status, now=now)


async def fail(
    tx: Transaction,
    lease: Lease,
    change: Change,
    *,
    retry_at: int | None,
    reason: str,
    now: int,
) -> None:
    """Append, and put the message at the end of its lane or aside for good."""
    held = await _find_held(tx, lease, change)
    if held is None:
        left = "dead" if retry_at is None else "queued"
        await _check_repeat(tx, lease, change.batch, left=left)
        return
    if retry_at is None:
        await tx.send("bury_message", (reason, held.place))
    else:
        again = {"place": held.place, "retry_at": retry_at, "reason": reason}
        await tx.send("requeue_message", again)
    status = None
    if not _is_settled_again(held, change.batch):
        status = await _write(tx, held, lease, change, now=now)
    # A dead message is looked at by a person, who may ask again for the task to be cancelled.
    await _leave(tx, held, lease, None if retry_at is None else status, now=now)


async def release(tx: Transaction, lease: Lease) -> None:
    """Give a message back in its place."""
    held = await _find_held(tx, lease, _NOTHING)
    if held is not None:
        await tx.send("release_message", (held.place,))
    elif not (tx.is_again and await _is_left(tx, lease, "queued")):
        raise StaleLeaseError(lease.message.message_id, token=lease.token)


async def assign(tx: Transaction, lease: Lease, worker_id: str) -> int:
    """Give a leased message to another worker; returns the lane's new token."""
    worker = await tx.send("keep_worker", (worker_id,))
    held = await _find_held(tx, lease, _NOTHING)
    if held is None:
        row = await tx.row("lease_of", (lease.message.message_id, worker_id))
        if tx.is_again and row is not None and row[0] == lease.token + 1:
            return lease.token + 1
        raise StaleLeaseError(lease.message.message_id, token=lease.token)
    if await worker.fetchone() is None:
        raise NotFoundError(f"worker {worker_id!r} is not registered", hint="register it first")
    row = await tx.row("next_token", (lease.message.lane,))
    token = cast("tuple[int]", row)[0]
    await tx.send("assign_message", (worker_id, token, held.place))
    return token


async def send(tx: Transaction, outgoing: Outgoing, *, now: int) -> bool:
    """Put a message into its lane, unless it is a repeat."""
    await lanes.lock(tx, [outgoing.message.lane])
    if await lanes.send(tx, outgoing, now=now):
        return True
    # What an earlier try, whose commit was in doubt, has taken in was new.
    message_id = outgoing.message.message_id
    return tx.is_again and await tx.row("accepted_message", (message_id,)) is not None


async def retire(tx: Transaction, worker_id: str, *, crashed: bool) -> int:
    """Remove a worker and free what it held; returns how many messages."""
    await tx.send("delete_worker", (worker_id,))
    held = await tx.rows("lanes_of_worker", (worker_id,))
    await lanes.lock(tx, [cast("str", lane) for (lane,) in held], are_known=True)
    return len(await tx.rows("release_all_of_worker", (int(crashed), worker_id)))


async def _hold(tx: Transaction, lease: Lease) -> Held | None:
    """The fence in one statement; None also for a task that is not stored here."""
    row = await tx.row("hold", (lease.message.message_id, lease.worker_id, lease.token))
    if row is None:
        return None
    stream = _read_stream(lease.message.task_id, [row[1:]])
    return Held(place=cast("int", row[0]), stream=stream)


async def _find_held(tx: Transaction, lease: Lease, change: Change) -> Held | None:
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


def _is_settled_again(held: Held, batch: Batch) -> bool:
    return held.stream is not None and settles_again(held.stream.status, batch.records)


async def _write(
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
        is_one = len(batch.rows) == 1
        await tx.send(
            "append_event" if is_one else "append_events",
            {
                "key": stream.key,
                "token": lease.token,
                "updated_at": to_micros(status.updated_at),
                "status": encode_status(status),
                "state": status.state.value,
                **(dict(zip(_COLUMNS, batch.rows[0], strict=True)) if is_one else _columns(batch)),
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
            await _create(tx, child, now=now)
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


async def _create(tx: Transaction, new: Child, *, now: int) -> None:
    """Add a task whose message was accepted in this transaction; its lane is locked."""
    await tx.send("insert_task", new.task)
    task_id = new.outgoing.message.task_id
    await _keep_blobs(tx, task_id, new.batch)
    await tx.send("insert_events", {"task_id": task_id, **_columns(new.batch)})
    await lanes.put(tx, new.outgoing, now=now)


async def _leave(
    tx: Transaction, held: Held, lease: Lease, status: TaskStatus | None, *, now: int
) -> None:
    """A lease ends: its lane moves on, and a task that is to be cancelled is not left alone."""
    await lanes.advance(tx, lease.message.lane, now=now)
    stream = held.stream
    if stream is None or status is None or not stream.cancel_requested:
        return
    if not status.state.is_terminal:
        task_id = lease.message.task_id
        await lanes.lock(tx, [task_id])
        address = waits.Address(task_id=task_id, agent=stream.agent, trace_id=stream.trace_id)
        await waits.nudge(tx, address, now=now)


async def _keep_blobs(tx: Transaction, task_id: str | None, batch: Batch) -> None:
    """Store blobs, and that the task, if it is stored here, needs them."""
    if batch.blobs or batch.uses:
        await tx.send("keep_blobs")
    if batch.blobs:
        names = list(batch.blobs)
        await tx.send("insert_blobs", (names, [batch.blobs[name] for name in names]))
    if batch.uses and task_id is not None:
        await tx.send("insert_blob_uses", (task_id, list(batch.uses)))


def _columns(batch: Batch) -> dict[str, object]:
    """The batch by columns: each statement takes all of its events at once."""
    return dict(zip(_COLUMNS, map(list, zip(*batch.rows, strict=True)), strict=True))


async def _is_written(tx: Transaction, stream: Stream, batch: Batch) -> bool:
    """Whether an earlier commit, whose outcome the caller never learned, wrote these events."""
    first = batch.records[0]
    if first.seq > stream.status.seq:
        return False
    stored = await tx.rows("event_ids_from", (first.task_id, first.seq, len(batch.rows)))
    return stored == [(row[1],) for row in batch.rows]


async def _check_repeat(
    tx: Transaction, lease: Lease, batch: Batch, *, left: Literal["queued", "dead"] | None
) -> None:
    """Let a repeated end of a message pass, whose first commit the caller never learned of.

    Args:
        tx: The transaction.
        lease: No longer held.
        batch: What this very lease must have written before.
        left: What the end left of the message: nothing, one in its lane, or a dead one.

    Raises:
        StaleLeaseError: It is no repeat.
    """
    if await _is_left(tx, lease, left):
        written = [row[1] for row in batch.rows]
        if not written and tx.is_again:
            return
        count = await tx.row("events_with_token", (written, lease.token))
        if written and count == (len(written),):
            return
    raise StaleLeaseError(lease.message.message_id, token=lease.token)


async def _is_left(tx: Transaction, lease: Lease, left: Literal["queued", "dead"] | None) -> bool:
    """Whether a message stands as an end of its lease has left it."""
    row = await tx.row("message_state", (lease.message.message_id,))
    state = None if row is None else row[0]
    if left == "queued":
        return state in ("delayed", "held", "ready")
    return state is None or state == left  # a dead one goes when its task is woken


_COLUMNS = ("seqs", "event_ids", "types", "versions", "ats", "datas", "refs")
_NOTHING = Change(batch=Batch(records=(), rows=(), blobs={}, uses=frozenset()))
