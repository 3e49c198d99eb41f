"""Requests are kept off a server that fails again and again."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from hermes.core.breaker import Breaker, Pass, Verdict
from hermes.core.clock import Clock, span
from hermes.errors import ModelError

from .base import Model, ModelReply, ModelRequest, StreamPart
from .wrapper import Wrapper, parts_of

UNAVAILABLE = "unavailable"
"""The `ModelError.code` of a request that was not sent."""
PROBE_S = 1.0
"""How soon to ask whether a probe has come back."""

_OUTSIDE = frozenset({"server", "unreachable", "timeout", "stream"})


class BreakerModel(Wrapper):
    """Sends nothing while its server's breaker is open; then one request finds out for all.

    Args:
        inner: Asked.
        breaker: Shared by all models behind the same key.
        clock: Measures its cool-down.
    """

    def __init__(self, inner: Model, *, breaker: Breaker, clock: Clock) -> None:
        super().__init__(inner)
        self._breaker, self._clock = breaker, clock

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Ask, if that may be.

        Raises:
            ModelError: Of the inner model; or `unavailable`: nothing was sent.
        """
        given = self._enter()
        verdict: Verdict | None = None
        try:
            reply = await self._inner.reply(request)
            verdict = "ok"
            return reply
        except ModelError as exc:
            verdict = verdict_of(exc)
            raise
        finally:  # without a verdict where it was cancelled: a probe's place is free again
            self._leave(given, verdict)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """As `reply`; whoever stops reading says nothing of the server."""
        given = self._enter()
        verdict: Verdict | None = None
        reply: ModelReply | None = None
        try:
            async with parts_of(self._inner, request) as parts:
                async for part in parts:
                    if isinstance(part, ModelReply):
                        reply, verdict = part, "ok"
                    else:
                        yield part
        except ModelError as exc:
            verdict = verdict_of(exc)
            raise
        finally:
            self._leave(given, verdict)
        # Last of all: who has the reply reads no further, and this would never be left.
        if reply is not None:
            yield reply

    def _enter(self) -> Pass:
        now_s = self._clock.monotonic()
        given = self._breaker.enter(now_s)
        if given is not None:
            return given
        wait_s = self._breaker.wait_s(now_s)
        why = "one request is finding out whether it works again"
        if not self._breaker.is_probed:
            why = f"it failed again and again; it is tried again in {span(wait_s)}"
        raise ModelError(
            f"model {self.name!r} was not asked: {why}",
            code=UNAVAILABLE,
            retryable=True,
            retry_after_s=wait_s or PROBE_S,
            hint="check the server; an open breaker lets one request through after its cool-down",
        )

    def _leave(self, given: Pass, verdict: Verdict | None) -> None:
        self._breaker.leave(given, verdict, self._clock.monotonic())


def verdict_of(exc: ModelError) -> Verdict:
    """What an error says of the server: refusals, 429 too, show that it works."""
    return "outside" if exc.code in _OUTSIDE else "other"
