"""Tools that another program describes and runs."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from hermes.core.effects import EFFECTS, Effect
from hermes.core.json import as_object, digest, dumps
from hermes.errors import CodecError, ToolDefinitionError
from hermes.tools.base import Tool, ToolContext
from hermes.tools.function import NAME
from hermes.tools.validation import faults_of_schema

MAX_TOOLS = 128
_DESCRIPTION_CHARS = 4_000
_SCHEMA_CHARS = 65_536
_NAME_CHARS = 64
_SUFFIX_CHARS = 9

Call = Callable[[Mapping[str, object], "ToolContext | None"], Awaitable[object]]
"""Plain arguments and the context, which there is none of where a program calls the tool itself,
to the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """What a tool of another program is like, as far as Hermes has to know.

    Attributes:
        origin: Where it comes from, in words.
    """

    name: str
    description: str
    parameters: object
    origin: str
    effect: object = "unsafe"
    group: str = ""
    timeout_s: object = 30.0
    untrusted: bool = True
    outbound: bool = False


def foreign_tool(foreign: Foreign, call: Call) -> Tool:
    """A tool out of a description that nobody here has written.

    Raises:
        ToolDefinitionError: It cannot be one; the message says what is wrong.
    """
    name = foreign.name
    if not NAME.fullmatch(name):
        raise ToolDefinitionError(f"{name!r:.80} is no tool name")
    parameters = _usable(name, foreign.parameters)
    effect = _effect(name, foreign.effect)

    async def invoke(bound: Mapping[str, object], context: ToolContext) -> object:
        return await call(bound, context)

    async def function(**arguments: object) -> object:
        return await call(arguments, None)

    return Tool(
        name=name,
        description=_printable(foreign.description) or name.replace("_", " "),
        parameters=parameters,
        function=function,
        bind=lambda arguments: copy.deepcopy(dict(arguments)),
        invoke=invoke,
        effect=effect,
        group=foreign.group,
        timeout_s=_timeout(name, foreign.timeout_s),
        fingerprint=digest([name, parameters, effect]),
        origin=foreign.origin,
        untrusted=foreign.untrusted,
        outbound=foreign.outbound,
    )


def joined_name(server: str, tool: str) -> str:
    """`server__tool` with characters that every model takes, at most 64 of them.

    Whatever had to be left out is stood for by a digest, so that two tools keep two names.
    """
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", tool)
    name = f"{server}__{plain}"
    if plain == tool and len(name) <= _NAME_CHARS:
        return name
    suffix = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[: _SUFFIX_CHARS - 1]
    return f"{name[: _NAME_CHARS - _SUFFIX_CHARS]}_{suffix}"


def _usable(name: str, given: object) -> dict[str, object]:
    table = as_object(given)
    if table is None:
        raise ToolDefinitionError(f"tool {name!r}: its schema is no object")
    schema: dict[str, object] = {"type": "object", **copy.deepcopy(dict(table))}
    schema.setdefault("properties", {})
    try:
        size = len(dumps(schema))
        fault = "" if size <= _SCHEMA_CHARS else f"it has {size:,} characters"
        fault = fault or faults_of_schema(schema)
    except (CodecError, RecursionError) as exc:
        fault = f"it is no plain JSON: {exc}"
    if schema["type"] != "object":
        fault = f"the arguments are an object, not {schema['type']!r:.80}"
    if fault:
        raise ToolDefinitionError(f"tool {name!r}: its schema cannot be used: {fault}")
    return schema


def _effect(name: str, given: object) -> Effect:
    for effect in EFFECTS:
        if effect == given and effect not in ("internal", "reconcile"):
            return effect
    raise ToolDefinitionError(
        f"tool {name!r}: effect {given!r:.80} is none of read, idempotent, unsafe"
    )


def _timeout(name: str, given: object) -> float | None:
    if given is None:
        return None
    if not isinstance(given, int | float) or isinstance(given, bool) or not given > 0:
        raise ToolDefinitionError(f"tool {name!r}: timeout_s {given!r:.80} is no time")
    return float(given)


def _printable(text: str) -> str:
    """A description without what no person would see: control and format characters."""
    shown = "".join(char for char in text if char.isprintable() or char in "\n\t").strip()
    return shown if len(shown) <= _DESCRIPTION_CHARS else f"{shown[: _DESCRIPTION_CHARS - 1]}…"
