"""What makes a tool hard to use for a model, seen in its name, description and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from hermes.tools.base import Tool

from .names import names_of, what_of
from .overlap import overlap
from .parameters import parameters_of, walk
from .words import EXAMPLE, MAX_DESCRIPTION, NOT_WHEN, RETURNS, WHEN

Level = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a model will stumble over.

    Attributes:
        rule: A short word for programs.
        text: What is wrong.
        hint: What to write instead.
        parameter: Its place in the arguments, as `items[].name`; "" if it is the tool as a whole.
    """

    tool: str
    rule: str
    level: Level
    text: str
    hint: str = ""
    parameter: str = ""


def lint(tools: Sequence[Tool], *, beside: Sequence[Tool] = ()) -> list[Finding]:
    """Read tools as a model would.

    Args:
        tools: Those to judge.
        beside: Others that a model is offered with them; only looked at for overlaps.

    Returns:
        What was found, in the order of the tools.
    """
    rest = [other for other in beside if all(other is not tool for tool in tools)]
    found: list[Finding] = []
    for place, tool in enumerate(tools):
        found.extend(_of_one(tool))
        for other in (*tools[place + 1 :], *rest):
            if told := overlap(tool, other):
                level, text = told
                found.append(
                    Finding(
                        tool=tool.name,
                        rule="overlap",
                        level=level,
                        text=text,
                        hint="say in both which one is for what, or leave one out",
                    )
                )
    return found


def _of_one(tool: Tool) -> Iterator[Finding]:
    for rule, level, text, hint in (*what_of(tool), *names_of(tool), *_template(tool)):
        yield Finding(tool=tool.name, rule=rule, level=level, text=text, hint=hint)
    for path, rule, level, text, hint in parameters_of(tool.parameters):
        yield Finding(tool=tool.name, rule=rule, level=level, text=text, hint=hint, parameter=path)


def _template(tool: Tool) -> Iterator[tuple[str, Level, str, str]]:
    """The parts that a description should have beside what the tool does."""
    described = tool.description
    whole = "\n".join([described, *_parameter_texts(tool)])
    for rule, says, where, text, hint in _PARTS:
        if not says(whole if where == "anywhere" else described):
            yield rule, "warning", text, hint
    if len(described) > MAX_DESCRIPTION:
        yield (
            "length",
            "warning",
            f"the description has {len(described):,} characters; some providers take "
            f"{MAX_DESCRIPTION:,} at most",
            "keep what decides whether to call it; the rest belongs to the parameters",
        )


_PARTS: tuple[tuple[str, Callable[[str], object], str, str, str], ...] = (
    (
        "returns",
        RETURNS.search,
        "description",
        "the description does not say what it returns",
        "add `Returns:` to the docstring: what, in which form, and what if there is nothing",
    ),
    (
        "when",
        WHEN.search,
        "description",
        "the description does not say when to use it",
        "add a sentence such as `Use it when …` (当……时使用)",
    ),
    (
        "when_not",
        NOT_WHEN.search,
        "description",
        "the description does not say when not to use it",
        "add a sentence such as `Not for …; use … instead` (不要用于……)",
    ),
    (
        "example",
        EXAMPLE.search,
        "anywhere",
        "neither the description nor a parameter gives an example",
        'add one, such as `for example "2026-11-29"` (例如……)',
    ),
)


def _parameter_texts(tool: Tool) -> list[str]:
    texts: list[str] = []
    for _, schema, _ in walk(tool.parameters):
        texts.append(str(schema.get("description") or ""))
        if schema.get("examples"):
            texts.append("for example")
    return texts
