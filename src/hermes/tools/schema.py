"""JSON Schemas of arguments: made plain, looked up, and put into short words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import cast

from hermes.core.json import as_list, as_object

Schema = Mapping[str, object]

ALIASES = "x-aliases"
"""Other words for the members of a closed set; for Hermes alone, never shown to a model."""

OUTLINE_CHARS = 1_000
_OUTLINE_DEPTH = 4
_OUTLINE_PARTS = 200
_MAX_HOPS = 32

# Which keywords hold schemas; everything else is data and is never walked into.
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLES = ("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then")


def map_subschemas(schema: Schema, change: Callable[[Schema], object]) -> dict[str, object]:
    """A copy of a schema with each schema directly inside it replaced by `change` of it."""
    copy = dict(schema)
    for keyword in _MAPS:
        if (inner := as_object(schema.get(keyword))) is not None:
            copy[keyword] = {name: _changed(item, change) for name, item in inner.items()}
    for keyword in _LISTS:
        if isinstance(schema.get(keyword), list):
            copy[keyword] = [_changed(item, change) for item in as_list(schema[keyword])]
    for keyword in _SINGLES:
        if keyword in schema:
            copy[keyword] = _changed(schema[keyword], change)
    return copy


def _changed(item: object, change: Callable[[Schema], object]) -> object:
    schema = as_object(item)
    return item if schema is None else change(schema)


def plain(schema: Schema) -> dict[str, object]:
    """A generated schema as a model should see it: small, closed and without noise.

    Titles go, objects are closed, `uniqueItems` and `discriminator` go (several providers refuse
    them; Python's sets drop repeats anyway), an optional scalar becomes a list of two types, and
    a definition that is used once is written where it is used.
    """
    return _inline(_tidied(schema))


def without_aliases(schema: Schema) -> Schema:
    """A schema as a provider may get it, some of which refuse keywords that they do not know."""
    if f'"{ALIASES}"' not in json.dumps(schema, ensure_ascii=False):
        return schema
    return _bare(schema)


def _bare(schema: Schema) -> dict[str, object]:
    copy = map_subschemas(schema, _bare)
    copy.pop(ALIASES, None)
    return copy


def _tidied(schema: Schema) -> dict[str, object]:
    copy = map_subschemas(schema, _tidied)
    for noise in ("title", "uniqueItems", "discriminator"):
        copy.pop(noise, None)
    if "properties" in copy:
        copy.setdefault("additionalProperties", False)
    if copy.get("additionalProperties") is True:
        del copy["additionalProperties"]
    if copy.get("default", ...) is None:
        del copy["default"]
    return _with_null_as_type(copy)


def _with_null_as_type(schema: dict[str, object]) -> dict[str, object]:
    branches = [as_object(item) for item in as_list(schema.get("anyOf"))]
    if len(branches) != 2 or {"type": "null"} not in branches:
        return schema
    other = next((item for item in branches if item and item != {"type": "null"}), None)
    if other is None or not isinstance(other.get("type"), str) or {"enum", "const"} & set(other):
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**other, **rest, "type": [other["type"], "null"]}


def _inline(schema: dict[str, object]) -> dict[str, object]:
    definitions = as_object(schema.get("$defs"))
    if not definitions:
        return schema
    text = json.dumps(schema)
    once = {
        f"#/$defs/{name}": as_object(body) or {}
        for name, body in definitions.items()
        if text.count(f'"#/$defs/{name}"') == 1
    }
    # One that is used once, by itself or by its own parts, is not used by the arguments at all.
    kept: dict[str, object] = {}

    def expanded(item: Schema) -> dict[str, object]:
        reference = item.get("$ref")
        if isinstance(reference, str) and reference in once:
            item = {**once[reference], **{k: v for k, v in item.items() if k != "$ref"}}
        return map_subschemas(item, expanded)

    for name, body in definitions.items():
        if f"#/$defs/{name}" not in once:
            kept[name] = expanded(as_object(body) or {})
    top = expanded({name: value for name, value in schema.items() if name != "$defs"})
    return {**top, "$defs": kept} if kept else top


def resolve(root: Schema, reference: str) -> object | None:
    """What a local reference such as `#/$defs/Point` names; None if it leads nowhere."""
    if not reference.startswith("#"):
        return None
    found: object = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        table = as_object(found)
        if table is None or key not in table:
            return None
        found = table[key]
    return found


def followed(root: Schema, schema: Schema) -> Schema | None:
    """The schema behind a chain of references; None if the chain leaves the root or is a loop."""
    for _ in range(_MAX_HOPS):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        target = as_object(resolve(root, reference))
        if target is None:
            return None
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        schema = {**target, **beside} if beside else target
    return None


def outline(schema: Schema) -> str:
    """A schema in short words, such as `{"city": string, "unit"?: "celsius" | "fahrenheit"}`.

    Returns:
        One line of at most `OUTLINE_CHARS` characters; `?` marks what may be left out.
    """
    text = _Outline(schema).of(schema, _OUTLINE_DEPTH)
    return text if len(text) <= OUTLINE_CHARS else text[: OUTLINE_CHARS - 1] + "…"


class _Outline:
    """One walk through a schema, which may be endless."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._parts_left = _OUTLINE_PARTS

    def of(self, schema: object, depth: int) -> str:
        self._parts_left -= 1
        node = as_object(schema)
        node = followed(self._root, node) if node is not None else None
        if node is None or depth == 0 or self._parts_left < 0:
            return "…"
        if "const" in node or "enum" in node:
            members = [node["const"]] if "const" in node else as_list(node["enum"])
            return " | ".join(json.dumps(item, ensure_ascii=False) for item in members)
        branches = as_list(node.get("anyOf")) or as_list(node.get("oneOf"))
        if branches:
            return " | ".join(self.of(item, depth - 1) for item in branches)
        kind = node.get("type", "object" if "properties" in node else "any")
        kinds = cast("list[str]", kind) if isinstance(kind, list) else [str(kind)]
        return " | ".join(self._of_kind(node, item, depth) for item in kinds)

    def _of_kind(self, node: Schema, kind: str, depth: int) -> str:
        if kind == "array":
            return f"[{self.of(node.get('items', {}), depth - 1)}, …]"
        properties = as_object(node.get("properties"))
        if kind != "object" or properties is None:
            return str(node.get("format", kind)) if kind == "string" else kind
        required = as_list(node.get("required"))
        fields = (
            f"{json.dumps(name, ensure_ascii=False)}{'' if name in required else '?'}: "
            f"{self.of(item, depth - 1)}"
            for name, item in properties.items()
        )
        return f"{{{', '.join(fields)}}}"
