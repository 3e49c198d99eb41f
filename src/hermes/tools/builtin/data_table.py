"""What a table is: rows of named cells, and how its file is read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from hermes.errors import ToolError

from .data_cells import Cell
from .files_text import Encoding
from .files_workspace import Spot

Form = Literal["auto", "csv", "json", "jsonl"]
Row = dict[str, Cell]
MAX_LINE_CHARS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a file is to be read; what is left out is detected, and said in the result."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    form: Annotated[
        Form,
        Field(description="`csv` is for any separator, `jsonl` has one object on each line."),
    ] = "auto"
    separator: Annotated[
        str | None,
        Field(description="Of CSV: one character, as `;`. Detected if left out."),
    ] = None
    encoding: Annotated[
        Encoding | None,
        Field(description="Of the file's bytes. Detected if left out."),
    ] = None
    header: Annotated[
        bool,
        Field(
            description="The first row of CSV names the columns; if not, they are `column_1` and "
            "so on."
        ),
    ] = True


@dataclass(slots=True, kw_only=True)
class Table:
    """A file as rows.

    Attributes:
        rows: Can be gone through once.
        columns: Those that are known; of JSON lines they grow with the rows.
        read_as: How it was read, in words.
        notes: What the reader has to know of what was read; complete after the last row.
    """

    rows: Iterator[Row]
    columns: list[str]
    read_as: str
    notes: list[str] = field(default_factory=list[str])

    def check(self, *names: str) -> None:
        """Refuse names of columns that the table does not have.

        Raises:
            ToolError: It has no such column.
        """
        for name in names:
            if name not in self.columns:
                raise ToolError(
                    f"there is no column {name!r:.80}",
                    code="unknown_column",
                    hint=f"columns: {', '.join(self.columns[:50])}",
                )


def written(text: io.TextIOWrapper, spot: Spot) -> Iterator[str]:
    """The lines of a file, none of which may fill the memory."""
    while line := text.readline(MAX_LINE_CHARS + 1):
        if len(line) > MAX_LINE_CHARS:
            raise ToolError(
                f"{spot.path!r} has a line of more than {MAX_LINE_CHARS:,} characters",
                code="not_a_table",
                hint="a table has a row on each line; JSON lines are no JSON array",
            )
        yield line


def undecodable(spot: Spot, line: int, exc: UnicodeDecodeError) -> ToolError:
    """The error of a file that is not in its encoding after all."""
    return ToolError(
        f"{spot.path!r} is not {exc.encoding} after line {line}",
        code="wrong_encoding",
        hint="say its encoding in `reading`; Chinese files are often gb18030",
    )
