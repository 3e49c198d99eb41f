"""Calls a tool's function as it was written."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import cast

from hermes.core.json import as_object
from hermes.tools import Tool


async def awaited(tool: Tool, *arguments: object, **named: object) -> object:
    """What an async tool gives."""
    return await cast("Awaitable[object]", tool.function(*arguments, **named))


async def awaited_table(tool: Tool, *arguments: object, **named: object) -> dict[str, object]:
    """What an async tool gives that gives a table."""
    table = as_object(await awaited(tool, *arguments, **named))
    assert table is not None
    return dict(table)
