"""One JSON value as another: conversions that are exact, with the rule of each."""

from __future__ import annotations

from collections.abc import Iterator

from .exact import number_in
from .formats import tidy


def conversions(kind: str, value: object, spelling: str | None) -> Iterator[tuple[str, object]]:
    """What a value of another kind is as `kind`, as far as exactly that was written.

    Args:
        kind: A JSON Schema type other than the value's.
        value: A plain value.
        spelling: How a number or boolean was written; a text itself; None for all else.
    """
    if kind == "string":
        if not isinstance(value, str) and spelling is not None:
            yield "text_from_scalar", spelling
    elif isinstance(value, str):
        yield from _from_text(kind, tidy(value))


def _from_text(kind: str, text: str) -> Iterator[tuple[str, object]]:
    if kind == "boolean" and text.casefold() in ("true", "false"):
        yield "boolean_from_text", text.casefold() == "true"
    elif kind == "null" and text in ("null", "None"):
        yield "null_from_text", None
    elif kind in ("integer", "number") and (number := number_in(text)) is not None:
        if kind == "number" or isinstance(number, int):
            yield "number_from_text", number
