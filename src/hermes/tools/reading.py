"""From the raw text of a call to one JSON object, or to the reason why there is none.

Strict JSON is taken as it is. Beside it these forms are read, each as a repair:

- nothing: absent, empty, white space, `null` or `""` → `{}`
- one fenced block (``` or ~~~, with or without a language, closed or not, with prose around it)
  → what is in the block; two blocks, or braces in the prose, are refused, since nobody could
  say which is meant
- the object written as a JSON string → unwrapped, once
- an array of exactly one object → that object
- for `read` tools, an object that names a key twice → the last one counts, as JSON readers do

All else is refused: cut-off text, Python literals, NaN and numbers too large for a float, lone
surrogates, more than `MAX_BYTES` of text, nesting deeper than `MAX_DEPTH`.
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

from .exact import Path, Repair

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
_FENCE = re.compile(r"`{3,}|~{3,}")
_LANGUAGE = re.compile(r"[ \t]*(?:[A-Za-z][\w+-]*)?")
_AROUND_CHARS = 20
_EMPTY = ("", "null", '""')


class Unreadable(Exception):
    """The text holds no JSON object that could be meant; the message says why, for the model."""


class _RepeatedKey(Exception):
    """An object names a key twice."""


class _BadNumber(Exception):
    """A number that is not JSON, or that no float can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A JSON object and where it came from.

    Attributes:
        text: The JSON text it stood in.
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
        return found if isinstance(found, str) else None


def read_document(raw: object, *, effect: Effect) -> Document:
    """Read the arguments of a call, which may be text, absent, or a value already.

    Raises:
        Unreadable: There is no object in it that could be meant.
    """
    text = raw if isinstance(raw, str) else _as_text(raw)
    if text.strip() in _EMPTY:
        empty = Repair(path="", before=raw, after={}, rule="empty")
        return Document(values={}, text="{}", repairs=(empty,))
    if len(text) > MAX_BYTES or (not text.isascii() and _size(text) > MAX_BYTES):
        raise Unreadable(f"they are longer than the {MAX_BYTES} bytes allowed")
    repairs: list[Repair] = []
    value = _value(text, effect, repairs)
    if repairs and repairs[0].rule == "fence":
        text = cast("str", repairs[0].after)
    if isinstance(value, str):
        text, value = value, _unwrapped(value, effect, repairs)
    prefix: Path = ()
    if isinstance(value, list):
        value, prefix = _only_object(cast("list[object]", value), repairs), (0,)
    if not isinstance(value, dict):
        raise Unreadable(f"one JSON object is needed, not {plain_json.dumps(value):.60}")
    values = cast("dict[str, object]", value)
    _check(values, text)
    return Document(values=values, text=text, prefix=prefix, repairs=tuple(repairs))


def _as_text(raw: object) -> str:
    try:
        return plain_json.dumps(raw)
    except CodecError as exc:
        raise Unreadable(str(exc)) from exc


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _value(text: str, effect: Effect, repairs: list[Repair]) -> object:
    try:
        return _decoded(text, effect, repairs)
    except (json.JSONDecodeError, Unreadable) as exc:
        block = _fenced(text)
        if block is None and isinstance(exc, json.JSONDecodeError):
            raise Unreadable(_wording(exc)) from exc
        if block is None:
            raise
    repairs.append(Repair(path="", before=text, after=block, rule="fence"))
    return _decoded(block, effect, repairs)


def _decoded(text: str, effect: Effect, repairs: list[Repair]) -> object:
    """Strict JSON.

    Raises:
        JSONDecodeError: It is not JSON.
        Unreadable: It is, but nobody should act on it.
    """
    try:
        return _STRICT.decode(text)
    except _RepeatedKey as exc:
        if effect != "read":
            raise Unreadable(f"the key {exc.args[0]!r} stands twice in one object") from exc
        repairs.append(
            Repair(path="", before=exc.args[0], after="the last one", rule="repeated_key")
        )
        return _LENIENT.decode(text)
    except _BadNumber as exc:
        raise Unreadable(f"{exc.args[0]:.40} is not a JSON number that can be used") from exc
    except RecursionError as exc:
        raise Unreadable(f"they are nested deeper than {MAX_DEPTH} levels") from exc
    except json.JSONDecodeError:
        raise
    except ValueError as exc:  # int() of more digits than Python reads
        raise Unreadable("a number has too many digits") from exc


def _unwrapped(text: str, effect: Effect, repairs: list[Repair]) -> object:
    """The object that was written as a JSON string; only one layer is taken off."""
    try:
        value = _decoded(text, effect, repairs)
    except json.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise Unreadable(f"one JSON object is needed, not the text {text!r:.60}")
    repairs.append(Repair(path="", before=text, after="the object in it", rule="encoded_twice"))
    return cast("dict[str, object]", value)


def _only_object(items: list[object], repairs: list[Repair]) -> object:
    if len(items) != 1 or not isinstance(items[0], dict):
        raise Unreadable(f"one JSON object is needed, not an array of {len(items)} items")
    only = cast("dict[str, object]", items[0])
    repairs.append(Repair(path="", before=items, after=only, rule="one_in_array"))
    return only


def _fenced(text: str) -> str | None:
    """The JSON text of the one fenced block, or None if there is no block."""
    opening = _FENCE.search(text)
    if opening is None or "{" in text[: opening.start()]:
        return None
    language = _LANGUAGE.match(text, opening.end())
    begin = language.end() if language else opening.end()
    body = text[begin:].lstrip()
    try:
        end = _STRICT.raw_decode(body)[1]
    except _RepeatedKey:
        end = _LENIENT.raw_decode(body)[1]
    except json.JSONDecodeError as exc:
        raise Unreadable(f"in the fenced block: {_wording(exc)}") from exc
    except (ValueError, RecursionError, _BadNumber):
        # Read once more by `_decoded`, which says what is wrong with it.
        return body.partition(opening[0])[0]
    after = body[end:].lstrip()
    closing = _FENCE.match(after)
    prose = after[closing.end() :] if closing else after
    if "{" in prose or _FENCE.search(prose):
        raise Unreadable("there is more than one block or object; send exactly one")
    return body[:end]


def _wording(exc: json.JSONDecodeError) -> str:
    near = exc.doc[max(0, exc.pos - _AROUND_CHARS) : exc.pos + _AROUND_CHARS]
    if exc.pos >= len(exc.doc.rstrip()) or exc.msg.startswith("Unterminated string"):
        return f"the JSON ends too early, after {len(exc.doc)} characters: it was cut off"
    reason = exc.msg[:1].lower() + exc.msg[1:]
    return f"not strict JSON: {reason} at character {exc.pos + 1}, near {near!r}"


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
    number = float(text)
    if math.isinf(number):
        raise _BadNumber(text)
    return number


def _not_a_number(text: str) -> object:
    raise _BadNumber(text)


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedKey(next(name for name in names if names.count(name) > 1))
    return found


_STRICT = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_float=_finite, parse_constant=_not_a_number
)
_LENIENT = json.JSONDecoder(parse_float=_finite, parse_constant=_not_a_number)
_SPELLING = json.JSONDecoder(parse_float=str, parse_int=str)
