"""The writes of `SQLiteStore`, as functions over the cursor of an open transaction.

Each reads what it decides on inside the transaction, so it may be done again from the start. What
each promises stands with its namesake in `base`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from hermes.core import json
from hermes.core.clock import to_micros
from hermes.core.task import TaskStatus
from hermes.errors import ConflictError, NotFoundError, StaleLeaseError
from hermes.store.base import Lease, Submitted
from hermes.store.driver import Cursor, Value
from hermes.store.queries import sql
from hermes.store.rows import Batch, Outgoing, decode_status, encode_status, read_lease
from hermes.store.rules import advance, check_stream, settles_again


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A task as it stands."""

    key: int
    trace_id: str
    status: TaskStatus


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
    earlier = _accepted(cursor, outgoing)
    if earlier is not None:
        if cursor.execute(sql("task_key"), (earlier,)).fetchone() is None:
            raise ConflictError(
                f"message {outgoing.message.message_id} or its dedupe key was sent before, "
                "without creating a task"
            )
        return Submitted(task_id=earlier, is_new=False)
    created = cursor.execute(sql("insert_task"), task).fetchone()
    if created is None:
        raise ConflictError(f"task id {task['task_id']!r} is in use already")
    _insert(cursor, cast("int", created[0]), 0, batch)
    _put(cursor, outgoing, now=now)
    lease = None if claim_for is None else _claim_new(cursor, claim_for, outgoing)
    return Submitted(task_id=outgoing.message.task_id, is_new=True, lease=lease)


def claim(
    cursor: Cursor,
    worker_id: str,
    *,
    receivers: Sequence[str],
    task_id: str | None,
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
        "limit": limit,
    }
    leases: list[Lease] = []
    for row in cursor.execute(sql("ready_messages"), wanted).fetchall():
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
    cursor: Cursor, lease: Lease, batch: Batch, outgoing: Sequence[Outgoing], *, now: int
) -> None:
    """Append events to the lease's task, and send."""
    _write(cursor, _hold(cursor, lease), lease, batch)
    for each in outgoing:
        send(cursor, each, now=now)


def finish(
    cursor: Cursor, lease: Lease, batch: Batch, outgoing: Sequence[Outgoing], *, now: int
) -> None:
    """Append, send, and take the message out of its lane."""
    held = _find_held(cursor, lease)
    if held is None:
        _check_repeat(cursor, lease, batch, left=None)
        return
    cursor.execute(sql("delete_message"), (held.place,))
    if not _is_settled_again(held, batch):
        _write(cursor, held, lease, batch)
        for each in outgoing:
            send(cursor, each, now=now)
    _advance_lane(cursor, lease, now)


def fail(
    cursor: Cursor,
    lease: Lease,
    batch: Batch,
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
    if not _is_settled_again(held, batch):
        _write(cursor, held, lease, batch)
    if retry_at is None:
        cursor.execute(sql("bury_message"), (reason, held.place))
    else:
        again = {"place": held.place, "retry_at": retry_at, "reason": reason}
        cursor.execute(sql("requeue_message"), again)
    _advance_lane(cursor, lease, now)


def release(cursor: Cursor, lease: Lease) -> None:
    """Give a message back in its place."""
    cursor.execute(sql("release_message"), (_hold(cursor, lease).place,))


def send(cursor: Cursor, outgoing: Outgoing, *, now: int) -> bool:
    """Put a message into its lane, unless it is a repeat."""
    if _accepted(cursor, outgoing) is not None:
        return False
    _put(cursor, outgoing, now=now)
    return True


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
    place, key, trace_id, status = cast("tuple[int, int | None, str, bytes]", row)
    if key is None:
        return Held(place=place, stream=None)
    stream = Stream(key=key, trace_id=trace_id, status=decode_status(status))
    return Held(place=place, stream=stream)


def _is_settled_again(held: Held, batch: Batch) -> bool:
    return held.stream is not None and settles_again(held.stream.status, batch.records)


def _write(cursor: Cursor, held: Held, lease: Lease, batch: Batch) -> None:
    if not batch.records:
        cursor.executemany(sql("insert_blob"), batch.blobs.items())
        return
    task_id, stream = lease.message.task_id, held.stream
    if stream is None:
        raise NotFoundError(f"there is no task {task_id!r} to append to")
    check_stream(batch.records, task_id=task_id, trace_id=stream.trace_id)
    if _is_written(cursor, stream, batch):
        return
    status = advance(stream.status, batch.records)
    _insert(cursor, stream.key, lease.token, batch)
    changes = (to_micros(status.updated_at), encode_status(status), stream.key)
    cursor.execute(sql("update_status"), changes)
    if status.state != stream.status.state:
        cursor.execute(sql("update_state"), (status.state.value, stream.key))


def _insert(cursor: Cursor, key: int, token: int, batch: Batch) -> None:
    if batch.blobs:
        cursor.executemany(sql("insert_blob"), batch.blobs.items())
    cursor.executemany(sql("insert_event"), [(key, token, *row) for row in batch.rows])


def _is_written(cursor: Cursor, stream: Stream, batch: Batch) -> bool:
    """Whether an earlier commit, whose outcome the caller never learned, wrote these events."""
    first = batch.records[0].seq
    if first > stream.status.seq:
        return False
    span = (stream.key, first, len(batch.rows))
    stored = cursor.execute(sql("event_ids_from"), span).fetchall()
    return stored == [(row[1],) for row in batch.rows]


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
    if state == left or (left == "queued" and state in ("delayed", "held", "ready")):
        tokens = [cursor.execute(sql("event_token"), (row[1],)).fetchone() for row in batch.rows]
        if tokens and all(token == (lease.token,) for token in tokens):
            return
    raise StaleLeaseError(lease.message.message_id, token=lease.token)


def _accepted(cursor: Cursor, outgoing: Outgoing) -> str | None:
    """The task of the message that was taken in under this id or dedupe key before.

    Raises:
        ConflictError: The id was used for another message.
    """
    message = outgoing.message
    row = cursor.execute(sql("accepted_message"), (message.message_id,)).fetchone()
    if row is not None:
        body, task_id = cast("tuple[bytes, str]", row)
        if body != outgoing.body:
            raise ConflictError(
                f"message id {message.message_id!r} was used before for a message that differs"
            )
        return task_id
    if message.dedupe_key is None:
        return None
    key = (message.receiver, message.dedupe_key)
    row = cursor.execute(sql("accepted_dedupe_key"), key).fetchone()
    return None if row is None else cast("str", row[0])


def _put(cursor: Cursor, outgoing: Outgoing, *, now: int) -> None:
    cursor.execute(sql("insert_accepted"), {**outgoing.row, "body": outgoing.body})
    cursor.execute(sql("insert_message"), {**outgoing.row, "now": now})


def _advance_lane(cursor: Cursor, lease: Lease, now: int) -> None:
    cursor.execute(sql("advance_lane"), {"lane": lease.message.lane, "now": now})
