"""Which rows are meant: conditions on columns, never code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar, Literal, Self

from pydantic import ConfigDict, Field

from hermes.errors import ToolError

from .data_cells import Cell, is_empty, moment, number, to_cell
from .data_table import Row, Table

Operator = Literal[
    "eq",
    "ne",
    "gt",
    "ge",
    "lt",
    "le",
    "in",
    "not_in",
    "contains",
    "not_contains",
    "starts_with",
    "ends_with",
    "is_empty",
    "not_empty",
]
Scalar = str | int | float | bool
Test = Callable[[Cell], bool]


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A condition on one column."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    column: Annotated[str, Field(description="The column's name, as `金额`.")]
    op: Annotated[
        Operator,
        Field(
            description="Takes numbers as numbers and dates as dates, in whatever form they are "
            "written; a date without a time is its whole day. With `gt`, `ge`, `lt` and `le`, a "
            "cell of another kind does not fit."
        ),
    ] = "eq"
    value: Annotated[
        Scalar | list[Scalar] | None,
        Field(
            description="What to compare with: a list for `in` and `not_in`; left out for "
            "`is_empty` and `not_empty` alone."
        ),
    ] = None


class Rows:
    """The rows of a table that fit, counted.

    Attributes:
        scanned: Rows looked at.
        matched: Rows that fit.
    """

    def __init__(
        self, table: Table, filters: Sequence[Filter], is_over: Callable[[], bool]
    ) -> None:
        self._table, self._is_over = table, is_over
        self._tests = [(each.column, _test(each)) for each in filters]
        self.scanned = self.matched = 0

    def __iter__(self) -> Iterator[Row]:
        for row in self._table.rows:
            self.scanned += 1
            if self.scanned % 2_000 == 0 and self._is_over():
                raise ToolError(
                    f"stopped after {self.scanned:,} rows", code="stopped", retryable=False
                )
            if all(test(row.get(column)) for column, test in self._tests):
                self.matched += 1
                yield row

    def check(self) -> None:
        """Refuse filters on columns that the table does not have, once all are known."""
        self._table.check(*(column for column, _ in self._tests))


def _test(given: Filter) -> Test:
    value = given.value
    match given.op:
        case "is_empty":
            return is_empty
        case "not_empty":
            return lambda cell: not is_empty(cell)
        case "in" | "not_in":
            if not isinstance(value, list):
                raise _wrong(given, "a list")
            tests = [_equals(to_cell(item)) for item in value]
            is_in = given.op == "in"
            return lambda cell: any(test(cell) for test in tests) is is_in
        case _:
            if value is None or isinstance(value, list):
                raise _wrong(given, "one value")
            return _compared(given.op, to_cell(value))


def _compared(op: str, value: Cell) -> Test:
    equals, text = _equals(value), _text(value)
    match op:
        case "eq":
            return equals
        case "ne":
            return lambda cell: not equals(cell)
        case "contains":
            return lambda cell: text in _text(cell)
        case "not_contains":
            return lambda cell: text not in _text(cell)
        case "starts_with":
            return lambda cell: _text(cell).startswith(text)
        case "ends_with":
            return lambda cell: _text(cell).endswith(text)
        case _:
            return _ordered(op, value)


def _equals(value: Cell) -> Test:
    wanted, text, at = number(value), _text(value), _Moment.of(value)
    if wanted is not None:
        return lambda cell: number(cell) == wanted
    if at is not None:
        return lambda cell: at.order(cell) == 0
    return lambda cell: _text(cell) == text


def _ordered(op: str, value: Cell) -> Test:
    """A comparison; a cell of another kind than the value does not fit."""
    is_above, or_equal = op in ("gt", "ge"), op in ("ge", "le")
    wanted, wanted_at, text = number(value), _Moment.of(value), _text(value)

    def order(cell: Cell) -> int | None:
        if is_empty(cell):
            return None
        if wanted is not None:
            found = number(cell)
            return None if found is None else int(found > wanted) - int(found < wanted)
        if wanted_at is not None:
            return wanted_at.order(cell)
        given = _text(cell)
        return int(given > text) - int(given < text)

    def test(cell: Cell) -> bool:
        found = order(cell)
        return found is not None and (
            (found == 0 and or_equal) or (found > 0 if is_above else found < 0)
        )

    return test


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """A date or time to compare with; a date without a time stands for its whole day."""

    at: datetime
    is_day: bool

    @classmethod
    def of(cls, value: Cell) -> Self | None:
        at = moment(value)
        return None if at is None else cls(at=at, is_day=":" not in str(value))

    def order(self, cell: Cell) -> int | None:
        """Whether a cell's moment comes after (1), before (-1) or is it; None if it has none."""
        at = moment(cell)
        if at is None:
            return None
        if self.is_day:
            return int(at.date() > self.at.date()) - int(at.date() < self.at.date())
        return int(at > self.at) - int(at < self.at)


def _text(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return "" if cell is None else str(cell).strip()


def _wrong(given: Filter, needed: str) -> ToolError:
    return ToolError(
        f"the filter {given.op!r} on {given.column!r} needs {needed} to compare with, "
        f"got {given.value!r:.80}",
        code="bad_filter",
    )
