"""Taking over the work of processes that died."""

from __future__ import annotations

from hermes.core.clock import Clock
from hermes.errors import LeaseHeldError
from hermes.store import Store

from .locks import LEASE_S, is_gone
from .reaper import take_over


async def free_task(store: Store, task_id: str, *, clock: Clock, lease_s: float = LEASE_S) -> None:
    """Make a task's message claimable if the process that held it is gone.

    Raises:
        LeaseHeldError: A live process holds it.
    """
    rows = await store.messages(task_id=task_id)
    # Read after the messages: who holds one had registered before.
    known = {worker.worker_id: worker for worker in await store.workers()}
    for row in rows:
        if row.state != "leased" or row.worker_id is None:
            continue
        holder = known.get(row.worker_id)
        if holder is None:
            await store.retire(row.worker_id, crashed=True)
        elif is_gone(holder, clock=clock, lease_s=lease_s):
            await take_over(store, holder)
        else:
            where = f"process {holder.pid} on {holder.host}"
            raise LeaseHeldError(task_id, worker=holder.worker_id, where=where)
