"""A step as the loop writes it, and how many of them a store or a raw limit makes in a second."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

import anyio

from hermes.core import codec, ids
from hermes.core.clock import SystemClock
from hermes.core.events import (
    Recorded,
    TaskCreated,
    TaskDispatched,
    TaskEvent,
    TaskStarted,
    ToolReturned,
    ToolStarted,
)
from hermes.core.message import Message
from hermes.store import Lease, Store, Worker, connection, open_store

RESULT = "42 pieces in stock, next delivery on Thursday"
CLOCK = SystemClock()
WORKER = "bench"
Step = Callable[[int], Awaitable[None]]
"""Makes the step with this number."""


def intent(turn: int) -> ToolStarted:
    """What is committed before a tool may act."""
    return ToolStarted(
        path=f"/turn{turn}/tool1",
        call_id=f"call_{turn}",
        name="stock",
        effect="unsafe",
        fingerprint="6f1d2f0e3c395f0b9d0a5a1f0c9b7e42",
        timeout_s=30.0,
    )


def outcome(turn: int) -> ToolReturned:
    """What is committed once it has acted."""
    return ToolReturned(
        path=f"/turn{turn}/tool1",
        call_id=f"call_{turn}",
        name="stock",
        content=RESULT,
        size_chars=len(RESULT),
        duration_s=0.0123,
    )


ROWS = tuple(codec.encode(event).data for event in (intent(1), outcome(1)))
"""The same bytes, for the raw contenders."""


class Run:
    """One run's place in the journal."""

    def __init__(self, store: Store, lease: Lease, seq: int) -> None:
        self._store, self._lease, self._seq = store, lease, seq

    async def note(self, event: TaskEvent) -> None:
        """Commit one event."""
        self._seq += 1
        record = _record(self._lease.message, self._seq, event)
        await self._store.append(self._lease, [record])

    async def step(self, turn: int) -> None:
        """An intent and its outcome."""
        await self.note(intent(turn))
        await self.note(outcome(turn))


async def begin(store: Store) -> Run:
    """Submit a task, claim it, and start it."""
    message = Message(
        message_id=ids.message_id(),
        sender="bench",
        receiver="bench",
        message_type="task.dispatch",
        task_id=ids.task_id(),
        trace_id=ids.trace_id(),
        created_at=CLOCK.now(),
    )
    first = (
        TaskCreated(agent="bench", goal="How many lamps are there?"),
        TaskDispatched(receiver="bench", message_id=message.message_id),
    )
    records = [_record(message, seq, event) for seq, event in enumerate(first, 1)]
    done = await store.submit(records, message, claim_for=WORKER)
    assert done.lease is not None
    run = Run(store, done.lease, len(records))
    await run.note(TaskStarted(worker=WORKER))
    return run


def _record(message: Message, seq: int, event: TaskEvent) -> Recorded:
    return Recorded(
        event_id=ids.uuid7().hex,
        task_id=message.task_id,
        seq=seq,
        event=event,
        at=CLOCK.now(),
        trace_id=message.trace_id,
    )


async def hermes_rate(
    url: str, synchronous: connection.Synchronous, runs: int, steps: int
) -> float:
    """Steps a second of the store at `url`."""
    async with open_store(url, clock=CLOCK, synchronous=synchronous) as store:
        await store.register(
            Worker(worker_id=WORKER, host="bench", pid=1, lock_path="", renewed_at=CLOCK.now())
        )
        begun = [await begin(store) for _ in range(runs)]
        return await rate([run.step for run in begun], steps)


async def rate(runs: Sequence[Step], steps: int) -> float:
    """Steps a second when each of `runs` makes its share of `steps`, one after the other."""
    each = max(1, steps // len(runs))

    async def play(step: Step) -> None:
        for turn in range(1, each + 1):
            await step(turn)

    began = time.perf_counter()
    async with anyio.create_task_group() as group:
        for step in runs:
            group.start_soon(play, step)
    return each * len(runs) / (time.perf_counter() - began)
