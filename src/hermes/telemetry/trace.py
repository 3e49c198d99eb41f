"""Trace, timeline and raw record: views of the journal, nothing kept twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from hermes.core import codec, json
from hermes.core.clock import rfc3339
from hermes.core.events import (
    ContextCompacted,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    Recorded,
    TaskSplit,
    TaskWaiting,
    ToolFailed,
    ToolInDoubt,
    ToolReconciled,
    ToolReturned,
    ToolStarted,
)
from hermes.core.request import TraceEntry


def trace(records: Iterable[Recorded]) -> list[TraceEntry]:
    """Every model and tool call of a task, in the order they were begun.

    Args:
        records: The task's whole stream.
    """
    view = TraceView()
    for record in records:
        view.follow(record)
    return view.entries


class TraceView:
    """A trace that grows with the journal.

    An entry is made when it is asked for: a call would otherwise have two, one as it is begun.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._last: dict[str, _Call] = {}
        self._origin: datetime | None = None

    @property
    def entries(self) -> list[TraceEntry]:
        """Every call so far, in the order they were begun."""
        return [call.entry(step) for step, call in enumerate(self._calls, 1)]

    def follow(self, record: Recorded) -> None:
        """Take one more event in."""
        self._origin = self._origin or record.at
        match record.event:
            case ModelRequested(path=path, model=model):
                self._begin(record, path, "llm", model)
            case ToolStarted(path=path, name=name):
                self._begin(record, path, "tool", name)
            case ModelReplied() as event:
                thought = event.reasoning or (event.text if event.calls else "")
                tokens = event.usage.total_tokens
                self._end(event.path, "ok", event.duration_s, tokens, thought, cached=event.cached)
            case ContextCompacted() as event if event.path:
                self._end(event.path, "ok", event.duration_s, event.usage.total_tokens)
            case ModelRetried(path=path, usage=usage):
                if (call := self._last.get(path)) is not None:
                    call.tokens += usage.total_tokens
            case ModelFailed() as event:
                self._end(event.path, "error", event.duration_s, event.usage.total_tokens)
            case ToolReturned() as event:
                self._end(
                    event.path, "ok", event.duration_s, tries=event.tries, cached=event.cached
                )
            case ToolFailed() as event:
                if event.path not in self._last:
                    self._begin(record, event.path, "tool", event.name)
                self._end(event.path, event.status, event.duration_s, tries=event.tries)
            case ToolInDoubt(path=path):
                self._end(path, "in_doubt", 0.0)
            case ToolReconciled(path=path, decision=decision):
                self._end(path, "ok" if decision == "done" else "running", 0.0)
            case TaskWaiting(pending=pending):
                for each in pending:
                    self._wait(each.path)
            case _:
                pass

    def _begin(self, record: Recorded, path: str, type_: Literal["llm", "tool"], name: str) -> None:
        origin = self._origin or record.at
        started_ms = round((record.at - origin).total_seconds() * 1000)
        call = _Call(path=path, type=type_, name=name, started_ms=started_ms)
        self._calls.append(call)
        self._last[path] = call

    def _wait(self, path: str) -> None:
        call = self._last.get(path)
        if call is not None and call.status == "running":
            call.status = "waiting"

    def _end(
        self,
        path: str,
        status: str,
        duration_s: float,
        tokens: int = 0,
        thought: str = "",
        tries: int = 1,
        cached: bool = False,
    ) -> None:
        call = self._last.get(path)
        if call is None:
            return
        call.status, call.duration_s = status, duration_s
        call.tokens += tokens
        call.thought, call.tries, call.cached = thought, tries, cached


@dataclass(slots=True, kw_only=True)
class _Call:
    """What is known of a call so far."""

    path: str
    type: Literal["llm", "tool"]
    name: str
    started_ms: int
    status: str = "running"
    duration_s: float = 0.0
    tokens: int = 0
    thought: str = ""
    tries: int = 1
    cached: bool = False

    def entry(self, step: int) -> TraceEntry:
        return TraceEntry(
            step=step,
            type=self.type,
            name=self.name,
            duration_ms=round(self.duration_s * 1000),
            tokens_used=self.tokens,
            status=self.status,
            path=self.path,
            started_ms=self.started_ms,
            thought=self.thought or None,
            tries=self.tries,
            cached=self.cached,
        )


def children_of(records: Iterable[Recorded]) -> list[str]:
    """Ids of the tasks that a task has handed work to, in the order they were begun.

    Args:
        records: The task's whole stream.
    """
    splits = [record.event for record in records if isinstance(record.event, TaskSplit)]
    return [child for split in splits for child in split.children]


def as_jsonl(records: Iterable[Recorded]) -> Iterable[str]:
    """The full raw record, one event a line: every model reply and tool result to the letter."""
    for record in records:
        yield json.dumps(as_object(record))


def as_object(record: Recorded) -> dict[str, object]:
    """One event as a JSON object: the envelope's fields and, under `data`, the event's own."""
    return {
        "position": record.position,
        "task_id": record.task_id,
        "seq": record.seq,
        "type": record.event.type,
        "at": rfc3339(record.at),
        "trace_id": record.trace_id,
        "event_id": record.event_id,
        "token": record.token,
        "data": codec.to_plain(record.event),
    }
