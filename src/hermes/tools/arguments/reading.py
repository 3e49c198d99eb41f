"""From the raw text of a call to one JSON object, or to the reason why there is none.

Strict JSON is taken as it is. Beside it these forms are read, each as a repair:

- nothing: absent, empty, white space, `null` or `""` → `{}`
- one object with prose around it, in a fenced block (``` or ~~~, with or without a language,
  closed or not) or bare → the object; two objects or two blocks are refused, since nobody could
  say which is meant. Only for `read` tools the prose is any: for others it is a lead that ends in
  a colon or at the fence, and a pleasantry, or after a fence what denies nothing and does not go
  on with the arguments. What stands in reasoning is never read
- what is nearly JSON and has one reading (`relaxed`)
- the object written as a JSON string, or with every quote escaped → unwrapped, once
- an array of exactly one object → that object
- for `read` tools, an object that names a key twice → the last one counts, as JSON readers do
- for `read` tools, the guess of a repairer that adds and loses nothing (`guessing`)

All else is refused: text that was cut off, expressions, NaN and numbers too large for a float,
lone surrogates, more than `MAX_BYTES` of text, nesting deeper than `MAX_DEPTH`. Text of more than
`MAX_REPAIR_CHARS` is read as strict JSON only.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import cast

from hermes.core import json as plain_json
from hermes.core.effects import Effect
from hermes.errors import CodecError

from .exact import Path, Repair, float_in
from .places import (
    BLANK,
    Place,
    check_after,
    check_reasoning,
    check_words,
    find_place,
    past_reasoning,
)
from .unreadable import BadNumber, Hopeless, RepeatedKey, Unreadable, cut_after

__all__ = ["Document", "Unreadable", "read_document"]

MAX_BYTES = 1024 * 1024
MAX_REPAIR_CHARS = 64 * 1024
MAX_DEPTH = 64
GUESSED_FOR: tuple[Effect, ...] = ("read",)
"""Whose arguments may be guessed at: nobody's who changes something, with a key or without."""

