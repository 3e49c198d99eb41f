"""Tools that every agent may need; group `core`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hermes.errors import NotFoundError, ToolError
from hermes.tools.base import Tool, ToolContext
from hermes.tools.function import tool
from hermes.tools.results import boundary

from .options import BuiltinOptions

MAX_PAGE_CHARS = 12_000


@tool(effect="read", group="core")
async def read_more(
    handle: str,
    ctx: ToolContext,
    offset: Annotated[int, Field(ge=0)] = 0,
    length: Annotated[int, Field(ge=1, le=MAX_PAGE_CHARS)] = 8_000,
) -> str:
    """Read a part of a long result of this task that was shortened, or of a text artifact.

    Args:
        handle: As it stands in the shortened result.
        offset: First character to read, counted from 0.
        length: Characters to read; a few more where the last would be cut in two.
        ctx: Lends the results.

    Returns:
        The text, and a last line that says where it stands and how to go on.
    """
    text = _text(handle, await _bytes(handle, ctx))
    if offset >= len(text) > 0:
        raise ToolError(
            f"offset {offset} is beyond the end: the text has {len(text)} characters",
            code="bad_offset",
            hint=f"use an offset from 0 to {len(text) - 1}",
        )
    start = boundary(text, offset)
    end = boundary(text, start + length, forward=True)
    more = f"; go on with offset={end}" if end < len(text) else "; this is the end"
    return f"{text[start:end]}\n[characters {start} to {end} of {len(text)}{more}]"


async def _bytes(handle: str, ctx: ToolContext) -> bytes:
    try:
        return await ctx.bench.read(handle)
    except NotFoundError as exc:
        raise ToolError(
            f"no result of this task has the handle {handle!r:.80}",
            code="unknown_handle",
            hint="use a handle exactly as a shortened result gives it",
        ) from exc


def _text(handle: str, raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as exc:
        raise ToolError(
            f"{handle} is not text: byte {exc.start} of {len(raw)} is not UTF-8",
            code="not_text",
        ) from exc


def tools(_: BuiltinOptions) -> tuple[Tool, ...]:
    """What every agent may need."""
    return (read_more,)
