"""The journal in dictionaries: nothing outlives the process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeVar

from hermes.core import json
from hermes.core.budget import Bounds, Draw, Drawn
from hermes.core.clock import Clock, to_micros
from hermes.core.codec import to_plain
from hermes.core.events import Recorded, ReviewDecision
from hermes.core.message import Message
from hermes.core.quota import Meter
from hermes.core.task import Task
from hermes.core.todo import Todo
from hermes.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    StaleLeaseError,
    StoreUnavailableError,
)
from hermes.store.budgets import TreeBudget
from hermes.store.budgets_memory import MemoryBudgets
from hermes.store.deeds import BEGINNING, PAGE, TYPES, Deed, Place
from hermes.store.hints import Hints
from hermes.store.memory_lanes import MemoryLanes
from hermes.store.memory_prune import MemoryPruning
from hermes.store.memory_streams import MemoryStreams
from hermes.store.memory_waits import MemoryWaits
from hermes.store.memory_writes import MemoryWrites, plain
from hermes.store.queries import migrations
from hermes.store.rows import prepare, todo_row
from hermes.store.rules import (
    check_blobs,
    encode_all,
    has_ended,
    new_task,
    settles_again,
)
from hermes.store.values import (
    NO_BLOBS,
    NOTHING,
    Also,
    EffectRow,
    Lease,
    MessageRow,
    NewTask,
    Pruned,
    Review,
    StoreStatus,
    Submitted,
    TaskQuery,
    Wait,
    Worker,
)

R = TypeVar("R")


class MemoryStore:
    """A `Store` without a file, for one event loop.

    Every method checks all it has to before it changes anything, and never waits: so it is a
    transaction. Events are kept as they are given, without copying their texts.

    Args:
        clock: Decides when a delayed message is due.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._workers: dict[str, Worker] = {}
        self._todos: dict[str, Todo] = {}
        self._meters: dict[str, Meter] = {}
        self._lanes = MemoryLanes(clock)
        self._streams = streams = MemoryStreams()
        self._waits = MemoryWaits(clock, self._lanes, streams.find_task, streams.has_unsettled)
        self._writes = MemoryWrites(streams=streams, lanes=self._lanes, waits=self._waits)
        self._budgets = MemoryBudgets(streams)
        self._hints = Hints()

    @property
    def run_dir(self) -> None:
        return None

    async def __aenter__(self) -> MemoryStore:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        return None

    async def submit(
        self, records: Sequence[Recorded], message: Message, *, claim_for: str | None = None
    ) -> Submitted:
        task = new_task(records, message)
        encode_all(records)
        json.encode(message.to_wire())
        earlier = self._lanes.accepted_task(message)
        if earlier is not None:
            if earlier not in self._streams:
                raise ConflictError(
                    f"message {message.message_id} or its dedupe key was sent before, "
                    "without creating a task"
                )
            return Submitted(task_id=earlier, is_new=False)
        new = NewTask(records=records, message=message)
        self._streams.check_new(new)
        self._writes.create(new)
        queued = self._lanes.find(message.message_id)
        lease = None
        if claim_for in self._workers and queued is not None and queued.state == "ready":
            lease = self._lanes.take(queued, claim_for)
        self._hints.give()
        return Submitted(task_id=task.task_id, is_new=True, lease=lease)

    async def claim(
        self,
        worker_id: str,
        *,
        receivers: Sequence[str] = (),
        task_id: str | None = None,
        root_id: str | None = None,
        limit: int = 1,
    ) -> list[Lease]:
        if limit < 1:
            raise InputError(f"a claim takes at least 1 message, got limit {limit}")
        self._check_worker(worker_id)
        self._hints.look()
        self._lanes.promote_due()
        ready = [
            queued
            for queued in self._lanes
            if queued.state == "ready"
            and (not receivers or queued.message.receiver in receivers)
            and task_id in (None, queued.message.task_id)
            and (root_id is None or self._streams.is_below(queued.message.task_id, root_id))
        ]
        ready.sort(key=lambda queued: (-queued.message.priority, queued.place))
        return [self._lanes.take(queued, worker_id) for queued in ready[:limit]]

    async def append(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        messages: Sequence[Message] = (),
        blobs: Mapping[str, bytes] = NO_BLOBS,
        also: Also = NOTHING,
    ) -> None:
        self._check_input(lease, records, blobs, also)
        if self._lanes.held(lease) is None:
            raise StaleLeaseError(lease.message.message_id, token=lease.token)
        self._writes.carry_out(
            self._writes.plan(lease, records, messages, blobs, also), token=lease.token
        )
        self._hints.give()

    async def finish(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        messages: Sequence[Message] = (),
        blobs: Mapping[str, bytes] = NO_BLOBS,
        also: Also = NOTHING,
    ) -> None:
        self._check_input(lease, records, blobs, also)
        held = self._lanes.held(lease)
        if held is None:
            self._check_repeat(lease, records, left=None)
            return
        plan = None
        if not self._is_settled_again(lease, records):
            plan = self._writes.plan(lease, records, messages, blobs, also)
        self._lanes.remove(held)
        if plan is not None:
            self._writes.carry_out(plan, token=lease.token)
        self._leave(lease)

    async def fail(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        retry_at: datetime | None,
        reason: str,
        also: Also = NOTHING,
    ) -> None:
        self._check_input(lease, records, NO_BLOBS, also)
        held = self._lanes.held(lease)
        if held is None:
            self._check_repeat(lease, records, left="dead" if retry_at is None else "queued")
            return
        plan = None
        if not self._is_settled_again(lease, records):
            plan = self._writes.plan(lease, records, (), NO_BLOBS, also)
        held.worker_id, held.attempts = None, held.attempts + 1
        held.reason = reason.encode("utf-8", "replace").decode()
        if retry_at is None:
            held.state = "dead"
        else:
            self._lanes.requeue(held, retry_at)
        if plan is not None:
            self._writes.carry_out(plan, token=lease.token)
        self._leave(lease, is_dead=retry_at is None)

    async def release(self, lease: Lease) -> None:
        held = self._lanes.held(lease)
        if held is None:
            raise StaleLeaseError(lease.message.message_id, token=lease.token)
        held.state, held.worker_id = "ready", None
        self._hints.give()

    async def send(self, message: Message) -> bool:
        fresh = self._lanes.fresh([message])
        self._lanes.put(*fresh)
        self._hints.give()
        return bool(fresh)

    async def decide(
        self, review_id: str, decision: ReviewDecision, *, answer: object = None, by: str
    ) -> Review:
        json.encode(by)
        self._hints.give()
        return self._waits.decide(review_id, decision, answer=plain(answer), by=by)

    async def signal(self, name: str, payload: object = None) -> bool:
        json.encode(name)
        self._hints.give()
        return self._waits.signal(name, plain(payload))

    async def draw(self, lease: Lease, wanted: Draw) -> Drawn:
        if self._lanes.held(lease) is None:
            raise StaleLeaseError(lease.message.message_id, token=lease.token)
        return self._budgets.draw(lease.message.task_id, wanted)

    async def put_budget(self, root_id: str, bounds: Bounds) -> None:
        self._budgets.put(root_id, bounds)

    async def meter(self, key: str, turn: Callable[[Meter, int], tuple[Meter, R]]) -> R:
        now = to_micros(self._clock.now())
        self._meters[key], result = turn(self._meters.get(key) or Meter(), now)
        return result

    async def put_todo(self, todo: Todo) -> Todo:
        todo_row(todo)
        kept = self._todos.setdefault(todo.todo_id, todo)
        if kept.done_at is None and todo.done_at is not None:
            kept = self._todos[todo.todo_id] = replace(kept, done_at=todo.done_at)
        return kept

    async def request_cancel(self, task_id: str) -> list[str]:
        top = self._streams.get(task_id).task.task_id
        marked = [
            stream
            for stream in self._streams
            if stream.is_open and self._streams.is_below(stream.task.task_id, top)
        ]
        for stream in marked:
            stream.cancel_requested = True
        for stream in marked:
            self._waits.nudge(stream.task)
        self._hints.give()
        return [stream.task.task_id for stream in marked]

    async def task(self, task_id: str) -> Task:
        return self._streams.get(task_id).task

    async def tasks(self, query: TaskQuery) -> list[Task]:
        return self._streams.query(query)

    async def events(self, task_id: str, *, after: int = 0) -> list[Recorded]:
        stream = self._streams.find(task_id)
        return [] if stream is None else stream.records[max(after, 0) :]

    async def blob(self, sha256: str) -> bytes:
        blobs = self._streams.blobs
        if sha256 not in blobs:
            raise NotFoundError(f"no blob {sha256!r:.80} is stored")
        return blobs[sha256]

    async def messages(
        self, *, task_id: str | None = None, lane: str | None = None
    ) -> list[MessageRow]:
        return [
            queued.row()
            for queued in self._lanes
            if task_id in (None, queued.message.task_id) and lane in (None, queued.message.lane)
        ]

    async def waits(self, task_id: str) -> list[Wait]:
        now = self._clock.now()
        return [replace(each, ended=has_ended(each, now)) for each in self._waits.of_task(task_id)]

    async def review(self, review_id: str) -> Review:
        return self._waits.review(review_id)

    async def reviews(
        self, *, task_id: str | None = None, is_open: bool | None = True, limit: int = 100
    ) -> list[Review]:
        found = [
            review
            for review in self._waits.reviews.values()
            if task_id in (None, review.task_id) and is_open in (None, review.decision is None)
        ]
        return found[:limit]

    async def effect(self, scope: str, tool: str, key: str) -> EffectRow | None:
        return self._waits.effects.get((scope, tool, key))

    async def budget(self, root_id: str) -> TreeBudget:
        return self._budgets.budget(root_id)

    async def deeds(
        self, *, after: Place = BEGINNING, since: datetime | None = None, limit: int = PAGE
    ) -> list[Deed]:
        found: list[Deed] = []
        for place, stream in enumerate(self._streams):
            if place < after[0] or (since and stream.task.status.updated_at < since):
                continue
            for record in stream.records:
                event, here = record.event, (place, record.seq)
                if here > after and record.token and event.type in TYPES and len(found) < limit:
                    agent, data = stream.task.spec.agent, to_plain(event)
                    found.append(
                        Deed(place=here, agent=agent, at=record.at, type=event.type, data=data)
                    )
        return found

    async def todos(self, *, is_open: bool = True, limit: int = 100) -> list[Todo]:
        kept = list(self._todos.values())
        if is_open:
            return [todo for todo in kept if todo.done_at is None][:limit]
        return kept[::-1][:limit]

    async def cancels(self, worker_id: str) -> list[str]:
        held = {queued.message.task_id for queued in self._lanes if queued.worker_id == worker_id}
        return [
            stream.task.task_id
            for stream in self._streams
            if stream.task.task_id in held and stream.cancel_requested and stream.is_open
        ]

    async def work_hint(self, timeout_s: float) -> None:
        await self._hints.wait(timeout_s, self._pulse)

    async def register(self, worker: Worker) -> None:
        self._workers[worker.worker_id] = worker

    async def renew(self, worker_id: str) -> bool:
        worker = self._workers.get(worker_id)
        if worker is None:
            return False
        self._workers[worker_id] = replace(worker, renewed_at=self._clock.now())
        return True

    async def retire(self, worker_id: str, *, crashed: bool) -> int:
        self._workers.pop(worker_id, None)
        freed = [queued for queued in self._lanes if queued.worker_id == worker_id]
        for queued in freed:
            queued.state, queued.worker_id = "ready", None
            queued.crashes += int(crashed)
        self._hints.give()
        return len(freed)

    async def workers(self) -> list[Worker]:
        return [self._workers[worker_id] for worker_id in sorted(self._workers)]

    async def status(self) -> StoreStatus:
        newest = migrations()[-1][0]
        return StoreStatus(
            backend="memory",
            version=newest,
            newest=newest,
            size_bytes=0,
            tasks=_counts(stream.task.state for stream in self._streams),
            messages=_counts(queued.state for queued in self._lanes),
            workers=len(self._workers),
            open_reviews=sum(each.decision is None for each in self._waits.reviews.values()),
            notes=["kept in memory: everything is lost when this process ends"],
        )

    async def backup(self, target: Path) -> None:
        raise StoreUnavailableError(
            "a store in memory has no file to copy", hint="use a database URL that names one"
        )

    async def prune(self, before: datetime, *, dry_run: bool = False) -> Pruned:
        pruning = MemoryPruning(
            streams=self._streams,
            lanes=self._lanes,
            waits=self._waits,
            budgets=self._budgets,
            before=before,
        )
        return pruning.prune(dry_run=dry_run)

    async def _pulse(self) -> tuple[int, bool]:
        return 0, self._lanes.is_due()

    def _check_worker(self, worker_id: str) -> None:
        if worker_id not in self._workers:
            raise NotFoundError(f"worker {worker_id!r} is not registered", hint="register it again")

    def _check_input(
        self, lease: Lease, records: Sequence[Recorded], blobs: Mapping[str, bytes], also: Also
    ) -> None:
        check_blobs(blobs)
        encode_all(records)
        prepare(also, lease.message.task_id)

    def _leave(self, lease: Lease, *, is_dead: bool = False) -> None:
        """A lease ends: its lane moves on, and a task to be cancelled is not left alone."""
        self._lanes.advance(lease.message.lane)
        self._hints.give()
        stream = self._streams.find(lease.message.task_id)
        # A dead message is looked at by a person, who may ask again for the task to be cancelled.
        if is_dead or stream is None or not stream.is_open:
            return
        if stream.cancel_requested:
            self._waits.nudge(stream.task)

    def _check_repeat(
        self, lease: Lease, records: Sequence[Recorded], *, left: Literal["queued", "dead"] | None
    ) -> None:
        """Let the repeated end of a message pass if this lease wrote these very events at it."""
        queued = self._lanes.find(lease.message.message_id)
        state = None if queued is None else queued.state
        if left == "queued":
            is_left = state in ("delayed", "held", "ready")
        else:
            is_left = state is None or state == left
        if not is_left or not self._streams.wrote(lease.token, records):
            raise StaleLeaseError(lease.message.message_id, token=lease.token)

    def _is_settled_again(self, lease: Lease, records: Sequence[Recorded]) -> bool:
        stream = self._streams.find(lease.message.task_id)
        return stream is not None and settles_again(stream.task.status, records)


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(str(name) for name in names).items()))
