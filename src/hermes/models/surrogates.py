"""Halves of a character, as servers that count in UTF-16 units send them.

A server may cut an emoji between two chunks, each with half of its escape pair. Strict JSON readers
refuse such a chunk, and UTF-8 cannot hold the half.
"""

from __future__ import annotations

import json as lenient
from typing import NoReturn

from hermes.core import json
from hermes.errors import CodecError


def read_json(data: bytes) -> object:
    """Read JSON as `hermes.core.json.loads` does, but let a lone surrogate escape pass.

    Raises:
        CodecError: It is no JSON.
    """
    try:
        return json.loads(data)
    except CodecError:
        if b"\\ud" not in data.lower():
            raise
    try:
        value: object = lenient.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError) as exc:
        raise CodecError(f"not JSON: {exc}") from exc
    return value


def mend(text: str) -> str:
    """Join halves that stand together; U+FFFD for one that stands alone."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def mend_all(value: object) -> object:
    """A plain value with each text in it mended."""
    if isinstance(value, str):
        return mend(value)
    if items := json.as_list(value):
        return [mend_all(item) for item in items]
    found = json.as_object(value)
    return value if found is None else {name: mend_all(item) for name, item in found.items()}


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
