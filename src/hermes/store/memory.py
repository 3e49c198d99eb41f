"""The journal in dictionaries: nothing outlives the process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from hermes.core import json
from hermes.core.clock import Clock
from hermes.core.events import Recorded, ReviewDecision
from hermes.core.message import Message
from hermes.core.task import Task, TaskStatus
from hermes.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    StaleLeaseError,
    StoreUnavailableError,
)
from hermes.store.base import (
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
from hermes.store.hints import Hints
from hermes.store.memory_lanes import MemoryLanes
from hermes.store.memory_waits import MemoryWaits
from hermes.store.queries import migrations
from hermes.store.rows import prepare
from hermes.store.rules import (
    advance,
    blob_names,
    check_blobs,
    check_stream,
    encode_all,
    has_ended,
    new_task,
    settles_again,
)


@dataclass(slots=True, kw_only=True)
class _Stream:
    task: Task
    records: list[Recorded] = field(default_factory=list[Recorded])
    cancel_requested: bool = False
    blobs: set[str] = field(default_factory=set[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """A write that was checked and can no longer fail.

    Attributes:
        status: The status after it; None where the events are stored already, or there are none.
    """

    stream: _Stream | None
    records: Sequence[Recorded]
    blobs: Mapping[str, bytes]
    status: TaskStatus | None
    messages: Sequence[Message]
    children: Sequence[NewTask]
    also: Also
    effects: Mapping[tuple[str, str, str], EffectRow]


class MemoryStore:
    """A `Store` without a file, for one event loop.

    Every method checks all it has to before it changes anything, and never waits: so it is a
    transaction. Events are kept as they are given, without copying their texts.

    Args:
        clock: Decides when a delayed message is due.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._streams: dict[str, _Stream] = {}
        self._event_tokens: dict[str, int] = {}
        self._positions = 0
        self._blobs: dict[str, bytes] = {}
        self._workers: dict[str, Worker] = {}
        self._lanes = MemoryLanes(clock)
        self._waits = MemoryWaits(clock, self._lanes, self._find_task, self._has_unsettled)
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
        if task.task_id in self._streams:
            raise ConflictError(f"task id {task.task_id!r} is in use already")
        self._check_new_ids(records)
        self._create(NewTask(records=records, message=message))
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
            and (root_id is None or self._is_below(queued.message.task_id, root_id))
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
        self._carry_out(self._plan(lease, records, messages, blobs, also), token=lease.token)

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
            plan = self._plan(lease, records, messages, blobs, also)
        self._lanes.remove(held)
        if plan is not None:
            self._carry_out(plan, token=lease.token)
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
            plan = self._plan(lease, records, (), NO_BLOBS, also)
        held.worker_id, held.attempts = None, held.attempts + 1
        held.reason = reason.encode("utf-8", "replace").decode()
        if retry_at is None:
            held.state = "dead"
        else:
            self._lanes.requeue(held, retry_at)
        if plan is not None:
            self._carry_out(plan, token=lease.token)
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
        return self._waits.decide(review_id, decision, answer=_plain(answer), by=by)

    async def signal(self, name: str, payload: object = None) -> bool:
        json.encode(name)
        self._hints.give()
        return self._waits.signal(name, _plain(payload))

    async def request_cancel(self, task_id: str) -> list[str]:
        tree = {self._stream(task_id).task.task_id}
        grown = 0
        while len(tree) > grown:
            grown = len(tree)
            tree |= {key for key, each in self._streams.items() if each.task.spec.parent_id in tree}
        marked = [
            stream
            for key, stream in self._streams.items()
            if key in tree and not stream.task.state.is_terminal
        ]
        for stream in marked:
            stream.cancel_requested = True
        for stream in marked:
            self._waits.nudge(stream.task)
        self._hints.give()
        return [stream.task.task_id for stream in marked]

    async def task(self, task_id: str) -> Task:
        return self._stream(task_id).task

    async def tasks(self, query: TaskQuery) -> list[Task]:
        tasks = [stream.task for stream in self._streams.values()][::-1]
        if query.order_by == "updated":
            tasks.sort(key=lambda task: task.status.updated_at, reverse=True)
        if query.before is not None:
            ids = [task.task_id for task in tasks]
            tasks = tasks[ids.index(self._stream(query.before).task.task_id) + 1 :]
        found = [
            task
            for task in tasks
            if (not query.states or task.state in query.states)
            and query.agent in (None, task.spec.agent)
            and query.session_id in (None, task.spec.session_id)
            and query.parent_id in (None, task.spec.parent_id)
        ]
        return found[: query.limit]

    async def events(self, task_id: str, *, after: int = 0) -> list[Recorded]:
        stream = self._streams.get(task_id)
        return [] if stream is None else stream.records[max(after, 0) :]

    async def blob(self, sha256: str) -> bytes:
        if sha256 not in self._blobs:
            raise NotFoundError(f"no blob {sha256!r:.80} is stored")
        return self._blobs[sha256]

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

    async def cancels(self, worker_id: str) -> list[str]:
        held = {queued.message.task_id for queued in self._lanes if queued.worker_id == worker_id}
        return [
            key
            for key, stream in self._streams.items()
            if key in held and stream.cancel_requested and not stream.task.state.is_terminal
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

    async def assign(self, lease: Lease, worker_id: str) -> Lease:
        held = self._lanes.held(lease)
        if held is None:
            raise StaleLeaseError(lease.message.message_id, token=lease.token)
        self._check_worker(worker_id)
        return self._lanes.take(held, worker_id)

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
            tasks=_counts(stream.task.state for stream in self._streams.values()),
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
        trees: dict[str, list[Task]] = {}
        for stream in self._streams.values():
            trees.setdefault(stream.task.root_id, []).append(stream.task)
        doomed = [task for tree in trees.values() if self._may_go(tree, before) for task in tree]
        keys = {task.task_id for task in doomed}
        used = {
            name
            for key, stream in self._streams.items()
            if key not in keys
            for name in stream.blobs
        }
        unused = {name: data for name, data in self._blobs.items() if name not in used}
        events = sum(len(self._streams[key].records) for key in keys)
        if not dry_run:
            for key in keys:
                self._forget(key)
            self._waits.forget_signals(before)
            self._blobs = {name: data for name, data in self._blobs.items() if name in used}
        return Pruned(
            tasks=len(keys),
            events=events,
            blobs=len(unused),
            blob_bytes=sum(map(len, unused.values())),
        )

    def _may_go(self, tree: Sequence[Task], before: datetime) -> bool:
        keys = {task.task_id for task in tree}
        sessions = {task.spec.session_id for task in tree} - {None}
        open_sessions = {
            stream.task.spec.session_id
            for stream in self._streams.values()
            if not stream.task.state.is_terminal
        }
        return (
            all(task.state.is_terminal and task.status.updated_at < before for task in tree)
            and not any(
                queued.message.task_id in keys and queued.state != "dead" for queued in self._lanes
            )
            and not any(
                review.task_id in keys and review.decision is None
                for review in self._waits.reviews.values()
            )
            and sessions.isdisjoint(open_sessions)
        )

    def _forget(self, task_id: str) -> None:
        for record in self._streams.pop(task_id).records:
            del self._event_tokens[record.event_id]
        self._lanes.forget_task(task_id)
        self._waits.forget_task(task_id)

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

    def _find_task(self, task_id: str) -> Task | None:
        stream = self._streams.get(task_id)
        return None if stream is None else stream.task

    def _is_below(self, task_id: str | None, top: str) -> bool:
        """Whether a task is `top` or below it."""
        while task_id is not None and task_id != top:
            task = self._find_task(task_id)
            task_id = None if task is None else task.spec.parent_id
        return task_id is not None

    def _has_unsettled(self, parent_id: str, path: str) -> bool:
        return any(
            not stream.task.state.is_terminal
            for stream in self._streams.values()
            if (stream.task.spec.parent_id, stream.task.spec.parent_path) == (parent_id, path)
        )

    def _stream(self, task_id: str) -> _Stream:
        stream = self._streams.get(task_id)
        if stream is None:
            raise NotFoundError(f"there is no task {task_id!r:.80}")
        return stream

    def _create(self, new: NewTask) -> None:
        """Add a task that was checked."""
        task = new_task(new.records, new.message)
        parent = self._streams.get(task.spec.parent_id or "")
        self._streams[task.task_id] = stream = _Stream(
            task=task, cancel_requested=parent is not None and parent.cancel_requested
        )
        self._add(stream, new.records, task.status, token=0)
        self._lanes.put(new.message)

    def _plan(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        messages: Sequence[Message],
        blobs: Mapping[str, bytes],
        also: Also,
    ) -> _Plan:
        """Check everything about a write, or raise."""
        task_id = lease.message.task_id
        stream = self._streams.get(task_id)
        if stream is None and (records or also):
            raise NotFoundError(f"there is no task {task_id!r} to write to")
        status = None
        if stream is not None and records:
            check_stream(records, task_id=task_id, trace_id=stream.task.trace_id)
            if self._is_written(stream, records):
                also = NOTHING
            else:
                status = advance(stream.task.status, records)
                self._check_new_ids(records)
        children = self._new_children(also.children)
        return _Plan(
            stream=stream,
            records=records,
            blobs=blobs,
            status=status,
            messages=self._lanes.fresh([*(new.message for new in children), *messages])[
                len(children) :
            ],
            children=children,
            also=also,
            effects=self._waits.check_effects(also.effects),
        )

    def _new_children(self, children: Sequence[NewTask]) -> list[NewTask]:
        fresh = self._lanes.fresh([child.message for child in children])
        ids = [message.message_id for message in fresh]
        by_id = {child.message.message_id: child for child in children}
        new = [by_id[message_id] for message_id in ids]
        for child in new:
            if child.message.task_id in self._streams:
                raise ConflictError(f"task id {child.message.task_id!r} is in use already")
            self._check_new_ids(child.records)
        return new

    def _carry_out(self, plan: _Plan, *, token: int) -> None:
        stream = plan.stream
        self._blobs |= plan.blobs
        was_open = stream is not None and not stream.task.state.is_terminal
        if stream is not None:
            stream.blobs |= plan.blobs.keys()
        if stream is not None and plan.status is not None:
            self._add(stream, plan.records, plan.status, token=token)
        for child in plan.children:
            self._create(child)
        self._waits.take_in(plan.also.ended_waits)
        for review in plan.also.reviews:
            self._waits.reviews.setdefault(
                review.review_id,
                replace(review, data=json.as_object(_plain(dict(review.data))) or {}),
            )
        self._waits.begin(plan.also.waits)
        self._waits.effects |= plan.effects
        if stream is not None and was_open and stream.task.state.is_terminal:
            self._waits.settled(stream.task)
        self._lanes.put(*plan.messages)
        self._hints.give()

    def _leave(self, lease: Lease, *, is_dead: bool = False) -> None:
        """A lease ends: its lane moves on, and a task to be cancelled is not left alone."""
        self._lanes.advance(lease.message.lane)
        self._hints.give()
        stream = self._streams.get(lease.message.task_id)
        # A dead message is looked at by a person, who may ask again for the task to be cancelled.
        if is_dead or stream is None or stream.task.state.is_terminal:
            return
        if stream.cancel_requested:
            self._waits.nudge(stream.task)

    def _add(
        self, stream: _Stream, records: Sequence[Recorded], status: TaskStatus, *, token: int
    ) -> None:
        for record in records:
            self._event_tokens[record.event_id] = token
            self._positions += 1
            stream.records.append(replace(record, token=token, position=self._positions))
        stream.task = replace(stream.task, status=status)
        stream.blobs |= blob_names(records)

    def _is_written(self, stream: _Stream, records: Sequence[Recorded]) -> bool:
        first = records[0].seq
        stored = stream.records[first - 1 : first - 1 + len(records)]
        return [record.event_id for record in stored] == [record.event_id for record in records]

    def _check_new_ids(self, records: Sequence[Recorded]) -> None:
        ids = {record.event_id for record in records}
        if len(ids) < len(records) or not ids.isdisjoint(self._event_tokens):
            raise ConflictError("an event id is in use already")

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
        if is_left:
            tokens = [self._event_tokens.get(record.event_id) for record in records]
            if tokens and all(token == lease.token for token in tokens):
                return
        raise StaleLeaseError(lease.message.message_id, token=lease.token)

    def _is_settled_again(self, lease: Lease, records: Sequence[Recorded]) -> bool:
        stream = self._streams.get(lease.message.task_id)
        return stream is not None and settles_again(stream.task.status, records)


def _plain(value: object) -> object:
    """A copy of plain JSON, as a store with a file would give it back."""
    return json.loads(json.encode(value))


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(str(name) for name in names).items()))
