"""What a run depends on in a playbook, part by part, so that a change can be named."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

from hermes.core import json
from hermes.models.playbook_file import Filled, Playbook, Rule, Step
from hermes.models.templates import Expression, TextTemplate

_VARIABLE = re.compile(r"\bvars(?:\.(?!get\b)(\w+)|\[\s*['\"](\w+)['\"]\s*\])")


def code_of(playbook: Playbook, goal: str) -> dict[str, str]:
    """The parts that decide about a goal.

    Args:
        playbook: As it is now.
        goal: Chooses the rule; the others do not matter to its run.

    Returns:
        `playbook` is the digest of the whole file; `playbook.rule`, `.steps`, `.set`, `.variables`
        and `.answer` are of the rule, and `playbook:NAME` is the digest of each step of it.
    """
    whole = {
        "playbook": json.digest([list(map(_rule, playbook.rules)), _plain(playbook.otherwise)])
    }
    rule = next((rule for rule in playbook.rules if rule.when.match(goal) is not None), None)
    if rule is None:
        return whole | {
            "playbook.rule": "",
            "playbook.answer": json.digest(_plain(playbook.otherwise)),
        }
    return whole | _parts(rule)


def _parts(rule: Rule) -> dict[str, str]:
    parts = {
        "playbook.rule": rule.name,
        "playbook.steps": ", ".join(step.name for step in rule.steps),
        "playbook.answer": json.digest(_plain(rule.answer)),
    }
    if rule.sets:
        parts["playbook.set"] = json.digest(_plain(rule.sets))
    if needed := sorted(_variables(_rule(rule))):
        parts["playbook.variables"] = ", ".join(needed)
    return parts | {f"playbook:{step.name}": json.digest(_step(step)) for step in rule.steps}


def _rule(rule: Rule) -> dict[str, object]:
    return {
        "name": rule.name,
        "when": str(rule.when),
        "set": _plain(rule.sets),
        "steps": list(map(_step, rule.steps)),
        "answer": _plain(rule.answer),
    }


def _step(step: Step) -> dict[str, object]:
    return {
        "call": step.call,
        "with": _plain(step.arguments),
        "if": _plain(step.condition),
        "foreach": _plain(step.foreach),
        "item": step.item,
        "as": step.result_name,
        "continues": step.continues,
    }


def _plain(part: Filled) -> object:
    """A part as it was written."""
    if isinstance(part, TextTemplate | Expression):
        return part.source
    if isinstance(part, list):
        return [_plain(item) for item in json.as_list(cast("object", part))]
    if isinstance(part, Mapping):
        return {key: _plain(item) for key, item in cast("Mapping[str, object]", part).items()}
    return part


def _variables(part: object) -> set[str]:
    """Variables of the task that have to be there."""
    return {found[1] or found[2] for text in _texts(part) for found in _VARIABLE.finditer(text)}


def _texts(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, list):
        for item in json.as_list(cast("object", part)):
            yield from _texts(item)
    elif (table := json.as_object(part)) is not None:
        for item in table.values():
            yield from _texts(item)
