"""What was done in all tasks, for who adds it up: read page by page, so that memory is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from hermes.core import json
from hermes.core.clock import from_micros, to_micros
from hermes.store.driver import Row
from hermes.store.rules import PLACE_LAG_US

TYPES = frozenset(
    {
        "model.requested",
        "model.replied",
        "model.failed",
        "model.retried",
        "context.compacted",
        "tool.started",
        "tool.failed",
    }
)
PAGE = 2_000
"""Deeds in one read."""

Place = tuple[int, int]
"""Of a deed among all: its task's, and its own in the task."""
BEGINNING: Place = (-1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """The beginning of a model or tool call, or how it ended; that a tool returned is none.

    Attributes:
        place: Tasks in the order of their making, in each the events as they came.
        type: Of the event.
        data: The event as it is stored, without what is as usual and without long texts.
    """

    place: Place
    agent: str
    at: datetime
    type: str
    data: Mapping[str, object]


def deed_values(after: Place, since: datetime | None, limit: int) -> dict[str, int]:
    """What the query takes."""
    # A task at work may stand a little too early in the database.
    first = 0 if since is None else to_micros(since) - PLACE_LAG_US
    return {"task": after[0], "seq": after[1], "since": first, "limit": limit}


def read_deeds(rows: Iterable[Row], blob: Callable[[str], bytes]) -> list[Deed]:
    """Deeds out of rows."""
    return [_read(row, blob) for row in rows]


def whole_blobs(rows: Iterable[Row]) -> list[str]:
    """The blobs that hold the whole of an event."""
    found = [_whole(cast("bytes | None", row[-1])) for row in rows]
    return [name for name in found if name]


def _read(row: Row, blob: Callable[[str], bytes]) -> Deed:
    task, seq, agent, at, type_, data, refs = cast(
        "tuple[int, int, str, int, str, bytes, bytes | None]", tuple(row)
    )
    whole = _whole(refs)
    plain = json.as_object(json.loads(blob(whole) if whole else data))
    return Deed(place=(task, seq), agent=agent, at=from_micros(at), type=type_, data=plain or {})


def _whole(refs: bytes | None) -> str:
    """The blob of an event that was too large for its row, texts aside."""
    if refs is None:
        return ""
    return str((json.as_object(json.loads(refs)) or {}).get("", ""))
