"""When it may be worth to look for work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

_LOOK_S = 0.2


class Hints:
    """Wakes who waits for work once there may be some.

    A hint given after the last look for work is not lost: who then waits returns at once.
    """

    def __init__(self) -> None:
        self._event: anyio.Event | None = None
        self._is_fresh = False
        self._seen: int | None = None

    def give(self) -> None:
        """Say that there may be work."""
        self._is_fresh = True
        if self._event is not None:
            self._event.set()
            self._event = None

    def look(self) -> None:
        """Say that somebody looks for work now."""
        self._is_fresh = False

    async def wait(
        self, timeout_s: float, pulse: Callable[[], Awaitable[tuple[int, bool]]]
    ) -> None:
        """Wait for a hint, at most so long.

        Args:
            timeout_s: Seconds.
            pulse: Gives a number that changes when others have written, and whether a delayed
                message is due; asked every so often.
        """
        with anyio.move_on_after(timeout_s):
            while not self._is_fresh:
                version, is_due = await pulse()
                if is_due or version != self._seen:
                    self._seen = version
                    return
                await self._pause()

    async def _pause(self) -> None:
        if self._event is None:
            self._event = anyio.Event()
        with anyio.move_on_after(_LOOK_S):
            await self._event.wait()
