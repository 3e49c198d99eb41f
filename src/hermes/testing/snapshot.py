"""A journal as it stands between two lives of a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from hermes.core.events import (
    ModelReplied,
    Recorded,
    TaskCreated,
    TaskSettled,
    ToolFailed,
    ToolInDoubt,
    ToolReconciled,
    ToolReturned,
    ToolStarted,
)
from hermes.core.task import Task
from hermes.store import MessageRow, Review, Store, TaskQuery, Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that a database holds of its tasks.

    Attributes:
        tasks: As the projection has them, by id.
        events: By task id.
        reviews: The open ones.
    """

    tasks: Mapping[str, Task] = field(default_factory=dict[str, Task])
    events: Mapping[str, Sequence[Recorded]] = field(default_factory=dict[str, Sequence[Recorded]])
    messages: Sequence[MessageRow] = ()
    waits: Sequence[Wait] = ()
    reviews: Sequence[Review] = ()

    @classmethod
    async def of(cls, store: Store) -> Self:
        """Read it; nobody else may be at work."""
        tasks = await store.tasks(TaskQuery(limit=1000))
        events = {task.task_id: await store.events(task.task_id) for task in tasks}
        waits = [wait for task in tasks for wait in await store.waits(task.task_id)]
        return cls(
            tasks={task.task_id: task for task in tasks},
            events=events,
            messages=await store.messages(),
            waits=waits,
            reviews=await store.reviews(),
        )

    @property
    def finished_calls(self) -> set[str]:
        """Keys of the tool calls that have an outcome."""
        found: set[str] = set()
        for record in self._records():
            match record.event:
                case ToolReturned(path=path) | ToolFailed(path=path):
                    found.add(record.task_id + path)
                case ToolReconciled(path=path, decision="done"):
                    found.add(record.task_id + path)
                case _:
                    pass
        return found

    @property
    def begun_calls(self) -> set[str]:
        """Keys of the tool calls whose intent is durable."""
        return {
            record.task_id + record.event.path
            for record in self._records()
            if isinstance(record.event, ToolStarted)
        }

    @property
    def doubted(self) -> set[tuple[str, str]]:
        """Keys and tools of the calls that were in doubt at some time."""
        return {
            (record.task_id + record.event.path, record.event.name)
            for record in self._records()
            if isinstance(record.event, ToolInDoubt)
        }

    @property
    def replies(self) -> dict[str, int]:
        """How many model replies are recorded, by goal; of several tasks with one goal, the least.

        A task is known to its model by its goal alone.
        """
        found: dict[str, int] = {}
        for records in self.events.values():
            count = sum(isinstance(record.event, ModelReplied) for record in records)
            for record in records:
                if isinstance(record.event, TaskCreated):
                    goal = record.event.goal
                    found[goal] = min(count, found.get(goal, count))
        return found

    @property
    def ends(self) -> list[tuple[str, str, object]]:
        """Goal, outcome and output of each settled task, sorted."""
        found = [
            (self.tasks[record.task_id].spec.goal, record.event.outcome, record.event.output)
            for record in self._records()
            if isinstance(record.event, TaskSettled)
        ]
        return sorted(found, key=repr)

    def _records(self) -> list[Recorded]:
        return [record for records in self.events.values() for record in records]
