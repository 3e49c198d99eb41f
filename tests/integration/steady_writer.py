"""A process that writes to one SQLite journal at a steady pace and says what was acknowledged.

Usage: python -m tests.integration.steady_writer DATABASE ROLE SECONDS NAME SHARED

ROLE is `api` (submits a task at each tick), `worker` (appends to a task of its own and to the task
SHARED, which every worker appends to) or `reader` (lists and reads). Prints one JSON object:
how many writes were acknowledged, the longest one took, and what went wrong.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import anyio

from hermes.core.clock import SystemClock
from hermes.errors import ConcurrencyError, StoreError
from hermes.store import Lease, SQLiteStore, Store, TaskQuery
from tests.journal import WORKER, dispatch, progress, submit

PER_SECOND = 50


@dataclass
class Tally:
    """What a process has to report."""

    done: int = 0
    longest_s: float = 0.0
    errors: list[str] = field(default_factory=list[str])

    async def watch(self, work: Awaitable[object]) -> None:
        began = time.monotonic()
        try:
            await work
        except StoreError as exc:
            self.errors.append(f"{type(exc).__name__}: {exc}")
        self.longest_s = max(self.longest_s, time.monotonic() - began)


async def append_once(store: Store, task_id: str, salt: str) -> None:
    """One event at the end of a stream that others append to as well."""
    lease = Lease(message=dispatch(task_id), token=1, worker_id=WORKER)
    seq = (await store.task(task_id)).status.seq
    while True:
        try:
            await store.append(lease, [progress(task_id, seq + 1, salt, salt=salt)])
        except ConcurrencyError as exc:
            seq = exc.actual
        else:
            return


def tick_of(store: Store, role: str, name: str, shared: str) -> Callable[[int], Awaitable[None]]:
    async def api(number: int) -> None:
        await submit(store, f"{name}_{number}")

    async def worker(number: int) -> None:
        await append_once(store, name, f"{name}/{number}")
        await append_once(store, shared, f"{name}/{number}")

    async def reader(_: int) -> None:
        for task in await store.tasks(TaskQuery(limit=100)):
            assert task.status.seq >= 2
        records = await store.events(shared)
        assert [record.seq for record in records] == list(range(1, len(records) + 1))

    return {"api": api, "worker": worker, "reader": reader}[role]


async def main(path: Path, role: str, seconds: float, name: str, shared: str) -> None:
    tally = Tally()
    async with SQLiteStore(path, clock=SystemClock()) as store:
        tick = tick_of(store, role, name, shared)
        began = time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            before = len(tally.errors)
            await tally.watch(tick(tally.done))
            tally.done += len(tally.errors) == before
            await anyio.sleep(max(0.0, now + 1 / PER_SECOND - time.monotonic()))
    sys.stdout.write(json.dumps(asdict(tally)))


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4], sys.argv[5])