NESTED = "nested"
_AROUND_CHARS = 20
_EMPTY = ("", "null", '""')
_ESCAPED_START = re.compile(r"[{\[][{\[\s]*\\+[\"']")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A JSON object and where it came from.

    Attributes:
        text: The JSON text it stood in, made strict.
        prefix: Where in that text's value it stands: `(0,)` for the one object of an array.
    """

    values: dict[str, object]
    text: str
    prefix: Path = ()
    repairs: tuple[Repair, ...] = ()
    _spelled: list[object] = field(default_factory=list[object], repr=False, compare=False)

    def spell(self, path: Path) -> str | None:
        """The number at a path as it was written, digit for digit."""
        if not self._spelled:
            self._spelled.append(_SPELLING.decode(self.text))
        found = self._spelled[0]
        for part in (*self.prefix, *path):
            if isinstance(found, dict) and isinstance(part, str):
                found = cast("dict[str, object]", found).get(part)
            elif isinstance(found, list) and isinstance(part, int):
                found = cast("list[object]", found)[part]
            else:
                return None
        return found if isinstance(found, str) else None


def read_document(raw: object, *, effect: Effect) -> Document:
    """Read the arguments of a call, which may be text, absent, or a value already.

    Raises:
        Unreadable: There is no object in it that could be meant.
    """
    text = _as_text(raw)
    if text.strip() in _EMPTY:
        empty = Repair(path="", before=raw, after={}, rule="empty")
        return Document(values={}, text="{}", repairs=(empty,))
    if len(text) > MAX_BYTES or (not text.isascii() and _size(text) > MAX_BYTES):
        raise Unreadable(f"they are longer than the {MAX_BYTES} bytes allowed")
    value, text, repairs = _value(text, effect)
    if isinstance(value, str):
        value, text, inner = _unwrapped(value, effect)
        repairs += inner
    prefix: Path = ()
    if isinstance(value, list):
        value, prefix = _only_object(cast("list[object]", value), repairs), (0,)
    if not isinstance(value, dict):
        raise Unreadable(f"one JSON object is needed, not {plain_json.dumps(value):.60}")
    values = cast("dict[str, object]", value)
    _check(values, text)
    return Document(values=values, text=text, prefix=prefix, repairs=tuple(repairs))


def read_nested(text: str) -> Document | None:
    """Read an object or array that was written as text inside of other arguments, without a guess.

    Returns:
        A document with what was found at the path `("nested",)`, or None.
    """
    if len(text) > MAX_REPAIR_CHARS or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value, strict, repairs = _value(text, "unsafe")
        values: dict[str, object] = {NESTED: value}
        _check(values, strict)
    except Unreadable:
        return None
    return Document(values=values, text=f'{{"{NESTED}": {strict}}}', repairs=tuple(repairs))


def _as_text(raw: object) -> str:
    if isinstance(raw, str):
        return raw
    try:
        return bytes(raw).decode() if isinstance(raw, bytes | bytearray) else plain_json.dumps(raw)
    except (CodecError, UnicodeDecodeError) as exc:
        raise Unreadable(str(exc)) from exc


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _value(text: str, effect: Effect) -> tuple[object, str, list[Repair]]:
    """The value of a text, the strict JSON that spells it, and what was repaired."""
    try:
        value, repairs = _decoded(text, effect)
    except (json.JSONDecodeError, Unreadable) as exc:
        if len(text) > MAX_REPAIR_CHARS:
            raise _refusal(exc, "; texts this long are read as strict JSON only") from exc
        found = _repaired(text, effect)
        if found is None:
            raise _refusal(exc) from exc
        return found
    return value, text, repairs


def _repaired(text: str, effect: Effect) -> tuple[object, str, list[Repair]] | None:
    """The same for a text that is not strict JSON; None if there is no bracket in it."""
    text = past_reasoning(text)
    place = find_place(text)
    if place is None:
        return None
    check_reasoning(text[: place.start], "")
    if _ESCAPED_START.match(text, place.start):
        strict, end, repairs = _without_escapes(text, place.start)
    else:
        strict, end, repairs = _made_strict(text, place.start, effect)
    check_reasoning("", text[end:])
    check_after(strict, text[end:], is_fenced=place.is_fenced)
    if effect != "read":
        check_words(text[: place.start], text[end:], is_fenced=place.is_fenced)
    try:
        value, more = _decoded(strict, effect)
    except json.JSONDecodeError as exc:
        raise _refusal(exc) from exc
    return value, strict, [*_around(text, strict, place, end), *repairs, *more]


def _around(text: str, strict: str, place: Place, end: int) -> list[Repair]:
    if place.is_fenced:
        rule = "fence"
    elif place.before or text[end:].strip(BLANK):
        rule = "prose"
    elif not text[: place.start].isascii() or not text[end:].isascii():
        rule = "invisible"
    else:
        return []
    return [Repair(path="", before=text, after=strict, rule=rule)]


def _made_strict(text: str, start: int, effect: Effect) -> tuple[str, int, list[Repair]]:
    """Strict JSON for what begins at a bracket, where that ends, and what was repaired."""
    from .guessing import guessed  # both loaded on use: few texts need them
    from .relaxed import as_strict

    try:
        end = _LENIENT.raw_decode(text, start)[1]
    except json.JSONDecodeError:
        pass
    except (ValueError, RecursionError, BadNumber):
        return text[start:], len(text), []  # read once more, which says what is wrong with it
    else:
        return text[start:end], end, []
    try:
        strict = as_strict(text, start, effect=effect)
        _decoded(strict.text, effect)
    except Hopeless:
        raise
    except (json.JSONDecodeError, Unreadable) as exc:
        if effect not in GUESSED_FOR:
            raise _refusal(exc) from exc
    else:
        return strict.text, strict.end, list(strict.repairs)
    end = text.rfind("}") + 1
    guess, repair = guessed(text[start:end])
    return guess, end, [repair]


def _without_escapes(text: str, start: int) -> tuple[str, int, list[Repair]]:
    """An object in which each quote is escaped, as inside a JSON string, but without one."""
    end = max(text.rfind("}"), text.rfind("]")) + 1
    written = text[start:end]
    try:
        strict = json.loads(f'"{written}"', strict=False)
    except ValueError as exc:
        raise Unreadable(f"its quotes are escaped, near {written[:_AROUND_CHARS]!r}") from exc
    return strict, end, [Repair(path="", before=written, after=strict, rule="escaped_quotes")]


def _refusal(exc: Exception, more: str = "") -> Unreadable:
    if not isinstance(exc, json.JSONDecodeError):
        return Unreadable(f"{exc}{more}")
    if exc.pos >= len(exc.doc.rstrip()) or exc.msg.startswith("Unterminated string"):
        return cut_after(len(exc.doc))
    near = exc.doc[max(0, exc.pos - _AROUND_CHARS) : exc.pos + _AROUND_CHARS]
    reason = exc.msg[:1].lower() + exc.msg[1:]
    return Unreadable(f"not strict JSON: {reason} at character {exc.pos + 1}, near {near!r}{more}")


def _decoded(text: str, effect: Effect) -> tuple[object, list[Repair]]:
    """Strict JSON.

    Raises:
        JSONDecodeError: It is not JSON.
        Unreadable: It is, but nobody should act on it.
    """
    try:
        return _STRICT.decode(text), []
    except RepeatedKey as exc:
        if effect != "read":
            raise Hopeless(f"the key {exc.args[0]!r} stands twice in one object") from exc
        twice = Repair(path="", before=exc.args[0], after="the last one", rule="repeated_key")
        return _LENIENT.decode(text), [twice]
    except BadNumber as exc:
        raise Hopeless(f"{exc.args[0]:.40} is not a JSON number that can be used") from exc
    except RecursionError as exc:
        raise Hopeless(f"they are nested deeper than {MAX_DEPTH} levels") from exc
    except json.JSONDecodeError:
        raise
    except ValueError as exc:  # int() of more digits than Python reads
        raise Hopeless("a number has too many digits") from exc


def _unwrapped(text: str, effect: Effect) -> tuple[object, str, list[Repair]]:
    """The object that was written as a JSON string; only one layer is taken off."""
    try:
        value, strict, repairs = _value(text, effect)
    except Hopeless:
        raise
    except Unreadable:
        value, strict, repairs = None, "", []
    if not isinstance(value, dict) or any(repair.rule == "prose" for repair in repairs):
        raise Unreadable(f"one JSON object is needed, not the text {text!r:.60}")
    unwrapped = Repair(path="", before=text, after="the object in it", rule="encoded_twice")
    return cast("dict[str, object]", value), strict, [unwrapped, *repairs]


def _only_object(items: list[object], repairs: list[Repair]) -> object:
    if len(items) != 1 or not isinstance(items[0], dict):
        raise Unreadable(f"one JSON object is needed, not an array of {len(items)} items")
    only = cast("dict[str, object]", items[0])
    repairs.append(Repair(path="", before=items, after=only, rule="one_in_array"))
    return only


def _check(values: dict[str, object], text: str) -> None:
    if text.count("{") + text.count("[") > MAX_DEPTH and _depth_exceeds(values, MAX_DEPTH):
        raise Unreadable(f"they are nested deeper than {MAX_DEPTH} levels")
    if text.isascii() and "\\u" not in text:
        return
    try:
        plain_json.encode(values)
    except CodecError as exc:
        raise Unreadable(str(exc)) from exc


def _depth_exceeds(value: object, limit: int) -> bool:
    level: list[object] = [value]
    for _ in range(limit):
        level = [
            inner
            for item in level
            for inner in (
                cast("dict[str, object]", item).values()
                if isinstance(item, dict)
                else cast("list[object]", item)
            )
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _finite(text: str) -> float:
    number = float_in(text)
    if math.isinf(number):
        raise BadNumber(text)
    return number


def _not_a_number(text: str) -> object:
    raise BadNumber(text)


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names: set[str] = set()
        raise RepeatedKey(next(name for name, _ in pairs if name in names or names.add(name)))
    return found


_STRICT = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_float=_finite, parse_constant=_not_a_number
)
_LENIENT = json.JSONDecoder(parse_float=_finite, parse_constant=_not_a_number)
_SPELLING = json.JSONDecoder(parse_float=str, parse_int=str)
