"""JSON and JSON lines as tables."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import cast

from hermes.errors import ToolError

from .data_cells import Cell
from .data_table import Row, Table, undecodable, written
from .files_workspace import Spot

_DEPTH = 4


def json_table(raw: bytes, encoding: str, how: str, spot: Spot) -> Table:
    """An array of objects, or an object that holds just one such array.

    Raises:
        ToolError: It is neither.
    """
    try:
        value: object = _loads(raw.decode(encoding))
    except UnicodeDecodeError as exc:
        raise undecodable(spot, raw.count(b"\n", 0, exc.start) + 1, exc) from exc
    except (ValueError, RecursionError) as exc:
        raise _not_json(spot, exc) from exc
    where = ""
    if isinstance(value, dict):
        found = cast("dict[str, object]", value)
        tables = [name for name, inner in found.items() if _is_rows(inner)]
        if len(tables) != 1:
            raise ToolError(
                f"{spot.path!r} is an object with {len(tables)} arrays of objects: which is meant "
                "is not clear",
                code="not_a_table",
                hint="a table is an array of objects, or an object that holds just one",
            )
        value, where = found[tables[0]], f", the array {tables[0]!r}"
    if not _is_rows(value):
        raise ToolError(f"{spot.path!r} is no array of objects", code="not_a_table")
    items = cast("list[dict[str, object]]", value)
    rows = [_flat(item) for item in items]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return Table(rows=iter(rows), columns=columns, read_as=f"JSON{where}, {how}")


def _is_rows(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(cast("list[object]", value))
        and all(isinstance(item, dict) for item in cast("list[object]", value))
    )


def lines_table(text: io.TextIOWrapper, how: str, spot: Spot) -> Table:
    """An object on each line; its columns are known only after the last one."""
    table = Table(rows=iter(()), columns=[], read_as=f"JSON lines, {how}")
    known = dict[str, None]()

    def rows() -> Iterator[Row]:
        line = 0
        try:
            for line, found in enumerate(written(text, spot), start=1):
                if not found.strip():
                    continue
                value: object = _loads(found.lstrip("\ufeff"))
                if not isinstance(value, dict):
                    raise ToolError(f"{spot.path!r}: line {line} is no object", code="not_a_table")
                row = _flat(cast("dict[str, object]", value))
                for name in row:
                    if name not in known:
                        known[name] = None
                        table.columns.append(name)
                yield row
        except UnicodeDecodeError as exc:
            raise undecodable(spot, line + 1, exc) from exc
        except (ValueError, RecursionError) as exc:
            raise _not_json(spot, exc, line=line) from exc

    table.rows = rows()
    return table


def _loads(text: str) -> object:
    return json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no number in JSON")


def _flat(value: dict[str, object], prefix: str = "", depth: int = 1) -> Row:
    """An object as a row: `{"a": {"b": 1}}` has a column `a.b`; an array is its JSON text."""
    row: Row = {}
    for name, inner in value.items():
        if isinstance(inner, dict) and inner and depth < _DEPTH:
            row |= _flat(cast("dict[str, object]", inner), f"{prefix}{name}.", depth + 1)
        elif isinstance(inner, dict | list):
            row[f"{prefix}{name}"] = json.dumps(inner, ensure_ascii=False, default=str)
        else:
            row[f"{prefix}{name}"] = cast("Cell", inner)
    return row


def _not_json(spot: Spot, exc: Exception, *, line: int = 0) -> ToolError:
    place = f" on line {line}" if line else ""
    return ToolError(f"{spot.path!r} is no JSON{place}: {exc}", code="not_a_table")
