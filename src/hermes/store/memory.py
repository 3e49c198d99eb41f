"""The journal in dictionaries: nothing outlives the process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from typing import Literal

from hermes.core import json
from hermes.core.clock import Clock
from hermes.core.events import Recorded
from hermes.core.message import Message
from hermes.core.task import Task, TaskStatus
from hermes.errors import ConflictError, InputError, NotFoundError, StaleLeaseError
from hermes.store.base import (
    NO_BLOBS,
    Lease,
    MessageRow,
    MessageState,
    Submitted,
    TaskQuery,
    Worker,
)
from hermes.store.rules import (
    advance,
    body_digest,
    check_blobs,
    check_stream,
    encode_all,
    new_task,
    settles_again,
)


@dataclass(slots=True, kw_only=True)
class _Stream:
    task: Task
    records: list[Recorded] = field(default_factory=list[Recorded])


@dataclass(slots=True, kw_only=True)
class _Queued:
    """A message that is not done. `place` orders its lane and says how old it is."""

    message: Message
    place: int
    state: MessageState
    not_before: datetime | None
    attempts: int = 0
    crashes: int = 0
    worker_id: str | None = None
    token: int = 0
    reason: str = ""


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
        self._blobs: dict[str, bytes] = {}
        self._queued: dict[str, _Queued] = {}
        self._places = count(1)
        self._tokens: dict[str, int] = {}
        self._accepted: dict[str, tuple[str, str]] = {}
        self._dedupe_keys: dict[tuple[str, str], str] = {}
        self._workers: dict[str, Worker] = {}

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
        earlier = self._accepted_task(message)
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
        self._streams[task.task_id] = stream = _Stream(task=task)
        self._add(stream, records, task.status, token=0)
        self._put(message)
        queued = self._queued[message.message_id]
        lease = None
        if claim_for in self._workers and queued.state == "ready":
            lease = self._take(queued, claim_for)
        return Submitted(task_id=task.task_id, is_new=True, lease=lease)

    async def claim(
        self,
        worker_id: str,
        *,
        receivers: Sequence[str] = (),
        task_id: str | None = None,
        limit: int = 1,
    ) -> list[Lease]:
        if limit < 1:
            raise InputError(f"a claim takes at least 1 message, got limit {limit}")
        if worker_id not in self._workers:
            raise NotFoundError(f"worker {worker_id!r} is not registered", hint="register it again")
        self._promote_due()
        ready = [
            queued
            for queued in self._queued.values()
            if queued.state == "ready"
            and (not receivers or queued.message.receiver in receivers)
            and task_id in (None, queued.message.task_id)
        ]
        ready.sort(key=lambda queued: (-queued.message.priority, queued.place))
        return [self._take(queued, worker_id) for queued in ready[:limit]]

    async def append(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        messages: Sequence[Message] = (),
        blobs: Mapping[str, bytes] = NO_BLOBS,
    ) -> None:
        check_blobs(blobs)
        encode_all(records)
        if self._find_held(lease) is None:
            raise StaleLeaseError(lease.message.message_id, token=lease.token)
        fresh = self._fresh(messages)
        self._write(lease, records, blobs)
        self._put(*fresh)

    async def finish(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        messages: Sequence[Message] = (),
        blobs: Mapping[str, bytes] = NO_BLOBS,
    ) -> None:
        check_blobs(blobs)
        encode_all(records)
        held = self._find_held(lease)
        if held is None:
            self._check_repeat(lease, records, left=None)
            return
        fresh: list[Message] = []
        if not self._is_settled_again(lease, records):
            fresh = self._fresh(messages)
            self._write(lease, records, blobs)
        del self._queued[lease.message.message_id]
        self._put(*fresh)
        self._advance_lane(lease.message.lane)

    async def fail(
        self, lease: Lease, records: Sequence[Recorded], *, retry_at: datetime | None, reason: str
    ) -> None:
        encode_all(records)
        held = self._find_held(lease)
        if held is None:
            self._check_repeat(lease, records, left="dead" if retry_at is None else "queued")
            return
        if not self._is_settled_again(lease, records):
            self._write(lease, records, NO_BLOBS)
        held.worker_id, held.attempts = None, held.attempts + 1
        held.reason = reason.encode("utf-8", "replace").decode()
        if retry_at is None:
            held.state = "dead"
        else:
            held.state, held.not_before, held.place = "held", retry_at, next(self._places)
        self._advance_lane(lease.message.lane)

    async def release(self, lease: Lease) -> None:
        held = self._find_held(lease)
        if held is None:
            raise StaleLeaseError(lease.message.message_id, token=lease.token)
        held.state, held.worker_id = "ready", None

    async def send(self, message: Message) -> bool:
        fresh = self._fresh([message])
        self._put(*fresh)
        return bool(fresh)

    async def task(self, task_id: str) -> Task:
        return self._stream(task_id).task

    async def tasks(self, query: TaskQuery) -> list[Task]:
        found: list[Task] = []
        before = None if query.before is None else self._stream(query.before)
        for stream in reversed(self._streams.values()):
            task = stream.task
            if before is not None:
                before = None if stream is before else before
                continue
            if (
                (not query.states or task.state in query.states)
                and query.agent in (None, task.spec.agent)
                and query.session_id in (None, task.spec.session_id)
            ):
                found.append(task)
            if len(found) == query.limit:
                break
        return found

    async def events(self, task_id: str, *, after: int = 0) -> list[Recorded]:
        stream = self._streams.get(task_id)
        return [] if stream is None else stream.records[max(after, 0) :]

    async def blob(self, sha256: str) -> bytes:
        if sha256 not in self._blobs:
            raise NotFoundError(f"no blob {sha256!r:.80} is stored")
        return self._blobs[sha256]

    async def messages(self, *, task_id: str | None = None) -> list[MessageRow]:
        return [
            MessageRow(
                message=queued.message,
                state=queued.state,
                attempts=queued.attempts,
                crashes=queued.crashes,
                worker_id=queued.worker_id,
                not_before=queued.not_before,
                reason=queued.reason,
            )
            for queued in sorted(self._queued.values(), key=_place)
            if task_id in (None, queued.message.task_id)
        ]

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
        freed = [queued for queued in self._queued.values() if queued.worker_id == worker_id]
        for queued in freed:
            queued.state, queued.worker_id = "ready", None
            queued.crashes += int(crashed)
        return len(freed)

    async def workers(self) -> list[Worker]:
        return [self._workers[worker_id] for worker_id in sorted(self._workers)]

    def _stream(self, task_id: str) -> _Stream:
        stream = self._streams.get(task_id)
        if stream is None:
            raise NotFoundError(f"there is no task {task_id!r:.80}")
        return stream

    def _write(self, lease: Lease, records: Sequence[Recorded], blobs: Mapping[str, bytes]) -> None:
        """Append under a lease, or raise and change nothing."""
        if records:
            task_id = lease.message.task_id
            stream = self._streams.get(task_id)
            if stream is None:
                raise NotFoundError(f"there is no task {task_id!r} to append to")
            check_stream(records, task_id=task_id, trace_id=stream.task.trace_id)
            first = records[0].seq
            stored = stream.records[first - 1 : first - 1 + len(records)]
            if [record.event_id for record in stored] != [record.event_id for record in records]:
                status = advance(stream.task.status, records)
                self._check_new_ids(records)
                self._add(stream, records, status, token=lease.token)
        self._blobs |= blobs

    def _add(
        self, stream: _Stream, records: Sequence[Recorded], status: TaskStatus, *, token: int
    ) -> None:
        for record in records:
            self._event_tokens[record.event_id] = token
            position = len(self._event_tokens)
            stream.records.append(replace(record, token=token, position=position))
        stream.task = replace(stream.task, status=status)

    def _check_new_ids(self, records: Sequence[Recorded]) -> None:
        ids = {record.event_id for record in records}
        if len(ids) < len(records) or not ids.isdisjoint(self._event_tokens):
            raise ConflictError("an event id is in use already")

    def _check_repeat(
        self, lease: Lease, records: Sequence[Recorded], *, left: Literal["queued", "dead"] | None
    ) -> None:
        """Let the repeated end of a message pass if this lease wrote these very events at it."""
        queued = self._queued.get(lease.message.message_id)
        state = None if queued is None else queued.state
        if state == left or (left == "queued" and state in ("delayed", "held", "ready")):
            tokens = [self._event_tokens.get(record.event_id) for record in records]
            if tokens and all(token == lease.token for token in tokens):
                return
        raise StaleLeaseError(lease.message.message_id, token=lease.token)

    def _is_settled_again(self, lease: Lease, records: Sequence[Recorded]) -> bool:
        stream = self._streams.get(lease.message.task_id)
        return stream is not None and settles_again(stream.task.status, records)

    def _find_held(self, lease: Lease) -> _Queued | None:
        queued = self._queued.get(lease.message.message_id)
        fence = ("leased", lease.worker_id, lease.token)
        if queued is None or (queued.state, queued.worker_id, queued.token) != fence:
            return None
        return queued

    def _take(self, queued: _Queued, worker_id: str) -> Lease:
        lane = queued.message.lane
        self._tokens[lane] = token = self._tokens.get(lane, 0) + 1
        queued.state, queued.worker_id, queued.token = "leased", worker_id, token
        return Lease(
            message=queued.message,
            token=token,
            worker_id=worker_id,
            attempts=queued.attempts,
            crashes=queued.crashes,
        )

    def _accepted_task(self, message: Message) -> str | None:
        """The task of the message that was taken in under this id or dedupe key before."""
        accepted = self._accepted.get(message.message_id)
        if accepted is not None:
            body, task_id = accepted
            if body != body_digest(message):
                raise ConflictError(
                    f"message id {message.message_id!r} was used before for a message that differs"
                )
            return task_id
        if message.dedupe_key is None:
            return None
        return self._dedupe_keys.get((message.receiver, message.dedupe_key))

    def _fresh(self, messages: Iterable[Message]) -> list[Message]:
        """Those of the messages that were not taken in before, once each."""
        fresh: dict[str, Message] = {}
        keys: set[tuple[str, str]] = set()
        for message in messages:
            json.encode(message.to_wire())
            twin = fresh.get(message.message_id)
            if twin is not None and body_digest(twin) != body_digest(message):
                raise ConflictError(f"two messages have the id {message.message_id!r}")
            if self._accepted_task(message) is not None or twin is not None:
                continue
            if message.dedupe_key is not None:
                key = (message.receiver, message.dedupe_key)
                if key in keys:
                    continue
                keys.add(key)
            fresh[message.message_id] = message
        return list(fresh.values())

    def _put(self, *messages: Message) -> None:
        for message in messages:
            self._accepted[message.message_id] = (body_digest(message), message.task_id)
            if message.dedupe_key is not None:
                self._dedupe_keys[message.receiver, message.dedupe_key] = message.task_id
            place, not_before = next(self._places), message.not_before
            self._queued[message.message_id] = _Queued(
                message=message, place=place, state="held", not_before=not_before
            )
            self._advance_lane(message.lane)

    def _advance_lane(self, lane: str) -> None:
        """The head of a lane, if it is held, becomes ready or delayed."""
        alive = (
            queued
            for queued in self._queued.values()
            if queued.message.lane == lane and queued.state != "dead"
        )
        head = min(alive, key=_place, default=None)
        if head is not None and head.state == "held":
            is_due = head.not_before is None or head.not_before <= self._clock.now()
            head.state = "ready" if is_due else "delayed"

    def _promote_due(self) -> None:
        now = self._clock.now()
        for queued in self._queued.values():
            if queued.state == "delayed" and queued.not_before and queued.not_before <= now:
                queued.state = "ready"


def _place(queued: _Queued) -> int:
    return queued.place
