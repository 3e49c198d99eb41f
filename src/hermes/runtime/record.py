"""A task's stream, sorted by what a replay asks it for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from hermes.core.budget import Excess, Limits
from hermes.core.events import (
    BudgetExceeded,
    ContextCompacted,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    Recorded,
    TaskEvent,
    TaskSettled,
    TaskStarted,
    ToolFailed,
    ToolReconciled,
    ToolReturned,
    ToolStarted,
    VariableSet,
)
from hermes.core.task import Task, fold
from hermes.errors import InputError
from hermes.loop.compaction import CONTEXT_FULL
from hermes.loop.setup import RecordedStop
from hermes.loop.state import TOO_LONG

from .decisions import OWN_REFUSALS, Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The record as a replay reads it.

    Attributes:
        task: As it stands at the record's end.
        head: The events before the work began; of a fork also those that it has from the other.
        earlier: The session's tasks that the model was shown.
        others: What it was told of other tasks of the session.
        compactions: Of the conversation, by the path of the model call that they came before.
        replies: Outcomes of the model calls, in order.
        results: Outcomes of the tool calls, by path.
        written: Variables that a call set, by its path.
        given: Variables that no call set, each with the number of model calls before it.
        hidden: Tools that a model call was not offered, by its path.
        limits: Only the bound that was reached, if it is the task's own, and how often a tool may
            fail.
        stop: Where a bound of the whole tree was reached.
        is_whole: It goes to an end that the program decided, not to one by time or by a person.
    """

    task: Task
    head: Sequence[Recorded]
    earlier: tuple[str, ...]
    others: str
    compactions: Mapping[str, Sequence[TaskEvent]]
    replies: Sequence[ModelReplied | ModelFailed]
    results: Mapping[str, ToolReturned | ToolFailed | ToolReconciled]
    begun: frozenset[str]
    written: Mapping[str, Mapping[str, object]]
    given: Sequence[tuple[int, VariableSet]]
    hidden: Mapping[str, tuple[str, ...]]
    limits: Limits
    stop: RecordedStop
    is_whole: bool

    @classmethod
    def of(cls, records: Sequence[Recorded]) -> Record:
        """Sort a whole stream.

        Raises:
            InputError: The task was never begun.
        """
        task = fold(records)
        start = next((n for n, record in enumerate(records) if record.token > 0), None)
        if task is None or start is None:
            raise InputError("the task was never begun, so there is nothing to replay")
        events = [record.event for record in records[start:]]
        reached = next((item for item in events if isinstance(item, BudgetExceeded)), None)
        late = reached is not None and reached.limit == "max_seconds"
        settled = next((item for item in events if isinstance(item, TaskSettled)), None)
        full = settled is not None and settled.error and settled.error.code == CONTEXT_FULL
        is_whole = bool(settled and settled.outcome != "cancelled" and not late and not full)
        first = next((item for item in events if isinstance(item, TaskStarted)), None)
        return cls(
            task=task,
            head=records[:start],
            earlier=first.earlier if first else (),
            others=first.others if first else "",
            compactions=_compactions(events),
            replies=_replies(events, is_whole=is_whole),
            results=_results(events),
            begun=frozenset(item.path for item in events if isinstance(item, ToolStarted)),
            written=_written(events),
            given=_given(events),
            hidden={item.path: item.hidden for item in events if isinstance(item, ModelRequested)},
            limits=_only(reached if is_whole else None, task.spec.limits),
            stop=_stop([item.event for item in records], reached if is_whole else None),
            is_whole=is_whole,
        )

    def comparable(
        self, then: Sequence[Decision], now: Sequence[Decision]
    ) -> tuple[list[Decision], list[Decision]]:
        """Both without what did not depend on the program.

        That is a call that a person, or another call of the same deed, refused or answered; and in
        a record without an end, that end itself and the last turn's calls that one side lacks.
        """
        outside = {
            path for path in self.results if path not in self.begun and self._is_outside(path)
        }
        if not self.is_whole:
            then = [item for item in then if item.what not in ("end", "bound")]
            outside |= _calls(then) ^ _calls(now) if self._ends_alike(then, now) else set()
        return (
            [item for item in then if item.path not in outside],
            [item for item in now if item.path not in outside],
        )

    def _is_outside(self, path: str) -> bool:
        result = self.results[path]
        return not isinstance(result, ToolFailed) or result.error.code not in OWN_REFUSALS

    def _ends_alike(self, then: Sequence[Decision], now: Sequence[Decision]) -> bool:
        """Whether both got as far as the same last model call."""
        return _last_ask(then) == _last_ask(now)


