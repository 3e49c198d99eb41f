"""Sessions of processes that fell silent in the midst of a write, with their locks.

The server itself ends one that is idle in a transaction, but takes it for active while it waits for
more of a pipeline.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from hermes.errors import StoreError
from hermes.store.postgres_connection import Address, connect, translating
from hermes.store.queries import postgres

_PATIENCE_S = 2.0

_LOG = logging.getLogger("hermes.store")


@asynccontextmanager
async def ending_silent(
    address: Address, pid: int, *, patience_s: float = _PATIENCE_S
) -> AsyncGenerator[None]:
    """Inside the block, end the sessions that keep it waiting and say nothing for `patience_s`.

    Args:
        address: Of the database.
        pid: The server's process for the connection that may have to wait.
        patience_s: How long a write of others may keep a lock without a word.
    """

    async def watch() -> None:
        while True:
            await asyncio.sleep(patience_s)
            try:
                await _end(address, pid, patience_s)
            except StoreError as exc:  # whoever waits is told by its own error
                _LOG.debug("cannot look for what keeps session %d waiting: %s", pid, exc)

    watching = asyncio.ensure_future(watch())  # a task group would change the block's errors
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _end(address: Address, pid: int, patience_s: float) -> None:
    connection = await connect(address, wait_s=patience_s)
    async with connection:
        with translating(address):
            found = await connection.execute(
                postgres("silent_blockers"), {"pid": pid, "patience_s": patience_s}
            )
            for (silent,) in await found.fetchall():
                _LOG.warning("ending session %s of PostgreSQL: it keeps a lock in silence", silent)
                await connection.execute(postgres("end_session"), (silent,))
