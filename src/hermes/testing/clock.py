"""A clock that moves only when it is told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """Stands still at `start` until `advance` moves it.

    Args:
        start: The first instant; aware.
    """

    def __init__(self, start: datetime = START) -> None:
        self._start = start.astimezone(UTC)
        self._passed_s = 0.0

    def now(self) -> datetime:
        """The instant that has been reached, in UTC."""
        return self._start + timedelta(seconds=self._passed_s)

    def monotonic(self) -> float:
        """The seconds advanced so far."""
        return self._passed_s

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass, for both ways of reading the time.

        Raises:
            ValueError: `seconds` is negative: no clock here runs backwards.
        """
        if seconds < 0:
            raise ValueError(f"a clock does not go back, got advance({seconds})")
        self._passed_s += seconds
