"""Makes tasks, events and messages for tests that need a store with something in it."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal

from hermes.core.events import (
    ProgressReported,
    Recorded,
    ReviewReason,
    TaskCreated,
    TaskDispatched,
    TaskEvent,
    TaskSettled,
    TaskStarted,
    TaskWaiting,
    WaitKind,
)
from hermes.core.message import Message
from hermes.store.base import Store
from hermes.store.values import Also, Lease, NewTask, Review, Wait, Worker
from hermes.testing.clock import START

TRACE = "0af7651916cd43dd8448eb211c80319c"
WORKER = "worker-1"


def record(task_id: str, seq: int, event: TaskEvent, *, salt: str = "") -> Recorded:
    """An event with an id that follows from its place, so that making it again repeats it."""
    event_id = hashlib.md5(f"{task_id}/{seq}/{salt}".encode()).hexdigest()
    return Recorded(
        event_id=event_id, task_id=task_id, seq=seq, event=event, at=START, trace_id=TRACE
    )


def progress(task_id: str, seq: int, text: str = "on it", *, salt: str = "") -> Recorded:
    return record(task_id, seq, ProgressReported(path="/turn1", text=text), salt=salt)


def settled(
    task_id: str,
    seq: int,
    outcome: Literal["succeeded", "failed", "cancelled"] = "succeeded",
    *,
    salt: str = "",
) -> Recorded:
    return record(task_id, seq, TaskSettled(outcome=outcome, output="done"), salt=salt)


def opening(
    task_id: str, *, goal: str = "count the errors", session_id: str | None = None, agent: str = "a"
) -> list[Recorded]:
    """The two events that a submit writes."""
    created = TaskCreated(agent=agent, goal=goal, session_id=session_id)
    sent = TaskDispatched(receiver=f"executor.{agent}", message_id=f"msg_{task_id}")
    return [record(task_id, 1, created), record(task_id, 2, sent)]


def message(message_id: str, *, task_id: str = "task_1", lane: str | None = None) -> Message:
    return Message(
        message_id=message_id,
        sender="cli",
        receiver="executor.a",
        message_type="task.dispatch",
        task_id=task_id,
        trace_id=TRACE,
        created_at=START,
        order_key=lane,
    )


def dispatch(task_id: str, *, session_id: str | None = None) -> Message:
    """The message that a submit sends."""
    return message(f"msg_{task_id}", task_id=task_id, lane=session_id or task_id)


def child(
    task_id: str,
    *,
    parent_id: str = "task_1",
    path: str = "/turn1/tool1#1",
    root_id: str = "task_1",
) -> NewTask:
    """A task that another one hands work to."""
    created = TaskCreated(
        agent="a", goal="a part of it", parent_id=parent_id, parent_path=path, root_id=root_id
    )
    sent = TaskDispatched(receiver="executor.a", message_id=f"msg_{task_id}")
    records = [record(task_id, 1, created), record(task_id, 2, sent)]
    return NewTask(records=records, message=dispatch(task_id))


def waiting(task_id: str, seq: int, *, salt: str = "") -> Recorded:
    return record(task_id, seq, TaskWaiting(pending=()), salt=salt)


def wait(
    wait_id: str = "wait_1",
    *,
    task_id: str = "task_1",
    kind: WaitKind = "event",
    key: str = "paid",
    due_at: datetime | None = None,
) -> Wait:
    return Wait(
        wait_id=wait_id, task_id=task_id, path="/turn1/tool1", kind=kind, key=key, due_at=due_at
    )


def review(
    number: int = 1, *, task_id: str = "task_1", reason: ReviewReason = "approval"
) -> Review:
    """A question to a person; `asking` is the wait for it."""
    return Review(
        review_id=f"review_{number}",
        wait_id=f"wait_{number}",
        task_id=task_id,
        path="/turn1/tool1",
        reason=reason,
        name="pay",
        text="请批准 pay",
        created_at=START,
        data={"arguments": {"amount": 5}},
    )


def asking(asked: Review) -> Wait:
    """The wait that a review's decision ends."""
    return wait(asked.wait_id, task_id=asked.task_id, kind="person", key=asked.review_id)


async def enroll(store: Store, worker_id: str = WORKER) -> None:
    """Register a worker."""
    await store.register(
        Worker(worker_id=worker_id, host="host", pid=7, lock_path="", renewed_at=START)
    )


async def submit(
    store: Store,
    task_id: str = "task_1",
    *,
    goal: str = "count the errors",
    session_id: str | None = None,
    agent: str = "a",
) -> None:
    """A task that waits to be claimed."""
    records = opening(task_id, goal=goal, session_id=session_id, agent=agent)
    envelope = replace(dispatch(task_id, session_id=session_id), receiver=f"executor.{agent}")
    await store.submit(records, envelope)


async def start(store: Store, task_id: str = "task_1") -> Lease:
    """A task at event 3, claimed and at work."""
    await enroll(store)
    await submit(store, task_id)
    (lease,) = await store.claim(WORKER, task_id=task_id)
    await store.append(lease, [record(task_id, 3, TaskStarted(worker=WORKER))])
    return lease


async def suspend(store: Store, also: Also, task_id: str = "task_1") -> None:
    """A task at event 4 that waits, without a lease and without a message of its own."""
    lease = await start(store, task_id)
    await store.finish(lease, [waiting(task_id, 4)], also=also)


async def claim_one(store: Store, task_id: str = "task_1") -> Lease:
    """The lease of the one message about a task that is ready."""
    (lease,) = await store.claim(WORKER, task_id=task_id)
    return lease


async def settle(store: Store, task_id: str) -> None:
    """Claim a dispatched task, and bring it to its end."""
    lease = await claim_one(store, task_id)
    seq = (await store.task(task_id)).status.seq
    started = record(task_id, seq + 1, TaskStarted(worker=WORKER))
    await store.finish(lease, [started, settled(task_id, seq + 2)])


async def texts(store: Store, task_id: str = "task_1") -> list[str]:
    """What was reported as progress so far."""
    events = [item.event for item in await store.events(task_id)]
    return [event.text for event in events if isinstance(event, ProgressReported)]


async def states(store: Store) -> dict[str, str]:
    """Message ids and where they stand, in lane order."""
    return {row.message.message_id: row.state for row in await store.messages()}


def ids(leases: Sequence[Lease]) -> list[str]:
    return [lease.message.message_id for lease in leases]
