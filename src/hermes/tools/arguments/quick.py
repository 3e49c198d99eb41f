"""A quick look at a value: whether it surely fits a schema that says little.

Most values fit, and most schemas ask for a type, some bounds or one of a few words. Whoever is
not sure says no, and the value is looked at in full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from hermes.core.json import as_list, as_object
from hermes.tools.schema import Schema, followed

Look = Callable[[object], bool]

_TYPES: dict[str, frozenset[type]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "null": frozenset({type(None)}),
}
_NOTES = frozenset({"title", "description", "default", "examples"})
_TEXT = frozenset({"minLength", "maxLength"})
_NUMBER = frozenset({"minimum", "maximum"})
_OBJECT = frozenset({"type", "properties", "required", "additionalProperties"})
_LEVELS = 3
_KEPT = 256
_NONE: frozenset[type] = frozenset()


def never(_: object) -> bool:
    """The look that is never sure."""
    return False


def always(_: object) -> bool:
    """The look at what any value fits."""
    return True


class QuickLooks:
    """Looks for the parts of one schema, each made once.

    Attributes:
        root: The schema.
    """

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._made: dict[tuple[int, int], Look] = {}

    def of(self, schema: object, *, levels: int = _LEVELS) -> Look:
        """The look for a schema within the root.

        Args:
            schema: A part of the root, which lives as long as this does.
            levels: Arrays and objects within each other that it looks into; 0 for scalars.
        """
        look = self._made.get((id(schema), levels))
        if look is None:
            node = as_object(schema)
            node = followed(self.root, node) if node is not None else None
            if node is None:
                look = always if schema is True else never
            else:
                look = self._make(node, levels)
            self._made[id(schema), levels] = look
        return look

    def _make(self, node: Schema, levels: int) -> Look:
        keys = node.keys() - _NOTES
        if not keys:
            return always
        if keys == {"anyOf"}:
            looks = [self.of(branch, levels=0) for branch in as_list(node["anyOf"])]
            return lambda value: any(look(value) for look in looks)
        if "enum" in keys and keys <= {"enum", "type"}:
            members = {item for item in as_list(node["enum"]) if isinstance(item, str)}
            return lambda value: type(value) is str and value in members
        kinds = as_list(node.get("type")) or [node.get("type")]
        types = _NONE.union(*(_TYPES.get(str(kind), _NONE) for kind in kinds))
        if keys == {"type"}:
            return lambda value: type(value) in types
        if keys <= {"type", *_TEXT} and types == _TYPES["string"]:
            return _between(types, node, "minLength", "maxLength", of=len)
        if keys <= {"type", *_NUMBER} and types <= _TYPES["number"]:
            return _between(types, node, "minimum", "maximum", of=_itself)
        if levels and keys == {"type", "items"} and kinds == ["array"]:
            return _each(self.of(node["items"], levels=levels - 1))
        if levels and keys <= _OBJECT and kinds == ["object"]:
            return self._make_object(node, levels - 1)
        return never

    def _make_object(self, node: Schema, levels: int) -> Look:
        properties = as_object(node.get("properties")) or {}
        looks = {name: self.of(inner, levels=levels) for name, inner in properties.items()}
        required = frozenset(map(str, as_list(node.get("required"))))
        if node.get("additionalProperties") is not False:
            return never

        def look(value: object) -> bool:
            if type(value) is not dict:
                return False
            given = cast("dict[str, object]", value)
            if not required <= given.keys():
                return False
            return all(name in looks and looks[name](item) for name, item in given.items())

        return look


_LOOKS: dict[int, QuickLooks] = {}


def looks_of(root: Schema) -> QuickLooks:
    """The looks of a schema, kept for the next call: tools keep their schemas."""
    found = _LOOKS.get(id(root))
    if found is None:
        if len(_LOOKS) >= _KEPT:
            _LOOKS.clear()
        found = _LOOKS[id(root)] = QuickLooks(root)  # holds the root, so that its id stays its own
    return found


def _each(look: Look) -> Look:
    return lambda value: type(value) is list and all(map(look, cast("list[object]", value)))


def _itself(value: object) -> float:
    return cast("float", value)


def _between(
    types: frozenset[type], node: Schema, low: str, high: str, *, of: Callable[..., float]
) -> Look:
    least, most = node.get(low, float("-inf")), node.get(high, float("inf"))
    if not isinstance(least, int | float) or not isinstance(most, int | float):
        return never
    return lambda value: type(value) in types and least <= of(value) <= most
