"""Plain values side by side: when two are the same, what a text spells, how a change is told."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

Path = tuple[str | int, ...]
"""A place in a value: keys and indexes, outermost first."""

SEEN_CHARS = 60
_NARROW = {0x3000: " ", **{code + 0xFEE0: chr(code) for code in range(0x21, 0x7F)}}
# Up to here each float that is whole is exactly the number that was written.
EXACT_FLOATS = 2**53
_SURE_CHARS = 16
"""A float tells any two decimals of 15 digits apart."""
_MAX_DIGITS = 400
_MAY_ROUND = re.compile(r"[0-9][eE][+-]?[0-9]|[0-9.]{16}")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,399})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,399})(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,3})?")


class Rounded(float):
    """A float that is not the number that was written; no tool gets one."""


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


def float_in(text: str) -> float:
    """The float nearest to a JSON number, marked if its digits are not the written ones."""
    number = float(text)
    if math.isinf(number) or (len(text) <= _SURE_CHARS and "e" not in text.lower()):
        return number
    try:
        is_exact = len(text) <= _MAX_DIGITS and Decimal(repr(number)) == Decimal(text)
    except ArithmeticError:  # an exponent beyond all bounds
        is_exact = False
    return number if is_exact else Rounded(number)


def may_round(text: str) -> bool:
    """Whether a JSON text may hold a number that a float rounds; quick, and sure if it is not."""
    return _MAY_ROUND.search(text) is not None


def whole_in(text: str) -> int | None:
    """The whole number that a JSON number is, all of its digits kept; None if it is none."""
    try:
        exact = Decimal(text) if len(text) <= _MAX_DIGITS else None
        if exact is not None and not exact:
            return 0
        if exact is None or exact.adjusted() > _MAX_DIGITS or exact != exact.to_integral_value():
            return None
    except ArithmeticError:
        return None
    return int(exact)


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


def narrow(text: str) -> str:
    """Full-width ASCII as ASCII; nothing else is replaced, so that 10² is not 102."""
    return unicodedata.normalize("NFC", text.translate(_NARROW))


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
