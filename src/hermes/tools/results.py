r"""Results of tools as plain JSON, as text for the model, and cut to a size that it can take.

What becomes of a value:

- None, booleans, integers and finite floats stay; so does text, but for lone surrogates (such as
  in undecodable file names), each of which becomes its six-character escape, `\udce9`
- NaN and infinities → the texts `NaN`, `Infinity`, `-Infinity`
- Decimal, Fraction, UUID, path, IP address → text, every digit kept
- aware datetime → RFC 3339 with its offset (`Z` for UTC); naive datetime, date, time → ISO 8601
  without a zone; timedelta → ISO 8601 duration, `PT5M`
- bytes → `{"$bytes": base64, "size": n}`
- enum member → its value
- mapping, dataclass, pydantic model, named tuple → object; keys become text as JSON writes them,
  and two keys with the same text are an error
- list, tuple and other sequences, `dict.values()` → array; set → array in sorted order
- numpy scalars and arrays → the same as the Python values in them

Anything else, a cycle, nesting deeper than `MAX_DEPTH` or more than `MAX_VALUES` values, is a
`ResultFault`: an error for the model that says that the tool did run.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import inspect
import math
import sys
import unicodedata
from collections.abc import Mapping, Sequence, Set, ValuesView
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol, cast
from uuid import UUID

from pydantic_core import to_jsonable_python
from typing_extensions import TypeIs

from hermes.core.json import dumps

if TYPE_CHECKING:
    from pydantic import BaseModel

DEFAULT_LIMIT_CHARS = 16_000
MAX_DEPTH = 64
MAX_VALUES = 1_000_000
HANDLE_CHARS = 16
_WAITS = "one Question, Until, Event or Children"
_HEAD_SHARE = 2 / 3
_MAX_STEPS_BACK = 32
# No integer with fewer bits has more digits than Python will write.
_SURELY_WRITABLE_BITS = 10_000
_AS_TEXT = (Decimal, Fraction, UUID, PurePath, IPv4Address, IPv6Address)


class ResultFault(Exception):
    """A result that cannot be stored; the tool did run.

    Attributes:
        reason: What is wrong with the value.
        path: Where in the result it stands, outermost first.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str | int] = []

    def __str__(self) -> str:
        place = "".join(f"[{part!r}]" for part in self.path)
        return f"{self.reason}, at result{place}"


class StandsAlone:
    """A value that says what happens next, not a result: inside of one nobody would act on it."""

    __slots__ = ()


def normalise(value: object) -> object:
    """A result as plain JSON by the rules above; plain JSON comes back equal.

    Raises:
        ResultFault: The value, or something in it, has no plain form.
    """
    return _Normaliser().plain(value)


