"""The one way a run writes: events are noted, then committed under the run's lease."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import anyio

from hermes.core.budget import Draw, Drawn, Spent
from hermes.core.clock import Clock
from hermes.core.codec import sha256
from hermes.core.events import MessageHandled, Recorded, TaskEvent
from hermes.core.failpoints import hit
from hermes.core.ids import NewUUID
from hermes.core.task import Task, TaskState, apply, fold
from hermes.core.todo import Todo
from hermes.store import NOTHING, Also, EffectRow, Lease, NewTask, Review, TaskWriter, Wait

from .ledger import effect_row
from .state import RunState

_LOG = logging.getLogger("hermes.run")


class Observer(Protocol):
    """Watches a run; must return at once. What it raises is logged and changes nothing."""

    def recorded(self, record: Recorded) -> None:
        """An event is durable."""
        ...

    def delta(self, text: str, *, reasoning: bool = False) -> None:
        """A piece of a streamed reply has come."""
        ...

    def progress(self, path: str, text: str) -> None:
        """A running tool says what it does."""
        ...


@runtime_checkable
class CallObserver(Protocol):
    """An observer that also wants to know of calls before they are whole."""

    def call_begun(self, name: str) -> None:
        """A streamed reply has begun a tool call."""
        ...


def tell(observers: Sequence[Observer], word: Callable[[Observer], None]) -> None:
    """Say something to each observer; one that fails is logged and passed over."""
    for observer in observers:
        try:
            word(observer)
        except Exception:  # who watches must not stop what is watched
            _LOG.exception("an observer failed: %r", observer)


@dataclass(slots=True, kw_only=True)
class _Batch:
    """What the next commit writes."""

    records: list[Recorded] = field(default_factory=list[Recorded])
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    children: list[NewTask] = field(default_factory=list[NewTask])
    waits: list[Wait] = field(default_factory=list[Wait])
    ended_waits: list[str] = field(default_factory=list[str])
    reviews: list[Review] = field(default_factory=list[Review])
    effects: list[EffectRow] = field(default_factory=list[EffectRow])

    @property
    def also(self) -> Also:
        if not (self.effects or self.waits or self.ended_waits or self.children or self.reviews):
            return NOTHING
        return Also(
            children=self.children,
            waits=self.waits,
            ended_waits=self.ended_waits,
            reviews=self.reviews,
            effects=self.effects,
        )


class Journal:
    """Numbers a task's events, folds them, and hands them to the store.

    Noted events are folded at once and written by the next commit, so that an outcome and the next
    intent share a transaction. Nothing may act on a noted intent before its commit has returned.

    Attributes:
        unwritten: What the last commit was to write and did not.
    """

    def __init__(
        self,
        *,
        store: TaskWriter,
        lease: Lease,
        task: Task,
        state: RunState,
        clock: Clock,
        new_id: NewUUID,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.task = task
        self.state = state
        self._store, self._lease = store, lease
        self._clock, self._new_id = clock, new_id
        self._observers = observers
        self.is_finished = False
        self.unwritten: Sequence[Recorded] = ()
        self._batch = _Batch()
        self._lock = asyncio.Lock()

    async def put_todo(self, todo: Todo) -> Todo:
        """Keep a todo, which is no part of the task: written at once, and once."""
        return await self._store.put_todo(todo)

    async def draw(self, wanted: Draw) -> Drawn:
        """Draw on the budget of the task's tree, once what was noted is written."""
        await self.commit()
        return await self._store.draw(self._lease, wanted)

    @property
    def lease(self) -> Lease:
        return self._lease

    @property
    def spent(self) -> Spent:
        """What the task has used until this moment, the time since the last event included."""
        status = self.task.status
        if status.state != TaskState.PROCESSING:
            return status.spent
        since = (self._clock.now() - status.updated_at).total_seconds()
        spent = status.spent
        return Spent(
            steps=spent.steps,
            model_calls=spent.model_calls,
            tool_calls=spent.tool_calls,
            usage=spent.usage,
            seconds=spent.seconds + max(0.0, since),
        )

    def note(self, event: TaskEvent) -> None:
        """Number an event and fold it; the next commit writes it.

        Raises:
            TransitionError: It does not fit the task's state.
        """
        record = Recorded(
            event_id=self._new_id().hex,
            task_id=self.task.task_id,
            seq=self.task.status.seq + 1,
            event=event,
            at=self._clock.now(),
            trace_id=self.task.trace_id,
            token=self._lease.token,
        )
        self.task = self.task.at(apply(self.task.status, record))
        effect = effect_row(self.task.task_id, self.state.started, event)
        if effect is not None:
            self._batch.effects.append(effect)
        self.state.follow(event)
        self._batch.records.append(record)

    def new_records(
        self, events: Sequence[TaskEvent], *, task_id: str, trace_id: str
    ) -> list[Recorded]:
        """The first events of another task, numbered from 1."""
        now = self._clock.now()
        return [
            Recorded(
                event_id=self._new_id().hex,
                task_id=task_id,
                seq=seq,
                event=event,
                at=now,
                trace_id=trace_id,
            )
            for seq, event in enumerate(events, 1)
        ]

    def begin_waits(
        self, *, waits: Iterable[Wait], reviews: Iterable[Review], children: Iterable[NewTask]
    ) -> None:
        """Have the next commit begin waits, ask people, and make child tasks."""
        self._batch.waits += waits
        self._batch.reviews += reviews
        self._batch.children += children

    def end_waits(self, wait_ids: Iterable[str]) -> None:
        """Have the next commit remove waits whose answer was noted, or that nobody needs."""
        self._batch.ended_waits += wait_ids

    def reload(self, records: Sequence[Recorded]) -> None:
        """Forget what was noted and not written, and stand where the stored events do."""
        task = fold(records)
        assert task is not None
        self.task, self.state = task, RunState.of(record.event for record in records)
        self._batch = _Batch()

    def keep(self, data: bytes) -> str:
        """Put a blob beside the noted events; returns its SHA-256."""
        name = sha256(data)
        self._batch.blobs[name] = data
        return name

    async def commit(self) -> None:
        """Write what was noted; durable on return, and not stopped half-way by a cancellation.

        Raises:
            StaleLeaseError: Another worker has the task now; nothing was written.
            EffectTakenError: A business key is another call's; nothing was written, and what was
                noted is to be thrown away by `reload`.
        """
        with anyio.CancelScope(shield=True):
            await self._commit()

    async def _commit(self) -> None:
        async with self._lock:
            batch = self._take()
            also = batch.also
            if batch.records or also:
                hit("loop.commit.before")
                self.unwritten = batch.records
                await self._store.append(self._lease, batch.records, blobs=batch.blobs, also=also)
                self.unwritten = ()
                hit("loop.commit.after")
                self._tell(batch.records)

    async def finish(self) -> None:
        """Write what was noted and end the message that the lease is for."""
        with anyio.CancelScope(shield=True):
            await self._finish()

    async def _finish(self) -> None:
        async with self._lock:
            self.note(MessageHandled(message_id=self._lease.message.message_id))
            batch = self._take()
            hit("loop.finish.before")
            self.unwritten = batch.records
            await self._store.finish(self._lease, batch.records, blobs=batch.blobs, also=batch.also)
            self.unwritten = ()
            self.is_finished = True
            hit("loop.finish.after")
            self._tell(batch.records)

    def delta(self, text: str, *, reasoning: bool = False) -> None:
        """Pass a piece of a streamed reply on to the observers; it is not recorded."""
        tell(self._observers, lambda observer: observer.delta(text, reasoning=reasoning))

    def call_begun(self, name: str) -> None:
        """Tell the observers that want to know that a streamed reply has begun a tool call."""
        for observer in self._observers:
            if isinstance(observer, CallObserver):
                wanting: CallObserver = observer
                tell([observer], lambda _, wanting=wanting: wanting.call_begun(name))

    def progress(self, path: str, text: str) -> None:
        """Pass a tool's words on to the observers."""
        tell(self._observers, lambda observer: observer.progress(path, text))

    def _take(self) -> _Batch:
        batch, self._batch = self._batch, _Batch()
        return batch

    def _tell(self, records: Sequence[Recorded]) -> None:
        for record in records if self._observers else ():
            tell(self._observers, lambda observer, record=record: observer.recorded(record))
