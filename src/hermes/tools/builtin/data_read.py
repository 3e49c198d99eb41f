"""Tables of the workspace, row by row: CSV, JSON and JSON lines; what was detected is said."""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import cast

from hermes.errors import ToolError

from .data_json import json_table, lines_table
from .data_table import MAX_LINE_CHARS, Form, Reading, Row, Table, undecodable, written
from .files_text import marked_encoding, refuse_binary
from .files_workspace import Spot, Workspace, read_all

MAX_COLUMNS = 1_000
_HEAD_BYTES = 65_536
_SEPARATORS = (",", "\t", ";", "|")
_BY_SUFFIX: dict[str, Form] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


@contextmanager
def opened(
    workspace: Workspace, path: str, reading: Reading, *, max_bytes: int
) -> Generator[Table]:
    """A table of the workspace; its rows are read while the block lasts.

    Args:
        workspace: Where.
        path: The file.
        reading: How.
        max_bytes: Of a JSON file, which is read as a whole.

    Raises:
        ToolError: There is no such file, or it is no table; the message says where that shows.
    """
    with workspace.file(path) as (file, spot):
        head = os.pread(file, _HEAD_BYTES, 0)
        encoding, how = _encoding(head, reading, spot)
        form = _form(head, encoding, reading, spot)
        if form == "json":
            raw = read_all(file, spot, max_bytes)
            yield json_table(raw, encoding, how, spot)
            return
        with os.fdopen(os.dup(file), "rb") as stream:
            text = io.TextIOWrapper(stream, encoding=encoding, newline="")
            if form == "jsonl":
                yield lines_table(text, how, spot)
            else:
                separator, sure = _separator(head, encoding, reading)
                yield _csv_table(text, separator, sure, reading.header, how, spot)


def _encoding(head: bytes, reading: Reading, spot: Spot) -> tuple[str, str]:
    """The encoding, and how it came to be that."""
    if marked := marked_encoding(head):
        return marked, f"{marked} (byte order mark)"
    if reading.encoding:
        return reading.encoding, reading.encoding
    refuse_binary(head, spot.size, path=spot.path)
    for name, how in (("utf-8", "utf-8"), ("gb18030", "gb18030 (guessed: it is not utf-8)")):
        try:
            _decode_head(head, name)
        except UnicodeDecodeError:
            continue
        return name, how
    raise ToolError(
        f"{spot.path!r} is neither utf-8 nor gb18030",
        code="wrong_encoding",
        hint="say its encoding in `reading`, for example big5, shift_jis or windows-1252",
    )


def _decode_head(head: bytes, encoding: str) -> str:
    is_whole = len(head) < _HEAD_BYTES
    return codecs.getincrementaldecoder(encoding)().decode(head, final=is_whole)


def _form(head: bytes, encoding: str, reading: Reading, spot: Spot) -> Form:
    if reading.form != "auto":
        return reading.form
    text = head.decode(encoding, "replace").lstrip("\ufeff \t\r\n")
    by_name = _BY_SUFFIX.get(PurePath(spot.name).suffix.lower())
    if by_name == "json" and text.startswith("{") and _is_object(text.partition("\n")[0]):
        return "jsonl" if "\n" in text.strip() else "json"
    if by_name is not None:
        return by_name
    if text.startswith("["):
        return "json"
    return "jsonl" if _is_object(text.partition("\n")[0]) else "csv"


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _separator(head: bytes, encoding: str, reading: Reading) -> tuple[str, str]:
    """The separator, and a word on how sure that is."""
    if reading.separator is not None:
        if len(reading.separator) != 1 or reading.separator in '"\r\n':
            raise ToolError(
                f"the separator {reading.separator!r:.20} is not one character", code="bad_reading"
            )
        return reading.separator, ""
    lines = head.decode(encoding, "replace").split("\n")[:50]
    counts = {mark: [len(row) for row in csv.reader(lines, delimiter=mark)] for mark in _SEPARATORS}
    first = {mark: fields[0] if fields else 0 for mark, fields in counts.items()}
    best = max(_SEPARATORS, key=lambda mark: (_agreeing(counts[mark]), first[mark]))
    if first[best] < 2:
        return ",", "(no separator was found: one column)"
    others = [mark for mark in _SEPARATORS if mark != best and _agreeing(counts[mark])]
    return best, f"(guessed, {others[0]!r} would be possible)" if others else "(detected)"


def _agreeing(fields: list[int]) -> bool:
    """Whether a separator gives most lines the same number of fields, and more than one."""
    full = fields[:-1] or fields
    return bool(full) and full[0] > 1 and full.count(full[0]) * 2 > len(full)


def _csv_table(
    text: io.TextIOWrapper, separator: str, sure: str, has_header: bool, how: str, spot: Spot
) -> Table:
    csv.field_size_limit(MAX_LINE_CHARS)
    reader = csv.reader(written(text, spot), delimiter=separator, strict=True)
    lines = _csv_lines(reader, spot)
    first = next(lines, None)
    if first is None:
        raise ToolError(f"{spot.path!r} holds no rows", code="empty")
    _, fields = first
    if len(fields) > MAX_COLUMNS:
        raise ToolError(f"{spot.path!r} has more than {MAX_COLUMNS:,} columns", code="too_large")
    notes: list[str] = []
    names = _names(fields, notes) if has_header else [f"column_{n + 1}" for n in range(len(fields))]
    ahead = [] if has_header else [first]
    shown = {"\t": "tab"}.get(separator, repr(separator))
    table = Table(
        rows=iter(()), columns=names, read_as=f"CSV, {how}, separator {shown} {sure}".rstrip()
    )
    table.notes = notes
    table.rows = _csv_rows(ahead, lines, names, notes)
    return table


def _csv_lines(reader: Iterator[list[str]], spot: Spot) -> Iterator[tuple[int, list[str]]]:
    where = cast("_Counting", reader)
    try:
        for fields in reader:
            if fields:
                yield where.line_num, fields
    except csv.Error as exc:
        raise ToolError(
            f"{spot.path!r} cannot be read as CSV near line {where.line_num}: {exc}",
            code="not_a_table",
            hint="a quote may be missing there, or the separator is another one",
        ) from exc
    except UnicodeDecodeError as exc:
        raise undecodable(spot, where.line_num, exc) from exc


class _Counting:
    """What a CSV reader has besides its rows."""

    line_num: int


def _csv_rows(
    ahead: list[tuple[int, list[str]]],
    lines: Iterator[tuple[int, list[str]]],
    names: list[str],
    notes: list[str],
) -> Iterator[Row]:
    width, odd, first_odd = len(names), 0, 0
    for source in (ahead, lines):
        for line, fields in source:
            if len(fields) != width:
                odd += 1
                first_odd = first_odd or line
                fields = [*fields[:width], *[""] * (width - len(fields))]
            yield dict(zip(names, fields, strict=True))
    if odd:
        notes.append(
            f"{odd} rows do not have {width} fields (the first ends on line {first_odd}): missing "
            "fields count as empty, further ones are left out"
        )


def _names(fields: list[str], notes: list[str]) -> list[str]:
    names: list[str] = []
    for n, given in enumerate(fields):
        name = plain = given.strip() or f"column_{n + 1}"
        again = 2
        while name in names:
            name, again = f"{plain}_{again}", again + 1
        if name != plain:
            notes.append(f"a further column {plain!r} is called {name!r}")
        names.append(name)
    return names
