"""What a program decided in a task, as values that can be compared with another run's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from hermes.core import json
from hermes.core.chat import ToolCall
from hermes.core.events import (
    BudgetExceeded,
    ModelReplied,
    ModelRequested,
    Recorded,
    TaskSettled,
    ToolFailed,
    ToolStarted,
)
from hermes.errors import CodecError
from hermes.loop.handover import STOPPED

OWN_REFUSALS = ("unknown_tool", "bad_arguments", "output_limit", "budget", STOPPED)
"""Refusals that the loop decides by itself; all others come from outside."""
_TOOL = re.compile(r"/turn\d+/tool(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the program decided at a step.

    Attributes:
        path: Of the step; "" for the end of the task.
        what: `request`, `reply`, `call`, `refusal`, `bound` or `end`.
        facts: What is compared.
    """

    path: str
    what: str
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first decision that is not the recorded one.

    Attributes:
        path: Of the step; "" for the end of the task.
        what: Which decision, and which fact of it: `call: arguments`.
        then: The recorded fact; None if the record has no such decision.
        now: The present one; None if the program decides nothing here.
    """

    path: str
    what: str
    then: object
    now: object


def decisions(records: Sequence[Recorded], *, replies: bool, after: int = 0) -> list[Decision]:
    """The decisions of a task, in order; calls of one turn in the order of their paths.

    Args:
        records: The task's whole stream.
        replies: Whether a reply is a decision too: a playbook's is, a model's comes from outside.
        after: Only what comes after so many events.
    """
    found = list(_decided(records, replies=replies, after=after))
    ordered: list[Decision] = []
    for _, group in groupby(found, key=lambda item: bool(_TOOL.fullmatch(item.path))):
        ordered.extend(sorted(group, key=_place))
    return ordered


def compare(
    then: Sequence[Decision], now: Sequence[Decision], *, is_whole: bool
) -> tuple[int, Difference | None]:
    """How many decisions are the same from the first on, and the first other one.

    Args:
        then: Of the record.
        now: Of the present program.
        is_whole: Each of the two has to end where the other does; otherwise the one that ends
            first is no difference.
    """
    for same, (old, new) in enumerate(zip(then, now, strict=False)):
        if difference := _differ(old, new):
            return same, difference
    same = min(len(then), len(now))
    if not is_whole or len(then) == len(now):
        return same, None
    return same, _beyond(then, now, same)


def _beyond(then: Sequence[Decision], now: Sequence[Decision], same: int) -> Difference:
    """One of the two goes on where the other has ended."""
    more = then[same] if len(then) > same else now[same]
    shown = {"then": None, "now": None} | {"then" if len(then) > same else "now": dict(more.facts)}
    return Difference(path=more.path, what=more.what, then=shown["then"], now=shown["now"])


def _differ(old: Decision, new: Decision) -> Difference | None:
    if (old.path, old.what) != (new.path, new.what):
        then, now = f"{old.what} {old.path}".strip(), f"{new.what} {new.path}".strip()
        return Difference(path=old.path or new.path, what="order", then=then, now=now)
    for name in (*old.facts, *(name for name in new.facts if name not in old.facts)):
        then, now = old.facts.get(name), new.facts.get(name)
        if then != now:
            return Difference(path=old.path, what=f"{old.what}: {name}", then=then, now=now)
    return None


def _decided(records: Sequence[Recorded], *, replies: bool, after: int) -> Iterator[Decision]:
    calls: dict[str, ToolCall] = {}
    for record in records[:after]:
        if isinstance(record.event, ModelReplied):
            calls |= calls_of(record.event)
    begun: set[str] = set()
    for record in records[after:]:
        match record.event:
            case ModelRequested(purpose="turn") as event:
                yield Decision(path=event.path, what="request", facts=_request(event))
            case ModelReplied() as event:
                calls |= calls_of(event)
                if replies:
                    yield Decision(path=event.path, what="reply", facts=_reply(event))
            case ToolStarted(path=path) as event if path not in begun:
                begun.add(path)
                yield Decision(path=path, what="call", facts=_call(event, calls.get(path)))
            case ToolFailed(path=path, status="refused", error=error) if path not in begun:
                if error.code in OWN_REFUSALS:
                    yield Decision(path=path, what="refusal", facts={"code": error.code})
            case BudgetExceeded(limit=limit):
                yield Decision(path="", what="bound", facts={"limit": limit})
            case TaskSettled() as event:
                error = event.error.code if event.error else None
                facts = {"outcome": event.outcome, "output": event.output, "error": error}
                yield Decision(path="", what="end", facts=facts)
            case _:
                pass


def _request(event: ModelRequested) -> dict[str, object]:
    return {
        "prompt": event.prompt,
        "tools": event.tools,
        "messages": event.history,
        "reminder": event.repair,
    }


def _reply(event: ModelReplied) -> dict[str, object]:
    calls = [{"tool": call.name, "arguments": _read(call.arguments)} for call in event.calls]
    return {"calls": calls, "text": event.text}


def _call(event: ToolStarted, call: ToolCall | None) -> dict[str, object]:
    return {
        "tool": event.name,
        "arguments": arguments_of(event, call),
        "effect": event.effect,
        "fingerprint": event.fingerprint,
    }


def calls_of(event: ModelReplied) -> dict[str, ToolCall]:
    """The calls of a reply by their paths."""
    turn = event.path.rpartition("/")[0]
    return {f"{turn}/tool{number}": call for number, call in enumerate(event.calls, 1)}


def arguments_of(event: ToolStarted, call: ToolCall | None) -> object:
    """What a call was begun with."""
    if event.arguments is not None:
        return dict(event.arguments)
    return None if call is None else _read(call.arguments)


def _read(text: str) -> object:
    """Arguments as JSON, or as they stand where they are none."""
    try:
        return json.loads(text)
    except CodecError:
        return text


def _place(decision: Decision) -> int:
    found = _TOOL.fullmatch(decision.path)
    return int(found[1]) if found else 0
