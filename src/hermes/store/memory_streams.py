"""Tasks with their events and blobs, in dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from hermes.core.events import Recorded
from hermes.core.task import Task, TaskStatus
from hermes.errors import ConflictError, NotFoundError
from hermes.store.rules import blob_names, new_task
from hermes.store.values import NewTask, TaskQuery


@dataclass(slots=True, kw_only=True)
class Stream:
    """A task and all that happened to it."""

    task: Task
    records: list[Recorded] = field(default_factory=list[Recorded])
    cancel_requested: bool = False
    blobs: set[str] = field(default_factory=set[str])

    @property
    def is_open(self) -> bool:
        """Whether the task is not settled."""
        return not self.task.state.is_terminal

    def holds(self, records: Sequence[Recorded]) -> bool:
        """Whether these very events are stored already."""
        first = records[0].seq
        stored = self.records[first - 1 : first - 1 + len(records)]
        return [record.event_id for record in stored] == [record.event_id for record in records]


class MemoryStreams:
    """All tasks, oldest first.

    Attributes:
        blobs: Large texts by their digests.
    """

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self._streams: dict[str, Stream] = {}
        self._event_tokens: dict[str, int] = {}
        self._positions = 0

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._streams.values())

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._streams

    def find(self, task_id: str) -> Stream | None:
        """A task's stream, if there is one."""
        return self._streams.get(task_id)

    def find_task(self, task_id: str) -> Task | None:
        """A task, if there is one."""
        stream = self._streams.get(task_id)
        return None if stream is None else stream.task

    def get(self, task_id: str) -> Stream:
        """A task's stream, or NotFoundError."""
        stream = self._streams.get(task_id)
        if stream is None:
            raise NotFoundError(f"there is no task {task_id!r:.80}")
        return stream

    def query(self, query: TaskQuery) -> list[Task]:
        """The tasks that are asked for."""
        tasks = [stream.task for stream in self._streams.values()][::-1]
        if query.order_by == "updated":
            tasks.sort(key=lambda task: task.status.updated_at, reverse=True)
        if query.before is not None:
            ids = [task.task_id for task in tasks]
            tasks = tasks[ids.index(self.get(query.before).task.task_id) + 1 :]
        found = [
            task
            for task in tasks
            if (not query.states or task.state in query.states)
            and query.agent in (None, task.spec.agent)
            and query.session_id in (None, task.spec.session_id)
            and query.parent_id in (None, task.spec.parent_id)
        ]
        return found[: query.limit]

    def create(self, new: NewTask) -> None:
        """Add a task that was checked."""
        task = new_task(new.records, new.message)
        parent = self._streams.get(task.spec.parent_id or "")
        self._streams[task.task_id] = stream = Stream(
            task=task, cancel_requested=parent is not None and parent.cancel_requested
        )
        self.add(stream, new.records, task.status, token=0)

    def add(
        self, stream: Stream, records: Sequence[Recorded], status: TaskStatus, *, token: int
    ) -> None:
        """Append events that were checked."""
        for record in records:
            self._event_tokens[record.event_id] = token
            self._positions += 1
            stream.records.append(replace(record, token=token, position=self._positions))
        stream.task = replace(stream.task, status=status)
        stream.blobs |= blob_names(records)

    def forget(self, task_id: str) -> None:
        """Remove a task and its events."""
        for record in self._streams.pop(task_id).records:
            del self._event_tokens[record.event_id]

    def check_new(self, new: NewTask) -> None:
        """Raise ConflictError if the task's id or one of its events' is in use."""
        if new.message.task_id in self._streams:
            raise ConflictError(f"task id {new.message.task_id!r} is in use already")
        self.check_new_ids(new.records)

    def check_new_ids(self, records: Sequence[Recorded]) -> None:
        """Raise ConflictError if an event's id is in use."""
        ids = {record.event_id for record in records}
        if len(ids) < len(records) or not ids.isdisjoint(self._event_tokens):
            raise ConflictError("an event id is in use already")

    def wrote(self, token: int, records: Sequence[Recorded]) -> bool:
        """Whether there are events, and a lease with this token wrote them all."""
        tokens = [self._event_tokens.get(record.event_id) for record in records]
        return bool(tokens) and all(each == token for each in tokens)

    def is_below(self, task_id: str | None, top: str) -> bool:
        """Whether a task is `top` or below it."""
        while task_id is not None and task_id != top:
            task = self.find_task(task_id)
            task_id = None if task is None else task.spec.parent_id
        return task_id is not None

    def has_unsettled(self, parent_id: str, path: str) -> bool:
        """Whether a parent has, under a path, a child that is not settled."""
        return any(
            stream.is_open
            for stream in self._streams.values()
            if (stream.task.spec.parent_id, stream.task.spec.parent_path) == (parent_id, path)
        )
