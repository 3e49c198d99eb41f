"""A task and the only ways its state can change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from hermes.core.budget import Spent
from hermes.core.events import (
    Fault,
    ModelReplied,
    ModelRequested,
    Pending,
    Recorded,
    TaskCreated,
    TaskDispatched,
    TaskEvent,
    TaskResumed,
    TaskSettled,
    TaskStarted,
    TaskWaiting,
    ToolStarted,
)
from hermes.errors import TransitionError


class TaskState(StrEnum):
    """Where a task stands."""

    PENDING = "pending"
    DISPATCHED = "dispatched"
    PROCESSING = "processing"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PARTIAL = "partial"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset(
    {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.PARTIAL, TaskState.CANCELLED}
)

TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.PENDING: frozenset({TaskState.DISPATCHED, TaskState.CANCELLED, TaskState.FAILED}),
    TaskState.DISPATCHED: frozenset({TaskState.PROCESSING, TaskState.CANCELLED, TaskState.FAILED}),
    TaskState.PROCESSING: frozenset({TaskState.PROCESSING, TaskState.WAITING}) | TERMINAL,
    TaskState.WAITING: frozenset({TaskState.PROCESSING}) | TERMINAL,
    TaskState.SUCCEEDED: frozenset(),
    TaskState.FAILED: frozenset(),
    TaskState.PARTIAL: frozenset(),
    TaskState.CANCELLED: frozenset(),
}
"""PROCESSING → PROCESSING is a resume after a crash: same state, new holder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """The changing half of a task: small, and stored as one projection beside the journal.

    Attributes:
        state: Where it stands.
        seq: Events so far.
        spent: What it used of its budget; seconds are time at work, without waiting and downtime.
        pending: What it waits for, when it waits.
        updated_at: Time of the last event.
        error: Why it did not succeed.
    """

    state: TaskState
    seq: int
    updated_at: datetime
    spent: Spent = Spent()
    pending: tuple[Pending, ...] = ()
    error: Fault | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as the journal tells it."""

    task_id: str
    trace_id: str
    created_at: datetime
    spec: TaskCreated
    status: TaskStatus

    @property
    def state(self) -> TaskState:
        return self.status.state

    @property
    def root_id(self) -> str:
        return self.spec.root_id or self.task_id


def created(record: Recorded) -> TaskStatus:
    """The status after a task's first event."""
    return TaskStatus(state=TaskState.PENDING, seq=record.seq, updated_at=record.at)


def apply(status: TaskStatus, record: Recorded) -> TaskStatus:
    """The status after one more event; pure.

    Raises:
        TransitionError: The event skips a number, or its state cannot follow the present one.
    """
    if record.seq != status.seq + 1:
        raise TransitionError(f"event {record.seq} cannot follow event {status.seq} of its task")
    event = record.event
    state = target_state(event) or status.state
    if target_state(event) is not None and state not in TRANSITIONS[status.state]:
        raise TransitionError(f"a task that is {status.state} cannot become {state} ({event.type})")
    return TaskStatus(
        state=state,
        seq=record.seq,
        updated_at=record.at,
        spent=_spend(status, record),
        pending=event.pending if isinstance(event, TaskWaiting) else _kept(status, state),
        error=event.error if isinstance(event, TaskSettled) else status.error,
    )


def fold(records: Iterable[Recorded]) -> Task | None:
    """A task out of its whole stream; None for an empty one.

    Raises:
        TransitionError: As `apply`; also when the stream does not begin with `task.created`.
    """
    task: Task | None = None
    for record in records:
        if task is None:
            if not isinstance(record.event, TaskCreated) or record.seq != 1:
                raise TransitionError(f"a stream begins with task.created, not {record.event.type}")
            task = Task(
                task_id=record.task_id,
                trace_id=record.trace_id,
                created_at=record.at,
                spec=record.event,
                status=created(record),
            )
        else:
            task = replace(task, status=apply(task.status, record))
    return task


def target_state(event: TaskEvent) -> TaskState | None:
    """The state an event brings, or None if it leaves the state alone."""
    match event:
        case TaskDispatched():
            return TaskState.DISPATCHED
        case TaskStarted() | TaskResumed():
            return TaskState.PROCESSING
        case TaskWaiting():
            return TaskState.WAITING
        case TaskSettled():
            return TaskState(event.outcome)
        case TaskCreated():
            return TaskState.PENDING
        case _:
            return None


def _kept(status: TaskStatus, state: TaskState) -> tuple[Pending, ...]:
    return status.pending if state == TaskState.WAITING else ()


def _spend(status: TaskStatus, record: Recorded) -> Spent:
    spent, event = status.spent, record.event
    seconds = spent.seconds
    if status.state == TaskState.PROCESSING and not isinstance(event, TaskResumed):
        seconds += max(0.0, (record.at - status.updated_at).total_seconds())
    match event:
        case ModelRequested():
            steps = spent.steps + (0 if event.repair else 1)
            calls = spent.model_calls + 1
            return replace(spent, steps=steps, model_calls=calls, seconds=seconds)
        case ModelReplied():
            return replace(spent, usage=spent.usage + event.usage, seconds=seconds)
        case ToolStarted():
            return replace(spent, tool_calls=spent.tool_calls + 1, seconds=seconds)
        case _:
            return replace(spent, seconds=seconds) if seconds != spent.seconds else spent
