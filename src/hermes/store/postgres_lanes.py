"""Messages in the lanes of a PostgreSQL journal, as functions over an open transaction.

A lane's row is its lock: whoever changes messages of a lane holds it, but for a claim, which waits
for nobody and leaves out what is locked.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import cast

from psycopg import errors

from hermes.core.clock import to_micros
from hermes.errors import ConflictError
from hermes.store.postgres_transaction import Transaction
from hermes.store.rows import Outgoing


async def lock(tx: Transaction, lanes: Collection[str], *, are_known: bool = False) -> None:
    """Lock lanes, all at once and in one order, so that nobody waits in a circle.

    Args:
        tx: The transaction; nothing has been locked in it yet but workers and names of events.
        lanes: Their keys.
        are_known: Each was claimed before, so its row is there.
    """
    keys = list(lanes)
    if not are_known:
        await tx.send("ensure_lanes", (keys,))
    await tx.send("lock_lanes", (keys,))


async def accept(tx: Transaction, outgoing: Outgoing) -> str | None:
    """Take a message's id and dedupe key in.

    Returns:
        None; or the task of the message that was taken in under one of them before.

    Raises:
        ConflictError: The id was used for another message.
    """
    row = {**outgoing.row, "body": outgoing.body}
    if await tx.row("accept", row) is not None:
        return None
    earlier = await _accepted(tx, outgoing)
    if earlier is None:
        raise errors.SerializationFailure("what stood in the way is gone")
    return earlier


async def send(tx: Transaction, outgoing: Outgoing, *, now: int) -> bool:
    """Put a message into its lane, which is locked, unless it is a repeat."""
    if await accept(tx, outgoing) is not None:
        return False
    await put(tx, outgoing, now=now)
    return True


async def put(tx: Transaction, outgoing: Outgoing, *, now: int) -> None:
    """Add a message that was accepted, at the end of its lane, which is locked."""
    await tx.send("insert_message", {**outgoing.row, "now": now})


async def put_wake(
    tx: Transaction, outgoing: Outgoing, *, now: int, due: datetime | None = None
) -> None:
    """Put the message that wakes a task into its lane, or have the one there come sooner.

    A delayed head blocks its lane; but it must not hold up a wait that ends before it, so a wake
    message goes before all that is due later.

    Args:
        tx: The transaction; the lane is locked in it.
        outgoing: The message.
        now: Microseconds.
        due: When it is to be handled; None for at once.
    """
    message_id, lane = outgoing.message.message_id, outgoing.message.lane
    if await tx.row("message_state", (message_id,)) is None:
        # The envelope may have been taken in before: who is to be cancelled may be told twice.
        await tx.send("note_accepted", {**outgoing.row, "body": outgoing.body})
        await put(tx, outgoing, now=now)
    elif due is None:
        await tx.send("hurry_message", (message_id,))
    await _overtake(tx, lane, message_id, now if due is None else to_micros(due))
    await advance(tx, lane, now=now)


async def drop(tx: Transaction, message_id: str, *, now: int) -> None:
    """Take a message out of its lane, unless somebody holds it."""
    row = await tx.row("delete_free_message", (message_id,))
    if row is not None:
        await advance(tx, cast("str", row[0]), now=now)


async def advance(tx: Transaction, lane: str, *, now: int) -> None:
    """The head of a lane, if it is held, becomes ready or delayed."""
    await tx.send("advance_lane", {"lane": lane, "now": now})


async def _accepted(tx: Transaction, outgoing: Outgoing) -> str | None:
    message = outgoing.message
    row = await tx.row("accepted_message", (message.message_id,))
    if row is not None:
        body, task_id = cast("tuple[bytes, str]", row)
        if body != outgoing.body:
            raise ConflictError(
                f"message id {message.message_id!r} was used before for a message that differs"
            )
        return task_id
    row = await tx.row("accepted_dedupe_key", (message.receiver, message.dedupe_key))
    return None if row is None else cast("str", row[0])


async def _overtake(tx: Transaction, lane: str, message_id: str, due: int) -> None:
    """Move a message that nobody holds before the first of its lane that is due later."""
    rows = cast("list[tuple[int, str, int | None]]", await tx.rows("waiting_in_lane", (lane,)))
    mine = next((n for n, row in enumerate(rows) if row[1] == message_id), 0)
    first = next((n for n, row in enumerate(rows[:mine]) if (row[2] or 0) > due), mine)
    if first == mine:
        return
    places = [row[0] for row in rows[first : mine + 1]]
    # Aside first, since a place is taken once.
    await tx.send("set_aside", (places,))
    await tx.send("put_in_order", ([places[-1], *places[:-1]], places))
