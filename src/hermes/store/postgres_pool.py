"""A bounded set of connections to one database.

Its own instead of `psycopg_pool`, which connects in the background: an error of connecting is told
here to who asked, at once, and after a restart of the server the next request finds it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from hermes.errors import StoreUnavailableError
from hermes.store.postgres_connection import Address, Connection, connect

_IDLE_S = 60.0


class Pool:
    """Lends connections, at most `size` at a time; makes them when needed, the latest used first.

    Args:
        address: Of the database.
        size: At most so many connections.
        wait_s: How long to wait for one that is free, at most.
    """

    def __init__(self, address: Address, *, size: int, wait_s: float) -> None:
        self._address, self.size, self._wait_s = address, size, wait_s
        self._free = anyio.Semaphore(size)
        self._idle: deque[tuple[Connection, float]] = deque()
        self._is_closed = False

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[Connection]:
        """A connection that is in no transaction; one that comes back otherwise is closed.

        Raises:
            StoreUnavailableError: The database cannot be reached, or none was free in time.
        """
        try:
            self._free.acquire_nowait()
        except anyio.WouldBlock:
            await self._wait()
        try:
            connection = await self._take()
            try:
                yield connection
            finally:
                await self._give_back(connection)
        finally:
            self._free.release()

    async def close(self) -> None:
        """Close what nobody uses, and the others once they are given back."""
        self._is_closed = True
        await self.close_idle()

    async def close_idle(self) -> None:
        """Close what nobody uses; after one connection broke, the others are likely to be dead."""
        while self._idle:
            connection, _ = self._idle.popleft()
            await connection.close()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
        except TimeoutError:
            raise StoreUnavailableError(
                f"all {self.size} connections to PostgreSQL at {self._address.label} were busy "
                f"for {self._wait_s:g} s",
                hint="raise HERMES_POSTGRES_POOL_SIZE, or run less at a time in one process",
            ) from None

    async def _take(self) -> Connection:
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.closed:
                return connection
        return await connect(self._address, wait_s=self._wait_s)

    async def _give_back(self, connection: Connection) -> None:
        if connection.closed:
            return
        if self._is_closed or connection.info.transaction_status.name != "IDLE":
            await connection.close()
            return
        now = anyio.current_time()
        self._idle.append((connection, now))
        oldest, since = self._idle[0]
        if now - since > _IDLE_S:
            self._idle.popleft()
            await oldest.close()
