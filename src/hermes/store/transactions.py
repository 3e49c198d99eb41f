"""The writes of `SQLiteStore`, as functions over the cursor of an open transaction.

Each reads what it decides on inside the transaction, so it may be done again from the start. What
each promises stands with its namesake in `base`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

from hermes.core import json
from hermes.core.clock import to_micros
from hermes.core.task import TaskStatus
from hermes.core.todo import Todo
from hermes.errors import ConflictError, HermesError, NotFoundError, StaleLeaseError
from hermes.store import waits
from hermes.store.driver import Cursor, Value
from hermes.store.lanes import accepted, advance_lane, put, send
from hermes.store.queries import sql
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
    read_todo,
)
from hermes.store.rules import PLACE_LAG_US, advance, check_stream, claim_effect, settles_again
from hermes.store.values import EffectRow, Lease, Submitted


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


class Left(NamedTuple):
    """A leased message and its task, as an append of the lease's holder left them.

    Attributes:
        encoded: The status as it is stored.
        placed_at: Its place in the list of the last changed, which may lag by `PLACE_LAG_US`.
    """

    place: int
    key: int
    trace_id: str
    status: TaskStatus
    encoded: bytes
    placed_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A leased message, and the task it is about unless that is not stored here."""

    place: int
    stream: Stream | None


def submit(
    cursor: Cursor,
    task: Mapping[str, Value],
    batch: Batch,
    outgoing: Outgoing,
    *,
    now: int,
    claim_for: str | None = None,
) -> Submitted:
    """Create a task, unless its message is a repeat."""
    earlier = accepted(cursor, outgoing)
    if earlier is not None:
        if cursor.execute(sql("task_key"), (earlier,)).fetchone() is None:
            raise ConflictError(
                f"message {outgoing.message.message_id} or its dedupe key was sent before, "
                "without creating a task"
            )
        return Submitted(task_id=earlier, is_new=False)
    _create(cursor, Child(task=task, batch=batch, outgoing=outgoing), now=now)
    lease = None if claim_for is None else _claim_new(cursor, claim_for, outgoing)
    return Submitted(task_id=outgoing.message.task_id, is_new=True, lease=lease)


def claim(
    cursor: Cursor,
    worker_id: str,
    *,
    receivers: Sequence[str],
    task_id: str | None,
    root_id: str | None,
    limit: int,
    now: int,
) -> list[Lease]:
    """Lease ready messages to a worker."""
    if cursor.execute(sql("find_worker"), (worker_id,)).fetchone() is None:
        raise NotFoundError(f"worker {worker_id!r} is not registered", hint="register it again")
    cursor.execute(sql("promote_due"), (now,))
    wanted = {
        "receivers": json.dumps(list(receivers)) if receivers else None,
        "task_id": task_id,
        "root_id": root_id,
        "limit": limit,
    }
    leases: list[Lease] = []
    name = "ready_messages" if task_id is None and root_id is None else "ready_messages_of"
    for row in cursor.execute(sql(name), wanted).fetchall():
        place, lane = cast("tuple[int, str]", row[:2])
        token = _take(cursor, worker_id, place, lane)
        leases.append(read_lease(worker_id, token, row))
    return leases


def _claim_new(cursor: Cursor, worker_id: str, outgoing: Outgoing) -> Lease | None:
    """Lease a message that was just put, if it is ready and the worker is registered."""
    if cursor.execute(sql("find_worker"), (worker_id,)).fetchone() is None:
        return None
    row = cursor.execute(sql("ready_place"), (outgoing.message.message_id,)).fetchone()
    if row is None:
        return None
    token = _take(cursor, worker_id, cast("int", row[0]), outgoing.message.lane)
    return Lease(message=outgoing.message, token=token, worker_id=worker_id)


def _take(cursor: Cursor, worker_id: str, place: int, lane: str) -> int:
    """Give a ready message to a worker; returns the lane's new token."""
    (token,) = cast("tuple[int]", cursor.execute(sql("next_token"), (lane,)).fetchone())
    cursor.execute(sql("take_message"), (worker_id, token, place))
    return token


