"""A process that appends to tasks side by side and says on stdout what was acknowledged.

Usage: python -m tests.crash.appender DATABASE COUNT TASK...

COUNT events for each task, 0 for no end. Each task is at event 3, held by `WORKER` with token 1,
and may be written to by other processes at the same time.
"""

import os
import sys
from pathlib import Path

import anyio

from hermes.core.clock import SystemClock
from hermes.errors import ConcurrencyError
from hermes.store import Lease, SQLiteStore, Store
from tests.journal import WORKER, dispatch, progress


async def append(store: Store, task_id: str, count: int) -> None:
    lease = Lease(message=dispatch(task_id), token=1, worker_id=WORKER)
    salt = str(os.getpid())
    seq, left = (await store.task(task_id)).status.seq, count
    while left or not count:
        # Some are large enough to go into a blob.
        text = f"{task_id}/{seq + 1} " + "字" * (4_000 if seq % 7 == 0 else 20)
        try:
            await store.append(lease, [progress(task_id, seq + 1, text, salt=salt)])
        except ConcurrencyError as exc:
            seq = exc.actual
            continue
        seq, left = seq + 1, left - 1
        sys.stdout.write(f"{task_id} {seq}\n")
        sys.stdout.flush()


async def main(path: Path, count: int, task_ids: list[str]) -> None:
    async with (
        SQLiteStore(path, clock=SystemClock(), wait_s=30) as store,
        anyio.create_task_group() as tasks,
    ):
        for task_id in task_ids:
            tasks.start_soon(append, store, task_id, count)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
