"""The rate of a provider, counted in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from hermes.core.quota import Meter
from hermes.store.postgres_transaction import Transaction
from hermes.store.quota import meter_row, read_meter

R = TypeVar("R")


async def meter(
    tx: Transaction, *, key: str, now: int | None, turn: Callable[[Meter, int], tuple[Meter, R]]
) -> R:
    """Change a key's meter under its row's lock; one that is left as it was is not written.

    Args:
        tx: The transaction.
        key: Whose.
        now: The time; the database's if None.
        turn: Gets the meter and the time.
    """
    row = await tx.row("meter", (key,))
    if row is None:  # two may come here at once: one of them makes the row
        await tx.send("new_meter", (key,))
        row = await tx.row("meter", (key,))
    if now is None:  # read under the lock: a later one has a later time
        clock = await tx.row("quota_clock")
        assert clock is not None
        now = cast("int", clock[0])
    before = read_meter(row)
    after, result = turn(before, now)
    if after != before:
        await tx.send("put_meter", (*meter_row(after), key))
    return result
