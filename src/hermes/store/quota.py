"""The rate of a provider, counted in the store for all processes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

from hermes.core.quota import Meter, Rate, Slot
from hermes.store.base import QuotaTable
from hermes.store.driver import Cursor
from hermes.store.queries import sql

R = TypeVar("R")

_MOST = 2**62
"""What a column of 64 bits holds, and a sum of two of them still."""


class StoreQuota:
    """A `Quota` for all processes that share a store; each step is one transaction.

    Args:
        store: Keeps the meters, and its time is what counts.
    """

    def __init__(self, store: QuotaTable) -> None:
        self._store = store

    async def reserve(self, key: str, rate: Rate, *, tokens: int) -> Slot:
        """Take one request and so many tokens."""
        return await self._store.meter(key, partial(_reserve, rate=rate, tokens=tokens))

    async def wait_s(self, key: str, slot: Slot) -> float:
        """Seconds until a slot has come."""
        return await self._store.meter(key, partial(_wait_s, at=slot.at))

    async def settle(self, key: str, rate: Rate, *, reserved: int, used: int) -> None:
        """Correct the tokens of a reservation."""
        await self._store.meter(key, partial(_settle, rate=rate, reserved=reserved, used=used))

    async def pause(self, key: str, seconds: float) -> None:
        """Let nobody send anything for so long."""
        await self._store.meter(key, partial(_pause, seconds=seconds))


def meter(
    cursor: Cursor, *, key: str, now: int, turn: Callable[[Meter, int], tuple[Meter, R]]
) -> R:
    """Change a key's meter in SQLite; one that is left as it was is not written."""
    rows = cursor.execute(sql("meter"), (key,)).fetchall()
    before = read_meter(rows[0]) if rows else Meter()
    after, result = turn(before, now)
    if after != before:
        cursor.execute(sql("put_meter"), (key, *meter_row(after)))
    return result


def read_meter(row: object) -> Meter:
    """A meter out of a row of `meter`."""
    requests_at, tokens_at, paused_until, lost = cast("tuple[int, int, int, int]", row)
    return Meter(requests_at=requests_at, tokens_at=tokens_at, paused_until=paused_until, lost=lost)


def meter_row(found: Meter) -> tuple[int, int, int, int]:
    """The values of a meter, in the order of its columns."""
    requests_at, tokens_at = min(found.requests_at, _MOST), min(found.tokens_at, _MOST)
    return requests_at, tokens_at, min(found.paused_until, _MOST), min(found.lost, _MOST)


def _reserve(found: Meter, now: int, *, rate: Rate, tokens: int) -> tuple[Meter, Slot]:
    return found.reserve(rate, tokens=tokens, now=now)


def _wait_s(found: Meter, now: int, *, at: int) -> tuple[Meter, float]:
    return found, found.wait_s(at, now=now)


def _settle(found: Meter, now: int, *, rate: Rate, reserved: int, used: int) -> tuple[Meter, None]:
    return found.settle(rate, reserved=reserved, used=used, now=now), None


def _pause(found: Meter, now: int, *, seconds: float) -> tuple[Meter, None]:
    return found.pause(seconds, now=now), None
