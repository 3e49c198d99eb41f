"""What a run depends on, part by part, and how a changed program is told from the one before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol, cast

from hermes.core import json
from hermes.core.budget import Limits
from hermes.core.events import Recorded, TaskResumed, TaskStarted
from hermes.core.problems import did_you_mean
from hermes.errors import DriftError
from hermes.loop.prompts import Language, PromptBook, Prompts, shipped
from hermes.models import Model
from hermes.tools import ToolRegistry

from .definition import AgentDefinition
from .migrations import Lineage, lineage

_QUIET = ("rules", "language", "playbook")
"""Recorded, but no reason to stop: Hermes' own words, their language, which a task keeps, and what
other goals of a playbook do."""
_TOOL = "tool:"
_DEFAULT_LANGUAGE: Language = "en"
_DIGEST = re.compile(r"[0-9a-f]{16}")


class Coded(Protocol):
    """A model that is a program itself and says what a goal's run depends on."""

    def program_parts(self, goal: str) -> Mapping[str, str]:
        """Name of each part to its digest or its value."""
        ...


def program_of(model: object) -> Coded | None:
    """A model as the program that it is; None for one that is asked."""
    return cast("Coded", model) if hasattr(model, "program_parts") else None


def limits_for(limits: Limits, model: Model) -> Limits:
    """The bounds under a model: a program decides itself what the failure of a tool means."""
    return replace(limits, max_tool_failures=None) if program_of(model) else limits


def manifest(
    agent: AgentDefinition,
    registry: ToolRegistry,
    model: Model | str,
    *,
    goal: str,
    prompts: Prompts | None = None,
) -> dict[str, str]:
    """What a run depends on: name of each part to a digest, or to its value where that is short.

    Args:
        agent: Its words and schemas.
        registry: The tools that are on.
        model: Or its name; its address is no part of it.
        goal: A playbook counts by the rule that the goal chooses.
        prompts: What the framework itself says; the shipped English texts if None.
    """
    said = prompts or shipped("en")
    code = {
        "prompt": _digest_of(agent.role.strip(), agent.instructions.strip()),
        "rules": said.digest,
        "model": model if isinstance(model, str) else model.name,
    }
    if said.language != _DEFAULT_LANGUAGE:
        code["language"] = said.language
    if overrides := said.overrides_digest:
        code["prompts"] = overrides
    if agent.version:
        code["version"] = agent.version
    if agent.output_schema is not None:
        code["output_schema"] = json.digest(dict(agent.output_schema))
    if agent.required_tools:
        code["required_tools"] = ", ".join(agent.required_tools)
    code |= {f"{_TOOL}{tool.name}": tool.fingerprint for tool in registry}
    program = program_of(model)
    return code if program is None else code | dict(program.program_parts(goal))


@lru_cache(maxsize=64)
def _digest_of(*texts: str) -> str:
    return json.digest(texts)


def prompts_of(
    book: PromptBook,
    agent: AgentDefinition,
    *,
    goal: str,
    codes: Sequence[Mapping[str, str]] | None,
) -> Prompts:
    """What the framework itself says in a task, in the language that the task began with.

    Args:
        book: All texts.
        agent: Its words choose the language of a task that begins.
        goal: So does this.
        codes: The manifests of a task that has begun; None for one that begins.
    """
    if codes is None:
        return book.choose(agent.role, agent.instructions, goal)
    recorded = codes[-1].get("language") if codes else None
    return book.of("zh" if recorded == "zh" else _DEFAULT_LANGUAGE)


