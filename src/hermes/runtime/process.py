"""A process that takes work: registered, renewed, and provably alive while it lives."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup

from hermes.core.clock import Clock
from hermes.core.failpoints import hit
from hermes.core.ids import NewUUID, uuid7
from hermes.errors import StaleLeaseError, StoreBrokenError, StoreError
from hermes.store import Lease, Store, Worker

from .holds import Hold, Leash
from .locks import LEASE_S, LifeLock, new_worker_id
from .reaper import Reaper

HEARTBEAT_S = 10.0
CANCELS_EVERY_S = 1.0

_LOG = logging.getLogger("hermes.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """How long a lease holds, and how often it is renewed.

    Attributes:
        margin_s: A lease is not trusted any more so long before its end.
    """

    lease_s: float = LEASE_S
    heartbeat_s: float = HEARTBEAT_S

    @property
    def margin_s(self) -> float:
        return self.lease_s / 5


class WorkerProcess:
    """This process as a worker of one store.

    While it lives it renews its lease, retires workers that are gone, stops its own work when the
    lease cannot be trusted, and cancels what is to be cancelled.

    Attributes:
        is_dead: It was declared dead: what it held goes on elsewhere.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        new_id: NewUUID = uuid7,
        times: LeaseTimes | None = None,
        worker_id: str | None = None,
    ) -> None:
        self._store, self._clock, self._times = store, clock, times or LeaseTimes()
        self.worker_id = worker_id or new_worker_id(new_id)
        self.is_dead = False
        self._lock = LifeLock(self.worker_id, store.run_dir)
        self._reaper = Reaper(store, clock=clock, lease_s=self._times.lease_s)
        self._leash = Leash()
        self._to_release: list[Lease] = []
        self._renewed_at = clock.monotonic()
        self._beat_now = anyio.Event()

    async def start(self, group: TaskGroup) -> None:
        """Register, and go on renewing in `group` until that is cancelled.

        Raises:
            StoreUnavailableError: The lock file cannot be made.
            StoreError: The store cannot take the worker in.
        """
        self._lock.take()
        self._renewed_at = self._clock.monotonic()
        worker = Worker(
            worker_id=self.worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            lock_path=str(self._lock.path or ""),
            renewed_at=self._clock.now(),
        )
        try:
            hit("runtime.register.before")
            await self._store.register(worker)
            hit("runtime.register.after")
        except BaseException:
            self._lock.release()
            raise
        group.start_soon(self._beat)
        group.start_soon(self._look_out)
        group.start_soon(self._follow_cancels)

    async def stop(self) -> None:
        """Give back what is still held and leave no trace.

        One that was declared dead keeps its lock as long as its process: a thread of its may still
        be at work on what it held.
        """
        if self.is_dead:
            return
        self.is_dead = True
        with anyio.CancelScope(shield=True):
            try:
                hit("runtime.stop.before")
                await self._store.retire(self.worker_id, crashed=False)
                hit("runtime.stop.after")
            except StoreBrokenError as exc:
                _LOG.debug("worker %s leaves its row: %s", self, exc)  # its lock tells the others
            finally:
                self._lock.release()

    @contextmanager
    def hold(
        self, lease: Lease, *, leash: Leash | None = None, outside_cancels: bool = True
    ) -> Generator[Hold]:
        """Work on a leased task inside the block.

        A block that was ended through the hold is left without an exception.

        Args:
            lease: The right to its message.
            leash: What it is stopped with.
            outside_cancels: A cancellation of the caller is a wish to cancel the task.
        """
        hold = Hold(lease, is_ours=self.is_alive, outside_cancels=outside_cancels)
        leashes = [self._leash] if leash is None else [self._leash, leash]
        for each in leashes:
            each.add(hold)
        try:
            with hold.scope:
                yield hold
        finally:
            for each in leashes:
                each.holds.discard(hold)

    def is_alive(self) -> bool:
        """Whether its leases surely hold.

        A process that was frozen finds out here before it calls anything; the fence in every write
        of the store is the last line.
        """
        return not self.is_dead and not self._is_overdue()

    def declared_dead(self) -> None:
        """End what it holds: others took it for dead and go on with that."""
        if not self.is_dead:
            _LOG.error("worker %s was declared dead; its work goes on elsewhere", self)
        self.is_dead = True
        self._leash.interrupt()

    async def give_back(self, lease: Lease) -> None:
        """Let others have a task at once; where the store is away, as soon as it is back."""
        with anyio.CancelScope(shield=True):
            try:
                await self._store.release(lease)
            except StaleLeaseError:
                return  # it was finished, or is another's by now
            except StoreError as exc:
                _LOG.debug("task %s: %s", lease.message.task_id, exc)
                self._to_release.append(lease)

    def _is_overdue(self) -> bool:
        silent_s = self._clock.monotonic() - self._renewed_at
        return silent_s >= self._times.lease_s - self._times.margin_s

    async def _renew(self) -> bool:
        began = self._clock.monotonic()
        if not await self._store.renew(self.worker_id):
            self.declared_dead()
            return False
        self._renewed_at = began
        return True

    async def _beat(self) -> None:
        beats_s = self._times.heartbeat_s
        while not self.is_dead:
            self._beat_now = anyio.Event()
            with anyio.move_on_after(beats_s):
                await self._beat_now.wait()
            try:
                if self._is_overdue():
                    self._reaper.begin_again()
                if await self._renew():
                    await self._release_the_rest()
                    await self._reaper.sweep()
            except StoreError as exc:
                self._reaper.begin_again()
                _LOG.warning("worker %s could not renew its lease: %s", self, exc)

    async def _release_the_rest(self) -> None:
        while self._to_release:
            with suppress(StaleLeaseError):
                await self._store.release(self._to_release[-1])
            self._to_release.pop()

    async def _look_out(self) -> None:
        """End all work when the lease is no longer to be trusted."""
        margin_s = self._times.margin_s
        while not self.is_dead:
            await anyio.sleep(min(1.0, margin_s / 2))
            if not self._is_overdue():
                continue
            self._beat_now.set()
            await anyio.sleep(margin_s / 2)  # frozen for a while, it may still be in time
            if self._is_overdue() and self._leash.holds:
                _LOG.error("worker %s could not renew its lease in time; it stops its work", self)
                self._leash.interrupt()

    async def _follow_cancels(self) -> None:
        while not self.is_dead:
            await anyio.sleep(CANCELS_EVERY_S)
            if self._leash.holds:
                await self._take_cancels()

    async def _take_cancels(self) -> None:
        try:
            wanted = await self._store.cancels(self.worker_id)
        except StoreError as exc:
            _LOG.debug("worker %s could not look for cancelled tasks: %s", self, exc)
            return
        for hold in self._leash.holds:
            if hold.task_id in wanted:
                hold.cancel()

    def __str__(self) -> str:
        return self.worker_id
