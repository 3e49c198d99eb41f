"""Examples of values that fit a schema, for the errors that a model reads."""

from __future__ import annotations

import json

from hermes.core.json import as_list, as_object
from hermes.tools.schema import Schema, followed

_MAX_CHARS = 120
_DEPTH, _MAX_KEYS = 3, 6
_TEXTS = {
    "date": "2026-11-29",
    "date-time": "2026-11-29T08:00:00Z",
    "time": "08:15:00",
    "duration": "PT1H30M",
    "email": "anna@example.org",
    "uuid": "0191e2a4-7c3b-7f00-8000-5d2f6a1b9c3e",
    "path": "reports/may.csv",
}
WORDS = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "string": "text",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


def such_as(root: Schema, node: Schema) -> str:
    """The end of an error: "; such as 25", or "" where no short example can be made."""
    value = _example(root, node, _DEPTH)
    text = "" if value is None else json.dumps(value, ensure_ascii=False)
    return f", such as {text}" if text and len(text) <= _MAX_CHARS else ""


def in_words(root: Schema, schema: object) -> str:
    """The kind of value that a schema asks for."""
    node = as_object(schema)
    node = followed(root, node) if node is not None else None
    kind = node.get("type") if node is not None else None
    return WORDS.get(kind, kind) if isinstance(kind, str) else "another allowed form"


def _example(root: Schema, schema: object, depth: int) -> object:
    node = as_object(schema)
    node = followed(root, node) if node is not None else None
    if node is None or depth == 0:
        return None
    for given in (*as_list(node.get("examples")), node.get("example"), node.get("default")):
        if given is not None:
            return given
    if "enum" in node or "const" in node:
        return next(iter(as_list(node.get("enum"))), node.get("const"))
    branches = as_list(node.get("anyOf")) or as_list(node.get("oneOf"))
    if branches:
        return _example(root, branches[0], depth - 1)
    kind = next(iter(as_list(node.get("type"))), node.get("type"))
    return _of_kind(root, node, str(kind), depth)


def _of_kind(root: Schema, node: Schema, kind: str, depth: int) -> object:
    if kind in ("integer", "number"):
        return _number(node)
    if kind == "boolean":
        return True
    if kind == "string":
        is_inside = depth < _DEPTH and "pattern" not in node
        return _TEXTS.get(str(node.get("format"))) or ("…" if is_inside else None)
    if kind == "array":
        item = _example(root, node.get("items"), depth - 1)
        return None if item is None else [item]
    if kind == "object":
        properties = as_object(node.get("properties")) or {}
        required = [name for name in map(str, as_list(node.get("required"))) if name in properties]
        if len(required) > _MAX_KEYS:
            return None
        items = {name: _example(root, properties[name], depth - 1) for name in required}
        return items if items and None not in items.values() else None
    return None


def _number(node: Schema) -> int | None:
    low, high = node.get("minimum", 1), node.get("maximum", 25)
    if not isinstance(low, int) or not isinstance(high, int):
        return None
    value = min(max(low, 3), high)
    fits = "multipleOf" not in node and "exclusiveMinimum" not in node
    return value if fits and low <= value else None
