"""A connection that is opened when it is needed, and again after it broke."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import anyio
from anyio.abc import ByteReceiveStream, TaskGroup

from hermes.errors import HermesError, NotDone
from hermes.tools.failures import described, members

_LOG = logging.getLogger("hermes.plugin")
_MAX_DELAY_S = 60.0
_CLOSE_S = 2.0
_GONE_S = 12.0
"""What a process that is ended may take: asked, killed, and given up."""


class Peer(Protocol):
    """The other end of a connection that is open."""

    @property
    def is_over(self) -> bool:
        """Whether it broke."""
        ...

    async def ended(self) -> str:
        """Wait until it broke; why it did."""
        ...


T = TypeVar("T", bound=Peer)


@dataclass(eq=False)
class _Opening(Generic[T]):
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)
    gone: anyio.Event = field(default_factory=anyio.Event)
    peer: T | None = None


class Link(Generic[T]):
    """One connection, entered and left in one task of a group that outlives the calls.

    Args:
        label: What it leads to, such as `plugin 'crm'`.
        connect: Opens it.
        group: Where its task runs.
        start_timeout_s: Seconds that opening it may take.
        now: Seconds of a clock that only goes forward.

    Attributes:
        problem: Why it is not open; "" if it is, or was never asked for.
    """

    def __init__(
        self,
        label: str,
        connect: Callable[[], AbstractAsyncContextManager[T]],
        *,
        group: TaskGroup,
        start_timeout_s: float,
        now: Callable[[], float] = anyio.current_time,
    ) -> None:
        self.label, self.problem = label, ""
        self._connect, self._group = connect, group
        self._start_timeout_s, self._now = start_timeout_s, now
        self._opening: _Opening[T] | None = None
        self._failures, self._not_before = 0, -math.inf
        self._told = ""
        self._closing = anyio.Event()

    async def peer(self) -> T:
        """The open connection; it is opened if it is not.

        Raises:
            NotDone: It cannot be, or failed so lately that it is not tried again yet.
        """
        while (opening := self._opening) and opening.peer is not None and opening.peer.is_over:
            await opening.gone.wait()  # what is left of it is being ended; that is bounded
        if opening is None:
            wait_s = self._not_before - self._now()
            if wait_s > 0 or self._closing.is_set():
                raise self._down(f"it is started again in {max(wait_s, 0):.0f} s at the earliest")
            opening = self._opening = _Opening()
            self._group.start_soon(self._keep, opening, name=self.label)
        await opening.done.wait()
        if opening.peer is None:
            raise self._down("try again later, or do without it")
        return opening.peer

    async def aclose(self) -> None:
        """Close it; bounded even if the other end does not go."""
        self._closing.set()
        opening = self._opening
        if opening is not None:
            if opening.peer is None:
                opening.scope.cancel()
            with anyio.move_on_after(_GONE_S):
                await opening.gone.wait()

    async def _keep(self, opening: _Opening[T]) -> None:
        scope = opening.scope
        scope.deadline = anyio.current_time() + self._start_timeout_s
        problem = ""
        try:
            with scope:
                async with self._connect() as peer:
                    scope.deadline = math.inf
                    self.problem = self._told = ""
                    opening.peer = peer
                    opening.done.set()
                    problem = await self._until_end(peer)
                    scope.deadline = anyio.current_time() + _CLOSE_S
            if scope.cancelled_caught and opening.peer is None:
                problem = f"it was not ready within {self._start_timeout_s:g} s"
        except Exception as exc:  # the boundary to foreign libraries: one plugin, not all
            problem = problem or reason_of(exc)
        except anyio.get_cancelled_exc_class():
            self._closing.set()  # the application goes, and this with it
            raise
        finally:
            self._settle(opening, problem)

    async def _until_end(self, peer: T) -> str:
        problem = ""

        async def watch() -> None:
            nonlocal problem
            problem = await peer.ended()
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await self._closing.wait()
            group.cancel_scope.cancel()
        return problem

    def _settle(self, opening: _Opening[T], problem: str) -> None:
        self._opening = None
        if not self._closing.is_set():
            self._note(problem or self.problem or "it ended", has_run=opening.peer is not None)
        opening.done.set()
        opening.gone.set()

    def _note(self, problem: str, *, has_run: bool) -> None:
        self.problem = problem
        # One that ran is started again at once, the first time.
        self._failures = (
            1 if has_run and self._now() > self._not_before + 60 else self._failures + 1
        )
        delay_s = min(_MAX_DELAY_S, 2.0 ** (self._failures - 1))
        self._not_before = self._now() + (0.0 if has_run and self._failures == 1 else delay_s)
        if problem != self._told:
            what = "stopped" if has_run else "cannot be used"
            _LOG.warning("%s %s: %s; all else goes on", self.label, what, problem)
            self._told = problem

    def _down(self, hint: str) -> NotDone:
        text = f"{self.label} is down: {self.problem or 'it was closed'}"
        return NotDone(text, code="plugin_down", hint=hint)


def reason_of(exc: BaseException) -> str:
    """An exception in one line; what task groups wrap around it is left out."""
    while len(inner := members(exc)) == 1:
        exc = inner[0]
    return str(exc) if isinstance(exc, HermesError) else described(exc)


class LineTooLong(Exception):
    """The other end wrote a line that nobody may have to keep."""


async def lines(stream: ByteReceiveStream, *, limit: int) -> AsyncGenerator[bytes]:
    """The lines of a stream, without their ends; what follows the last end is given as well.

    Raises:
        LineTooLong: One has more than `limit` bytes.
    """
    buffer, looked_at = bytearray(), 0
    try:
        async for data in stream:
            buffer += data
            while (end := buffer.find(b"\n", looked_at)) >= 0:
                yield bytes(buffer[:end])
                del buffer[: end + 1]
                looked_at = 0
            looked_at = len(buffer)
            if looked_at > limit:
                raise LineTooLong(f"a line of more than {limit:,} bytes")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return
    if buffer:
        yield bytes(buffer)
