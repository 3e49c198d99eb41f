"""A process that adds to a counter in one task's journal, beside others that do the same.

    python counter.py URL LEASE TIMES

LEASE is the worker's id, the token and the message as JSON: all share the one lease. It says
`ready`, begins when it reads a line, and says at last how often another one was faster.
"""

import random
import sys
import uuid
from collections.abc import Sequence
from typing import cast

import anyio

from hermes.core import json
from hermes.core.clock import SystemClock
from hermes.core.events import Recorded, VariableSet
from hermes.core.message import Message
from hermes.errors import ConcurrencyError
from hermes.store import Lease, Store, open_store

_PAUSE_S = 0.03
"""After a conflict, at most: eight that try again at once are in each other's way all the time."""


def dump(lease: Lease) -> str:
    return json.dumps([lease.worker_id, lease.token, lease.message.to_wire()])


def load(text: str) -> Lease:
    worker_id, token, wire = cast("tuple[str, int, object]", json.loads(text))
    return Lease(message=Message.from_wire(wire), token=token, worker_id=worker_id)


def counter(events: Sequence[Recorded]) -> list[int]:
    """The values that the counter was set to, in order."""
    sets = [item.event for item in events if isinstance(item.event, VariableSet)]
    return [cast("int", event.value) for event in sets if event.name == "counter"]


async def count(store: Store, lease: Lease, times: int) -> int:
    """Add one, so many times; returns how often another one was faster."""
    task_id, seen, value, conflicts = lease.message.task_id, 0, 0, 0
    trace_id = (await store.task(task_id)).trace_id
    is_stale = True
    while times:
        if is_stale:
            new = await store.events(task_id, after=seen)
            seen, value = seen + len(new), [value, *counter(new)][-1]
        record = Recorded(
            event_id=uuid.uuid4().hex,
            task_id=task_id,
            seq=seen + 1,
            event=VariableSet(name="counter", value=value + 1),
            at=SystemClock().now(),
            trace_id=trace_id,
        )
        try:
            await store.append(lease, [record])
            seen, value, times, is_stale = seen + 1, value + 1, times - 1, False
        except ConcurrencyError:
            conflicts, is_stale = conflicts + 1, True
            await anyio.sleep(random.random() * _PAUSE_S)
    return conflicts


async def main(url: str, lease: str, times: int) -> None:
    async with open_store(url, clock=SystemClock(), synchronous="NORMAL") as store:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        sys.stdout.write(str(await count(store, load(lease), times)))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