def recorded_codes(records: Sequence[Recorded]) -> list[Mapping[str, str]]:
    """Every manifest that a task was worked on with, in order; empty for old records."""
    return [
        record.event.code
        for record in records
        if isinstance(record.event, TaskStarted | TaskResumed) and record.event.code
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One part of a program that is not what it was.

    Attributes:
        then: None if it is new.
        now: None if it is gone.
        hint: What it may have become.
    """

    name: str
    then: str | None
    now: str | None
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.name}: {self._text()}"
        return f"{text} ({self.hint})" if self.hint else text

    def _text(self) -> str:
        if self.now is None:
            return f"gone, then {self.then!r}" if _is_word(self.then) else "gone"
        if self.then is None:
            return f"new, now {self.now!r}" if _is_word(self.now) else "new"
        if _is_word(self.then) or _is_word(self.now):
            return f"then {self.then!r}, now {self.now!r}"
        return f"changed (then {self.then}, now {self.now})"


def drifts(then: Mapping[str, str], now: Mapping[str, str]) -> list[Drift]:
    """What differs so that a run may go another way.

    A tool more is none: nothing that was begun depends on it.

    Args:
        then: The recorded manifest.
        now: The present one.
    """
    added = [name for name in now if name not in then]
    found: list[Drift] = []
    for name in (*then, *added):
        before, after = then.get(name), now.get(name)
        if before == after or name in _QUIET or (before is None and name.startswith(_TOOL)):
            continue
        found.append(Drift(name=name, then=before, now=after, hint=_renamed(name, after, added)))
    return found


def _renamed(name: str, now: str | None, added: Sequence[str]) -> str:
    """What a part that is gone may have become."""
    kind, colon, _ = name.partition(":")
    if not colon or now is not None:
        return ""
    guess = did_you_mean(name, [new for new in added if new.startswith(kind + colon)])
    if guess and kind == "playbook":
        return f"{guess} without a migration that renames its tool, that step is made anew"
    return guess


def _is_word(value: str | None) -> bool:
    """Whether a value says something to a person, as a digest does not."""
    return value is not None and not _DIGEST.fullmatch(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """How a task goes on with the present program.

    Attributes:
        code: The present manifest, if it is not the recorded one.
        accepted: What differs, one line each.
        by: Who accepted it.
        variables: To be set where the task does not have them.
    """

    code: Mapping[str, str]
    accepted: tuple[str, ...] = ()
    by: str = ""
    variables: Mapping[str, object]


def passage(
    agent: AgentDefinition,
    then: Mapping[str, str],
    now: Mapping[str, str],
    *,
    accept: bool = False,
    model_chosen: bool = False,
) -> Passage:
    """Compare the present program with the record.

    Args:
        agent: Declares migrations.
        then: The recorded manifest; empty for a record that has none, which is then not compared.
        now: The present manifest.
        accept: A person accepts every difference.
        model_chosen: The model, or playbook, was given on purpose.

    Raises:
        DriftError: Something differs that neither a person nor a migration has accepted.
    """
    code: Mapping[str, str] = now if dict(then) != dict(now) else {}
    found = drifts(then, now) if then else []
    way = _way(agent, then, now)
    left = [item for item in found if not (model_chosen and _is_model(item))]
    by = "the choice of a model" if found and not left else ""
    if left and way is not None:
        by, left = str(way), [item for item in left if not _covers(way, item)]
    if left and accept:
        by, left = "person", []
    if left:
        raise DriftError(
            "code",
            differences=[str(item) for item in left],
            hint=_what_next(then.get("version", ""), agent.version),
        )
    return Passage(
        code=code,
        accepted=tuple(map(str, found)),
        by=by,
        variables=way.variables if way is not None else {},
    )


def _way(agent: AgentDefinition, then: Mapping[str, str], now: Mapping[str, str]) -> Lineage | None:
    before, after = then.get("version", ""), now.get("version", "")
    return lineage(agent.migrations, before, after) if then and before != after else None


def _covers(way: Lineage, item: Drift) -> bool:
    """Whether a migration speaks of a difference: all but tools that it forgets are gone."""
    name = item.name.removeprefix(_TOOL)
    if name == item.name or item.now is not None:
        return True
    return name in way.removed or name in way.renames


def _is_model(item: Drift) -> bool:
    return item.name == "model" or item.name.startswith("playbook")


def _what_next(then: str, now: str) -> str:
    declare = "give the agent a `version` and declare a migration"
    if now:
        declare = f"declare a migration from version {then!r} to {now!r}"
        if then == now:
            declare = f"give the agent a new version and declare a migration from {now!r} to it"
    return (
        "resume with --accept-changes to go on with the present program, "
        f"{declare}, or resume with the program of before"
    )
