"""Appends that one statement can do, for leases whose tasks this process wrote last.

Where a task stands need not be read if it still stands as this process left it. The statement makes
sure of that and of the lease; if it changes nothing, a transaction finds out why.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hermes.core.clock import to_micros
from hermes.core.task import TaskStatus
from hermes.errors import HermesError
from hermes.store.postgres_writes import Change
from hermes.store.rows import StoredEvent, encode_status
from hermes.store.rules import advance, check_stream
from hermes.store.values import Lease

_KEPT = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """How a lease's holder left its task."""

    trace_id: str
    status: TaskStatus
    encoded: bytes


@dataclass(frozen=True, slots=True)
class NextAppend:
    """An append to a task that must stand as it was left.

    Attributes:
        fence: The lease, how the task stood and how it is to stand; by parameter.
        rows: The events.
        written: How the append leaves the task.
    """

    fence: Mapping[str, object]
    rows: Sequence[StoredEvent]
    written: Written

    @property
    def event_ids(self) -> list[bytes]:
        """Of all its events."""
        return [row[1] for row in self.rows]


class LastWrites:
    """What this process wrote last, by lease; the eldest are forgotten."""

    def __init__(self) -> None:
        self._written: OrderedDict[tuple[str, int], Written] = OrderedDict()

    def note(self, lease: Lease, written: Written | None) -> None:
        """Keep how a committed append left the lease's task."""
        if written is None:
            return
        key = (lease.message.message_id, lease.token)
        self._written[key] = written
        self._written.move_to_end(key)
        if len(self._written) > _KEPT:
            self._written.popitem(last=False)

    def next(self, lease: Lease, change: Change) -> NextAppend | None:
        """The append, if a statement is enough; any doubt is left to the transaction."""
        last = self._written.get((lease.message.message_id, lease.token))
        batch = change.batch
        if last is None or not change.is_plain or not batch.rows or batch.uses:
            return None
        try:
            check_stream(batch.records, task_id=lease.message.task_id, trace_id=last.trace_id)
            status = advance(last.status, batch.records)
        except HermesError:
            return None
        written = Written(trace_id=last.trace_id, status=status, encoded=encode_status(status))
        fence = {
            "message_id": lease.message.message_id,
            "task_id": lease.message.task_id,
            "worker_id": lease.worker_id,
            "token": lease.token,
            "known": last.encoded,
            "updated_at": to_micros(status.updated_at),
            "status": written.encoded,
            "state": status.state.value,
        }
        return NextAppend(fence, batch.rows, written)
