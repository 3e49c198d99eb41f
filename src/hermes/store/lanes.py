"""Messages in the lanes of a SQLite journal, as functions over the cursor of a transaction."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from hermes.core.clock import to_micros
from hermes.errors import ConflictError
from hermes.store.driver import Cursor
from hermes.store.queries import sql
from hermes.store.rows import Outgoing


def accepted(cursor: Cursor, outgoing: Outgoing) -> str | None:
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


def send(cursor: Cursor, outgoing: Outgoing, *, now: int) -> bool:
    """Put a message into its lane, unless it is a repeat."""
    if accepted(cursor, outgoing) is not None:
        return False
    put(cursor, outgoing, now=now)
    return True


def put(cursor: Cursor, outgoing: Outgoing, *, now: int) -> None:
    """Take a new message in, at the end of its lane."""
    cursor.execute(sql("insert_accepted"), {**outgoing.row, "body": outgoing.body})
    cursor.execute(sql("insert_message"), {**outgoing.row, "now": now})


def put_wake(cursor: Cursor, outgoing: Outgoing, *, now: int, due: datetime | None = None) -> None:
    """Put the message that wakes a task into its lane, or have the one there come sooner.

    A delayed head blocks its lane; but it must not hold up a wait that ends before it, so a wake
    message goes before all that is due later.

    Args:
        cursor: In the transaction.
        outgoing: The message.
        now: Microseconds.
        due: When it is to be handled; None for at once.
    """
    message_id, lane = outgoing.message.message_id, outgoing.message.lane
    if cursor.execute(sql("message_state"), (message_id,)).fetchone() is None:
        # The envelope may have been taken in before: who is to be cancelled may be told twice.
        cursor.execute(sql("note_accepted"), {**outgoing.row, "body": outgoing.body})
        cursor.execute(sql("insert_message"), {**outgoing.row, "now": now})
    elif due is None:
        cursor.execute(sql("hurry_message"), (message_id,))
    _overtake(cursor, lane, message_id, now if due is None else to_micros(due))
    advance_lane(cursor, lane, now=now)


def drop(cursor: Cursor, message_id: str, *, now: int) -> None:
    """Take a message out of its lane, unless somebody holds it."""
    row = cursor.execute(sql("delete_free_message"), (message_id,)).fetchone()
    if row is not None:
        advance_lane(cursor, cast("str", row[0]), now=now)


def advance_lane(cursor: Cursor, lane: str, *, now: int) -> None:
    """The head of a lane, if it is held, becomes ready or delayed."""
    cursor.execute(sql("advance_lane"), {"lane": lane, "now": now})


def _overtake(cursor: Cursor, lane: str, message_id: str, due: int) -> None:
    """Move a message that nobody holds before the first of its lane that is due later."""
    rows = cast(
        "list[tuple[int, str, int | None]]",
        cursor.execute(sql("waiting_in_lane"), (lane,)).fetchall(),
    )
    mine = next((n for n, row in enumerate(rows) if row[1] == message_id), 0)
    first = next((n for n, row in enumerate(rows[:mine]) if (row[2] or 0) > due), mine)
    if first == mine:
        return
    places = [row[0] for row in rows[first : mine + 1]]
    turned = [places[-1], *places[:-1]]
    # Aside first, since a place is taken once.
    cursor.executemany(sql("move_message"), [(-place, place) for place in places])
    moves = [(place, -old) for place, old in zip(places, turned, strict=True)]
    cursor.executemany(sql("move_message"), moves)
