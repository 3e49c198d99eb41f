"""What belongs to a task beside its own journal: relatives, waits, reviews, and who holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hermes.core.clock import SystemClock, rfc3339
from hermes.core.events import Pending
from hermes.core.task import Task, TaskState
from hermes.runtime import is_gone, open_tasks
from hermes.store import MAX_TASKS, MessageRow, Review, Store, TaskQuery, TreeBudget, Wait, Worker

from . import output
from .budget import budget_object

_GOAL_WIDTH = 60
_SHOWN_CHILDREN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldUp:
    """A task for whose end those above it wait, and what it waits for itself."""

    task: Task
    pending: Sequence[Pending]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One task and what belongs to it.

    Attributes:
        children: The oldest first, at most `MAX_TASKS`.
        reviews: Open ones.
        held_up_by: As of `holding_up`.
        tree: How the budget of the whole tree stands.
        holder: The process that works on it, or did when it died.
        is_broken_off: Its holder lives no more.
        is_to_be_cancelled: Somebody asked for its end, and it has not come yet.
    """

    task: Task
    children: Sequence[Task]
    waits: Sequence[Wait]
    reviews: Sequence[Review]
    held_up_by: Sequence[HoldUp]
    tree: TreeBudget
    holder: Worker | None
    is_broken_off: bool
    is_to_be_cancelled: bool


async def family_of(store: Store, task: Task, *, lease_s: float) -> Family:
    """Read what belongs to a task.

    Args:
        store: Where it is.
        task: The task.
        lease_s: How long a process elsewhere counts as alive without a sign of life.
    """
    children = await store.tasks(TaskQuery(parent_id=task.task_id, limit=MAX_TASKS))
    messages = await store.messages(task_id=task.task_id)
    holder = await _holder(store, messages)
    return Family(
        task=task,
        children=children[::-1],
        waits=await store.waits(task.task_id),
        reviews=await store.reviews(task_id=task.task_id),
        held_up_by=await holding_up(store, task.task_id),
        tree=await store.budget(task.root_id),
        holder=holder,
        is_broken_off=holder is not None and is_gone(holder, clock=SystemClock(), lease_s=lease_s),
        is_to_be_cancelled=await _is_to_be_cancelled(store, task, messages),
    )


def family_object(family: Family) -> dict[str, object]:
    """The same for programs."""
    spec = family.task.spec
    return {
        "parent_id": spec.parent_id,
        "root_id": family.task.root_id,
        "retry_of": spec.retry_of,
        "fork_of": spec.fork_of,
        "children": [
            {"task_id": child.task_id, "status": child.state.value, "goal": child.spec.goal}
            for child in family.children
        ],
        "waits": [_wait_object(wait) for wait in family.waits],
        "reviews": [review.review_id for review in family.reviews],
        "cancel_requested": family.is_to_be_cancelled,
        "tree": budget_object(family.task, family.tree),
    }


def relations(family: Family) -> list[str]:
    """Where the task comes from and what came of it, a line each."""
    spec = family.task.spec
    lines = [
        f"{label:<8} {task_id}"
        for label, task_id in (
            ("parent", spec.parent_id),
            ("retry of", spec.retry_of),
            ("fork of", spec.fork_of),
        )
        if task_id
    ]
    settled = sum(child.state.is_terminal for child in family.children)
    if family.children:
        lines.append(f"children {settled} of {len(family.children)} settled")
    for child in family.children:
        goal = output.short(child.spec.goal, _GOAL_WIDTH)
        lines.append(f"         {child.task_id}  {child.state}  {goal}")
    return lines


async def holding_up(store: Store, task_id: str) -> list[HoldUp]:
    """What keeps a task waiting for its children: unsettled ones that do not only do the same."""
    found: list[HoldUp] = []
    for task in await open_tasks(store, task_id):
        pending = await still_pending(store, task)
        only_children = bool(pending) and all(item.kind == "children" for item in pending)
        if task.task_id != task_id and not only_children:
            found.append(HoldUp(task=task, pending=pending))
    return found


async def still_pending(store: Store, task: Task) -> list[Pending]:
    """What a task waits for, without what has come and is only not taken in yet."""
    ended = {wait.wait_id for wait in await store.waits(task.task_id) if wait.ended}
    return [item for item in task.status.pending if item.wait_id not in ended]


def reasons(held_up_by: Sequence[HoldUp]) -> list[str]:
    """What to do so that children come to their end, a line each."""
    lines: list[str] = []
    for item in held_up_by[:_SHOWN_CHILDREN]:
        task, goal = item.task, output.short(item.task.spec.goal, _GOAL_WIDTH)
        lines.append(f"child {task.task_id} ({goal}):")
        for pending in item.pending:
            lines.extend(f"  {line}" for line in output.waiting(pending, task.task_id))
        if not item.pending:
            lines.append(f"  not settled: `hermes show {task.task_id}` says who has it")
    left = len(held_up_by) - _SHOWN_CHILDREN
    if left > 0:
        lines.append(f"and {left:,} more: `hermes review list` shows what people are asked")
    return lines


def whereabouts(family: Family) -> list[str]:
    """Who has a task that is not settled, and what to do next, a line each."""
    task = family.task
    lines: list[str] = []
    if task.state.is_terminal:
        return lines
    if family.is_to_be_cancelled:
        lines.append("cancel requested: whoever holds it or takes it next ends it")
    if task.state == TaskState.WAITING:
        if any(wait.ended for wait in family.waits):
            lines.append("an answer is there and not taken in yet")
            lines.append(f"next: a worker goes on, or `hermes resume {task.task_id}` does it here")
    elif family.holder is None:
        lines.append("not settled: nobody works on it")
        lines.append(f"next: a worker takes it, or `hermes resume {task.task_id}` does it here")
    elif family.is_broken_off:
        lines.append("not settled: broken off, its process lives no more")
        lines.append(f"next: `hermes resume {task.task_id}` goes on at the step where it broke")
    else:
        lines.append(f"in work by process {family.holder.pid} on {family.holder.host}")
    return lines


async def _holder(store: Store, rows: Sequence[MessageRow]) -> Worker | None:
    held_by = {row.worker_id for row in rows if row.state == "leased"}
    return next((item for item in await store.workers() if item.worker_id in held_by), None)


async def _is_to_be_cancelled(store: Store, task: Task, rows: Sequence[MessageRow]) -> bool:
    if any(row.message.message_type == "task.cancel" for row in rows):
        return True
    holders = {row.worker_id for row in rows if row.state == "leased" and row.worker_id}
    for holder in holders:
        if task.task_id in await store.cancels(holder):
            return True
    return False


def _wait_object(wait: Wait) -> dict[str, object]:
    return {
        "wait_id": wait.wait_id,
        "path": wait.path,
        "kind": wait.kind,
        "key": wait.key,
        "due_at": rfc3339(wait.due_at) if wait.due_at else None,
        "ended": wait.ended,
    }
