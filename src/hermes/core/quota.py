"""The rate at which a provider may be asked, shared by all who use the same key."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from hermes.core.clock import Clock

MICROS = 1_000_000
REQUEST_SLACK_MICROS = 100_000
"""So much earlier than its even place a request may go: a burst of a tenth of a second."""
TOKEN_SLACK_MICROS = 6_000_000
"""The same for tokens, whose requests differ in size: a tenth of a minute."""
LONGEST_MICROS = 10**15
"""Some thirty years: no place and no pause is further away, so that sums fit into 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What a provider allows; None means no bound.

    Attributes:
        requests: A minute.
        tokens: A minute, in and out.
    """

    requests: float | None = None
    tokens: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A request's place in the row.

    Attributes:
        at: In microseconds of a clock that stands still while the provider wants a pause.
        wait_s: Seconds from now; longer if a pause comes between.
    """

    at: int
    wait_s: float


class Quota(Protocol):
    """Reserves what a request is going to use, and settles what it did use.

    One `key` stands for one account at one provider; it never holds a secret.
    """

    async def reserve(self, key: str, rate: Rate, *, tokens: int) -> Slot:
        """Take one request and so many tokens.

        It is reserved already: whoever comes next waits longer.
        """
        ...

    async def wait_s(self, key: str, slot: Slot) -> float:
        """Seconds until a slot has come, 0 or more; to be asked again after each wait."""
        ...

    async def settle(self, key: str, rate: Rate, *, reserved: int, used: int) -> None:
        """Correct the tokens of a reservation by what was used; 0 if nothing was sent."""
        ...

    async def pause(self, key: str, seconds: float) -> None:
        """Let nobody send anything for so long: the provider asked for it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """How far one key's rate is used up: pure, in whole microseconds.

    Requests and tokens each have an even pace (the generic cell rate algorithm). Their time stands
    still in a pause, so that all who wait keep their places and distances, and nothing bursts out
    at its end.

    Attributes:
        requests_at: When the next request has its even place, by the time that can stand still.
        tokens_at: When all tokens so far are paid for, by the same.
        paused_until: End of the last pause, by the clock.
        lost: All pauses together, to that end.

    Source:
        ITU-T I.371, "virtual scheduling algorithm".
    """

    requests_at: int = 0
    tokens_at: int = 0
    paused_until: int = 0
    lost: int = 0

    def reserve(self, rate: Rate, *, tokens: int, now: int) -> tuple[Meter, Slot]:
        """Take a place; the first one that neither requests nor tokens forbid."""
        moved = self._moved(now)
        if rate.requests is None and rate.tokens is None:
            return self, Slot(at=moved, wait_s=self.wait_s(moved, now=now))
        at, requests_at, tokens_at = moved, self.requests_at, self.tokens_at
        step = 0 if rate.requests is None else _cost(rate.requests, 1)
        if step:
            at = max(at, requests_at - max(0, REQUEST_SLACK_MICROS - step))
        if rate.tokens is not None:
            at = max(at, tokens_at - TOKEN_SLACK_MICROS)
            tokens_at = max(moved, tokens_at) + _cost(rate.tokens, tokens)
        if step:
            requests_at = max(at, requests_at) + step
        taken = replace(self, requests_at=requests_at, tokens_at=tokens_at)
        return taken, Slot(at=at, wait_s=taken.wait_s(at, now=now))

    def wait_s(self, at: int, *, now: int) -> float:
        """Seconds until a place has come."""
        return max(0, at + self.lost - now, self.paused_until - now) / MICROS

    def settle(self, rate: Rate, *, reserved: int, used: int, now: int) -> Meter:
        """Give tokens back, or take more."""
        if rate.tokens is None or used == reserved:
            return self
        if used < reserved:
            return replace(self, tokens_at=self.tokens_at - _cost(rate.tokens, reserved - used))
        paid = max(self._moved(now), self.tokens_at)
        return replace(self, tokens_at=paid + _cost(rate.tokens, used - reserved))

    def pause(self, seconds: float, *, now: int) -> Meter:
        """Stand still; a pause within another only makes it longer."""
        if not math.isfinite(seconds):
            return self
        until = now + round(min(seconds * MICROS, LONGEST_MICROS))
        if until <= self.paused_until:
            return self
        added = until - max(now, self.paused_until)
        return replace(self, paused_until=until, lost=self.lost + added)

    def _moved(self, now: int) -> int:
        return max(now, self.paused_until) - self.lost


def _cost(rate: float, tokens: int) -> int:
    return round(min(60 * MICROS * tokens / rate, LONGEST_MICROS))


class LocalQuota:
    """A `Quota` for one process; nothing outlives it.

    Args:
        clock: What goes by is measured by it.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._meters: dict[str, Meter] = {}

    async def reserve(self, key: str, rate: Rate, *, tokens: int) -> Slot:
        self._meters[key], slot = self._meter(key).reserve(rate, tokens=tokens, now=self._now())
        return slot

    async def wait_s(self, key: str, slot: Slot) -> float:
        return self._meter(key).wait_s(slot.at, now=self._now())

    async def settle(self, key: str, rate: Rate, *, reserved: int, used: int) -> None:
        self._meters[key] = self._meter(key).settle(
            rate, reserved=reserved, used=used, now=self._now()
        )

    async def pause(self, key: str, seconds: float) -> None:
        self._meters[key] = self._meter(key).pause(seconds, now=self._now())

    def _meter(self, key: str) -> Meter:
        return self._meters.get(key) or Meter()

    def _now(self) -> int:
        return round(self._clock.monotonic() * MICROS)
