"""Parameters: whether a model is told what each means, in which unit, and within which bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from hermes.core.json import as_list, as_object, dumps

from .words import (
    ASKS_FOR_MUCH,
    EXAMPLE,
    IDENTIFIES,
    LISTS_CHOICES,
    NAMES_A_DEFAULT,
    NAMES_A_RANGE,
    QUANTITY,
    UNIT,
    UNIT_IN_NAME,
)

_Told = tuple[str, str, Literal["error", "warning"], str, str]
_Schema = Mapping[str, object]
_LOWER, _UPPER = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
_MAX_DEPTH = 4


def parameters_of(schema: _Schema) -> Iterator[_Told]:
    """Path, rule, level, text and hint of what is wrong with the parameters."""
    for path, each, is_required in walk(schema):
        said = str(each.get("description") or "").strip()
        name = path.rpartition(".")[2].removesuffix("[]")
        if not said:
            # A part of a value may be told by what the value as a whole says.
            yield (
                path,
                "parameter",
                "warning" if "." in path else "error",
                "has no description",
                "describe it under `Args:`: what it is, in which form, with an example",
            )
        yield from _number(path, name, each, said)
        yield from _choices(path, each, said)
        if is_required or not said:
            continue
        if "default" not in each and not NAMES_A_DEFAULT.search(said):
            yield (
                path,
                "default",
                "warning",
                "may be left out, and nothing says what holds then",
                "give it a default, or say what happens without it",
            )
        if each.get("default", 0) is None and not NAMES_A_DEFAULT.search(said):
            yield (
                path,
                "default",
                "warning",
                "may be left out, and nothing says what that means",
                "say it: `all of them if not given` (不填则……)",
            )


def walk(schema: _Schema) -> Iterator[tuple[str, _Schema, bool]]:
    """Every parameter with its path and whether it is required, those of nested objects too."""
    yield from _walk(schema, schema, "", 0)


def _walk(
    schema: _Schema, root: _Schema, before: str, depth: int
) -> Iterator[tuple[str, _Schema, bool]]:
    required = {str(name) for name in as_list(schema.get("required"))}
    for name, part in (as_object(schema.get("properties")) or {}).items():
        path = f"{before}{name}"
        each = _meant(as_object(part) or {}, root)
        yield path, each, name in required
        if depth < _MAX_DEPTH:
            yield from _walk(each, root, f"{path}.", depth + 1)
            items = _meant(as_object(each.get("items")) or {}, root)
            yield from _walk(items, root, f"{path}[].", depth + 1)


def _meant(schema: _Schema, root: _Schema) -> _Schema:
    """A schema with what it refers to, and of `X or null` the X."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target: object = root
        for step in reference.removeprefix("#/").split("/"):
            target = (as_object(target) or {}).get(step)
        schema = {**(as_object(target) or {}), **{k: v for k, v in schema.items() if k != "$ref"}}
    members = [as_object(item) or {} for item in as_list(schema.get("anyOf"))]
    real = [item for item in members if item.get("type") != "null"]
    if len(real) == 1 and len(members) > 1:
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return {**_meant(real[0], root), **rest}
    return schema


def _types(schema: _Schema) -> set[str]:
    found = schema.get("type")
    return {str(found)} if isinstance(found, str) else {str(item) for item in as_list(found)}


def _number(path: str, name: str, schema: _Schema, said: str) -> Iterator[_Told]:
    if not _types(schema) & {"integer", "number"} or "enum" in schema or "const" in schema:
        return
    missing = [
        word
        for word, keys in (("lower", _LOWER), ("upper", _UPPER))
        if not any(key in schema for key in keys)
    ]
    is_open = (len(missing) == 2 and not IDENTIFIES.search(name)) or (
        missing == ["upper"] and ASKS_FOR_MUCH.search(name)
    )
    if is_open and not NAMES_A_RANGE.search(said):
        yield (
            path,
            "range",
            "warning",
            f"is a number without {' and '.join(missing)} bound",
            "give it by `Annotated[int, Field(ge=…, le=…)]`, or in words",
        )
    if QUANTITY.search(name) and not UNIT_IN_NAME.search(name) and not UNIT.search(said):
        yield (
            path,
            "unit",
            "warning",
            "is a quantity without a unit",
            f"say it in the description, or call it `{name}_s`, `{name}_bytes` …",
        )


def _choices(path: str, schema: _Schema, said: str) -> Iterator[_Told]:
    is_free = not any(key in schema for key in ("enum", "const", "pattern", "format"))
    if "string" not in _types(schema) or not is_free:
        return
    found = LISTS_CHOICES.search(EXAMPLE.split(said)[0])
    if found:
        yield (
            path,
            "enum",
            "warning",
            f"lists its values in words ({dumps(found[0])}), so that any text is let through",
            "make it a `Literal[…]` or an enum",
        )
