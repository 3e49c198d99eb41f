"""What comes out of a database, as plain JSON of a bounded size; what goes in, bound."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Protocol, cast

from hermes.errors import ToolError

MAX_ROWS = 1_000
MAX_CELL_CHARS = 2_000
MAX_RESULT_CHARS = 500_000
MAX_SQL_CHARS = 20_000
TIME_CAP_S = 20.0
_BLOB_BYTES = 16
_MAX_DEPTH = 6

Scalar = str | int | float | bool | None
# Possessive, since a text of many comments would else be read in more ways than can be tried.
_BLANK = re.compile(r"(?:\s|;|--[^\n]*|(?>/\*.*?(?:\*/|\Z)))*+", re.DOTALL)
_WORD = re.compile(r"\(*\s*([a-z]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The first rows of a result.

    Attributes:
        more: There were others: more than were asked for, or more than a result may hold.
        changed: Rows that the statement changed; of a write alone.
    """

    columns: list[str]
    rows: list[list[object]] = field(default_factory=list[list[object]])
    more: bool = False
    changed: int = 0


class Source(Protocol):
    """One database; each call has a connection of its own."""

    async def tables(self) -> list[dict[str, object]]:
        """Names and kinds."""
        ...

    async def describe(self, table: str) -> dict[str, object] | None:
        """Columns and constraints of a table; None if there is none of that name."""
        ...

    async def query(self, sql: str, parameters: Sequence[Scalar], limit: int) -> Rows:
        """Run one statement that the database itself keeps from writing."""
        ...

    async def execute(
        self,
        sql: str,
        parameters: Sequence[Scalar],
        *,
        keep: bool,
        expected: int | None = None,
    ) -> Rows:
        """Run one statement that writes, in a transaction; rolled back unless `keep`."""
        ...


def plain(value: object, depth: int = 0) -> object:
    """A cell as JSON: numbers exact, long text cut, bytes told and not shown."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            return _cut(value)
        case Decimal():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case bytes() | bytearray() | memoryview():
            raw = bytes(cast("bytes", value))
            dots = "…" if len(raw) > _BLOB_BYTES else ""
            return f"<{len(raw)} bytes: {raw[:_BLOB_BYTES].hex()}{dots}>"
        case Mapping() | list() | tuple() if depth >= _MAX_DEPTH:
            return _cut(repr(cast("object", value)))
        case Mapping():
            items = cast("Mapping[object, object]", value).items()
            return {str(key): plain(each, depth + 1) for key, each in items}
        case list() | tuple():
            return [plain(each, depth + 1) for each in cast("Sequence[object]", value)[:MAX_ROWS]]
        case _:
            return _cut(str(value))


def weight(row: Sequence[object]) -> int:
    """Roughly how many characters a row of plain cells takes."""
    return sum(len(cell) if isinstance(cell, str) else len(repr(cell)) for cell in row)


def _cut(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()
    if len(text) <= MAX_CELL_CHARS:
        return text
    return f"{text[:MAX_CELL_CHARS]}… ({len(text)} characters)"


def is_blank(sql: str) -> bool:
    """Whether a text holds no statement: only spaces, semicolons and comments."""
    return _BLANK.fullmatch(sql) is not None


def first_word(sql: str) -> str:
    """The word that says what a statement does, in lower case; "" if there is none.

    A comment within a comment, which databases read in different ways, gives none.
    """
    blank = _BLANK.match(sql)
    if blank is None or blank.group().count("/*") != blank.group().count("*/"):
        return ""
    found = _WORD.match(sql, blank.end())
    return found.group(1).lower() if found else ""


def refused(what: str, *, hint: str = "") -> ToolError:
    """A statement that is not run."""
    return ToolError(f"not run: {what}", code="refused", hint=hint)


SEVERAL = "one statement a call, and this is more than one"
TOO_LONG = f"the statement took more than {TIME_CAP_S:g} s and was stopped"
