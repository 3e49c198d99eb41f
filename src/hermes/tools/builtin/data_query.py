"""Questions to a table: rows, groups and what its columns hold."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Generic, Literal, TypeVar

from hermes.errors import ToolError

from .data_aggregate import Aggregate, Groups
from .data_cells import Cell, Kind, SortKey, distinct, is_empty, parsed, shown, sort_key
from .data_filter import Rows
from .data_table import Row, Table

Part = Literal["year", "month", "day", "hour"]
MAX_DISTINCT = 1_000
_CELL_CHARS = 1_000
_EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is asked of a table; as in `query_data`."""

    columns: Sequence[str] = ()
    group_by: Sequence[str] = ()
    date_part: Part | None = None
    aggregates: Sequence[Aggregate] = ()
    sort_by: str | None = None
    descending: bool = False
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a query came to.

    Attributes:
        total: Rows or groups in all, shown or not.
    """

    rows: list[Row]
    total: int
    notes: list[str]


def answer(table: Table, rows: Rows, query: Query) -> Answer:
    """Go through a table once.

    Raises:
        ToolError: It names a column that is not there, or needs too much memory.
    """
    for aggregate in query.aggregates:
        aggregate.check()
    if table.columns:
        rows.check()
    if query.group_by or query.aggregates:
        return _grouped(table, rows, query)
    if query.date_part:
        raise ToolError("date_part is for group_by, which is empty", code="bad_query")
    _check_early(table, *query.columns, *([query.sort_by] if query.sort_by else []))
    if query.sort_by is None:
        found: list[Row] = []
        for row in rows:
            if len(found) < query.limit:
                found.append(row)
    else:
        found = ordered(rows, query.sort_by, descending=query.descending, limit=query.limit)
    rows.check()
    names = [*query.columns, *([query.sort_by] if query.sort_by else [])]
    if rows.scanned:
        table.check(*names)
    wanted = query.columns or table.columns
    cut = [{name: _cut(row.get(name)) for name in wanted} for row in found]
    return Answer(rows=cut, total=rows.matched, notes=table.notes)


def _grouped(table: Table, rows: Rows, query: Query) -> Answer:
    if query.columns:
        raise ToolError(
            "columns is for rows; groups have their group_by and aggregates", code="bad_query"
        )
    aggregates = query.aggregates or (Aggregate(op="count"),)
    names = [*query.group_by, *(each.column for each in aggregates if each.column)]
    _check_early(table, *names)
    groups = Groups(query.group_by, query.date_part or "", aggregates)
    for row in rows:
        groups.add(row)
    rows.check()
    if rows.scanned:
        table.check(*names)
    found = groups.rows()
    results = [*query.group_by, *(each.name for each in aggregates)]
    if query.sort_by is not None:
        if query.sort_by not in results:
            raise ToolError(
                f"groups cannot be sorted by {query.sort_by!r:.80}",
                code="unknown_column",
                hint=f"they have: {', '.join(results)}",
            )
        shown_rows = ordered(found, query.sort_by, descending=query.descending, limit=query.limit)
    else:
        shown_rows = found[: query.limit]
    return Answer(rows=shown_rows, total=len(found), notes=[*table.notes, *groups.notes()])


def ordered(rows: Iterable[Row], column: str, *, descending: bool, limit: int) -> list[Row]:
    """The first rows by a column; equal ones in their order, empty ones last."""

    def key(row: Row) -> tuple[int, SortKey]:
        cell = row.get(column)
        if is_empty(cell):
            return (0 if descending else 1, sort_key(""))
        return (1 if descending else 0, sort_key(cell))

    pick = heapq.nlargest if descending else heapq.nsmallest
    return pick(limit, rows, key=key)


def _check_early(table: Table, *names: str) -> None:
    """Before a long way, where the columns are known by then."""
    if table.columns:
        table.check(*names)


def _cut(cell: Cell) -> Cell:
    cell = shown(cell)
    if isinstance(cell, str) and len(cell) > _CELL_CHARS:
        return f"{cell[: _CELL_CHARS - 1]}…"
    return cell


V = TypeVar("V", Decimal, datetime)


class _Ends(Generic[V]):
    """The least and the most of some cells, as they were written."""

    def __init__(self) -> None:
        self.least: Cell = None
        self.most: Cell = None
        self._low: V | None = None
        self._high: V | None = None

    def add(self, value: V, cell: Cell) -> None:
        if self._low is None or value < self._low:
            self._low, self.least = value, cell
        if self._high is None or value > self._high:
            self._high, self.most = value, cell


@dataclass(slots=True)
class Column:
    """What one column holds."""

    name: str
    kinds: dict[Kind, int] = field(default_factory=dict[Kind, int])
    examples: list[Cell] = field(default_factory=list[Cell])
    distinct: set[Cell] | None = field(default_factory=set[Cell])
    numbers: _Ends[Decimal] = field(default_factory=lambda: _Ends[Decimal]())
    moments: _Ends[datetime] = field(default_factory=lambda: _Ends[datetime]())
    odd: str = ""

    def add(self, cell: Cell) -> None:
        kind, value = parsed(cell)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if kind == "empty":
            return
        if self.distinct is not None and (key := distinct(cell)) not in self.distinct:
            self.distinct.add(key)
            if len(self.examples) < _EXAMPLES:
                self.examples.append(_cut(cell))
            if len(self.distinct) > MAX_DISTINCT:
                self.distinct = None
        if kind == "text" and not self.odd:
            self.odd = str(cell)
        if isinstance(value, Decimal):
            self.numbers.add(value, cell)
        elif value is not None:
            self.moments.add(value, cell)

    def described(self, rows: int) -> dict[str, object]:
        """What is told of it."""
        kinds = dict(self.kinds)
        kinds.pop("empty", None)
        told: dict[str, object] = {"name": self.name, "type": self._type(kinds)}
        filled = sum(kinds.values())
        if filled < rows:
            told["empty"] = rows - filled
        told["distinct"] = (
            f"more than {MAX_DISTINCT:,}" if self.distinct is None else len(self.distinct)
        )
        told["examples"] = self.examples
        if told["type"] not in ("text", "boolean", "empty"):
            ends = self.moments if "date" in str(told["type"]) else self.numbers
            told["min"], told["max"] = shown(ends.least), shown(ends.most)
        if len(kinds) > 1:
            told["holds"] = kinds
            if self.odd and set(kinds) != {"text"}:
                told["first_text"] = self.odd[:100]
        return told

    @staticmethod
    def _type(kinds: dict[Kind, int]) -> str:
        """The narrowest type that fits all that is not empty."""
        match set(kinds):
            case found if not found:
                return "empty"
            case found if len(found) == 1:
                return next(iter(found))
            case found if found == {"integer", "number"}:
                return "number"
            case found if found == {"date", "datetime"}:
                return "datetime"
            case _:
                return "text"


def described(rows: Iterable[Row]) -> list[Column]:
    """What the columns of a table hold."""
    columns: dict[str, Column] = {}
    for row in rows:
        for name, cell in row.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = Column(name)
            column.add(cell)
    return list(columns.values())
