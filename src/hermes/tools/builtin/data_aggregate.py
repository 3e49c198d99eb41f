"""Sums and the like over groups of rows, in exact numbers and bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from hermes.errors import ToolError

from .data_cells import (
    EXACT,
    Cell,
    distinct,
    is_empty,
    mean,
    moment,
    number,
    part_of,
    percentile,
    plain,
    shown,
)
from .data_table import Row

Operation = Literal["count", "count_distinct", "sum", "avg", "min", "max", "percentile"]
Percent = Annotated[float, Field(ge=0, le=100)]
MAX_GROUPS = 100_000
MAX_KEPT = 1_000_000
MAX_KEY_CHARS = 1_000


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """One figure of a group."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    op: Annotated[
        Operation,
        Field(
            description="`count` without a column counts rows, with one the cells that are not "
            "empty."
        ),
    ]
    column: Annotated[
        str | None,
        Field(description="What it is taken over; if left out, `count` counts rows."),
    ] = None
    percent: Annotated[
        Percent | None,
        Field(description="0 to 100, 50 is the median; left out but for `percentile`."),
    ] = None

    @property
    def name(self) -> str:
        """What the figure is called in the result."""
        if self.op == "percentile":
            return f"p{self.percent:g}({self.column})"
        return f"{self.op}({self.column})" if self.column else self.op

    def check(self) -> None:
        """Refuse what says nothing.

        Raises:
            ToolError: It lacks its column or percentage.
        """
        if self.column is None and self.op != "count":
            raise ToolError(f"{self.op} needs a column", code="bad_aggregate")
        is_percentile = self.op == "percentile"
        if is_percentile and (self.percent is None or not 0 <= self.percent <= 100):
            raise ToolError(
                f"percentile needs percent from 0 to 100, got {self.percent}", code="bad_aggregate"
            )
        if not is_percentile and self.percent is not None:
            raise ToolError(f"{self.op} takes no percent", code="bad_aggregate")


class Groups:
    """Rows put together by the values of some columns.

    Args:
        by: Columns; none makes one group of all rows.
        part: `year`, `month`, `day` or `hour`: dates among the values count by it; "" for none.
        aggregates: What is wanted of each group.
    """

    def __init__(self, by: Sequence[str], part: str, aggregates: Sequence[Aggregate]) -> None:
        self._by, self._part, self._aggregates = by, part, aggregates
        self._groups: dict[tuple[Cell, ...], list[_Figure]] = {}
        self._memory = Memory()
        if not by:
            self._groups[()] = [_Figure(each, self._memory) for each in aggregates]

    def add(self, row: Row) -> None:
        key = tuple(self._key(row.get(column)) for column in self._by)
        figures = self._groups.get(key)
        if figures is None:
            if len(self._groups) >= MAX_GROUPS:
                raise ToolError(
                    f"there are more than {MAX_GROUPS:,} groups",
                    code="too_large",
                    hint="group by another column, or filter",
                )
            figures = self._groups[key] = [_Figure(each, self._memory) for each in self._aggregates]
        for figure in figures:
            figure.add(row)

    def rows(self) -> list[Row]:
        """A row for each group: its values and figures."""
        return [
            {
                **dict(zip(self._by, key, strict=True)),
                **{figure.name: figure.value() for figure in figures},
            }
            for key, figures in self._groups.items()
        ]

    def notes(self) -> list[str]:
        """Which columns held values that could not be counted in."""
        odd: dict[str, tuple[int, str]] = {}
        for figures in self._groups.values():
            for figure in figures:
                if figure.odd:
                    count, example = odd.get(figure.name, (0, figure.example))
                    odd[figure.name] = (count + figure.odd, example)
        columns = {each.name: each.column for each in self._aggregates}
        told = {columns[name]: found for name, found in odd.items()}  # alike for each figure
        return [
            f"{column}: {count} values are no numbers and were left out, as {example!r:.60}"
            for column, (count, example) in told.items()
        ]

    def _key(self, cell: Cell) -> Cell:
        if self._part and (part := part_of(cell, self._part)) is not None:
            return part
        if not isinstance(cell, str):
            return cell
        if len(cell) > MAX_KEY_CHARS:
            raise ToolError(
                f"a value to group by has more than {MAX_KEY_CHARS:,} characters: {cell[:60]!r}…",
                code="bad_query",
                hint="group by another column",
            )
        return cell.strip() or None