def append(
    cursor: Cursor,
    lease: Lease,
    batch: Batch,
    outgoing: Sequence[Outgoing],
    also: Prepared | None = None,
    *,
    now: Callable[[], int],
    left: Left | None = None,
) -> Left | None:
    """Append events to the lease's task, and send.

    Args:
        cursor: In the transaction.
        lease: Of a message about the task.
        batch: The events.
        outgoing: What they send.
        also: What else commits with them.
        now: The present instant; few appends ask for it.
        left: How this lease's last append left the task: then it need not be read.

    Returns:
        How this one leaves it.
    """
    if left is not None and also is None and not (outgoing or batch.blobs or batch.uses):
        further = _append_next(cursor, lease, batch, left)
        if further is not None:
            return further
    held = _hold(cursor, lease)
    instant = now()
    status = _write(cursor, held, lease, batch, also, now=instant)
    for each in outgoing:
        send(cursor, each, now=instant)
    if held.stream is None or status is None:
        return None
    return Left(
        place=held.place,
        key=held.stream.key,
        trace_id=held.stream.trace_id,
        status=status,
        encoded=encode_status(status),
        placed_at=to_micros(status.updated_at),
    )


def _append_next(cursor: Cursor, lease: Lease, batch: Batch, left: Left) -> Left | None:
    """Append if lease and task stand as they were left, in two statements; None says why not."""
    if not batch.records:
        return None
    try:
        check_stream(batch.records, task_id=lease.message.task_id, trace_id=left.trace_id)
        status = advance(left.status, batch.records)
    except HermesError:
        return None  # the whole transaction finds out, and tells
    if status.state != left.status.state:
        return None
    encoded, at = encode_status(status), to_micros(status.updated_at)
    fence = (left.place, lease.message.message_id, lease.worker_id, lease.token)
    if 0 <= at - left.placed_at < PLACE_LAG_US:
        at = left.placed_at
        cursor.execute(sql("update_next_status"), (encoded, left.key, left.encoded, *fence))
    else:
        change = (at, encoded, left.key, left.encoded)
        cursor.execute(sql("update_next_status_and_place"), (*change, *fence))
    if cursor.connection.changes() != 1:
        return None
    _insert(cursor, left.key, lease.token, batch)
    return Left(
        place=left.place,
        key=left.key,
        trace_id=left.trace_id,
        status=status,
        encoded=encoded,
        placed_at=at,
    )


def finish(
    cursor: Cursor,
    lease: Lease,
    batch: Batch,
    outgoing: Sequence[Outgoing],
    also: Prepared | None = None,
    *,
    now: int,
) -> None:
    """Append, send, and take the message out of its lane."""
    held = _find_held(cursor, lease)
    if held is None:
        _check_repeat(cursor, lease, batch, left=None)
        return
    cursor.execute(sql("delete_message"), (held.place,))
    status = None
    if not _is_settled_again(held, batch):
        status = _write(cursor, held, lease, batch, also, now=now)
        for each in outgoing:
            send(cursor, each, now=now)
    _leave(cursor, held, lease, status, now=now)


def fail(
    cursor: Cursor,
    lease: Lease,
    batch: Batch,
    also: Prepared | None = None,
    *,
    retry_at: int | None,
    reason: str,
    now: int,
) -> None:
    """Append, and put the message at the end of its lane or aside for good."""
    held = _find_held(cursor, lease)
    if held is None:
        _check_repeat(cursor, lease, batch, left="dead" if retry_at is None else "queued")
        return
    if retry_at is None:
        cursor.execute(sql("bury_message"), (reason, held.place))
    else:
        again = {"place": held.place, "retry_at": retry_at, "reason": reason}
        cursor.execute(sql("requeue_message"), again)
    status = None
    if not _is_settled_again(held, batch):
        status = _write(cursor, held, lease, batch, also, now=now)
    # A dead message is looked at by a person, who may ask again for the task to be cancelled.
    _leave(cursor, held, lease, None if retry_at is None else status, now=now)


