"""The budgets of trees in a PostgreSQL journal, as functions over an open transaction."""

from __future__ import annotations

from hermes.core.budget import Bounds, Draw, Drawn
from hermes.errors import StaleLeaseError
from hermes.store import postgres_writes as writes
from hermes.store.budgets import (
    TreeBudget,
    budget_values,
    drawn,
    read_bounds,
    read_final,
    read_member,
    share_values,
    tree_budget,
)
from hermes.store.postgres_connection import Connection
from hermes.store.postgres_transaction import Transaction
from hermes.store.queries import postgres
from hermes.store.values import Lease


async def draw(tx: Transaction, lease: Lease, wanted: Draw) -> Drawn:
    """Give the lease's task its share; who draws of the same tree waits for the budget's row."""
    if await writes.hold(tx, lease) is None:
        raise StaleLeaseError(lease.message.message_id, token=lease.token)
    row = await tx.row("keep_budget", budget_values(wanted.root_id, wanted.bounds))
    assert row is not None  # the statement returns the row either way
    root = {"root_id": wanted.root_id}
    # Each statement sees what was committed before it: those who held the row before, whole.
    members = [read_member(row) for row in await tx.rows("budget_members", root)]
    final = await tx.row("final_shares", root)
    assert final is not None
    got, changed = drawn(
        lease.message.task_id, wanted, read_bounds(row), members, read_final(final)[1]
    )
    for share in changed:
        await tx.send("put_share", share_values(wanted.root_id, share))
    return got


async def put(tx: Transaction, root_id: str, bounds: Bounds) -> None:
    """Put bounds in force."""
    await tx.send("put_budget", budget_values(root_id, bounds))


async def budget(connection: Connection, root_id: str) -> TreeBudget:
    """How the budget of a tree stands, about this moment."""
    root = {"root_id": root_id}
    bounds = await (await connection.execute(postgres("budget"), root)).fetchone()
    row = await (await connection.execute(postgres("tree_members"), root)).fetchall()
    known = None if bounds is None else read_bounds(bounds)
    return tree_budget(known, [read_member(it) for it in row], None)
