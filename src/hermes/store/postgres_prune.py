"""Clearing old tasks out of a PostgreSQL journal, in short transactions."""

from __future__ import annotations

from functools import partial
from typing import cast

from psycopg import errors

from hermes.store.postgres_connection import Address, Connection, connect, translated
from hermes.store.postgres_transaction import Transaction, Transactor
from hermes.store.queries import postgres
from hermes.store.values import Pruned

_BY_TASK_ID = (
    "delete_waits",
    "delete_reviews",
    "delete_effects",
    "delete_shares",
    "delete_budgets",
    "delete_dead_messages",
)
_TREES = 50
_ROWS = 500

_Task = tuple[int, str, int]
"""Key, id, and number of events."""


async def prune(
    transactor: Transactor, address: Address, before: int, *, dry_run: bool, wait_s: float
) -> Pruned:
    """Remove old trees of settled tasks; see `Maintenance.prune`."""
    pruned: list[_Task] = []
    after = ""
    while roots := await transactor.read(partial(_old_roots, after=after, before=before)):
        after = roots[-1]
        if dry_run:
            pruned += await transactor.read(partial(_look, roots=roots, before=before))
        else:
            pruned += await transactor.write(partial(_remove, roots=roots, before=before))
    sizes: list[int] = []
    if dry_run:
        keys = [key for key, _, _ in pruned]
        sizes = await transactor.read(partial(_unused_blobs, keys=keys))
    else:
        while await transactor.write(partial(_remove_signals, before=before)):
            pass
        while some := await transactor.write(_remove_blobs):
            sizes += some
        await _give_back_space(address, wait_s=wait_s)
    return Pruned(
        tasks=len(pruned),
        events=sum(events for _, _, events in pruned),
        blobs=len(sizes),
        blob_bytes=sum(sizes),
    )


async def _old_roots(connection: Connection, *, after: str, before: int) -> list[str]:
    cursor = await connection.execute(postgres("old_roots"), (after, before, _TREES))
    return [cast("str", root) for (root,) in await cursor.fetchall()]


async def _look(connection: Connection, *, roots: list[str], before: int) -> list[_Task]:
    wanted = {"roots": roots, "before": before}
    cursor = await connection.execute(postgres("prunable"), wanted)
    return cast("list[_Task]", await cursor.fetchall())


async def _remove(tx: Transaction, *, roots: list[str], before: int) -> list[_Task]:
    """Remove those of the trees that nobody needs, as they stand under their locks."""
    await tx.send("lock_trees", (roots,))
    await tx.send("lock_tasks_of_trees", (roots,))
    found = await tx.rows("prunable", {"roots": roots, "before": before})
    tasks = cast("list[_Task]", found)
    keys, task_ids = [key for key, _, _ in tasks], [task_id for _, task_id, _ in tasks]
    for name in ("delete_events", "delete_blob_uses"):
        await tx.send(name, (keys,))
    for name in _BY_TASK_ID:
        await tx.send(name, (task_ids,))
    await tx.send("delete_lanes", {"task_ids": task_ids})
    await tx.send("delete_accepted", (task_ids,))
    await tx.send("delete_tasks", (keys,))
    return tasks


async def _remove_signals(tx: Transaction, *, before: int) -> int:
    return len(await tx.rows("delete_old_signals", (before, _ROWS)))


async def _remove_blobs(tx: Transaction) -> list[int]:
    """Remove some blobs that nothing refers to; returns their sizes."""
    await tx.send("lock_blobs")
    return [cast("int", size) for (size,) in await tx.rows("delete_unused_blobs", (_ROWS,))]


async def _unused_blobs(connection: Connection, *, keys: list[int]) -> list[int]:
    """Sizes of the blobs that nothing would refer to if those tasks were gone."""
    cursor = await connection.execute(postgres("unused_blobs"), (keys,))
    return [cast("int", size) for (size,) in await cursor.fetchall()]


async def _give_back_space(address: Address, *, wait_s: float) -> None:
    """Give freed space back: to the disk where nobody is at work, else to the tables themselves."""
    async with await connect(address, wait_s=wait_s) as connection:
        try:
            cursor = await connection.execute(postgres("count_workers"))
            is_idle = await cursor.fetchone() == (0,)
            await connection.execute(postgres("vacuum_full" if is_idle else "vacuum"))
        except errors.Error as exc:
            raise translated(exc, address) from exc
