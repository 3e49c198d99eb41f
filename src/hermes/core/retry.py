"""How long to wait before another try."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential backoff with full jitter.

    Source:
        M. Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015): full jitter
        spreads competing clients best.
    """

    attempts: int = 5
    base_s: float = 0.5
    cap_s: float = 60.0
    total_s: float = 600.0

    def delay_s(
        self, attempt: int, *, spread: float, retry_after_s: float = 0.0, waited_s: float = 0.0
    ) -> float | None:
        """Seconds to wait after the failed attempt number `attempt` (from 1).

        Args:
            attempt: How many attempts have failed so far.
            spread: A random number from 0 up to 1: full jitter.
            retry_after_s: What the other side asked for; never undercut, spread by at most a tenth.
            waited_s: What was waited before, against `total_s`.

        Returns:
            The delay, or None when no attempt or no time is left.
        """
        if attempt >= self.attempts:
            return None
        ceiling = min(self.cap_s, self.base_s * 2 ** min(attempt - 1, 32))
        delay = ceiling * spread
        if retry_after_s > 0:
            delay = retry_after_s * (1 + 0.1 * spread)
        return delay if waited_s + delay <= self.total_s else None
