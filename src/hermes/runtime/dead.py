"""What becomes of a message that cannot be handled: another try later, or a person is asked."""

from __future__ import annotations

import logging
import random
from datetime import timedelta

from hermes.core import ids
from hermes.core.clock import Clock
from hermes.core.events import Pending, Recorded, ReviewRequested, TaskEvent, TaskWaiting
from hermes.core.ids import NewUUID
from hermes.core.retry import RetryPolicy
from hermes.core.task import Task
from hermes.errors import NotFoundError
from hermes.store import Also, Lease, Review, Store, Wait

RETRIES = RetryPolicy(attempts=10, base_s=1.0, cap_s=60.0)
"""How often a message whose work cannot even begin comes back before it is dead."""

_LOG = logging.getLogger("hermes.worker")


async def retry_later(
    store: Store, lease: Lease, *, reason: str, clock: Clock, new_id: NewUUID
) -> None:
    """Give a message another try after a random pause; once it had its tries, it is dead.

    Args:
        store: Where it is leased.
        lease: Its lease, which ends.
        reason: Why it could not be handled.
        clock: Tells when it comes back.
        new_id: Ids for the events of a dead one.
    """
    delay_s = RETRIES.delay_s(lease.attempts + 1, spread=random.random())
    if delay_s is None:
        text = f"{reason} (after {lease.attempts + 1} attempts)"
        await bury(store, lease, reason=text, clock=clock, new_id=new_id)
        return
    retry_at = clock.now() + timedelta(seconds=delay_s)
    await store.fail(lease, [], retry_at=retry_at, reason=reason)
    _LOG.warning("task %s comes back in %.1f s: %s", lease.message.task_id, delay_s, reason)


async def bury(store: Store, lease: Lease, *, reason: str, clock: Clock, new_id: NewUUID) -> None:
    """Make a message dead; its task waits for a person who says `retry` or `cancel`."""
    try:
        task = await store.task(lease.message.task_id)
    except NotFoundError:  # a message about nothing that is known here
        await store.fail(lease, [], retry_at=None, reason=reason)
        return
    if task.state.is_terminal:
        await store.finish(lease, [])
        return
    records, also = _question(task, lease, reason, clock=clock, new_id=new_id)
    await store.fail(lease, records, retry_at=None, reason=reason, also=also)
    _LOG.error("task %s waits for a person: %s", task.task_id, reason)


def _question(
    task: Task, lease: Lease, reason: str, *, clock: Clock, new_id: NewUUID
) -> tuple[list[Recorded], Also]:
    now, first = clock.now(), task.status.seq + 1
    wait_id = ids.wait_id(task.task_id, "", first + 1)
    review_id = ids.review_id(wait_id)
    name, text = lease.message.message_type, f"the message {lease.message.message_type} is dead: "
    pending = Pending(
        kind="dead_letter",
        path="",
        name=name,
        text=text + reason,
        wait_id=wait_id,
        review_id=review_id,
    )
    events: list[TaskEvent] = [
        ReviewRequested(
            review_id=review_id, reason="dead_letter", path="", name=name, text=text + reason
        ),
        TaskWaiting(pending=(*task.status.pending, pending)),
    ]
    records = [
        Recorded(
            event_id=new_id().hex,
            task_id=task.task_id,
            seq=seq,
            event=event,
            at=now,
            trace_id=task.trace_id,
            token=lease.token,
        )
        for seq, event in enumerate(events, first)
    ]
    review = Review(
        review_id=review_id,
        wait_id=wait_id,
        task_id=task.task_id,
        path="",
        reason="dead_letter",
        name=name,
        text=text + reason,
        created_at=now,
        data={
            "crashes": lease.crashes,
            "attempts": lease.attempts,
            "reason": reason,
            "message_id": lease.message.message_id,
        },
    )
    wait = Wait(wait_id=wait_id, task_id=task.task_id, path="", kind="person", key=review_id)
    return records, Also(waits=(wait,), reviews=(review,))
