"""A task and the only ways its state can change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hermes.core.budget import Spent
from hermes.core.events import (
    ContextCompacted,
    Fault,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelRetried,
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
    # DISPATCHED → WAITING: its message died before work began, and a person is asked.
    TaskState.DISPATCHED: frozenset(
        {TaskState.PROCESSING, TaskState.WAITING, TaskState.CANCELLED, TaskState.FAILED}
    ),
    TaskState.PROCESSING: frozenset({TaskState.PROCESSING, TaskState.WAITING}) | TERMINAL,
    TaskState.WAITING: frozenset({TaskState.PROCESSING, TaskState.WAITING}) | TERMINAL,
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

    def at(self, status: TaskStatus) -> Task:
        """The same task at another point of its life."""
        return Task(
            task_id=self.task_id,
            trace_id=self.trace_id,
            created_at=self.created_at,
            spec=self.spec,
            status=status,
        )


def created(record: Recorded) -> TaskStatus:
    """The status after a task's first event."""
    return TaskStatus(state=TaskState.PENDING, seq=record.seq, updated_at=record.at)


_KEPT = 128
_applied: dict[int, tuple[Recorded, TaskStatus, TaskStatus]] = {}


def apply(status: TaskStatus, record: Recorded) -> TaskStatus:
    """The status after one more event; pure.

    A run and then its store apply the same event, so what came out is kept for a moment.

    Raises:
        TransitionError: The event skips a number, or its state cannot follow the present one.
    """
    known = _applied.get(id(record))
    if known is not None and known[0] is record and (known[1] is status or known[1] == status):
        return known[2]
    if len(_applied) >= _KEPT:
        _applied.clear()
    after = _apply(status, record)
    _applied[id(record)] = record, status, after
    return after


def _apply(status: TaskStatus, record: Recorded) -> TaskStatus:
    if record.seq != status.seq + 1:
        raise TransitionError(f"event {record.seq} cannot follow event {status.seq} of its task")
    event, state = record.event, status.state
    pending, error = status.pending, status.error
    target = target_state(event)
    if target is not None:
        if target not in TRANSITIONS[state]:
            raise TransitionError(f"a task that is {state} cannot become {target} ({event.type})")
        state = target
        pending = event.pending if isinstance(event, TaskWaiting) else ()
        error = event.error if isinstance(event, TaskSettled) else error
    return TaskStatus(
        state=state,
        seq=record.seq,
        updated_at=record.at,
        spent=_spend(status, record),
        pending=pending,
        error=error,
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
            task = task.at(apply(task.status, record))
    return task


_TARGETS: dict[type[TaskEvent], TaskState] = {
    TaskCreated: TaskState.PENDING,
    TaskDispatched: TaskState.DISPATCHED,
    TaskStarted: TaskState.PROCESSING,
    TaskResumed: TaskState.PROCESSING,
    TaskWaiting: TaskState.WAITING,
}


def target_state(event: TaskEvent) -> TaskState | None:
    """The state an event brings, or None if it leaves the state alone."""
    if isinstance(event, TaskSettled):
        return TaskState(event.outcome)
    return _TARGETS.get(type(event))


def _spend(status: TaskStatus, record: Recorded) -> Spent:
    spent, event = status.spent, record.event
    steps, model_calls, tool_calls = spent.steps, spent.model_calls, spent.tool_calls
    usage, seconds = spent.usage, spent.seconds
    if status.state is TaskState.PROCESSING and not isinstance(event, TaskResumed):
        seconds += max(0.0, (record.at - status.updated_at).total_seconds())
    match event:
        case ToolStarted():
            tool_calls += 1
        case ModelRequested():
            steps += 0 if event.repair or event.purpose == "compaction" else 1
            model_calls += 1
        case ModelReplied() | ContextCompacted() | ModelRetried() | ModelFailed():
            usage += event.usage
        case _ if seconds == spent.seconds:
            return spent
        case _:
            pass
    return Spent(
        steps=steps,
        model_calls=model_calls,
        tool_calls=tool_calls,
        usage=usage,
        seconds=seconds,
    )
