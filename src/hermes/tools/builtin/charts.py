"""Charts of tables, as text or as a picture; group `data`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from hermes.core.json import as_list
from hermes.errors import ToolError
from hermes.tools.base import Tool, ToolContext
from hermes.tools.function import tool

from .charts_picture import Picture, drawn
from .charts_text import bars_of, text_chart
from .data import AS_IT_IS, TIMEOUT_S, Tables
from .data_aggregate import Aggregate
from .data_filter import Filter
from .data_query import Part, Query
from .data_table import Reading
from .files_workspace import Workspace, must_be, read_all, reopened
from .files_write import write
from .options import BuiltinOptions

COUNT = Aggregate(op="count")
Order = Literal["value", "label", "file"]


class Charts:
    """Tools over the tables of one workspace."""

    def __init__(self, options: BuiltinOptions) -> None:
        self._workspace = Workspace(options.workspace)
        self._tables = Tables(options)

    def chart_data(
        self,
        path: str,
        label: str,
        ctx: ToolContext,
        value: Aggregate = COUNT,
        filters: Annotated[list[Filter], Field(max_length=50)] = [],  # noqa: B006  # copied
        date_part: Part | None = None,
        order: Order = "value",
        limit: Annotated[int, Field(ge=1, le=50)] = 15,
        reading: Reading = AS_IT_IS,
    ) -> str:
        """Draw one figure for each value of a column as bars of text.

        Use it to show a distribution or a ranking in an answer, for example orders by region. Not
        for a picture (`save_chart`), nor where the numbers alone are wanted (`query_data`).

        Args:
            path: A CSV or JSON file, relative to the workspace.
            label: The column whose values are the bars.
            value: The figure: by default how many rows there are.
            filters: Conditions that all must hold; none for all rows.
            date_part: Dates in `label` count by year, month, day or hour; left out, each value
                counts by itself.
            order: By `value`, the greatest first; by `label`; or as they come in the `file`.
            limit: Bars to draw; the rest is said.
            reading: How to read the file; what is left out is detected.
            ctx: Says when to stop.

        Returns:
            A bar a line with its label and number, and under it how many there are.

        Example:
            chart_data(path="orders.csv", label="region", value={"op": "sum", "column": "amount"})
        """
        query = _query(label, value, date_part, order, limit)
        found = self._tables.asked(path, filters, query, reading, ctx)
        return text_chart(bars_of(found, label, value.name), value.name, found)

    def save_chart(
        self,
        path: str,
        label: str,
        save_as: Annotated[str, Field(pattern=r"\.png$")],
        ctx: ToolContext,
        value: Aggregate = COUNT,
        kind: Literal["bar", "line"] = "bar",
        title: Annotated[str, Field(max_length=200)] = "",
        filters: Annotated[list[Filter], Field(max_length=50)] = [],  # noqa: B006  # copied
        date_part: Part | None = None,
        order: Order = "label",
        limit: Annotated[int, Field(ge=1, le=200)] = 50,
        overwrite: bool = False,
        reading: Reading = AS_IT_IS,
    ) -> dict[str, object]:
        """Draw one figure for each value of a column as a PNG file of the workspace.

        Use it where somebody wants a picture, for a report or a message. Not to see the numbers
        (`chart_data`, `query_data`). It needs the extra `charts`. Characters that no installed
        font has, Chinese ones included, are replaced by numbers, and the result says which.

        Args:
            path: A CSV or JSON file, relative to the workspace.
            label: The column along the bottom.
            save_as: Where to write the picture, relative to the workspace, ending in `.png`.
            value: The figure: by default how many rows there are.
            kind: Bars, or a line where the labels have an order, as dates have.
            title: Above the chart.
            filters: Conditions that all must hold; none for all rows.
            date_part: Dates in `label` count by year, month, day or hour; left out, each value
                counts by itself.
            order: By `label`; by `value`, the greatest first; or as they come in the `file`.
            limit: Bars or points to draw; the rest is said.
            overwrite: Replace a picture that is there; refused without.
            reading: How to read the file; what is left out is detected.
            ctx: Keeps the picture with the task too.

        Returns:
            `path`, `size_bytes`, `artifact` (its handle), `drawn` of `total` labels, and `notes`.

        Example:
            save_chart(path="orders.csv", label="date", date_part="month", kind="line",
            save_as="reports/orders.png")
        """
        query = _query(label, value, date_part, order, limit)
        found = self._tables.asked(path, filters, query, reading, ctx)
        bars = bars_of(found, label, value.name)
        if not bars:
            raise ToolError("no row fits: there is nothing to draw", code="empty")
        picture = drawn(bars, Picture(kind=kind, title=title, label=label, value=value.name))
        data = self._save(save_as, picture.png, overwrite=overwrite)
        handle = ctx.artifact(save_as.rsplit("/", 1)[-1], picture.png)
        notes = [*picture.notes, *map(str, as_list(found.get("notes")))]
        told = {**data, "artifact": handle, "drawn": len(bars), "total": found["total"]}
        return {**told, "notes": notes} if notes else told

    def _save(self, path: str, png: bytes, *, overwrite: bool) -> dict[str, object]:
        with self._workspace.spot(path, make_folders=True) as spot:
            if spot.info is not None:
                with reopened(must_be(spot, "file"), os.O_RDONLY) as file:
                    is_same = spot.size == len(png) and read_all(file, spot, len(png)) == png
                if not is_same and not overwrite:
                    raise ToolError(
                        f"{spot.path!r} is there already",
                        code="exists",
                        hint="overwrite=true replaces it",
                    )
            write(spot, png)
            return {"path": spot.path, "size_bytes": len(png)}


def _query(label: str, value: Aggregate, part: Part | None, order: Order, limit: int) -> Query:
    query = Query(group_by=[label], date_part=part, aggregates=[value], limit=limit)
    if order == "value":
        return replace(query, sort_by=value.name, descending=True)
    return replace(query, sort_by=label) if order == "label" else query


def tools(options: BuiltinOptions) -> tuple[Tool, ...]:
    """Drawing tables."""
    charts = Charts(options)
    foreign = not options.files_trusted
    return (
        tool(effect="read", group="data", timeout_s=TIMEOUT_S, untrusted_output=foreign)(
            charts.chart_data
        ),
        # The same table makes the same picture, and a repeat finds it there.
        tool(effect="idempotent", group="data", timeout_s=TIMEOUT_S, untrusted_output=foreign)(
            charts.save_chart
        ),
    )
