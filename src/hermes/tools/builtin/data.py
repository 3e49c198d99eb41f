"""Tables: what they hold, and questions to them; group `data`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Annotated

from pydantic import Field

from hermes.tools.base import Tool, ToolContext
from hermes.tools.function import tool

from .data_aggregate import Aggregate
from .data_filter import Filter, Rows
from .data_query import Part, Query, answer, described
from .data_read import opened
from .data_table import Reading, Table
from .files_workspace import Workspace
from .options import BuiltinOptions

TIMEOUT_S = 120.0
_MAX_COLUMNS_TOLD = 200
AS_IT_IS = Reading()

Names = Annotated[list[str], Field(max_length=100)]


class Tables:
    """Tools over the tables of one workspace."""

    def __init__(self, options: BuiltinOptions) -> None:
        self._workspace = Workspace(options.workspace)
        self._max_bytes = options.files_max_bytes

    def describe_data(
        self, path: str, ctx: ToolContext, reading: Reading = AS_IT_IS
    ) -> dict[str, object]:
        """Say what a CSV or JSON file of the workspace holds: its columns, their types, its rows.

        Use it before the first question to a table. Not for the rows themselves (`query_data`),
        nor for spreadsheets (.xlsx), which it cannot read. It goes through the whole file.

        Args:
            path: The file, relative to the workspace: CSV with any separator, JSON (an array of
                objects) or JSON lines.
            reading: How to read it; what is left out is detected.
            ctx: Says when to stop.

        Returns:
            `rows`, `columns` with name, type (integer, number, date, datetime, boolean, text,
            empty), empty cells, distinct values, examples, least and greatest; `read_as` with the
            encoding and separator, which may be guessed; `notes` on what was odd.

        Example:
            describe_data(path="data/订单.csv")
        """
        with self._table(path, reading) as table:
            rows = Rows(table, (), lambda: ctx.cancelled)
            columns = described(rows)
            if not columns:  # a header alone
                return {"rows": 0, "columns": table.columns, "read_as": table.read_as}
            told = [column.described(rows.scanned) for column in columns[:_MAX_COLUMNS_TOLD]]
            data: dict[str, object] = {
                "rows": rows.scanned,
                "columns": told,
                "read_as": table.read_as,
            }
            if len(columns) > _MAX_COLUMNS_TOLD:
                data["columns_in_all"] = len(columns)
            return {**data, "notes": table.notes} if table.notes else data

    def query_data(
        self,
        path: str,
        ctx: ToolContext,
        filters: Annotated[list[Filter], Field(max_length=50)] = [],  # noqa: B006  # copied
        columns: Names = [],  # noqa: B006  # copied
        group_by: Annotated[list[str], Field(max_length=10)] = [],  # noqa: B006  # copied
        date_part: Part | None = None,
        aggregates: Annotated[list[Aggregate], Field(max_length=50)] = [],  # noqa: B006  # copied
        sort_by: str | None = None,
        descending: bool = False,
        limit: Annotated[int, Field(ge=1, le=1_000)] = 50,
        reading: Reading = AS_IT_IS,
    ) -> dict[str, object]:
        """Filter, group, sum up and sort the rows of a CSV or JSON file of the workspace.

        Use it for every count, sum or average: it is exact, where adding up by eye is not. Not
        for a first look (`describe_data`) or for databases. Files of any size are read row by
        row; JSON other than JSON lines only up to 10 MiB. Numbers are exact; `1,5`, `12%`, `¥3`
        and `007` count as text. Dates without a zone are taken as UTC. An average is rounded to
        20 digits; a percentile lies between two values in proportion, as in spreadsheets.

        Args:
            path: The file, relative to the workspace.
            filters: Conditions that all must hold; none for all rows.
            columns: Which to show, where nothing is grouped; none for all.
            group_by: Columns whose values make the groups.
            date_part: Dates among those values count by year, month, day or hour; left out, each
                value counts by itself.
            aggregates: Figures of each group, or of all rows if nothing is grouped; `count` if
                none is given.
            sort_by: A column, or a figure by its name, as `sum(金额)`, `count` or `p95(耗时)`; left
                out, the order is that of the file.
            descending: The greatest first. Empty cells come last either way.
            limit: Rows or groups to show.
            reading: How to read the file; what is left out is detected.
            ctx: Says when to stop.

        Returns:
            `rows`, `total` of the rows or groups that fit, rows `scanned` and `matched`,
            `read_as`, and `notes`, for example on values that are no numbers.

        Example:
            query_data(path="orders.csv", filters=[{"column": "status", "op": "eq", "value":
            "returned"}], group_by=["region"], aggregates=[{"op": "sum", "column": "amount"}],
            sort_by="sum(amount)", descending=true)
        """
        query = Query(
            columns=columns,
            group_by=group_by,
            date_part=date_part,
            aggregates=aggregates,
            sort_by=sort_by,
            descending=descending,
            limit=limit,
        )
        return self.asked(path, filters, query, reading, ctx)

    def asked(
        self, path: str, filters: Sequence[Filter], query: Query, reading: Reading, ctx: ToolContext
    ) -> dict[str, object]:
        """What `query_data` tells."""
        with self._table(path, reading) as table:
            rows = Rows(table, filters, lambda: ctx.cancelled)
            found = answer(table, rows, query)
            data: dict[str, object] = {
                "rows": found.rows,
                "total": found.total,
                "scanned": rows.scanned,
                "matched": rows.matched,
                "read_as": table.read_as,
            }
            return {**data, "notes": found.notes} if found.notes else data

    @contextmanager
    def _table(self, path: str, reading: Reading) -> Generator[Table]:
        with opened(self._workspace, path, reading, max_bytes=self._max_bytes) as table:
            yield table


def tools(options: BuiltinOptions) -> tuple[Tool, ...]:
    """Looking into tables, and asking them."""
    tables = Tables(options)
    made = tool(
        effect="read",
        group="data",
        timeout_s=TIMEOUT_S,
        concurrency=4,
        untrusted_output=not options.files_trusted,
    )
    return (made(tables.describe_data), made(tables.query_data))
