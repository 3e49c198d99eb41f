"""Turns within one process: runs that must not overlap wait for each other without polling."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from weakref import WeakValueDictionary

import anyio

from hermes.errors import InputError

_HELD: ContextVar[frozenset[tuple[int, str, str]]] = ContextVar("held", default=frozenset())


class Turns:
    """One run at a time for each name, first come first served.

    The lanes of the store see to it between processes; within one, nobody has to poll.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, str], anyio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def take(self, kind: str, name: str | None) -> AsyncGenerator[None]:
        """Wait for the turn and hold it; a name of None has no turns.

        Raises:
            InputError: This very run holds the turn: a tool of it waits for itself.
        """
        if name is None:
            yield
            return
        place = (id(self), kind, name)
        held = _HELD.get()
        if place in held:
            raise InputError(
                f"this run already holds {kind} {name!r}", hint=f"use another {kind} inside it"
            )
        async with self._locks.setdefault((kind, name), anyio.Lock()):
            token = _HELD.set(held | {place})
            try:
                yield
            finally:
                _HELD.reset(token)
