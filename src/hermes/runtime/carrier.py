"""Carries leased tasks in this process, as one registered worker."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio
from anyio.abc import TaskGroup

from hermes.agents import Equipment, Executor, Holding, response_of
from hermes.core.clock import Clock
from hermes.core.events import Recorded, TaskResumed, TaskStarted
from hermes.core.failpoints import hit
from hermes.core.ids import NewUUID
from hermes.core.request import AgentResponse
from hermes.core.task import TaskState
from hermes.errors import NotFoundError
from hermes.loop import Decision, Observer, wants_cancel
from hermes.store import Lease, Store

from .claiming import claim_task, claimed
from .holds import Hold, Leash
from .locks import are_proved_dead, is_gone, is_proved_dead
from .process import LeaseTimes, WorkerProcess
from .reaper import take_over

_LOG = logging.getLogger("hermes.worker")
_LEFT_BY_ITSELF = frozenset({*(state.value for state in TaskState if state.is_terminal), "waiting"})


class Carrier:
    """The worker of this process, registered on first use, and the work on what it claimed.

    Args:
        store: Where the tasks are.
        group: Its heartbeats run there.
        clock: Where time comes from.
        new_id: Where new ids come from.
        times: How long its lease holds.
        worker_id: A name that somebody else gave it; a new one by default.
    """

    def __init__(
        self,
        store: Store,
        *,
        group: TaskGroup,
        clock: Clock,
        new_id: NewUUID,
        times: LeaseTimes,
        worker_id: str | None = None,
    ) -> None:
        self.store, self.clock, self.new_id = store, clock, new_id
        self.times = times
        self._group, self._worker_id = group, worker_id
        self._executor = Executor(store, clock=clock, new_id=new_id)
        self._starting = anyio.Lock()
        self._process: WorkerProcess | None = None

    async def process(self) -> WorkerProcess:
        """This process as a worker; a new one where the last was declared dead."""
        if self._process is not None and not self._process.is_dead:
            return self._process
        async with self._starting:
            if self._process is not None and self._process.is_dead:
                self._process = None
            if self._process is None:
                process = WorkerProcess(
                    self.store,
                    clock=self.clock,
                    new_id=self.new_id,
                    times=self.times,
                    worker_id=self._worker_id,
                )
                self._worker_id = None
                await process.start(self._group)
                self._process = process
            return self._process

    async def close(self) -> None:
        """Give back everything and leave."""
        if self._process is not None:
            await self._process.stop()
            self._process = None

    async def claim(self, task_id: str) -> Lease:
        """Claim the message of one task; waits as `claim_task` does, and raises what it does."""
        process = await self.process()
        try:
            return await self._claim_task(process, task_id)
        except NotFoundError:
            if await self._is_registered(process):
                raise
            process.declared_dead()  # go on as a new worker
        return await self._claim_task(await self.process(), task_id)

    async def claim_ready(
        self,
        *,
        limit: int,
        receivers: Sequence[str] = (),
        task_id: str | None = None,
        root_id: str | None = None,
    ) -> list[Lease]:
        """Claim up to `limit` ready messages, of some receivers, one task or one tree."""
        process = await self.process()
        claim = self.store.claim(
            process.worker_id, receivers=receivers, task_id=task_id, root_id=root_id, limit=limit
        )
        try:
            leases = await claimed(self.store, claim, leases=lambda got: got)
        except NotFoundError:
            process.declared_dead()
            return []
        if leases:
            hit("runtime.claim.after")
        return leases

    async def reap(self, *, by_clock: bool) -> None:
        """Free what processes held that are gone; others are left to the heartbeats.

        Args:
            by_clock: Also of those that show no sign of life for longer than a lease, by the
                clock of this host: for one who does not stay to watch them.
        """
        await self.process()
        for row in await self.store.workers():
            if is_proved_dead(row) or (
                by_clock and is_gone(row, clock=self.clock, lease_s=self.times.lease_s)
            ):
                await take_over(self.store, row)

    async def carry(
        self,
        lease: Lease,
        equipment: Equipment,
        *,
        records: Sequence[Recorded] | None = None,
        reason: str = "",
        decision: Decision | None = None,
        leash: Leash | None = None,
        outside_cancels: bool = True,
    ) -> AgentResponse:
        """Work on a leased task until it is settled, waits, or has to be left to others.

        Args:
            lease: The right to its message; given back unless the work itself ended it, or a
                fault under a leash is to be told: who holds the leash then says what becomes of it.
            equipment: The agent to do it with.
            records: Its whole stream, where the caller knows it.
            reason: Why it is resumed, for the record.
            decision: A person's word on calls in doubt.
            leash: What the work is stopped with.
            outside_cancels: A cancellation of the caller is a wish to cancel the task; without,
                the task is left as it stands.
        """
        response: AgentResponse | None = None
        is_left = False
        try:
            # Inside: a caller that is cancelled here holds the lease already.
            if records is None:
                records = await self.store.events(lease.message.task_id)
            process = await self.process()
            with process.hold(lease, leash=leash, outside_cancels=outside_cancels) as hold:
                response = await self._executor.carry(
                    lease,
                    equipment,
                    records=records,
                    reason=reason,
                    decision=decision,
                    holding=self._holding(hold, records),
                )
        except Exception:
            is_left = leash is not None
            raise
        finally:
            if not is_left and (response is None or response.status not in _LEFT_BY_ITSELF):
                await self.give_back(lease)
        if response is None:  # it was ended through its hold
            return response_of(await self.store.events(lease.message.task_id))
        return response

    async def settle_if_cancelled(self, lease: Lease, observers: Sequence[Observer] = ()) -> bool:
        """Settle a leased task that is to be cancelled; False if nobody wishes that.

        A person may say so in a review: that needs neither the task's agent nor its program.
        """
        task_id = lease.message.task_id
        if task_id not in await self.store.cancels(lease.worker_id):
            if lease.message.message_type == "task.dispatch":  # it has not waited yet
                return False
            if not any(map(wants_cancel, await self.store.waits(task_id))):
                return False
            await self.store.request_cancel(task_id)  # and all below it
        await self.settle_cancelled(lease, observers)
        return True

    async def settle_cancelled(self, lease: Lease, observers: Sequence[Observer] = ()) -> None:
        """Settle a leased task as cancelled without working on it."""
        with anyio.CancelScope(shield=True):
            await self._executor.cancel(lease, observers)

    async def give_back(self, lease: Lease) -> None:
        """Let others have the task at once."""
        if self._process is not None:
            await self._process.give_back(lease)

    def _holding(self, hold: Hold, records: Sequence[Recorded]) -> Holding:
        return Holding(
            should_stop=hold.should_stop,
            interrupted=hold.interrupted,
            check_lease=hold.check,
            holder_is_gone=self._holders_are_gone(hold.lease, records),
            lease_s=self.times.lease_s,
        )

    def _holders_are_gone(self, lease: Lease, records: Sequence[Recorded]) -> bool:
        """Whether no other process can still be at a call that this task has begun.

        Also one that gave the message back may have left a thread to itself, which goes on.
        """
        return are_proved_dead(_workers(records) - {lease.worker_id}, self.store.run_dir)

    async def _claim_task(self, process: WorkerProcess, task_id: str) -> Lease:
        return await claim_task(
            self.store, process.worker_id, task_id, clock=self.clock, lease_s=self.times.lease_s
        )

    async def _is_registered(self, process: WorkerProcess) -> bool:
        return any(row.worker_id == process.worker_id for row in await self.store.workers())


def _workers(records: Sequence[Recorded]) -> set[str]:
    return {
        record.event.worker
        for record in records
        if isinstance(record.event, TaskStarted | TaskResumed)
    }
