"""What stands in a table's cells: exact numbers, dates, text, or nothing."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from decimal import Context, Decimal
from functools import lru_cache
from typing import Literal

Cell = str | int | Decimal | bool | None
Kind = Literal["empty", "integer", "number", "boolean", "date", "datetime", "text"]
SortKey = tuple[int, Decimal, datetime, str]

_LONGEST = 300
"""Characters; what is longer is text, and is not kept in a cache."""
_MAX_POWER = 160
# Wide enough for each sum of numbers that `number` reads to be exact.
EXACT = Context(prec=600)
_ROUNDED = Context(prec=20)
_NUMBER = re.compile(  # of ASCII digits alone, as JSON's
    r"[+-]?(?:0|[1-9][0-9]{0,59}|[1-9][0-9]{0,2}(?:,[0-9]{3}){1,15})(?:\.[0-9]{1,60})?(?:[eE][+-]?[0-9]{1,2})?"
)
_DAY = r"([0-9]{1,2})"
_CLOCK = r"([0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,6})?)?)\s*(Z|[+-][0-9]{2}:?[0-9]{2})?"
_DATE = re.compile(
    rf"([0-9]{{4}})(?:-{_DAY}-{_DAY}|/{_DAY}/{_DAY}|年{_DAY}月{_DAY}日?)(?:[T ]\s*{_CLOCK})?"
)
_BOOLEANS = frozenset({"true", "false"})
_BEGINS_NUMBER = frozenset("0123456789+-")
_ZERO, _NEVER = Decimal(0), datetime.min.replace(tzinfo=UTC)


def is_empty(cell: Cell) -> bool:
    """Whether a cell holds nothing: null, or text of spaces alone."""
    return cell is None or (isinstance(cell, str) and not cell.strip())


def number(cell: Cell) -> Decimal | None:
    """A cell's exact number; None if it is none.

    `1,234.50` is one, since each comma parts three digits; `1,5`, `12%` and `¥3` are not, since
    what they mean is not for certain, nor is `007`, which is somebody's name.
    """
    if isinstance(cell, str):
        return _written_number(cell) if len(cell) <= _LONGEST else None
    if isinstance(cell, bool) or cell is None:
        return None
    found = Decimal(cell)
    exponent = found.as_tuple().exponent
    is_sane = isinstance(exponent, int) and exponent >= -_MAX_POWER
    return found if is_sane and found.adjusted() <= _MAX_POWER else None


@lru_cache(maxsize=4_096)
def _written_number(cell: str) -> Decimal | None:
    text = cell.strip()
    return Decimal(text.replace(",", "")) if _NUMBER.fullmatch(text) else None


def moment(cell: Cell) -> datetime | None:
    """A cell's date or time; None if it is none. One without a zone is taken as UTC."""
    if not isinstance(cell, str) or len(cell) > _LONGEST:
        return None
    found = _DATE.fullmatch(cell.strip())
    if found is None:
        return None
    year, *parts, clock, zone = found.groups()
    month, day = (part for part in parts if part is not None)
    text = f"{year}-{month:0>2}-{day:0>2}"
    if clock:
        hour, _, rest = clock.partition(":")
        text += f"T{hour:0>2}:{rest.replace(',', '.')}"
    try:
        found_at = datetime.fromisoformat(f"{text}{zone or ''}")
    except ValueError:  # the 31st of April
        return None
    return found_at if found_at.tzinfo else found_at.replace(tzinfo=UTC)


def parsed(cell: Cell) -> tuple[Kind, Decimal | datetime | None]:
    """What a cell holds, and its number or moment if that is what it holds."""
    if is_empty(cell):
        return "empty", None
    if isinstance(cell, str):
        return _parsed_text(cell) if len(cell) <= _LONGEST else ("text", None)
    if isinstance(cell, bool):
        return "boolean", None
    found = number(cell)
    if found is None:
        return "text", None
    return ("integer" if isinstance(cell, int) else "number"), found


@lru_cache(maxsize=4_096)
def _parsed_text(cell: str) -> tuple[Kind, Decimal | datetime | None]:
    text = cell.strip()
    if text[0] not in _BEGINS_NUMBER:  # most text, told without a closer look
        return ("boolean" if text.lower() in _BOOLEANS else "text"), None
    found = number(text)
    if found is not None:
        is_whole = "." not in text and found == found.to_integral_value()
        return ("integer" if is_whole else "number"), found
    at = moment(text)
    if at is not None:
        return ("datetime" if ":" in text else "date"), at
    return "text", None


def sort_key(cell: Cell) -> SortKey:
    """Numbers before dates before text; what is empty has to be told apart before."""
    found = number(cell)
    if found is not None:
        return (0, found, _NEVER, "")
    at = moment(cell)
    if at is not None:
        return (1, _ZERO, at, "")
    return (2, _ZERO, _NEVER, str(cell))


def part_of(cell: Cell, part: str) -> str | None:
    """The year, month, day or hour of a date, as `2026-11`; None if the cell holds none."""
    at = moment(cell)
    if at is None:
        return None
    size = {"year": 4, "month": 7, "day": 10, "hour": 13}[part]
    return at.isoformat(sep=" ")[:size]


def plain(value: Decimal) -> int | str:
    """A number as JSON: a whole one as it is, any other as text with every digit."""
    if value == value.to_integral_value():
        return int(value)
    return f"{value.normalize(EXACT):f}"


def mean(total: Decimal, count: int) -> Decimal:
    """An average, rounded to 20 digits."""
    return _ROUNDED.divide(total, Decimal(count))


def percentile(values: list[Decimal], percent: Decimal) -> Decimal:
    """As spreadsheets and numpy have it: between two values in proportion.

    Args:
        values: Sorted, at least one.
        percent: 0 to 100.
    """
    place = EXACT.multiply(percent, Decimal(len(values) - 1)) / 100
    low = int(place)
    high = min(low + 1, len(values) - 1)
    step = EXACT.subtract(values[high], values[low])
    return EXACT.add(values[low], EXACT.multiply(step, place - low))


def distinct(cell: Cell) -> Cell:
    """What tells a cell from others, in little memory."""
    cell = cell.strip() if isinstance(cell, str) else cell
    if not isinstance(cell, str) or len(cell) <= _LONGEST:
        return cell
    return f"{cell[:20]}…{hashlib.sha256(cell.encode('utf-8', 'surrogatepass')).hexdigest()}"


def shown(cell: Cell) -> Cell:
    """A cell as a result shows it."""
    return plain(cell) if isinstance(cell, Decimal) else cell


def to_cell(value: object) -> Cell:
    """A plain value that somebody wrote as a cell of the same meaning."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if value is None or isinstance(value, str | int | Decimal):
        return value
    return str(value)
