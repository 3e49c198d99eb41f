"""The loop of a process that takes work: claim, carry, give back."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from hermes.agents import Equipment
from hermes.core.clock import Clock
from hermes.core.ids import NewUUID
from hermes.core.task import Task
from hermes.errors import (
    DriftError,
    InputError,
    StaleLeaseError,
    StoreBrokenError,
    StoreError,
    StoreUnavailableError,
)
from hermes.store import Lease, Store

from .carrier import Carrier
from .dead import bury, retry_later
from .holds import Leash

POLL_S = 0.5
DRAIN_S = 30.0
ALONE_CAP = 3
"""How often a message may kill the process that handles nothing else, before it is dead."""

_LOG = logging.getLogger("hermes.worker")
_AFTER_FAULT_S = 1.0
_LEFT = {"processing": "released", "waiting": "waiting"}

Equip = Callable[[Task], Awaitable[Equipment]]
"""Makes the agent of a task ready; raises InputError where this process does not know it."""


class _Ending(Protocol):
    async def __call__(
        self, store: Store, lease: Lease, *, reason: str, clock: Clock, new_id: NewUUID
    ) -> None: ...


class Alone(Protocol):
    """Handles one task in a process of its own."""

    async def carry(self, task_id: str, claimed: Callable[[], None]) -> str:
        """Start the process and wait for its end.

        Args:
            task_id: Whose message it is to claim.
            claimed: Called once the message is in its hands, or surely will not be.

        Returns:
            "" if it could be started, else why not.
        """
        ...

    def drain(self) -> None:
        """Have what runs end at the next step border."""
        ...

    def interrupt(self) -> None:
        """Have what runs end in the middle of its step."""
        ...


async def when_idle() -> bool:
    """For `WorkLoop.run`: it is over as soon as there is nothing to do."""
    return True


class WorkLoop:
    """Claims what is ready and works on it, several tasks at a time, until it is told to drain.

    Args:
        carrier: The worker of this process.
        equip: Makes the agent of a task ready.
        concurrency: How many tasks at a time.
        receivers: Only messages to these agents; any by default.
        task_id: Only this task.
        root_id: Only this task and those below it.
        drain_s: How long steps under way may take after `drain`.
        alone: Handles messages that were in the hands of a process when it died; without it they
            are handled here.
        on_claim: Called with each message that is claimed.

    With a `root_id` there is a caller who waits for that task: what fails about it is its `fault`
    and ends the loop, and a task whose agent is not known here is left to others. Otherwise such
    tasks come back a few times, and then a person is asked.

    Attributes:
        left_to_others: Tasks that cannot be worked on here.
        fault: Why the loop ended without its root, or before it was told to.
    """

    def __init__(
        self,
        carrier: Carrier,
        *,
        equip: Equip,
        concurrency: int,
        receivers: Sequence[str] = (),
        task_id: str | None = None,
        root_id: str | None = None,
        drain_s: float = DRAIN_S,
        alone: Alone | None = None,
        on_claim: Callable[[Lease], None] | None = None,
    ) -> None:
        self._carrier, self._equip, self._concurrency = carrier, equip, concurrency
        self._receivers, self._task_id, self._root_id = tuple(receivers), task_id, root_id
        self._drain_s, self._alone, self._on_claim = drain_s, alone, on_claim
        self._running: dict[str, Lease] = {}
        self._changed, self._leash = anyio.Event(), Leash()
        self._draining = self._interrupting = False
        self._starting_alone = 0
        self._is_for_others = False
        self._unstartable: dict[str, str] = {}
        self.left_to_others: set[str] = set()
        self.fault: Exception | None = None

    async def worker_id(self) -> str:
        """The worker that it claims for."""
        return (await self._carrier.process()).worker_id

    async def run(self, is_over: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Work until `is_over`, asked whenever there is nothing to do, or until told to drain."""
        if self._root_id is None and self._task_id is None:
            await self._reap(is_staying=is_over is None)
        async with anyio.create_task_group() as group:
            while not self._draining:
                # Before the claim: what ends beside it may make more ready than the claim has seen.
                was_running = bool(self._running)
                taken = await self._take(group)
                if taken:
                    continue
                if was_running and not self._running:
                    continue
                if not self._running and is_over is not None and await is_over():
                    break
                await self._pause()
            await self._finish()
        if self._draining and self.fault is None:
            _LOG.info("drained", extra=_fields("drained"))

    def drain(self) -> None:
        """Claim nothing more, let the steps under way end, give the rest back."""
        self._draining = True
        self._leash.stop()
        if self._alone is not None:
            self._alone.drain()
        self._ring()

    def interrupt(self) -> None:
        """As `drain`, without waiting for the steps under way."""
        self._draining = self._interrupting = True
        self._leash.stop()
        self._ring()

    async def _reap(self, *, is_staying: bool) -> None:
        """Take over from the dead; one who stays gets to that at its next heartbeat too."""
        try:
            await self._carrier.reap(by_clock=not is_staying)
        except StoreError as exc:
            if not is_staying:
                raise
            _LOG.warning("cannot look for dead workers, doing so later: %s", exc)

    async def _take(self, group: TaskGroup) -> int:
        """Claim for the free places and start work; returns how much."""
        free = self._concurrency - len(self._running)
        if free <= 0 or self._starting_alone:
            return 0
        try:
            leases = await self._carrier.claim_ready(
                limit=free + len(self.left_to_others),
                receivers=self._receivers,
                task_id=self._task_id,
                root_id=self._root_id,
            )
        except StoreBrokenError as exc:  # for good: whatever starts this process again helps
            self.fault = exc
            self.drain()
            return 0
        except StoreError as exc:
            _LOG.warning("cannot claim, trying again: %s", exc)
            await anyio.sleep(_AFTER_FAULT_S)
            return 0
        started = 0
        for lease in leases:
            is_ours = lease.message.task_id not in self.left_to_others
            if self._draining or started == free or not is_ours:
                await self._carrier.give_back(lease)
                continue
            started += 1
            self._running[lease.message.message_id] = lease
            group.start_soon(self._handle, lease)
        self._is_for_others = bool(leases) and not started
        return started

    async def _pause(self) -> None:
        """Until there may be work, a place is free, or the drain begins; at most `POLL_S`."""
        if self._draining:
            return
        is_free = len(self._running) < self._concurrency and not self._starting_alone
        # What was just given back to others would be a hint to claim it again.
        if is_free and not self._is_for_others:
            try:
                await self._carrier.store.work_hint(POLL_S)
            except StoreError:  # the next claim tells
                await anyio.sleep(POLL_S)
            return
        with anyio.move_on_after(POLL_S):
            await self._changed.wait()

    async def _finish(self) -> None:
        """Let what runs end; what has not after `drain_s` is ended."""
        with anyio.move_on_after(self._drain_s):
            while self._running and not self._interrupting:
                await self._changed.wait()
        if self._running:
            self._leash.interrupt()
            if self._alone is not None:
                self._alone.interrupt()

    def _ring(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _handle(self, lease: Lease) -> None:
        _LOG.info("claimed", extra=_of(lease, "claimed"))
        if self._on_claim is not None:
            self._on_claim(lease)
        try:
            await self._work(lease)
        except StaleLeaseError as exc:
            _LOG.warning("task %s is no longer ours: %s", lease.message.task_id, exc)
            await self._carrier.give_back(lease)
        except Exception as exc:  # the boundary of a task: told to who waits, or recorded
            await self._failed(lease, exc)
        finally:
            self._running.pop(lease.message.message_id, None)
            self._ring()

    async def _failed(self, lease: Lease, exc: Exception) -> None:
        task_id, text = lease.message.task_id, str(exc) or type(exc).__name__
        _LOG.debug("task %s failed here", task_id, exc_info=exc)
        if task_id == self._root_id:
            await self._carrier.give_back(lease)
            self.fault = exc
            self.drain()
        elif isinstance(exc, StoreUnavailableError):  # an outage is nobody's attempt
            _LOG.warning("task %s is given back: %s", task_id, text)
            await self._carrier.give_back(lease)
            await anyio.sleep(_AFTER_FAULT_S)
        elif isinstance(exc, DriftError):  # it will differ at every try
            await self._bury(lease, text)
        else:
            await self._put_off(lease, text)

    async def _work(self, lease: Lease) -> None:
        store, task_id = self._carrier.store, lease.message.task_id
        if await self._carrier.settle_if_cancelled(lease):
            _LOG.info("settled", extra=_of(lease, "settled", status="cancelled"))
            return
        task = await store.task(task_id)
        if task.state.is_terminal:
            await store.finish(lease, [])
        elif lease.crashes > ALONE_CAP and self._root_id is None:
            await self._bury(
                lease,
                f"the process that handled it died {lease.crashes} times, "
                f"at least {ALONE_CAP} of them with nothing else in work",
            )
        elif lease.crashes and self._alone is not None:
            await self._work_alone(lease, self._alone)
        else:
            await self._carry(lease, task)

    async def _carry(self, lease: Lease, task: Task) -> None:
        try:
            equipment = await self._equip(task)
        except InputError as exc:
            if self._root_id is not None:
                self.left_to_others.add(task.task_id)
                await self._carrier.give_back(lease)
            else:
                await self._put_off(lease, str(exc))
            return
        response = await self._carrier.carry(
            lease, equipment, reason=_why(lease), leash=self._leash, outside_cancels=False
        )
        what = _LEFT.get(response.status, "settled")
        _LOG.info(what, extra=_of(lease, what, status=response.status))

    async def _work_alone(self, lease: Lease, alone: Alone) -> None:
        task_id = lease.message.task_id
        if reason := self._unstartable.pop(task_id, ""):
            await self._put_off(lease, reason)
            return
        # Given back before the child claims it: until then a death is not the message's fault.
        # Nothing is claimed meanwhile, or it would come back here.
        self._starting_alone += 1
        is_waiting = True

        def claimed() -> None:
            nonlocal is_waiting
            if is_waiting:
                is_waiting = False
                self._starting_alone -= 1
                self._ring()

        try:
            await self._carrier.give_back(lease)
            fault = await alone.carry(task_id, claimed)
        finally:
            claimed()
        if fault:
            self._unstartable[task_id] = fault
        _LOG.info("alone", extra=_of(lease, "alone", fault=fault))

    async def _put_off(self, lease: Lease, reason: str) -> None:
        await self._end(retry_later, lease, reason)

    async def _bury(self, lease: Lease, reason: str) -> None:
        await self._end(bury, lease, reason)

    async def _end(self, how: _Ending, lease: Lease, reason: str) -> None:
        carrier = self._carrier
        try:
            await how(
                carrier.store, lease, reason=reason, clock=carrier.clock, new_id=carrier.new_id
            )
        except StaleLeaseError:
            return
        except Exception as exc:  # the boundary of a task, again: others must not end by it
            _LOG.error("task %s is given back: %s", lease.message.task_id, exc, exc_info=exc)
            await carrier.give_back(lease)
            await anyio.sleep(_AFTER_FAULT_S)


def _why(lease: Lease) -> str:
    """Why a task that was begun goes on."""
    if lease.crashes:
        return f"after {lease.crashes} crash(es)"
    if lease.message.message_type == "task.dispatch":
        return "given back by another process"
    return "what it waited for has come"


def _of(lease: Lease, event: str, **more: object) -> dict[str, object]:
    message = lease.message
    return _fields(
        event,
        task_id=message.task_id,
        agent=message.receiver,
        message=message.message_type,
        attempts=lease.attempts,
        crashes=lease.crashes,
        **more,
    )


def _fields(event: str, **fields: object) -> dict[str, object]:
    return {"hermes": {"event": f"worker.{event}", **fields}}
