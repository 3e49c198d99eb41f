"""Values of another shape: an object or array written as text, and one object for a list of one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from hermes.core.json import as_list, as_object
from hermes.tools.schema import Schema, followed

from .exact import Path, Repair, joined, kind_of
from .fits import Fits
from .reading import NESTED, Document, read_nested

SHAPE_RULES = frozenset({"array_from_text", "object_from_text", "item_in_array", "one_in_array"})
_NESTED_VISITS, _SHAPE_VISITS = 30, 10
_CHARACTERS_PER_VISIT = 16
_SEVERAL = re.compile(r"[,;|\n，；、]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaped:
    """What a value became; the value itself where its problems are told instead."""

    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    rule: str
    value: object
    spell: Callable[[Path], str | None]
    repairs: tuple[Repair, ...] = ()


def reshaped(
    fitter: Fits, node: Schema, wanted: Sequence[str], value: object, path: Path
) -> Shaped | None:
    """The value in a shape that the schema wants; None if there is none.

    Args:
        fitter: Tries the shapes, and is told what was changed.
        node: The schema, without references.
        wanted: The types it allows, none of which the value has.
        value: Plain JSON.
        path: Where it stands.
    """
    for shape in _shapes(fitter, node, wanted, value, path):
        fitter.charge(_SHAPE_VISITS)
        trial, fitted = fitter.trial(node, shape.value, path, spell=shape.spell)
        if not trial.problems:
            changed = Repair(path=joined(path), before=value, after=shape.value, rule=shape.rule)
            fitter.repairs += [changed, *shape.repairs, *trial.repairs]
            return Shaped(value=fitted)
        if shape.rule.endswith("_from_text"):
            fitter.problems += trial.problems
            return Shaped(value=value)
    return None


def _shapes(
    fitter: Fits, node: Schema, wanted: Sequence[str], value: object, path: Path
) -> Iterator[_Shape]:
    size = len(path)
    if isinstance(value, str) and "string" not in wanted and value.lstrip()[:1] in ("{", "["):
        fitter.charge(_NESTED_VISITS + len(value) // _CHARACTERS_PER_VISIT)
        nested = read_nested(value)
        if nested is not None and kind_of(nested.values[NESTED]) in wanted:
            yield _from_text(nested, size)
            return
    if "array" in wanted and _may_stand_alone(fitter, node.get("items"), value):
        yield _Shape(
            rule="item_in_array",
            value=[value],
            spell=lambda inner: fitter.spell((*path, *inner[size + 1 :])),
        )
    if "object" in wanted and isinstance(value, list):
        items = cast("list[object]", value)
        if len(items) == 1 and isinstance(items[0], dict):
            yield _Shape(
                rule="one_in_array",
                value=cast("dict[str, object]", items[0]),
                spell=lambda inner: fitter.spell((*path, 0, *inner[size:])),
            )


def _from_text(nested: Document, size: int) -> _Shape:
    value = nested.values[NESTED]
    return _Shape(
        rule=f"{kind_of(value)}_from_text",
        value=value,
        spell=lambda inner: nested.spell((NESTED, *inner[size:])),
        repairs=nested.repairs,
    )


def _may_stand_alone(fitter: Fits, items: object, value: object) -> bool:
    """Whether a value is surely one item, and the schema says what items are."""
    node = as_object(items)
    node = followed(fitter.root, node) if node is not None else None
    if node is None or node.keys().isdisjoint({"type", "enum", "const", "properties", "anyOf"}):
        return False
    if "array" in as_list(node.get("type")) or node.get("type") == "array":
        return False
    if not isinstance(value, str):
        return isinstance(value, dict | bool | int | float)
    if not value.strip():
        return False  # nothing, or one item that is nothing
    has_space = any(map(str.isspace, value))
    return not _SEVERAL.search(value) and (fitter.effect == "read" or not has_space)
