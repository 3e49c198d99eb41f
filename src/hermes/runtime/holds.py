"""A task in work, as those see it who may have to stop it."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from hermes.errors import StaleLeaseError
from hermes.store import Lease


class Hold:
    """One leased task in work: its cancel scope, and why it is to stop.

    Args:
        lease: The right to its message.
        is_ours: Tells, before each step, whether the lease surely holds.
        outside_cancels: A cancellation from outside is a wish to cancel the task.

    Attributes:
        scope: What the work runs in.
    """

    def __init__(
        self, lease: Lease, *, is_ours: Callable[[], bool], outside_cancels: bool = True
    ) -> None:
        self.lease, self._is_ours = lease, is_ours
        self._cancelled = outside_cancels
        self.scope = anyio.CancelScope()
        self._stops = False
        self._interrupted = False

    @property
    def task_id(self) -> str:
        return self.lease.message.task_id

    def should_stop(self) -> bool:
        """Whether the work is to end at the next step border, to be gone on with later."""
        return self._stops

    def interrupted(self) -> bool:
        """Whether the work ends in the middle of a step and is to write nothing more."""
        return self._interrupted or not self._cancelled

    def check(self) -> None:
        """Make sure that the lease holds; asked before each call of a model or tool.

        Raises:
            StaleLeaseError: It does not, or nobody knows.
        """
        if not self._is_ours():
            raise StaleLeaseError(self.lease.message.message_id, token=self.lease.token)

    def stop(self) -> None:
        """Have it end at the next step border."""
        self._stops = True

    def cancel(self) -> None:
        """End it now; the run records that it was cancelled."""
        self._cancelled = True
        self.scope.cancel()

    def interrupt(self) -> None:
        """End it now, and have it record nothing: it goes on later, here or elsewhere."""
        if not self.scope.cancel_called:
            self._interrupted = True
        self._stops = True
        self.scope.cancel()


class Leash:
    """Works that are stopped together."""

    def __init__(self) -> None:
        self.holds: set[Hold] = set()
        self._is_stopping = False

    def add(self, hold: Hold) -> None:
        """Take in a work that begins; if the others were told to stop, so is this one."""
        self.holds.add(hold)
        if self._is_stopping:
            hold.stop()

    def stop(self) -> None:
        """Have all of them end at their next step border, also those still to come."""
        self._is_stopping = True
        for hold in self.holds:
            hold.stop()

    def interrupt(self) -> None:
        """End those that are there in the middle of their step."""
        for hold in self.holds:
            hold.interrupt()
