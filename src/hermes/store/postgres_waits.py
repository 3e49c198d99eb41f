"""How waits begin and end in a PostgreSQL journal, as functions over an open transaction.

Locks are taken in one order: names of events, lanes, tasks. A child that settles locks its parent
before it looks at its siblings, so that of two the later one sees the earlier one's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from hermes.core import ids, json
from hermes.core.clock import from_micros
from hermes.core.events import ReviewDecision
from hermes.errors import NotFoundError
from hermes.store import postgres_lanes as lanes
from hermes.store.postgres_transaction import Transaction
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


async def begin(tx: Transaction, address: Address, waits: Sequence[Wait], *, now: int) -> None:
    """Add waits; one whose end has come already wakes the task at once."""
    for wait in waits:
        if await tx.row("insert_wait", wait_row(wait)) is None:
            continue
        has_come, answer = await _has_come(tx, wait)
        if has_come and await end(tx, wait.wait_id, answer, now=now):
            continue
        if ends_by_time(wait):
            await _wake(tx, address, wait.wait_id, now=now, due=wait.due_at)


async def end(tx: Transaction, wait_id: str, answer: bytes | None, *, now: int) -> bool:
    """End a wait that is open, and wake its task; whether it was open."""
    row = await tx.row("end_wait", {"wait_id": wait_id, "answer": answer, "now": now})
    if row is None:
        return False
    address = await _find_address(tx, cast("str", row[0]))
    if address is not None:
        await tx.send("delete_dead_of_task", (address.task_id,))
        await _wake(tx, address, wait_id, now=now)
    return True


async def take_in(tx: Transaction, wait_ids: Sequence[str], *, now: int) -> None:
    """Remove waits whose answers were taken in, with the wake messages still to come."""
    for wait_id in wait_ids:
        await tx.send("delete_wait", (wait_id,))
        await lanes.drop(tx, ids.wake_id(wait_id), now=now)


async def settled(
    tx: Transaction, task_id: str, *, parent_id: str | None, parent_path: str | None, now: int
) -> None:
    """A task has come to its end: it waits and asks no more, and its parent may be the next."""
    for (wait_id,) in await tx.rows("delete_waits_of_task", (task_id,)):
        await lanes.drop(tx, ids.wake_id(cast("str", wait_id)), now=now)
    await tx.send("close_reviews_of_task", (WAKER, now, task_id))
    if parent_id is None:
        return
    family = (parent_id, parent_path)
    waits = await tx.rows("open_waits_for_children", family)
    if waits and await tx.row("unsettled_child", family) is None:
        for (wait_id,) in waits:
            await end(tx, cast("str", wait_id), None, now=now)


async def decide(
    tx: Transaction,
    review_id: str,
    decision: ReviewDecision,
    *,
    answer: object,
    by: str,
    now: int,
) -> Review:
    """Record a decision, and end the wait for it."""
    task_id = (await _review(tx, review_id)).task_id
    await lanes.lock(tx, [task_id])
    review = await _review(tx, review_id)
    if tx.is_again and _is_mine(review, decision, by=by, now=now):
        return review
    check_decision(review, decision)
    encoded = None if answer is None else json.encode(answer)
    await tx.send(
        "decide_review",
        {
            "review_id": review_id,
            "decision": decision,
            "answer": encoded,
            "by": by,
            "now": now,
        },
    )
    await end(tx, review.wait_id, json.encode(decided(decision, answer, by)), now=now)
    return replace(review, decision=decision, answer=answer, by=by, decided_at=from_micros(now))


async def signal(tx: Transaction, name: str, payload: bytes, *, now: int) -> bool:
    """Note an event, and end the waits for it."""
    await tx.send("lock_event_name", (name,))
    waiting = await tx.rows("tasks_waiting_for_event", (name,))
    if waiting:
        await lanes.lock(tx, [cast("str", task_id) for (task_id,) in waiting])
    if await tx.row("insert_signal", (name, payload, now)) is None:
        return tx.is_again and await tx.row("signal", (name,)) == (payload, now)
    for (wait_id,) in await tx.rows("open_waits_for_event", (name,)):
        await end(tx, cast("str", wait_id), payload, now=now)
    return True


async def request_cancel(tx: Transaction, task_id: str, *, now: int) -> list[str]:
    """Mark a tree of tasks, and see to it that somebody comes by each."""
    if await tx.row("task_exists", (task_id,)) is None:
        raise NotFoundError(f"there is no task {task_id!r:.80}")
    tree = {"task_id": task_id}
    await lanes.lock(tx, [cast("str", key) for (key,) in await tx.rows("tree_lanes", tree)])
    # Marking waits for who is at work, and that one may have made a child meanwhile.
    while await tx.rows("request_cancel", tree):
        pass
    found = cast("list[tuple[str, str, str]]", await tx.rows("to_cancel", tree))
    await lanes.lock(tx, [cast("str", key) for (key,) in await tx.rows("tree_lanes", tree)])
    for task, agent, trace_id in found:
        await nudge(tx, Address(task_id=task, agent=agent, trace_id=trace_id), now=now)
    return [task for task, _, _ in found]


async def nudge(tx: Transaction, address: Address, *, now: int) -> None:
    """Have somebody claim a task that is to be cancelled, if nobody holds it or is about to."""
    await tx.send("delete_dead_of_task", (address.task_id,))
    rows = cast("list[tuple[str, str, str]]", await tx.rows("messages_of_task", (address.task_id,)))
    if any(state in ("leased", "ready") for _, _, state in rows):
        return
    delayed = next((row for row in rows if row[2] == "delayed"), None)
    if delayed is not None:
        message_id, lane, _ = delayed
        await tx.send("hurry_message", (message_id,))
        await lanes.advance(tx, lane, now=now)
        return
    message = cancel_message(
        task_id=address.task_id,
        agent=address.agent,
        trace_id=address.trace_id,
        at=from_micros(now),
    )
    await lanes.put_wake(tx, outgoing(message), now=now)


async def _find_address(tx: Transaction, task_id: str) -> Address | None:
    """Where messages about a task go; None for a task that is not stored here."""
    row = await tx.row("task_address", (task_id,))
    if row is None:
        return None
    agent, trace_id = cast("tuple[str, str]", row)
    return Address(task_id=task_id, agent=agent, trace_id=trace_id)


async def _review(tx: Transaction, review_id: str) -> Review:
    row = await tx.row("review", (review_id,))
    if row is None:
        raise NotFoundError(f"there is no review {review_id!r:.80}")
    return read_review(row)


def _is_mine(review: Review, decision: ReviewDecision, *, by: str, now: int) -> bool:
    """Whether an earlier try, whose commit was in doubt, has written this very decision."""
    mine = (decision, by, from_micros(now))
    return (review.decision, review.by, review.decided_at) == mine


async def _has_come(tx: Transaction, wait: Wait) -> tuple[bool, bytes | None]:
    """Whether what a new wait is for is there already, and the answer."""
    if wait.kind == "children":
        return await tx.row("unsettled_child", (wait.task_id, wait.key)) is None, None
    if wait.kind == "event":
        row = await tx.row("signal", (wait.key,))
        return row is not None, None if row is None else cast("bytes", row[0])
    if wait.kind == "person":
        row = await tx.row("review", (wait.key,))
        review = None if row is None else read_review(row)
        if review is not None and review.decision is not None:
            answer = decided(review.decision, review.answer, review.by)
            return True, json.encode(answer)
    return False, None


async def _wake(
    tx: Transaction, address: Address, wait_id: str, *, now: int, due: datetime | None = None
) -> None:
    message = wake_message(
        wait_id,
        task_id=address.task_id,
        agent=address.agent,
        trace_id=address.trace_id,
        at=from_micros(now),
        due=due,
    )
    await lanes.put_wake(tx, outgoing(message), now=now, due=due)
