"""How fast and in how many pieces a channel takes a text."""

from __future__ import annotations

from bisect import insort
from collections.abc import Awaitable, Callable

import anyio

from hermes.core.clock import Clock
from hermes.errors import NotDone, ToolError
from hermes.tools.results import boundary

MAX_PARTS = 10
LONGEST_WAIT_S = 20.0
_WINDOW_S = 60.0
_NUMBER_ROOM = len("(10/10)\n")


class Pace:
    """At most so many messages in any minute, within this process.

    Args:
        per_minute: Messages that one minute may see.
        clock: Measures the minute.
        sleep: Waits.
    """

    def __init__(
        self,
        per_minute: int,
        *,
        clock: Clock,
        sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
    ) -> None:
        self._per_minute = per_minute
        self._clock, self._sleep = clock, sleep
        self._sent: list[float] = []

    async def admit(self, count: int, *, what: str) -> None:
        """Wait until `count` messages may go, if that is soon.

        Raises:
            NotDone: It takes longer than `LONGEST_WAIT_S`.
            ToolError: They never may, all at once.
        """
        if count > self._per_minute:
            raise ToolError(
                f"{count} messages at once on {what}, which takes {self._per_minute} a minute; "
                "nothing was sent",
                code="too_long",
            )
        now = self._clock.monotonic()
        self._sent = [at for at in self._sent if at > now - _WINDOW_S]
        beyond = len(self._sent) + count - self._per_minute
        wait_s = max(0.0, self._sent[beyond - 1] + _WINDOW_S - now) if beyond > 0 else 0.0
        if wait_s > LONGEST_WAIT_S:
            raise NotDone(
                f"{what} takes {self._per_minute} messages a minute; nothing was sent",
                code="rate_limited",
                hint=f"try again in {wait_s:.0f} s",
            )
        for _ in range(count):
            insort(self._sent, now + wait_s)
        if wait_s:
            await self._sleep(wait_s)


def parts_of(text: str, *, limit: int, size: Callable[[str], int], what: str) -> list[str]:
    """A text in pieces that each fit, numbered where there are several.

    Cut at a line break if one is near, and never within a character.

    Raises:
        ToolError: It is empty, or would take more than `MAX_PARTS`.
    """
    if not text.strip():
        raise ToolError("the text is empty", code="bad_arguments")
    if size(text) <= limit:
        return [text]
    parts: list[str] = []
    rest = text
    while rest and len(parts) <= MAX_PARTS:
        end = _fitting(rest, limit - _NUMBER_ROOM - 1, size)
        piece, rest = rest[:end], rest[end:]
        if piece.strip():
            parts.append(piece.strip("\n"))
    if len(parts) > MAX_PARTS:
        raise ToolError(
            f"the text takes more than {MAX_PARTS} messages on {what}; one holds {limit}",
            code="too_long",
            hint="send a summary, and the whole by e-mail or as a file",
        )
    return [f"({number}/{len(parts)})\n{part}" for number, part in enumerate(parts, 1)]


def _fitting(text: str, limit: int, size: Callable[[str], int]) -> int:
    """How many characters from the beginning fit, ending well."""
    low, high = 1, min(len(text), limit)
    while low < high:
        middle = (low + high + 1) // 2
        if size(text[:middle]) <= limit:
            low = middle
        else:
            high = middle - 1
    if low == len(text):
        return low
    line = text.rfind("\n", low // 2, low)
    return line + 1 if line > 0 else max(boundary(text, low), 1)
