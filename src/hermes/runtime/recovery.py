"""Taking over the work of processes that died."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from hermes.core.clock import Clock
from hermes.errors import LeaseHeldError
from hermes.store import Store, Worker

from .process import is_gone


async def free_task(store: Store, task_id: str, *, clock: Clock) -> None:
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
        if holder is not None and not is_gone(holder, clock=clock):
            where = f"process {holder.pid} on {holder.host}"
            raise LeaseHeldError(task_id, worker=holder.worker_id, where=where)
        await store.retire(row.worker_id, crashed=True)
        if holder is not None:
            _forget(holder)


def _forget(worker: Worker) -> None:
    if worker.lock_path:
        with suppress(OSError):  # another user's file stays where it is, and harms nobody
            Path(worker.lock_path).unlink()
