"""A task and those below it, as one piece of work."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from hermes.core.clock import Clock
from hermes.core.task import Task, TaskState
from hermes.store import MAX_TASKS, MessageRow, Store, TaskQuery

PATIENCE_S = 60.0
"""A wait for a time that comes within so many seconds is waited for by the process that runs."""

_OPEN = [state for state in TaskState if not state.is_terminal]


async def open_tasks(store: Store, task_id: str) -> list[Task]:
    """A task and all below it that are not settled; parents before their children."""
    task = await store.task(task_id)
    found = [] if task.state.is_terminal else [task]
    for parent in found:
        query = TaskQuery(parent_id=parent.task_id, states=_OPEN, limit=MAX_TASKS)
        found.extend(await store.tasks(query))
    return found


async def is_at_rest(store: Store, task_id: str, *, clock: Clock, left: Collection[str]) -> bool:
    """Whether nothing in a tree will move by itself soon: it is settled, or waits for others.

    Args:
        store: Where it is.
        task_id: Its top.
        clock: Tells what is due within `PATIENCE_S` seconds.
        left: Tasks that this process cannot work on.
    """
    soon = clock.now() + timedelta(seconds=PATIENCE_S)
    for task in await open_tasks(store, task_id):
        for row in await store.messages(task_id=task.task_id):
            if _moves(row) and task.task_id not in left:
                return False
            if row.state == "delayed" and row.not_before is not None and row.not_before <= soon:
                return False
    return True


def _moves(row: MessageRow) -> bool:
    return row.state in ("ready", "leased")
