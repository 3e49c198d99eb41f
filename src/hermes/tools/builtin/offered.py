"""Names from the settings that a tool's parameter may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from hermes.core.problems import did_you_mean
from hermes.errors import ToolError
from hermes.tools.base import Tool

T = TypeVar("T")


def offering(made: Tool, parameter: str, names: Sequence[str]) -> Tool:
    """The tool with the configured names in its schema."""
    if not names:
        return made
    properties = cast("dict[str, dict[str, object]]", made.parameters["properties"])
    own = properties[parameter]
    choices = [*names, own["default"]] if "default" in own else [*names]
    offered = properties | {parameter: own | {"enum": choices}}
    return replace(made, parameters={**made.parameters, "properties": offered})


def chosen(known: Mapping[str, T], name: str, *, what: str, setting: str) -> T:
    """What is configured under a name; "" is the only one.

    Raises:
        ToolError: There is none of that name, or more than one to choose from.
    """
    if name in known:
        return known[name]
    if not name and len(known) == 1:
        return next(iter(known.values()))
    names = ", ".join(known) or f"none; set {setting}"
    raise ToolError(
        f"no {what} is called {name!r:.80}; configured: {names}",
        code=f"unknown_{what}",
        hint=did_you_mean(name, known) if name else "",
    )