class Memory:
    """How many values all groups of a query keep together."""

    def __init__(self) -> None:
        self._kept = 0

    def keep(self) -> None:
        """Count one value.

        Raises:
            ToolError: It is one too many.
        """
        self._kept += 1
        if self._kept > MAX_KEPT:
            raise ToolError(
                f"percentile and count_distinct keep their values in memory, {MAX_KEPT:,} at most",
                code="too_large",
                hint="filter, or take avg, min and max",
            )


class _Figure:
    """One aggregate of one group."""

    def __init__(self, aggregate: Aggregate, memory: Memory) -> None:
        self._aggregate, self._memory = aggregate, memory
        self.name = aggregate.name
        self.odd, self.example = 0, ""
        self._count = 0
        self._sum = Decimal(0)
        self._ends = _Ends()
        self._values: list[Decimal] = []
        self._distinct = set[Cell]()

    def add(self, row: Row) -> None:
        column = self._aggregate.column
        if column is None:
            self._count += 1
            return
        cell = row.get(column)
        if is_empty(cell):
            return
        match self._aggregate.op:
            case "count":
                self._count += 1
            case "count_distinct":
                value = distinct(cell)
                if value not in self._distinct:
                    self._memory.keep()
                    self._distinct.add(value)
            case "min" | "max":
                self._count += 1
                self._ends.add(cell)
            case "sum" | "avg" | "percentile":
                self._add_number(cell)

    def _add_number(self, cell: Cell) -> None:
        found = number(cell)
        if found is None:
            self.odd += 1
            self.example = self.example or str(cell)
            return
        self._count += 1
        if self._aggregate.op == "percentile":
            self._memory.keep()
            self._values.append(found)
        else:
            self._sum = EXACT.add(self._sum, found)

    def value(self) -> Cell:
        """The figure as JSON; None where nothing was there to take it of."""
        match self._aggregate.op:
            case "count":
                return self._count
            case "count_distinct":
                return len(self._distinct)
            case "sum":
                return plain(self._sum)
            case "avg":
                return plain(mean(self._sum, self._count)) if self._count else None
            case "percentile":
                if not self._values:
                    return None
                percent = Decimal(repr(self._aggregate.percent))
                return plain(percentile(sorted(self._values), percent))
            case "min":
                return shown(self._ends.least(self._count))
            case "max":
                return shown(self._ends.most(self._count))


class _Ends:
    """Least and most of a column, whose kind is known only at its end."""

    def __init__(self) -> None:
        self._numbers: tuple[Decimal, Decimal] | None = None
        self._moments: tuple[tuple[datetime, str], tuple[datetime, str]] | None = None
        self._texts: tuple[str, str] | None = None
        self._number_count = self._moment_count = 0

    def add(self, cell: Cell) -> None:
        text = str(cell)
        low, high = self._texts or (text, text)
        self._texts = (min(low, text), max(high, text))
        if (found := number(cell)) is not None:
            self._number_count += 1
            least, most = self._numbers or (found, found)
            self._numbers = (min(least, found), max(most, found))
        elif (at := moment(cell)) is not None:
            self._moment_count += 1
            first, last = self._moments or ((at, text), (at, text))
            self._moments = (min(first, (at, text)), max(last, (at, text)))

    def least(self, count: int) -> Cell:
        return self._end(count, 0)

    def most(self, count: int) -> Cell:
        return self._end(count, 1)

    def _end(self, count: int, which: Literal[0, 1]) -> Cell:
        """By number if all are numbers, by date if all are dates, else by text."""
        if self._numbers and self._number_count == count:
            return self._numbers[which]
        if self._moments and self._moment_count == count:
            return self._moments[which][1]
        return self._texts[which] if self._texts else None
