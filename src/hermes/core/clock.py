"""Time as an argument."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


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
    return (at - EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The instant that `to_micros` wrote."""
    return EPOCH + timedelta(microseconds=micros)


def rfc3339(at: datetime) -> str:
    """An aware instant as RFC 3339 in UTC, ending in `Z`."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


_UNITS = ((86_400, "days"), (3_600, "h"), (60, "min"))
_YEAR_S = 365 * 86_400


def span(seconds: float) -> str:
    """A span of time for people, such as `8.0 s`, `3 min` or `more than a year`; rounded up."""
    if seconds > _YEAR_S:
        return "more than a year"
    for unit_s, name in _UNITS:
        if seconds >= 2 * unit_s:
            return f"{math.ceil(seconds / unit_s)} {name}"
    return f"{seconds:.1f} s"
