"""A journal in which tasks wait for people, made without running any agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import anyio

from hermes.core import ids
from hermes.core.budget import Limits
from hermes.core.clock import SystemClock
from hermes.core.events import (
    Pending,
    Recorded,
    ReviewReason,
    ReviewRequested,
    TaskEvent,
    TaskStarted,
    TaskWaiting,
)
from hermes.core.ids import uuid7
from hermes.core.request import AgentRequest
from hermes.runtime import Order, submit
from hermes.store import Also, Lease, Review, Store, Wait, Worker, open_store

URL = "sqlite:///.hermes/hermes.db"
CLOCK = SystemClock()


def ask(
    reason: ReviewReason,
    *,
    times: int = 1,
    data: Mapping[str, object] | None = None,
) -> list[Review]:
    """One task that asks a person `times` questions of one kind; returns its reviews."""
    return anyio.run(_ask, reason, times, data or {})


async def _ask(reason: ReviewReason, times: int, data: Mapping[str, object]) -> list[Review]:
    async with open_store(URL, clock=CLOCK) as store:
        lease, records = await _begun(store)
        started = TaskStarted(worker="w", code_version="1")
        seq = len(records) + 1 + times + 1
        reviews = [
            _review(lease, f"/turn1/tool{place}", reason, seq, data)
            for place in range(1, times + 1)
        ]
        events: list[TaskEvent] = [
            started,
            *(
                ReviewRequested(
                    review_id=review.review_id,
                    reason=reason,
                    path=review.path,
                    name=review.name,
                    text=review.text,
                )
                for review in reviews
            ),
            TaskWaiting(pending=tuple(map(_pending, reviews))),
        ]
        waits = [
            Wait(
                wait_id=review.wait_id,
                task_id=review.task_id,
                path=review.path,
                kind="person",
                key=review.review_id,
            )
            for review in reviews
        ]
        await store.finish(
            lease,
            _recorded(lease, events, after=len(records)),
            also=Also(waits=waits, reviews=reviews),
        )
        await store.retire("w", crashed=False)
        return reviews


def hold(*, silent_s: float) -> str:
    """A task that a process elsewhere works on, or did; returns its id."""

    async def begin() -> str:
        async with open_store(URL, clock=CLOCK) as store:
            lease, _ = await _begun(store, silent_s=silent_s)
            return lease.message.task_id

    return anyio.run(begin)


async def take_up(store: Store, task_id: str) -> None:
    """Let a live process elsewhere go on with a task whose answer has come."""
    await store.register(
        Worker(worker_id="x", host="elsewhere", pid=8, lock_path="", renewed_at=CLOCK.now())
    )
    assert await store.claim("x", task_id=task_id)


async def _begun(store: Store, *, silent_s: float = 0) -> tuple[Lease, list[Recorded]]:
    renewed_at = CLOCK.now() - timedelta(seconds=silent_s)
    worker = Worker(worker_id="w", host="elsewhere", pid=7, lock_path="", renewed_at=renewed_at)
    await store.register(worker)
    order = Order(
        task_id=ids.task_id(),
        receiver="main",
        request=AgentRequest(input="pay the bill"),
        limits=Limits(),
    )
    done, records = await submit(store, order, clock=CLOCK, new_id=uuid7, claim_for="w")
    assert done.lease is not None
    return done.lease, records


def _review(
    lease: Lease, path: str, reason: ReviewReason, seq: int, data: Mapping[str, object]
) -> Review:
    wait_id = ids.wait_id(lease.message.task_id, path, seq)
    return Review(
        review_id=ids.review_id(wait_id),
        wait_id=wait_id,
        task_id=lease.message.task_id,
        path=path,
        reason=reason,
        name="transfer",
        text="transfer of 100 EUR to the shop",
        created_at=CLOCK.now(),
        data=data,
    )


def _pending(review: Review) -> Pending:
    return Pending(
        kind=review.reason,
        path=review.path,
        name=review.name,
        text=review.text,
        wait_id=review.wait_id,
        review_id=review.review_id,
    )


def _recorded(lease: Lease, events: Sequence[TaskEvent], *, after: int) -> list[Recorded]:
    blank = Recorded(
        event_id="",
        task_id=lease.message.task_id,
        seq=0,
        event=events[0],
        at=CLOCK.now(),
        trace_id=lease.message.trace_id,
        token=lease.token,
    )
    return [
        replace(blank, event_id=uuid7().hex, seq=seq, event=event)
        for seq, event in enumerate(events, after + 1)
    ]