def release(cursor: Cursor, lease: Lease) -> None:
    """Give a message back in its place."""
    cursor.execute(sql("release_message"), (_hold(cursor, lease).place,))


def put_todo(cursor: Cursor, row: Sequence[Value]) -> Todo:
    """Keep a todo, or mark the one of its id as done; gives it as it is now."""
    [kept] = cursor.execute(sql("put_todo"), row).fetchall()
    return read_todo(kept)


def register(cursor: Cursor, worker: Mapping[str, Value]) -> None:
    """Add a worker, or replace its row."""
    cursor.execute(sql("register_worker"), worker)


def renew(cursor: Cursor, worker_id: str, *, now: int) -> bool:
    """Move a worker's last sign of life; False when it is not registered."""
    return cursor.execute(sql("renew_worker"), (now, worker_id)).fetchone() is not None


def retire(cursor: Cursor, worker_id: str, *, crashed: bool) -> int:
    """Remove a worker and free what it held; returns how many messages."""
    cursor.execute(sql("release_all_of_worker"), (int(crashed), worker_id))
    freed = cursor.connection.changes()
    cursor.execute(sql("delete_worker"), (worker_id,))
    return freed


def _hold(cursor: Cursor, lease: Lease) -> Held:
    """The fence: what a lease gives its holder, as long as the lease stands."""
    held = _find_held(cursor, lease)
    if held is None:
        raise StaleLeaseError(lease.message.message_id, token=lease.token)
    return held


def _find_held(cursor: Cursor, lease: Lease) -> Held | None:
    fence = (lease.message.message_id, lease.worker_id, lease.token)
    row = cursor.execute(sql("leased_message"), fence).fetchone()
    if row is None:
        return None
    place, key, trace_id, status, agent, parent_id, parent_path, cancel_requested = cast(
        "tuple[int, int | None, str, bytes, str, str | None, str | None, int]", row
    )
    if key is None:
        return Held(place=place, stream=None)
    stream = Stream(
        key=key,
        trace_id=trace_id,
        status=decode_status(status),
        agent=agent,
        parent_id=parent_id,
        parent_path=parent_path,
        cancel_requested=bool(cancel_requested),
    )
    return Held(place=place, stream=stream)


def _is_settled_again(held: Held, batch: Batch) -> bool:
    return held.stream is not None and settles_again(held.stream.status, batch.records)


def _write(
    cursor: Cursor, held: Held, lease: Lease, batch: Batch, also: Prepared | None, *, now: int
) -> TaskStatus | None:
    """Write what a lease brings; returns how the task stands then, if it is stored here."""
    task_id, stream = lease.message.task_id, held.stream
    if not batch.records:
        _insert(cursor, None if stream is None else stream.key, lease.token, batch)
        status = None if stream is None else stream.status
    else:
        if stream is None:
            raise NotFoundError(f"there is no task {task_id!r} to append to")
        check_stream(batch.records, task_id=task_id, trace_id=stream.trace_id)
        if _is_written(cursor, stream, batch):
            return stream.status
        status = _extend(cursor, stream, lease, batch)
    if also is not None:
        _write_also(cursor, held, lease, also, now=now)
    if stream is not None and status is not None and _has_just_settled(stream, status):
        waits.settled(
            cursor,
            task_id,
            parent_id=stream.parent_id,
            parent_path=stream.parent_path,
            now=now,
        )
    return status


def _extend(cursor: Cursor, stream: Stream, lease: Lease, batch: Batch) -> TaskStatus:
    status = advance(stream.status, batch.records)
    _insert(cursor, stream.key, lease.token, batch)
    changes = (to_micros(status.updated_at), encode_status(status))
    if status.state == stream.status.state:
        cursor.execute(sql("update_status"), (*changes, stream.key))
    else:
        cursor.execute(sql("update_status_and_state"), (*changes, status.state.value, stream.key))
    return status


def _has_just_settled(stream: Stream, status: TaskStatus) -> bool:
    return status.state.is_terminal and not stream.status.state.is_terminal