class _Normaliser:
    """One walk through a result: what it is inside of, and how much it has seen."""

    def __init__(self) -> None:
        self._inside: set[int] = set()
        self._count = 0

    def plain(self, value: object) -> object:
        self._count += 1
        if self._count > MAX_VALUES:
            raise ResultFault(f"it holds more than {MAX_VALUES} values")
        match value:
            case None | bool():
                return value
            case Enum():
                return self.plain(cast("object", value.value))
            case str():
                return _storable(value)
            case int():
                return _whole(value)
            case float():
                return _finite(value)
            case bytes() | bytearray() | memoryview():
                raw = bytes(cast("bytes", value))
                return {"$bytes": base64.b64encode(raw).decode("ascii"), "size": len(raw)}
            case datetime() | date() | time() | timedelta():
                return _moment(value)
            case _ if isinstance(value, _AS_TEXT):
                return _storable(str(value))
            case _:
                return self._inner(value)

    def _inner(self, value: object) -> object:
        """A value that holds others, guarded against holding itself."""
        if id(value) in self._inside:
            raise ResultFault(f"the {_kind(value)} holds itself")
        if len(self._inside) >= MAX_DEPTH:
            raise ResultFault(f"it is nested deeper than {MAX_DEPTH} levels")
        self._inside.add(id(value))
        try:
            return self._container(value)
        finally:
            self._inside.discard(id(value))

    def _container(self, value: object) -> object:
        if isinstance(value, Mapping):
            return self._object(cast("Mapping[object, object]", value))
        if isinstance(value, tuple):
            items = cast("tuple[object, ...]", value)
            names = _field_names(items)
            return (
                self._object(dict(zip(names, items, strict=True))) if names else self._array(items)
            )
        if isinstance(value, Sequence | ValuesView):
            return self._array(cast("Sequence[object]", value))
        if isinstance(value, Set):
            return _in_order(self._array(cast("Set[object]", value)))
        if isinstance(value, StandsAlone):
            kind = type(value).__name__
            raise ResultFault(
                f"a {kind} cannot stand here: a tool waits by returning {_WAITS} alone"
            )
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = (field.name for field in dataclasses.fields(value))
            return self._object({name: getattr(value, name) for name in names})
        if _is_model(value):
            return self._object(cast("dict[object, object]", value.model_dump(warnings=False)))
        if _is_numpy(value):
            return self.plain(_without_numpy(value))
        raise ResultFault(f"a {_kind(value)} has no plain JSON form{_advice(value)}")

    def _object(self, items: Mapping[object, object]) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, item in items.items():
            name = key if type(key) is str and key.isascii() else self._key(key)
            if name in found:
                raise ResultFault(f"two keys are both written as {name!r}")
            try:
                found[name] = self.plain(item)
            except ResultFault as fault:
                fault.path.insert(0, name)
                raise
        return found

    def _key(self, key: object) -> str:
        name = key if key is None or isinstance(key, bool | float) else self.plain(key)
        match name:
            case str():
                return _storable(name)
            case float():
                return str(_finite(name))
            case None | bool() | int():
                return dumps(name)
            case _:
                raise ResultFault(f"a {_kind(key)} cannot be a key")

    def _array(self, items: Sequence[object] | Set[object]) -> list[object]:
        found: list[object] = []
        for item in items:
            try:
                found.append(self.plain(item))
            except ResultFault as fault:
                fault.path.insert(0, len(found))
                raise
        return found


class _Numeric(Protocol):
    """What numpy's scalars and arrays share."""

    dtype: _DType
    size: int

    def astype(self, dtype: str) -> _Numeric: ...

    def tolist(self) -> object: ...


class _DType(Protocol):
    kind: str


def _field_names(value: object) -> tuple[str, ...]:
    """The names of a named tuple's fields; empty for a plain tuple."""
    return cast("tuple[str, ...]", getattr(value, "_fields", ()))


