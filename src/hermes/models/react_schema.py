"""The JSON Schema that a reply of the ReAct dialect is held to, as narrow as policy is now.

Only the tools of the request can be named, each with arguments of its own schema; `finish` is
there only while the run may end; each text and list is bounded, since a small model that may go on
does go on. Written for servers that make a grammar of it: no references out of the schema, and no
keyword that they refuse. What a grammar cannot say is checked again when the arguments are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes.core import json
from hermes.core.chat import ToolSpec

Schema = Mapping[str, object]

THOUGHT_CHARS = 300
TEXT_CHARS = 2_000
"""Longest text of an answer or an argument: llama.cpp's own grammars repeat no more often."""
MAX_ITEMS = 100
_MAX_INLINED = 8

_KEPT = frozenset({"type", "enum", "const", "required", "minimum", "maximum", "minLength"})
_FORMATS = frozenset({"date", "time", "date-time", "uuid"})
_DEFINITIONS = ("#/$defs/", "#/definitions/")


def reply_schema(
    tools: tuple[ToolSpec, ...], *, may_finish: bool, output_schema: Schema | None = None
) -> dict[str, object]:
    """What the next reply has to fit.

    Args:
        tools: That may be called now.
        may_finish: Whether the run may end; it also may where there is no tool to call.
        output_schema: What the final answer has to fit; None for a text.
    """
    lifted: dict[str, object] = {}
    branches: list[object] = []
    if tools:
        calls = [_call(tool, lifted) for tool in tools]
        branches.append(_object(thought=_text(THOUGHT_CHARS), action=_any_of(calls)))
    if may_finish or not tools:
        answer: object = _text(TEXT_CHARS)
        if output_schema is not None:
            answer = _Plain(output_schema, "answer", lifted).of(output_schema)
        finish = _object(type={"const": "finish"})
        branches.append(_object(thought=_text(THOUGHT_CHARS), action=finish, final_answer=answer))
    schema = _any_of(branches)
    return {**schema, "$defs": lifted} if lifted else schema


def _call(tool: ToolSpec, lifted: dict[str, object]) -> dict[str, object]:
    arguments = _Plain(tool.parameters, tool.name, lifted).of(tool.parameters)
    return _object(
        type={"const": "tool_call"},
        tool_name={"const": tool.name},
        tool_args=arguments if arguments.get("type") == "object" else {"type": "object"},
    )


def _object(**properties: object) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _text(chars: int) -> dict[str, object]:
    return {"type": "string", "maxLength": chars}


def _any_of(branches: Sequence[object]) -> dict[str, object]:
    only = json.as_object(branches[0]) if len(branches) == 1 else None
    return {"anyOf": [*branches]} if only is None else only


class _Plain:
    """Makes one schema self-contained and plain.

    Definitions are put under `$defs` of the whole, under the name of their owner, so that a type
    that holds itself can be told; other references are written out where they stand.
    """

    def __init__(self, root: Schema, owner: str, lifted: dict[str, object]) -> None:
        self._root, self._owner, self._lifted = root, owner, lifted

    def of(self, value: object, inlined: int = 0) -> dict[str, object]:
        """The plain form; an empty schema, which everything fits, for what cannot be told."""
        schema = json.as_object(value)
        if schema is None:
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._referred(reference, inlined)
        branches = json.as_list(schema.get("anyOf")) or json.as_list(schema.get("oneOf"))
        if branches:
            return {"anyOf": [self.of(item, inlined) for item in branches]}
        parts = json.as_list(schema.get("allOf"))
        if len(parts) == 1 and not {"properties", "type"} & schema.keys():
            return self.of(parts[0], inlined)
        copy = {name: item for name, item in schema.items() if name in _KEPT}
        if "enum" in copy or "const" in copy:
            return {name: copy[name] for name in ("enum", "const") if name in copy}
        return self._bounded(schema, copy, inlined)

    def _bounded(self, schema: Schema, copy: dict[str, object], inlined: int) -> dict[str, object]:
        kinds = _kinds(schema)
        if len(kinds) > 1:
            variants = [{**schema, "type": kind} for kind in kinds]
            return {"anyOf": [self.of(item, inlined) for item in variants]}
        kind = kinds[0] if kinds else None
        bounds = ("minimum", "maximum") if kind == "integer" else ()
        plain: dict[str, object] = {name: copy[name] for name in bounds if name in copy}
        if kind is not None:
            plain["type"] = kind
        match kind:
            case "string":
                plain |= _string(schema)
            case "array":
                plain |= {"items": self.of(schema.get("items"), inlined)}
                plain |= _length(schema, "minItems", "maxItems", MAX_ITEMS)
            case "object":
                plain |= self._members(schema, inlined)
            case _:
                pass
        return plain

    def _members(self, schema: Schema, inlined: int) -> dict[str, object]:
        properties = json.as_object(schema.get("properties"))
        rest = schema.get("additionalProperties", properties is None)
        if properties is None:
            inner = json.as_object(rest)
            return {} if inner is None else {"additionalProperties": self.of(inner, inlined)}
        known = {
            name: self.of(item, inlined) for name, item in properties.items() if item is not False
        }
        required = [name for name in json.as_list(schema.get("required")) if name in known]
        # An argument that the tool does not list is an error, so none is offered.
        return {"properties": known, "required": required, "additionalProperties": False}

    def _referred(self, reference: str, inlined: int) -> dict[str, object]:
        target = _resolve(self._root, reference)
        if target is None or inlined > _MAX_INLINED:
            return {}
        start = next((at for at in _DEFINITIONS if reference.startswith(at)), None)
        if start is None or "/" in reference.removeprefix(start):
            return self.of(target, inlined + 1)
        name = f"{self._owner}.{reference.removeprefix(start)}"
        if name not in self._lifted:
            self._lifted[name] = {}  # so that one that holds itself ends here
            self._lifted[name] = self.of(target, inlined)
        return {"$ref": f"#/$defs/{name}"}


def _kinds(schema: Schema) -> list[str]:
    kind = schema.get("type")
    if isinstance(kind, str):
        return [kind]
    kinds = [str(item) for item in json.as_list(kind)]
    if not kinds and "properties" in schema:
        return ["object"]
    return ["array"] if not kinds and "items" in schema else kinds


def _string(schema: Schema) -> dict[str, object]:
    if schema.get("format") in _FORMATS:
        return {"format": schema["format"]}
    return _length(schema, "minLength", "maxLength", TEXT_CHARS)


def _length(schema: Schema, low: str, high: str, bound: int) -> dict[str, object]:
    least, most = schema.get(low), schema.get(high)
    top = min(most, bound) if isinstance(most, int) else bound
    if not isinstance(least, int) or least <= 0:
        return {high: top}
    return {low: min(least, bound), high: max(top, min(least, bound))}


def _resolve(root: Schema, reference: str) -> Schema | None:
    if not reference.startswith("#"):
        return None
    found: object = root
    for part in reference[1:].split("/")[1:]:
        table = json.as_object(found)
        key = part.replace("~1", "/").replace("~0", "~")
        if table is None or key not in table:
            return None
        found = table[key]
    return json.as_object(found)
