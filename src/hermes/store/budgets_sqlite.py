"""The budgets of trees in a SQLite journal, as functions over the cursor of a transaction."""

from __future__ import annotations

from hermes.core.budget import Bounds, Draw, Drawn
from hermes.errors import StaleLeaseError
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
from hermes.store.driver import Cursor
from hermes.store.queries import sql
from hermes.store.values import Lease


def draw(cursor: Cursor, lease: Lease, wanted: Draw) -> Drawn:
    """Give the lease's task its share, in the transaction that checks the lease."""
    fence = (lease.message.message_id, lease.worker_id, lease.token)
    if cursor.execute(sql("leased_message"), fence).fetchone() is None:
        raise StaleLeaseError(lease.message.message_id, token=lease.token)
    [row] = cursor.execute(
        sql("keep_budget"), budget_values(wanted.root_id, wanted.bounds)
    ).fetchall()
    root = {"root_id": wanted.root_id}
    members = [read_member(it) for it in cursor.execute(sql("budget_members"), root).fetchall()]
    [final] = cursor.execute(sql("final_shares"), root).fetchall()
    got, changed = drawn(
        lease.message.task_id, wanted, read_bounds(row), members, read_final(final)[1]
    )
    if changed:
        rows = [share_values(wanted.root_id, share) for share in changed]
        cursor.executemany(sql("put_share"), rows)
    return got


def put(cursor: Cursor, root_id: str, bounds: Bounds) -> None:
    """Put bounds in force."""
    cursor.execute(sql("put_budget"), budget_values(root_id, bounds))


def budget(cursor: Cursor, root_id: str) -> TreeBudget:
    """How the budget of a tree stands."""
    root = {"root_id": root_id}
    cursor.execute("BEGIN")
    try:
        row = cursor.execute(sql("budget"), root).fetchone()
        members = cursor.execute(sql("budget_members"), root).fetchall()
        [final] = cursor.execute(sql("final_shares"), root).fetchall()
    finally:
        cursor.execute("ROLLBACK")
    known = None if row is None else read_bounds(row)
    return tree_budget(known, [read_member(it) for it in members], final)
