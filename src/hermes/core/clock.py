"""Time as an argument."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """What the rest of Hermes knows of time."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...


class SystemClock:
    """The machine's clock: the one place that reads it."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251  # this is where the ban leads to

    def monotonic(self) -> float:
        return time.perf_counter()


def to_micros(at: datetime) -> int:
    """An aware instant as whole microseconds since 1970 in UTC, the form that is stored."""
    return (at - EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    """The instant that `to_micros` wrote."""
    return EPOCH + timedelta(microseconds=micros)


def rfc3339(at: datetime) -> str:
    """An aware instant as RFC 3339 in UTC, ending in `Z`."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