def _storable(text: str) -> str:
    if text.isascii():
        return str.__str__(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return str.__str__(text)


def _whole(number: int) -> int:
    if number.bit_length() > _SURELY_WRITABLE_BITS:
        try:
            str(int(number))
        except ValueError as exc:
            raise ResultFault("it holds a number of more digits than can be written") from exc
    return int(number)


def _finite(number: float) -> float | str:
    if math.isfinite(number):
        return float(number)
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _moment(value: datetime | date | time | timedelta) -> str:
    if isinstance(value, timedelta):
        return str(to_jsonable_python(value))
    text = value.isoformat()
    return f"{text[:-6]}Z" if isinstance(value, datetime) and text.endswith("+00:00") else text


def _in_order(items: list[object]) -> list[object]:
    """Sorted by value where the values can be compared, else by their JSON text."""
    try:
        return [*sorted(cast("list[int]", items))]
    except TypeError:
        return sorted(items, key=dumps)


def _is_model(value: object) -> TypeIs[BaseModel]:
    # Whoever returns a model has loaded pydantic; nobody else should have to.
    module = sys.modules.get("pydantic")
    return module is not None and isinstance(value, module.BaseModel)


def _is_numpy(value: object) -> TypeIs[_Numeric]:
    module = sys.modules.get("numpy")
    return module is not None and isinstance(value, module.generic | module.ndarray)


def _without_numpy(value: _Numeric) -> object:
    """Python's own values for a numpy scalar or array; instants as ISO text, `NaT` as it is."""
    if value.size > MAX_VALUES:
        raise ResultFault(f"it holds more than {MAX_VALUES} values")
    if value.dtype.kind == "M":
        return value.astype("datetime64[us]").astype("str").tolist()
    if value.dtype.kind == "m":
        return value.astype("timedelta64[us]").tolist()
    found = value.tolist()
    # Python has no number as wide as a longdouble, so `tolist` gives it back.
    return float(cast("float", found)) if _is_numpy(found) else found


def _kind(value: object) -> str:
    return type(value).__qualname__


def _advice(value: object) -> str:
    if inspect.isgenerator(value) or inspect.isasyncgen(value) or hasattr(value, "__next__"):
        return "; return a list of what it yields"
    if inspect.isawaitable(value):
        return "; await it in the tool"
    return "; return text, numbers, lists, dicts or dataclasses"


def render(data: object) -> str:
    """Plain JSON as the model reads it: text as it is, all else as JSON with readable non-ASCII."""
    return data if isinstance(data, str) else dumps(data)


def handle_of(raw: bytes) -> str:
    """The handle of a full result: the first `HANDLE_CHARS` hex digits of its SHA-256."""
    return hashlib.sha256(raw).hexdigest()[:HANDLE_CHARS]


def cap(text: str, limit_chars: int = DEFAULT_LIMIT_CHARS) -> tuple[str, bytes | None]:
    """Cut a long text to its head and tail, with a line between them that tells how to read on.

    No character is cut in two, nor a letter from the accents and joiners that follow it.

    Args:
        text: What the model would read.
        limit_chars: Longest text that stays whole; a cut one is no longer either, except that the
            line between head and tail is always there.

    Returns:
        The text for the model, and the full text in UTF-8 if it was cut, else None.
    """
    if len(text) <= limit_chars:
        return text, None
    full = text.encode()
    return shorten(text, limit_chars, handle=handle_of(full), total=len(text)), full


def shorten(text: str, limit_chars: int, *, handle: str, total: int) -> str:
    """A text's head and tail, with the line between them that `cap` has.

    Args:
        text: The full text, or what `cap` has left of it.
        limit_chars: As for `cap`.
        handle: Opens the full text.
        total: Characters of the full text.
    """
    room = max(0, limit_chars - len(_gap(total, total, total, handle)))
    head = boundary(text, int(room * _HEAD_SHARE))
    tail = boundary(text, len(text) - (room - head), forward=True)
    left_out = total - head - (len(text) - tail)
    return text[:head] + _gap(left_out, total, head, handle) + text[tail:]


def _gap(left_out: int, total: int, offset: int, handle: str) -> str:
    return (
        f"\n[… {left_out} of {total} characters left out; "
        f'read_more(handle="{handle}", offset={offset}) shows them …]\n'
    )


def boundary(text: str, at: int, *, forward: bool = False) -> int:
    """The nearest place at or before `at` (at or after, if `forward`) where a text may be cut.

    What joins two characters is looked for over a short way only: a text made of nothing else is
    cut all the same.
    """
    at = min(max(at, 0), len(text))
    for step in range(_MAX_STEPS_BACK):
        place = at + step if forward else at - step
        if not 0 < place < len(text) or not _is_within_character(text, place):
            return place
    return at


_ZERO_WIDTH_JOINER = "\u200d"


def _is_within_character(text: str, place: int) -> bool:
    """Whether what readers see as one character stands on both sides of a place."""
    before, after = text[place - 1], text[place]
    if after.isascii():
        return before == "\r" and after == "\n"
    if _is_flag_half(after):
        halves = 0
        while halves < place and _is_flag_half(text[place - 1 - halves]):
            halves += 1
        return halves % 2 == 1
    return (
        unicodedata.category(after).startswith("M")
        or before == _ZERO_WIDTH_JOINER
        or after == _ZERO_WIDTH_JOINER
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # the skin of the person before
    )


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
