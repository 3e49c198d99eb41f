"""Plain values side by side: when two are the same, what a text spells, how a change is told."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

Path = tuple[str | int, ...]
"""A place in a value: keys and indexes, outermost first."""

SEEN_CHARS = 60
# Up to here each float that is whole is exactly the number that was written.
EXACT_FLOATS = 2**53
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,399})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,399})(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One change on the way from what was written to what a tool gets.

    Attributes:
        path: Place in the arguments, `items[2].qty`; "" for the whole.
        rule: Which rule allowed it, in one word.
    """

    path: str
    before: object
    after: object
    rule: str

    def __str__(self) -> str:
        return f"{self.path or 'arguments'}: {seen(self.before)} → {seen(self.after)} ({self.rule})"


def kind_of(value: object) -> str:
    """The JSON Schema type of a plain value; a whole float is a `number` here."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def number_in(text: str) -> int | float | None:
    """The number that a text spells as JSON would; None if it does not or if digits were lost."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if not _NUMBER.fullmatch(text):
        return None
    exact, number = Decimal(text), float(text)
    if math.isinf(number) or Decimal(repr(number)) != exact:
        return None
    whole = int(exact) if abs(number) < EXACT_FLOATS else None
    return whole if whole is not None and exact == whole else number


def same(one: object, other: object) -> bool:
    """Whether two plain values are the same JSON: 1 is 1.0, but 1 is not true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        ours, theirs = cast("list[object]", one), cast("list[object]", other)
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(one, dict) and isinstance(other, dict):
        mine, yours = cast("dict[str, object]", one), cast("dict[str, object]", other)
        return mine.keys() == yours.keys() and all(same(mine[key], yours[key]) for key in mine)
    return one == other


def has_repeats(items: list[object]) -> bool:
    """Whether two items of an array are the same JSON."""
    return len({_identity(item) for item in items}) < len(items)


def _identity(value: object) -> object:
    """The same hashable value for the same JSON."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, list):
        return ("array", *map(_identity, cast("list[object]", value)))
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        return ("object", frozenset((key, _identity(item)) for key, item in table.items()))
    return value


def seen(value: object) -> str:
    """A value as JSON, shortened, for texts."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SEEN_CHARS else text[: SEEN_CHARS - 1] + "…"


def member_text(member: object) -> str | None:
    """How an enum member would be written as text; None for null, which no word means."""
    if isinstance(member, str):
        return member
    return None if member is None else json.dumps(member)


def joined(path: Path) -> str:
    """A path as people write it, `items[2].qty`; long keys are shortened."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if len(part) <= SEEN_CHARS else f"{part[:SEEN_CHARS]}…"
            text += f".{name}" if text else name
    return text
