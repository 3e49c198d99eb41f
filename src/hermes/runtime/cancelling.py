"""Ending a task and all below it at a person's wish."""

from __future__ import annotations

import anyio

from hermes.core.task import Task
from hermes.errors import LeaseHeldError

from .carrier import Carrier
from .recovery import free_task

_POLL_S = 0.1


async def cancel_tree(carrier: Carrier, task_id: str, *, wait_s: float) -> list[Task]:
    """Cancel a task and those below it: settle what nobody holds, wait for who holds the rest.

    Args:
        carrier: Settles what nobody holds.
        task_id: The top of the tree.
        wait_s: How long to wait for holders.

    Returns:
        Those that are not settled yet. Their holders, or who comes to hold them, will do it.

    Raises:
        NotFoundError: No such task.
    """
    store = carrier.store
    wanted = await store.request_cancel(task_id)
    open_tasks: list[Task] = []
    with anyio.move_on_after(wait_s):
        while True:
            open_tasks = await _unsettled(carrier, wanted)
            if not open_tasks:
                return []
            for task in reversed(open_tasks):  # children first
                await _settle(carrier, task)
            open_tasks = await _unsettled(carrier, wanted)
            if not open_tasks:
                return []
            await anyio.sleep(_POLL_S)
    return open_tasks


async def _unsettled(carrier: Carrier, task_ids: list[str]) -> list[Task]:
    tasks = [await carrier.store.task(task_id) for task_id in task_ids]
    return [task for task in tasks if not task.state.is_terminal]


async def _settle(carrier: Carrier, task: Task) -> None:
    store = carrier.store
    try:
        await free_task(store, task.task_id, clock=carrier.clock, lease_s=carrier.times.lease_s)
    except LeaseHeldError:
        return
    for lease in await carrier.claim_ready(limit=1, task_id=task.task_id):
        await carrier.settle_cancelled(lease)
