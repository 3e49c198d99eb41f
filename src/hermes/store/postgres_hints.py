"""Word that there may be work, by LISTEN and NOTIFY: a hint only, polling is the truth."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import anyio
from psycopg import errors

from hermes.errors import StoreError
from hermes.store.postgres_connection import Address, Connection, connect

_CHANNEL = b"hermes_work"
_GAP_S = 0.02
_RETRY_S = 1.0
_LOG = logging.getLogger("hermes.store")


class Hints:
    """Tells other processes of new work, and hears of theirs.

    NOTIFY goes out after the commit and over a connection of its own: inside a transaction it
    would put all commits of the server in a row. What comes up within `_GAP_S` shares one.

    Args:
        address: Of the database.
        wait_s: As for `connect`.
    """

    def __init__(self, address: Address, *, wait_s: float) -> None:
        self._address, self._wait_s = address, wait_s
        self._to_tell, self._is_told = asyncio.Event(), asyncio.Event()
        self._heard = asyncio.Event()
        self._telling: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None

    def tell(self) -> None:
        """Say that there may be work; returns at once."""
        self._is_told.clear()
        self._to_tell.set()
        self._heard.set()
        if self._telling is None:
            self._telling = asyncio.ensure_future(self._keep_telling())

    def look(self) -> None:
        """Say that somebody looks for work now, so that older hints are void."""
        self._heard.clear()

    async def wait(self, timeout_s: float) -> None:
        """Wait for a hint that came after the last look, at most so long."""
        if self._listening is None:
            self._listening = asyncio.ensure_future(self._keep_listening())
        with anyio.move_on_after(timeout_s):
            await self._heard.wait()
        self._heard.clear()

    async def close(self) -> None:
        """Send what is left to be said, and end."""
        if self._telling is not None:
            with anyio.move_on_after(_RETRY_S):
                await self._is_told.wait()
        for task in (self._telling, self._listening):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        self._telling = self._listening = None

    async def _keep_telling(self) -> None:
        while True:
            await self._to_tell.wait()
            with suppress(StoreError):
                async with await connect(self._address, wait_s=self._wait_s) as connection:
                    await self._tell_over(connection)
            await anyio.sleep(_RETRY_S)

    async def _tell_over(self, connection: Connection) -> None:
        """Send hints until the connection breaks; who polls misses nothing."""
        while True:
            await self._to_tell.wait()
            self._to_tell.clear()
            try:
                await connection.execute(b"NOTIFY " + _CHANNEL)
            except errors.OperationalError:
                self._to_tell.set()
                return
            if not self._to_tell.is_set():
                self._is_told.set()
            await anyio.sleep(_GAP_S)

    async def _keep_listening(self) -> None:
        is_told = False
        while True:
            try:
                async with await connect(self._address, wait_s=self._wait_s) as connection:
                    await connection.execute(b"LISTEN " + _CHANNEL)
                    if is_told:
                        _LOG.info("hears of new work from %s again", self._address.label)
                    is_told = False
                    self._heard.set()  # what was said meanwhile went unheard
                    async for _ in connection.notifies():
                        self._heard.set()
            except (errors.Error, StoreError, OSError) as exc:
                if not is_told:
                    _LOG.warning(
                        "hears no more of new work at once and looks for it from time to time: %s",
                        exc,
                    )
                is_told = True
            await anyio.sleep(_RETRY_S)