def _write_also(cursor: Cursor, held: Held, lease: Lease, also: Prepared, *, now: int) -> None:
    task_id, stream = lease.message.task_id, held.stream
    if stream is None:
        raise NotFoundError(f"there is no task {task_id!r} that could wait or have children")
    for child in also.children:
        if accepted(cursor, child.outgoing) is None:
            _create(cursor, child, now=now)
    waits.take_in(cursor, also.ended_waits, now=now)
    for review in also.reviews:
        cursor.execute(sql("insert_review"), review)
    address = waits.Address(task_id=task_id, agent=stream.agent, trace_id=stream.trace_id)
    waits.begin(cursor, address, also.waits, now=now)
    for effect in also.effects:
        _write_effect(cursor, effect)


def _write_effect(cursor: Cursor, effect: EffectRow) -> None:
    row = cursor.execute(sql("effect"), (effect.scope, effect.tool, effect.key)).fetchone()
    if claim_effect(None if row is None else read_effect(row), effect):
        cursor.execute(sql("write_effect"), effect_row(effect))


def _create(cursor: Cursor, new: Child, *, now: int) -> None:
    """Add a task whose message was not taken in before."""
    created = cursor.execute(sql("insert_task"), new.task).fetchone()
    if created is None:
        raise ConflictError(f"task id {new.task['task_id']!r} is in use already")
    _insert(cursor, cast("int", created[0]), 0, new.batch)
    put(cursor, new.outgoing, now=now)


def _leave(
    cursor: Cursor, held: Held, lease: Lease, status: TaskStatus | None, *, now: int
) -> None:
    """A lease ends: its lane moves on, and a task that is to be cancelled is not left alone."""
    advance_lane(cursor, lease.message.lane, now=now)
    stream = held.stream
    if stream is None or status is None or not stream.cancel_requested:
        return
    if not status.state.is_terminal:
        address = waits.Address(
            task_id=lease.message.task_id, agent=stream.agent, trace_id=stream.trace_id
        )
        waits.nudge(cursor, address, now=now)


def _insert(cursor: Cursor, key: int | None, token: int, batch: Batch) -> None:
    if batch.blobs:
        cursor.executemany(sql("insert_blob"), batch.blobs.items())
    if key is None:
        return
    if batch.uses:
        cursor.executemany(sql("insert_blob_use"), [(key, name) for name in batch.uses])
    if batch.rows:
        cursor.executemany(sql("insert_event"), [(key, token, *row) for row in batch.rows])


def _is_written(cursor: Cursor, stream: Stream, batch: Batch) -> bool:
    """Whether an earlier commit, whose outcome the caller never learned, wrote these events."""
    first = batch.records[0].seq
    if first > stream.status.seq:
        return False
    span = (stream.key, first, len(batch.rows))
    stored = cursor.execute(sql("event_ids_from"), span).fetchall()
    return stored == [(row[1],) for row in batch.rows]


def _is_left(state: object, left: Literal["queued", "dead"] | None) -> bool:
    """Whether a message stands as an end of its lease has left it."""
    if left == "queued":
        return state in ("delayed", "held", "ready")
    return state is None or state == left  # a dead one goes when its task is woken


def _check_repeat(
    cursor: Cursor, lease: Lease, batch: Batch, *, left: Literal["queued", "dead"] | None
) -> None:
    """Let a repeated end of a message pass, whose first commit the caller never learned of.

    Args:
        cursor: In the transaction.
        lease: No longer held.
        batch: What this very lease must have written before.
        left: What the end left of the message: nothing, one in its lane, or a dead one.

    Raises:
        StaleLeaseError: It is no repeat.
    """
    row = cursor.execute(sql("message_state"), (lease.message.message_id,)).fetchone()
    state = None if row is None else row[0]
    if _is_left(state, left):
        tokens = [cursor.execute(sql("event_token"), (row[1],)).fetchone() for row in batch.rows]
        if tokens and all(token == (lease.token,) for token in tokens):
            return
    raise StaleLeaseError(lease.message.message_id, token=lease.token)
