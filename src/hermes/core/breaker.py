"""A circuit breaker: calls are kept off a tool or a server that fails again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "outside", "other"]
"""What a call says: it works; the outside fails; neither (arguments, business errors)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """The right to make one call.

    Attributes:
        epoch: How often the breaker had opened and closed before.
        is_probe: It is the one call that finds out whether it works again.
    """

    epoch: int
    is_probe: bool = False


class Breaker:
    """Closed, open, or half open: then one call is let through, and what it comes to decides.

    Pure: time comes in as an argument, in seconds of one clock that never goes back.

    Args:
        failures: So many in a row open it.
        cooldown_s: How long nothing is let through then.
    """

    def __init__(self, *, failures: int, cooldown_s: float) -> None:
        self._failures, self._cooldown_s = failures, cooldown_s
        self._row = 0
        self._opened_s: float | None = None
        self._is_probed = False
        self._epoch = 0
        self._free = Pass(epoch=0)

    @property
    def is_open(self) -> bool:
        """Whether the last that is known is that it does not work."""
        return self._opened_s is not None

    @property
    def is_probed(self) -> bool:
        """Whether a call is under way that finds out."""
        return self._is_probed

    def wait_s(self, now_s: float) -> float:
        """Seconds until the next probe may be made; 0 if that is now, or nothing is amiss."""
        if self._opened_s is None:
            return 0.0
        return max(0.0, self._opened_s + self._cooldown_s - now_s)

    def refuses(self, now_s: float) -> bool:
        """Whether `enter` would refuse a call now."""
        return self.is_open and (self._is_probed or self.wait_s(now_s) > 0)

    def enter(self, now_s: float) -> Pass | None:
        """The right to make a call, or None; whoever gets it has to give it back by `leave`."""
        if self.refuses(now_s):
            return None
        if not self.is_open:
            return self._free
        self._is_probed = True
        return Pass(epoch=self._epoch, is_probe=True)

    def leave(self, given: Pass, verdict: Verdict | None, now_s: float) -> bool:
        """Give a right back; true if the breaker has opened or closed by it.

        Args:
            given: From `enter`.
            verdict: None if the call came to nothing, as where it was cancelled.
            now_s: The time.
        """
        if given.epoch != self._epoch:
            return False  # begun before it opened or closed: what it says is out of date
        if given.is_probe:
            self._is_probed = False
            return verdict is not None and self._after_probe(verdict, now_s)
        if verdict == "ok":
            self._row = 0
        self._row += verdict == "outside"
        return self._row >= self._failures and self._turn(now_s)

    def _after_probe(self, verdict: Verdict, now_s: float) -> bool:
        if verdict == "outside":
            self._opened_s = now_s
            return False
        return self._turn(None)

    def _turn(self, opened_s: float | None) -> bool:
        self._opened_s, self._row, self._is_probed = opened_s, 0, False
        self._epoch += 1
        self._free = Pass(epoch=self._epoch)
        return True