def _calls(found: Sequence[Decision]) -> set[str]:
    return {item.path for item in found if item.what in ("call", "refusal")}


def _last_ask(found: Sequence[Decision]) -> str:
    return next((item.path for item in reversed(found) if item.what == "request"), "")


def _replies(events: Sequence[TaskEvent], *, is_whole: bool) -> list[ModelReplied | ModelFailed]:
    """Outcomes of model calls; a failure only where the task ended, or was compacted, for it."""
    beside = {item.path for item in events if _is_beside(item)}
    found = [
        item
        for item in events
        if isinstance(item, ModelReplied | ModelFailed) and item.path not in beside
    ]
    return [
        item
        for place, item in enumerate(found, 1)
        if isinstance(item, ModelReplied)
        or (item.error.code == TOO_LONG if place < len(found) else is_whole)
    ]


def _is_beside(event: TaskEvent) -> TypeGuard[ModelRequested]:
    """Whether a model call is none of the conversation: a replay does not make it."""
    return isinstance(event, ModelRequested) and event.purpose == "compaction"


def _compactions(events: Sequence[TaskEvent]) -> dict[str, list[TaskEvent]]:
    found: dict[str, list[TaskEvent]] = {}
    waiting: list[TaskEvent] = []
    beside: set[str] = set()
    for item in events:
        if _is_beside(item):
            beside.add(item.path)
            waiting.append(item)
        elif isinstance(item, ContextCompacted) or (
            isinstance(item, ModelFailed) and item.path in beside
        ):
            waiting.append(item)
        elif isinstance(item, ModelRequested) and waiting:
            found[item.path], waiting = waiting, []
    return found


def _results(
    events: Sequence[TaskEvent],
) -> dict[str, ToolReturned | ToolFailed | ToolReconciled]:
    return {
        item.path: item
        for item in events
        if isinstance(item, ToolReturned | ToolFailed)
        or (isinstance(item, ToolReconciled) and item.decision == "done")
    }


def _written(events: Sequence[TaskEvent]) -> dict[str, dict[str, object]]:
    written: dict[str, dict[str, object]] = {}
    for item in events:
        if isinstance(item, VariableSet) and item.path:
            written.setdefault(item.path, {})[item.name] = item.value
    return written


def _given(events: Sequence[TaskEvent]) -> list[tuple[int, VariableSet]]:
    asked, given = 0, list[tuple[int, VariableSet]]()
    for item in events:
        asked += isinstance(item, ModelRequested) and not _is_beside(item)
        if isinstance(item, VariableSet) and not item.path:
            given.append((asked, item))
    return given


def _only(reached: BudgetExceeded | None, limits: Limits) -> Limits:
    """The bound that was reached and no other: others may have been raised on the way."""
    none = Limits(max_steps=None, max_tool_failures=limits.max_tool_failures)
    if reached is None or reached.limit != "max_steps":
        return none
    return replace(none, max_steps=int(reached.allowed))


def _stop(events: Sequence[TaskEvent], reached: BudgetExceeded | None) -> RecordedStop:
    """Where a bound of the whole tree was reached: what the others spent is not here."""
    if reached is None or reached.limit == "max_steps":
        return RecordedStop()
    before = events[: events.index(reached)]
    return RecordedStop(
        reached=Excess(
            limit=reached.limit,
            allowed=reached.allowed,
            spent=reached.spent,
            estimate=reached.estimate,
        ),
        model_calls=sum(isinstance(item, ModelRequested) for item in before),
        tool_calls=len({item.path for item in events if isinstance(item, ToolStarted)}),
    )
