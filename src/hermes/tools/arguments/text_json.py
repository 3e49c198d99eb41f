"""Calls in JSON, in the shapes that models give them; each keeps its arguments as written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from hermes.core.problems import did_you_mean
from hermes.tools.schema import Schema

from .text_marks import past

MAX_CALLS = 128
_NAMES = ("name", "tool_name", "tool", "function", "function_name", "action")
_ARGUMENTS = ("arguments", "parameters", "args", "tool_args", "input", "action_input", "params")
_USUAL = (("name", "arguments"), ("name", "parameters"), ("tool_name", "tool_args"))
_ASIDE = frozenset(
    ("id", "type", "call_id", "tool_call_id", "index", "thought", "thoughts", "reasoning")
)
_WRAPPERS = ("tool_calls", "tool_call", "function_call", "function", "action")
_BESIDE_WRAPPER = frozenset(("content", "role"))
_MAX_WRAPPERS = 3
_PREFIX = re.compile(r"(?:functions?|tools?|default_api)\.")
_SPACE = re.compile(r"\s*")
_SHOWN_CHARS = 60
_SHOWN_TOOLS = 20
_DECODER = json.JSONDecoder()


class Broken(Exception):
    """A call was begun that cannot be used; the message says why, for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCall:
    """A call that was written as text.

    Attributes:
        name: Of a known tool.
        raw: Its arguments as they were written, to be read like those of any call.
    """

    name: str
    raw: str


class Names:
    """The tools there are, and what a model may call them."""

    def __init__(self, tools: Mapping[str, Schema]) -> None:
        self.tools = tools

    def known(self, name: str) -> str | None:
        """The tool of that name, to the letter but for a prefix such as `functions.`."""
        name = name.strip()
        if name not in self.tools:
            name = _PREFIX.sub("", name, count=1)
        return name if name in self.tools else None

    def close(self, name: str) -> str:
        """A hint at a tool with nearly that name; "" if there is none."""
        return did_you_mean(name.strip()[:_SHOWN_CHARS], self.tools)

    def tool(self, name: str) -> str:
        """The tool that is meant.

        Raises:
            Broken: There is none of that name.
        """
        known = self.known(name)
        if known is not None:
            return known
        listed = ", ".join(f"`{item}`" for item in list(self.tools)[:_SHOWN_TOOLS])
        hint = self.close(name) or f"there is: {listed or 'none at all'}"
        raise Broken(f"there is no tool `{name.strip()[:_SHOWN_CHARS]}`; {hint.rstrip('?')}")


def calls_in(
    written: str, names: Names, *, is_marked: bool, depth: int = 0
) -> list[WrittenCall] | None:
    """The calls in one strict JSON value; None if it is no call at all.

    Args:
        written: The value.
        names: The tools there are.
        is_marked: Marks around it say that it is a call.
        depth: How many wrappers stand around it.

    Raises:
        Broken: It is a call that cannot be used.
    """
    if written.startswith("["):
        return _in_array(written, names, is_marked=is_marked, depth=depth)
    members = _members(written) if written.startswith("{") else {}
    keys = members.keys() - _ASIDE
    for wrapper in _WRAPPERS:
        inner = members.get(wrapper, "")
        if keys <= {wrapper} | _BESIDE_WRAPPER and inner.startswith(("{", "[")):
            if depth == _MAX_WRAPPERS:
                return None
            found = calls_in(inner, names, is_marked=is_marked, depth=depth + 1)
            return found or _keyed(members, names)
    for key in _NAMES:
        if key in keys and (call := _named(key, members, keys, names, is_marked=is_marked)):
            return [call]
    if found := _keyed(members, names):
        return found
    if is_marked and "final_answer" not in members:
        raise Broken("a call needs `name` and `arguments`, and nothing else")
    return None


def _in_array(
    written: str, names: Names, *, is_marked: bool, depth: int
) -> list[WrittenCall] | None:
    calls: list[WrittenCall] = []
    for item in _elements(written):
        found = None
        if item.startswith("{"):
            found = calls_in(item, names, is_marked=is_marked, depth=depth)
        if found is None and (is_marked or calls):
            raise Broken("not every item of the array is a call")
        if found is None:
            return None
        calls += found
        if len(calls) > MAX_CALLS:
            raise Broken(f"it holds more than the {MAX_CALLS} calls that are allowed at once")
    return calls or None


def _named(
    key: str, members: Mapping[str, str], keys: set[str], names: Names, *, is_marked: bool
) -> WrittenCall | None:
    rest = keys - {key}
    if len(rest) > 1 or not rest <= set(_ARGUMENTS):
        return None
    name: object = json.loads(members[key])
    if not isinstance(name, str):
        return None
    if not rest:
        return WrittenCall(name=names.tool(name), raw="{}") if is_marked else None
    holder = rest.pop()
    raw = members[holder]
    is_known = names.known(name) is not None
    if not is_marked and not is_known and (key, holder) not in _USUAL and not names.close(name):
        return None
    is_meant = is_marked or is_known
    if raw.startswith('"') and is_meant:
        raw = cast("str", json.loads(raw))
    elif not raw.startswith("{") and (raw != "null" or not is_meant):
        if is_meant:
            raise Broken(f"the arguments of `{name[:_SHOWN_CHARS]}` must be one JSON object")
        return None
    return WrittenCall(name=names.tool(name), raw=raw)


def _keyed(members: Mapping[str, str], names: Names) -> list[WrittenCall] | None:
    """`{"name": {…}}` with the name of a known tool."""
    if len(members) != 1:
        return None
    [(key, raw)] = members.items()
    name = names.known(key)
    return [WrittenCall(name=name, raw=raw)] if name and raw.startswith("{") else None


def _members(text: str) -> dict[str, str]:
    """Key to the text of its value, for strict JSON; empty if a key stands twice."""
    found: dict[str, str] = {}
    at = past(_SPACE, text, 1)
    while text.startswith('"', at):
        key, at = cast("tuple[str, int]", _DECODER.raw_decode(text, at))
        if key in found:
            return {}
        at = past(_SPACE, text, past(_SPACE, text, at) + 1)
        end = _DECODER.raw_decode(text, at)[1]
        found[key] = text[at:end]
        at = past(_SPACE, text, past(_SPACE, text, end) + 1)
    return found


def _elements(text: str) -> Iterator[str]:
    """The texts of an array's items, for strict JSON."""
    at = past(_SPACE, text, 1)
    while not text.startswith("]", at) and at < len(text):
        end = _DECODER.raw_decode(text, at)[1]
        yield text[at:end]
        at = past(_SPACE, text, past(_SPACE, text, end) + 1)
