"""How waits begin and end in a SQLite journal, as functions over the cursor of a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from hermes.core import ids, json
from hermes.core.clock import from_micros
from hermes.core.events import ReviewDecision
from hermes.errors import NotFoundError
from hermes.store.driver import Cursor, Value
from hermes.store.lanes import advance_lane, drop, put_wake
from hermes.store.queries import sql
from hermes.store.rows import outgoing, read_review, wait_row
from hermes.store.rules import (
    WAKER,
    cancel_message,
    check_decision,
    decided,
    ends_by_time,
    wake_message,
)
from hermes.store.values import Review, Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where messages about a task go."""

    task_id: str
    agent: str
    trace_id: str


def begin(cursor: Cursor, address: Address, waits: Sequence[Wait], *, now: int) -> None:
    """Add waits; one whose end has come already wakes the task at once."""
    for wait in waits:
        if cursor.execute(sql("insert_wait"), wait_row(wait)).fetchone() is None:
            continue
        has_come, answer = _has_come(cursor, wait)
        if has_come and end(cursor, wait.wait_id, answer, now=now):
            continue
        if ends_by_time(wait):
            _wake(cursor, address, wait.wait_id, now=now, due=wait.due_at)


def end(cursor: Cursor, wait_id: str, answer: bytes | None, *, now: int) -> bool:
    """End a wait that is open, and wake its task; whether it was open."""
    wanted = {"wait_id": wait_id, "answer": answer, "now": now}
    row = cursor.execute(sql("end_wait"), wanted).fetchone()
    if row is None:
        return False
    address = find_address(cursor, cast("str", row[0]))
    if address is not None:
        cursor.execute(sql("delete_dead_of_task"), (address.task_id,))
        _wake(cursor, address, wait_id, now=now)
    return True


def take_in(cursor: Cursor, wait_ids: Sequence[str], *, now: int) -> None:
    """Remove waits whose answers were taken in, with the wake messages still to come."""
    for wait_id in wait_ids:
        cursor.execute(sql("delete_wait"), (wait_id,))
        drop(cursor, ids.wake_id(wait_id), now=now)


def settled(
    cursor: Cursor, task_id: str, *, parent_id: str | None, parent_path: str | None, now: int
) -> None:
    """A task has come to its end: it waits and asks no more, and its parent may be the next."""
    for (wait_id,) in cursor.execute(sql("delete_waits_of_task"), (task_id,)).fetchall():
        drop(cursor, ids.wake_id(cast("str", wait_id)), now=now)
    cursor.execute(sql("close_reviews_of_task"), (WAKER, now, task_id))
    if parent_id is None:
        return
    family = (parent_id, parent_path)
    waits = cursor.execute(sql("open_waits_for_children"), family).fetchall()
    if waits and cursor.execute(sql("unsettled_child"), family).fetchone() is None:
        for (wait_id,) in waits:
            end(cursor, cast("str", wait_id), None, now=now)


def decide(
    cursor: Cursor,
    review_id: str,
    decision: ReviewDecision,
    *,
    answer: object,
    by: str,
    now: int,
) -> Review:
    """Record a decision, and end the wait for it."""
    row = cursor.execute(sql("review"), (review_id,)).fetchone()
    if row is None:
        raise NotFoundError(f"there is no review {review_id!r:.80}")
    review = read_review(row)
    check_decision(review, decision)
    change: dict[str, Value] = {
        "review_id": review_id,
        "decision": decision,
        "answer": None if answer is None else json.encode(answer),
        "by": by,
        "now": now,
    }
    cursor.execute(sql("decide_review"), change)
    end(cursor, review.wait_id, json.encode(decided(decision, answer, by)), now=now)
    return replace(review, decision=decision, answer=answer, by=by, decided_at=from_micros(now))


def signal(cursor: Cursor, name: str, payload: bytes, *, now: int) -> bool:
    """Note an event, and end the waits for it."""
    if cursor.execute(sql("insert_signal"), (name, payload, now)).fetchone() is None:
        return False
    for (wait_id,) in cursor.execute(sql("open_waits_for_event"), (name,)).fetchall():
        end(cursor, cast("str", wait_id), payload, now=now)
    return True


def request_cancel(cursor: Cursor, task_id: str, *, now: int) -> list[str]:
    """Mark a tree of tasks, and see to it that somebody comes by each."""
    if cursor.execute(sql("task_key"), (task_id,)).fetchone() is None:
        raise NotFoundError(f"there is no task {task_id!r:.80}")
    marked = cursor.execute(sql("request_cancel"), {"task_id": task_id}).fetchall()
    addresses = [
        Address(task_id=task, agent=agent, trace_id=trace_id)
        for _, task, agent, trace_id in cast("list[tuple[int, str, str, str]]", sorted(marked))
    ]
    for address in addresses:
        nudge(cursor, address, now=now)
    return [address.task_id for address in addresses]


def nudge(cursor: Cursor, address: Address, *, now: int) -> None:
    """Have somebody claim a task that is to be cancelled, if nobody holds it or is about to."""
    cursor.execute(sql("delete_dead_of_task"), (address.task_id,))
    rows = cast(
        "list[tuple[str, str, str]]",
        cursor.execute(sql("messages_of_task"), (address.task_id,)).fetchall(),
    )
    if any(state in ("leased", "ready") for _, _, state in rows):
        return
    delayed = next((row for row in rows if row[2] == "delayed"), None)
    if delayed is not None:
        message_id, lane, _ = delayed
        cursor.execute(sql("hurry_message"), (message_id,))
        advance_lane(cursor, lane, now=now)
        return
    message = cancel_message(
        task_id=address.task_id,
        agent=address.agent,
        trace_id=address.trace_id,
        at=from_micros(now),
    )
    put_wake(cursor, outgoing(message), now=now)


def find_address(cursor: Cursor, task_id: str) -> Address | None:
    """Where messages about a task go; None for a task that is not stored here."""
    row = cursor.execute(sql("task_address"), (task_id,)).fetchone()
    if row is None:
        return None
    agent, trace_id = cast("tuple[str, str]", row)
    return Address(task_id=task_id, agent=agent, trace_id=trace_id)


def _has_come(cursor: Cursor, wait: Wait) -> tuple[bool, bytes | None]:
    """Whether what a new wait is for is there already, and the answer."""
    if wait.kind == "children":
        family = (wait.task_id, wait.key)
        return cursor.execute(sql("unsettled_child"), family).fetchone() is None, None
    if wait.kind == "event":
        row = cursor.execute(sql("signal"), (wait.key,)).fetchone()
        return row is not None, None if row is None else cast("bytes", row[0])
    if wait.kind == "person":
        row = cursor.execute(sql("review"), (wait.key,)).fetchone()
        review = None if row is None else read_review(row)
        if review is not None and review.decision is not None:
            answer = decided(review.decision, review.answer, review.by)
            return True, json.encode(answer)
    return False, None


def _wake(
    cursor: Cursor, address: Address, wait_id: str, *, now: int, due: datetime | None = None
) -> None:
    message = wake_message(
        wait_id,
        task_id=address.task_id,
        agent=address.agent,
        trace_id=address.trace_id,
        at=from_micros(now),
        due=due,
    )
    put_wake(cursor, outgoing(message), now=now, due=due)
