"""Bars made of block characters, in step also under Chinese labels."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

from hermes.core.json import as_list, as_object

from .data_cells import Cell, number

BAR_CELLS = 40
MAX_LABEL_CELLS = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"
_NOTHING = "(empty)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One label and its figure.

    Attributes:
        shown: The figure as it is written.
    """

    label: str
    value: Decimal
    shown: str


def bars_of(found: Mapping[str, object], label: str, value: str) -> list[Bar]:
    """The rows of a query as bars; rows without a number are left out."""
    bars: list[Bar] = []
    for item in as_list(found["rows"]):
        row = as_object(item) or {}
        figure = cast("Cell", row.get(value))
        exact = number(figure)
        if exact is not None:
            name = row.get(label)
            text = _NOTHING if name is None else " ".join(str(name).split())
            bars.append(Bar(label=text, value=exact, shown=str(figure)))
    return bars


def text_chart(bars: Sequence[Bar], value: str, found: Mapping[str, object]) -> str:
    """Bars a line each, and what they are."""
    if not bars:
        return f"nothing to draw: no row fits, or {value} is no number"
    labels = [_cut(bar.label) for bar in bars]
    width = max(cells(label) for label in labels)
    longest = max(abs(bar.value) for bar in bars)
    lines = [
        f"{label}{' ' * (width - cells(label))} │{_bar(bar.value, longest)} {bar.shown}"
        for label, bar in zip(labels, bars, strict=True)
    ]
    lines.append(f"{value}; {len(bars)} of {found['total']} shown, {found['matched']} rows")
    if any(bar.value < 0 for bar in bars):
        lines.append("░ is below zero")
    lines += [f"note: {note}" for note in as_list(found.get("notes"))]
    return "\n".join(lines)


def cells(text: str) -> int:
    """How many columns of a terminal a text takes: two for a Chinese character."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _bar(value: Decimal, longest: Decimal) -> str:
    if not longest:
        return ""
    eighths = int(abs(value) * BAR_CELLS * 8 / longest)
    full, rest = divmod(eighths, 8)
    if value < 0:
        return "░" * max(1, full)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def _cut(label: str) -> str:
    if cells(label) <= MAX_LABEL_CELLS:
        return label
    kept = ""
    for char in label:
        if cells(kept + char) >= MAX_LABEL_CELLS:
            break
        kept += char
    return f"{kept}…"
