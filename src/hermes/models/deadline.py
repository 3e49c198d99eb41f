"""The time that one request may take in all, however its answer comes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from hermes.core.clock import Clock
from hermes.errors import ModelError
from hermes.models.faults import Peer

TOTAL_S = 1800.0
"""The default: a reply of 64,000 tokens, the longest that most models write, at 36 a second."""


class Deadline:
    """Ends whatever waits for a server once a request's time is over.

    The longest silence is bounded elsewhere; this is for an answer that trickles without an end.

    Args:
        total_s: From now on.
        peer: Who is waited for.
        clock: Measures it.
    """

    def __init__(self, total_s: float, *, peer: Peer, clock: Clock) -> None:
        self._total_s, self._peer, self._clock = total_s, peer, clock
        self._at_s = clock.monotonic() + total_s

    def check(self) -> None:
        """Raise ModelError if the time is over."""
        if self._clock.monotonic() > self._at_s:
            raise self.late()

    async def each(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
        """The chunks that come in time; where none comes, the longest silence is the bound.

        Raises:
            ModelError: The time was over before they ended.
        """
        async for chunk in chunks:
            self.check()
            yield chunk

    def late(self) -> ModelError:
        """The error of a request whose time is over."""
        return ModelError(
            f"{self._peer} had not ended its reply after {self._total_s:g} s",
            code="timeout",
            retryable=True,
            hint="raise HERMES_MODEL_TOTAL_S if it needs longer; otherwise look what the server, "
            "or a proxy before it, is doing",
        )
