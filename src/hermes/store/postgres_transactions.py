"""The writes of `PostgresStore`, as functions over an open transaction.

Each reads what it decides on inside the transaction, under its locks, so it may be done again from
the start. What each promises stands with its namesake in `base`.
"""

from __future__ import annotations

from typing import Literal, cast

from hermes.core.task import TaskStatus
from hermes.core.todo import Todo
from hermes.errors import ConflictError, NotFoundError, StaleLeaseError
from hermes.store import postgres_lanes as lanes
from hermes.store import postgres_waits as waits
from hermes.store import postgres_writes as writes
from hermes.store.driver import Row
from hermes.store.postgres_quick import Written
from hermes.store.postgres_transaction import Transaction
from hermes.store.postgres_writes import NOTHING, Change, Held
from hermes.store.rows import Batch, Child, Outgoing, encode_status, read_lease, read_todo
from hermes.store.rules import settles_again
from hermes.store.values import Lease, Submitted


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
    await writes.create(tx, new, now=now)
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


async def append(tx: Transaction, lease: Lease, change: Change, *, now: int) -> Written | None:
    """Append events to the lease's task, and send; returns how the task stands then."""
    held = await writes.hold(tx, lease) if change.is_plain else None
    held = held or await writes.find_held(tx, lease, change)
    if held is None:
        raise StaleLeaseError(lease.message.message_id, token=lease.token)
    status = await writes.write(tx, held, lease, change, now=now)
    for each in change.outgoing:
        await lanes.send(tx, each, now=now)
    if held.stream is None or status is None:
        return None
    return Written(trace_id=held.stream.trace_id, status=status, encoded=encode_status(status))


async def finish(tx: Transaction, lease: Lease, change: Change, *, now: int) -> None:
    """Append, send, and take the message out of its lane."""
    held = await writes.find_held(tx, lease, change)
    if held is None:
        await _check_repeat(tx, lease, change.batch, left=None)
        return
    await tx.send("delete_message", (held.place,))
    status = None
    if not _is_settled_again(held, change.batch):
        status = await writes.write(tx, held, lease, change, now=now)
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
    held = await writes.find_held(tx, lease, change)
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
        status = await writes.write(tx, held, lease, change, now=now)
    # A dead message is looked at by a person, who may ask again for the task to be cancelled.
    await _leave(tx, held, lease, None if retry_at is None else status, now=now)


async def release(tx: Transaction, lease: Lease) -> None:
    """Give a message back in its place."""
    held = await writes.find_held(tx, lease, NOTHING)
    if held is not None:
        await tx.send("release_message", (held.place,))
    elif not (tx.is_again and await _is_left(tx, lease, "queued")):
        raise StaleLeaseError(lease.message.message_id, token=lease.token)


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


def _is_settled_again(held: Held, batch: Batch) -> bool:
    return held.stream is not None and settles_again(held.stream.status, batch.records)


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


async def put_todo(tx: Transaction, row: tuple[object, ...]) -> Todo:
    """Keep a todo, or mark the one of its id as done; gives it as it is now."""
    kept = await tx.row("put_todo", row)
    assert kept is not None  # the statement returns the row either way
    return read_todo(kept)
