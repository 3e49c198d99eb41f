"""Two tasks beside each other, step by step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hermes.agents.code import recorded_codes
from hermes.core.chat import ToolCall
from hermes.core.events import (
    ModelFailed,
    ModelReplied,
    ModelRequested,
    Recorded,
    TaskSettled,
    ToolFailed,
    ToolInDoubt,
    ToolReconciled,
    ToolReturned,
    ToolStarted,
)
from hermes.core.task import Task, fold
from hermes.errors import NotFoundError

from .decisions import arguments_of, calls_of

_PATH = re.compile(r"/turn(\d+)/(model|tool)(\d+)")
How = Literal["same", "changed", "left", "right"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that is not the same on both sides; None where a side has none."""

    what: str
    left: object
    right: object


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDiff:
    """A model or tool call on both sides.

    Attributes:
        name: Of the model or the tool, on the side that has it.
        how: `left` and `right`: only that task has it.
    """

    path: str
    name: str
    how: How
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What a task came to and what it took."""

    status: str
    turns: int
    tool_calls: int
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDiff:
    """Two tasks compared.

    Attributes:
        task: What differs between the tasks as a whole: goal, input, variables, outcome.
        code: What differs between their programs.
        steps: Aligned by path, in order.
        totals: Of both.
    """

    left: str
    right: str
    task: tuple[Change, ...]
    code: tuple[Change, ...]
    steps: tuple[StepDiff, ...]
    totals: tuple[Totals, Totals]

    @property
    def is_same(self) -> bool:
        return not (self.task or self.code) and all(step.how == "same" for step in self.steps)


def diff(left: Sequence[Recorded], right: Sequence[Recorded]) -> TaskDiff:
    """Compare two tasks; ids, times, durations and token counts are no difference.

    Raises:
        NotFoundError: One of the streams is empty.
    """
    first, second = _Side.of(left), _Side.of(right)
    paths = sorted({*first.steps, *second.steps}, key=_order)
    return TaskDiff(
        left=first.task.task_id,
        right=second.task.task_id,
        task=_changes(first.whole, second.whole),
        code=_changes(first.code, second.code),
        steps=tuple(_step(path, first.steps.get(path), second.steps.get(path)) for path in paths),
        totals=(first.totals, second.totals),
    )


@dataclass(slots=True, kw_only=True)
class _Call:
    """A step as far as it is compared."""

    name: str
    facts: dict[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    task: Task
    whole: Mapping[str, object]
    code: Mapping[str, str]
    steps: Mapping[str, _Call]
    totals: Totals

    @classmethod
    def of(cls, records: Sequence[Recorded]) -> _Side:
        task = fold(records)
        if task is None:
            raise NotFoundError("there is no such task", hint="`hermes tasks` lists them")
        spec, spent = task.spec, task.status.spent
        end = next((r.event for r in records if isinstance(r.event, TaskSettled)), None)
        codes = recorded_codes(records)
        return cls(
            task=task,
            whole={
                "goal": spec.goal,
                "input": spec.input,
                "agent": spec.agent,
                "variables": dict(spec.variables),
                "outcome": task.state.value,
                "output": end.output if end else None,
                "error": end.error.message if end and end.error else None,
            },
            code=codes[-1] if codes else {},
            steps=_steps(records),
            totals=Totals(
                status=task.state.value,
                turns=spent.steps,
                tool_calls=spent.tool_calls,
                tokens=spent.usage.total_tokens,
                seconds=round(spent.seconds, 3),
            ),
        )


def _steps(records: Sequence[Recorded]) -> dict[str, _Call]:
    steps: dict[str, _Call] = {}
    asked: dict[str, ToolCall] = {}
    for record in records:
        match record.event:
            case ModelRequested() as event:
                steps[event.path] = _Call(
                    name=event.model,
                    facts={"prompt": event.prompt, "tools": event.tools, "reminder": event.repair},
                )
            case ModelReplied() as event:
                asked |= calls_of(event)
                calls = [f"{call.name} {call.arguments}" for call in event.calls]
                _call(steps, event.path, event.model).facts |= {"text": event.text, "calls": calls}
            case ModelFailed(path=path, error=error):
                _call(steps, path, "").facts["error"] = error.message
            case ToolStarted(path=path) as event:
                arguments = arguments_of(event, asked.get(path))
                _call(steps, path, event.name).facts |= {"tool": event.name, "arguments": arguments}
            case ToolReturned() as event:
                facts = {"status": "ok", "result": event.content}
                _call(steps, event.path, event.name).facts |= facts
            case ToolFailed() as event:
                facts = {"status": event.status, "result": event.error.message}
                _call(steps, event.path, event.name).facts |= facts
            case ToolInDoubt() as event:
                _call(steps, event.path, event.name).facts["status"] = "in doubt"
            case ToolReconciled() as event:
                facts = {"status": event.decision, "result": event.content}
                _call(steps, event.path, event.name).facts |= facts
            case _:
                pass
    return steps


def _call(steps: dict[str, _Call], path: str, name: str) -> _Call:
    return steps.setdefault(path, _Call(name=name))


def _step(path: str, left: _Call | None, right: _Call | None) -> StepDiff:
    name = (left or right or _Call(name="")).name
    if left is None or right is None:
        return StepDiff(path=path, name=name, how="right" if left is None else "left")
    changes = _changes({"name": left.name, **left.facts}, {"name": right.name, **right.facts})
    return StepDiff(path=path, name=name, how="changed" if changes else "same", changes=changes)


def _changes(left: Mapping[str, object], right: Mapping[str, object]) -> tuple[Change, ...]:
    return tuple(
        Change(what=name, left=left.get(name), right=right.get(name))
        for name in (*left, *(name for name in right if name not in left))
        if left.get(name) != right.get(name)
    )


def _order(path: str) -> tuple[int, int, int]:
    """Turns in order, and in each the model's calls before those of the tools."""
    found = _PATH.fullmatch(path)
    if found is None:
        return (0, 0, 0)
    return (int(found[1]), 0 if found[2] == "model" else 1, int(found[3]))


def as_object(found: TaskDiff) -> dict[str, object]:
    """The comparison for programs."""
    return {
        "left": found.left,
        "right": found.right,
        "same": found.is_same,
        "task": list(map(_change, found.task)),
        "code": list(map(_change, found.code)),
        "steps": [
            {
                "path": step.path,
                "name": step.name,
                "how": step.how,
                "changes": list(map(_change, step.changes)),
            }
            for step in found.steps
        ],
        "totals": [_totals(side) for side in found.totals],
    }


def _change(change: Change) -> dict[str, object]:
    return {"what": change.what, "left": change.left, "right": change.right}


def _totals(side: Totals) -> dict[str, object]:
    return {
        "status": side.status,
        "turns": side.turns,
        "tool_calls": side.tool_calls,
        "tokens": side.tokens,
        "seconds": side.seconds,
    }
