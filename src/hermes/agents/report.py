"""What a task came to, as its caller is told."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.core.events import Recorded, TaskSettled
from hermes.core.request import AgentResponse
from hermes.core.task import Task, fold
from hermes.errors import NotFoundError
from hermes.loop import RunState
from hermes.telemetry import TraceView


class Report:
    """Watches a journal, old or live, for what the response needs."""

    def __init__(self, records: Sequence[Recorded]) -> None:
        self.view, self.settled = TraceView(), None
        for record in records:
            self.recorded(record)

    def recorded(self, record: Recorded) -> None:
        self.view.follow(record)
        if isinstance(record.event, TaskSettled):
            self.settled: TaskSettled | None = record.event

    def delta(self, text: str, *, reasoning: bool = False) -> None:
        pass

    def progress(self, path: str, text: str) -> None:
        pass

    def response(self, task: Task, state: RunState) -> AgentResponse:
        return AgentResponse(
            output=self.settled.output if self.settled else (state.so_far() or None),
            trace=tuple(self.view.entries),
            usage=task.status.spent.usage,
            cost=_cost(task),
            task_id=task.task_id,
            status=task.state.value,
            error=task.status.error,
            pending=task.status.pending,
        )


def response_of(records: Sequence[Recorded]) -> AgentResponse:
    """What a recorded task came to so far.

    Args:
        records: Its whole stream.

    Raises:
        NotFoundError: The stream is empty.
    """
    task = fold(records)
    if task is None:
        raise NotFoundError("no such task")
    state = RunState.of(record.event for record in records)
    return Report(records).response(task, state)


def _cost(task: Task) -> float | None:
    usage = task.status.spent.usage
    return usage.cost if usage.cost_nano else None
