"""Claiming one task's message, when its turn in the lane has come."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeVar

import anyio

from hermes.core.clock import Clock
from hermes.core.failpoints import hit
from hermes.errors import InputError, LeaseHeldError, NotFoundError
from hermes.store import Lease, MessageRow, Store

from .locks import LEASE_S
from .recovery import free_task

R = TypeVar("R")

_POLL_S = 0.2
_GRACE_POLLS = 10
"""How long another task's ready message may stand before nobody is taken to be coming for it."""


async def claim_task(
    store: Store, worker_id: str, task_id: str, *, clock: Clock, lease_s: float = LEASE_S
) -> Lease:
    """Claim the message of a task; waits while earlier tasks of its session are being worked on.

    Raises:
        LeaseHeldError: Another process took this very task.
        InputError: An earlier task of the session was broken off, so nothing moves by itself.
        NotFoundError: The task has no message to work on.
    """
    idle_polls, last = 0, ""
    while True:
        if leases := await _claim(store, worker_id, task_id):
            hit("runtime.claim.after")
            return leases[0]
        ahead = await _first_of_lane(store, task_id)
        if ahead is None:
            await free_task(store, task_id, clock=clock, lease_s=lease_s)
        elif ahead.message.message_id != last or await _is_moving(
            store, ahead, clock=clock, lease_s=lease_s
        ):
            idle_polls, last = 0, ahead.message.message_id
        else:
            idle_polls += 1
        if ahead is not None and idle_polls > _GRACE_POLLS:
            first = ahead.message.task_id
            raise InputError(
                f"session {ahead.message.lane.removeprefix('session:')!r} is busy: "
                f"task {first} comes first and was broken off",
                hint=f"`hermes resume {first}`, then `hermes resume {task_id}`",
            )
        await anyio.sleep(_POLL_S)


async def _claim(store: Store, worker_id: str, task_id: str) -> list[Lease]:
    return await claimed(store, store.claim(worker_id, task_id=task_id), leases=lambda got: got)


async def claimed(
    store: Store, claim: Coroutine[object, object, R], *, leases: Callable[[R], Sequence[Lease]]
) -> R:
    """Claim; a caller that is cancelled meanwhile gives back what it got, and is cancelled then.

    A lease that nobody hears of would be held as long as the process lives. The cancellation may
    be asyncio's own (`wait_for`), which no cancel scope shields from.

    Args:
        store: Where the claim is made.
        claim: A call of the store that claims.
        leases: What it came to hold.
    """
    claiming = asyncio.ensure_future(claim)
    try:
        return await asyncio.shield(claiming)
    except asyncio.CancelledError:
        while not claiming.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(claiming)
        for lease in leases(claiming.result()):
            await store.release(lease)
        raise


async def _first_of_lane(store: Store, task_id: str) -> MessageRow | None:
    """The message that stands before this task's in its lane, or None if it is the first."""
    own = [row for row in await store.messages(task_id=task_id) if row.state != "dead"]
    if not own:
        raise NotFoundError(
            f"task {task_id} has no message to work on", hint=f"`hermes show {task_id}` tells why"
        )
    lane = await store.messages(lane=own[0].message.lane)
    first = next((row for row in lane if row.state != "dead"), own[0])
    return None if first.message.task_id == task_id else first


async def _is_moving(store: Store, ahead: MessageRow, *, clock: Clock, lease_s: float) -> bool:
    """Whether a live process works on the message ahead."""
    if ahead.state != "leased":
        return False
    try:
        await free_task(store, ahead.message.task_id, clock=clock, lease_s=lease_s)
    except LeaseHeldError:
        return True
    return False
