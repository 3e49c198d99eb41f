"""What all servers of the tests need as they end."""

from __future__ import annotations

import asyncio


async def let_in() -> None:
    """Let each connection that was just taken in come to its handler, which will close it.

    A handler that is cancelled before it has begun closes nothing.
    """
    for _ in range(8):
        await asyncio.sleep(0)
