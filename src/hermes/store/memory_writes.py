"""A write to the journal in dictionaries: checked whole, then carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hermes.core import json
from hermes.core.events import Recorded
from hermes.core.message import Message
from hermes.core.task import TaskStatus
from hermes.errors import NotFoundError
from hermes.store.memory_lanes import MemoryLanes
from hermes.store.memory_streams import MemoryStreams, Stream
from hermes.store.memory_waits import MemoryWaits
from hermes.store.rules import advance, check_stream
from hermes.store.values import NOTHING, Also, EffectRow, Lease, NewTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A write that was checked and can no longer fail.

    Attributes:
        status: The status after it; None where the events are stored already, or there are none.
    """

    stream: Stream | None
    records: Sequence[Recorded]
    blobs: Mapping[str, bytes]
    status: TaskStatus | None
    messages: Sequence[Message]
    children: Sequence[NewTask]
    also: Also
    effects: Mapping[tuple[str, str, str], EffectRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWrites:
    """Writes to all that a store in memory holds."""

    streams: MemoryStreams
    lanes: MemoryLanes
    waits: MemoryWaits

    def create(self, new: NewTask) -> None:
        """Add a task that was checked, and its message."""
        self.streams.create(new)
        self.lanes.put(new.message)

    def plan(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        messages: Sequence[Message],
        blobs: Mapping[str, bytes],
        also: Also,
    ) -> Plan:
        """Check everything about a write, or raise."""
        task_id = lease.message.task_id
        stream = self.streams.find(task_id)
        if stream is None and (records or also):
            raise NotFoundError(f"there is no task {task_id!r} to write to")
        status = None
        if stream is not None and records:
            check_stream(records, task_id=task_id, trace_id=stream.task.trace_id)
            if stream.holds(records):
                also = NOTHING
            else:
                status = advance(stream.task.status, records)
                self.streams.check_new_ids(records)
        children = self._new_children(also.children)
        return Plan(
            stream=stream,
            records=records,
            blobs=blobs,
            status=status,
            messages=self.lanes.fresh([*(new.message for new in children), *messages])[
                len(children) :
            ],
            children=children,
            also=also,
            effects=self.waits.check_effects(also.effects),
        )

    def carry_out(self, plan: Plan, *, token: int) -> None:
        """Write it."""
        stream = plan.stream
        self.streams.blobs |= plan.blobs
        was_open = stream is not None and stream.is_open
        if stream is not None:
            stream.blobs |= plan.blobs.keys()
        if stream is not None and plan.status is not None:
            self.streams.add(stream, plan.records, plan.status, token=token)
        for child in plan.children:
            self.create(child)
        self.waits.take_in(plan.also.ended_waits)
        for review in plan.also.reviews:
            self.waits.reviews.setdefault(
                review.review_id,
                replace(review, data=json.as_object(plain(dict(review.data))) or {}),
            )
        self.waits.begin(plan.also.waits)
        self.waits.effects |= plan.effects
        if stream is not None and was_open and not stream.is_open:
            self.waits.settled(stream.task)
        self.lanes.put(*plan.messages)

    def _new_children(self, children: Sequence[NewTask]) -> list[NewTask]:
        fresh = self.lanes.fresh([child.message for child in children])
        by_id = {child.message.message_id: child for child in children}
        new = [by_id[message.message_id] for message in fresh]
        for child in new:
            self.streams.check_new(child)
        return new


def plain(value: object) -> object:
    """A copy of plain JSON, as a store with a file would give it back."""
    return json.loads(json.encode(value))
