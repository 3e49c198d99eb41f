"""Values to rows of the database and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, cast

from pydantic import TypeAdapter

from hermes.core import codec, json
from hermes.core.clock import from_micros, to_micros
from hermes.core.events import (
    Recorded,
    ReviewDecision,
    ReviewReason,
    TaskCreated,
    TaskEvent,
    WaitKind,
)
from hermes.core.message import Message
from hermes.core.task import Task, TaskStatus
from hermes.core.todo import Todo
from hermes.errors import CodecError
from hermes.store.driver import Row, Value
from hermes.store.rules import (
    blob_names,
    body_digest,
    check_also,
    check_blobs,
    encode_all,
    new_task,
)
from hermes.store.values import (
    NO_BLOBS,
    NOTHING,
    Also,
    EffectRow,
    EffectState,
    Lease,
    MessageRow,
    MessageState,
    Review,
    Wait,
    Worker,
)

_KEPT_STATUSES = 256
_WRITTEN: dict[bytes, TaskStatus] = {}
"""Statuses by their encoded form: a run's next write begins with the one that its last left."""

StoredEvent = tuple[int, bytes, str, int, int, bytes, bytes | None]
"""seq, event_id, type, version, at, data, refs"""


class Batch(NamedTuple):
    """Events ready to be written, encoded before any lock is taken; made for each write.

    Attributes:
        blobs: By the 32 bytes of their SHA-256: the caller's, and texts taken out of the events.
        uses: SHA-256 of every blob that the task needs from here on.
    """

    records: Sequence[Recorded]
    rows: Sequence[StoredEvent]
    blobs: Mapping[bytes, bytes]
    uses: frozenset[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message ready to be written; `body` tells it from another one with the same id."""

    message: Message
    body: bytes
    row: Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A task to be created within another one's transaction."""

    task: Mapping[str, Value]
    batch: Batch
    outgoing: Outgoing


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An `Also`, encoded before any lock is taken."""

    children: Sequence[Child]
    waits: Sequence[Wait]
    ended_waits: Sequence[str]
    reviews: Sequence[Mapping[str, Value]]
    effects: Sequence[EffectRow]


def prepare(also: Also, task_id: str) -> Prepared | None:
    """Encode what commits together with the events of a task; None for nothing.

    Raises:
        CodecError: Something is not plain JSON, or holds a lone surrogate.
        InputError: A child's events and message do not fit each other, or a wait or review is of
            another task.
        TransitionError: A child's events are no beginning of a task.
    """
    if also is NOTHING or not also:
        return None
    check_also(also, task_id)
    return Prepared(
        children=[
            Child(
                task=new_task_row(new_task(child.records, child.message)),
                batch=batch(child.records),
                outgoing=outgoing(child.message),
            )
            for child in also.children
        ],
        waits=also.waits,
        ended_waits=also.ended_waits,
        reviews=[review_row(review) for review in also.reviews],
        effects=also.effects,
    )


def batch(records: Sequence[Recorded], blobs: Mapping[str, bytes] = NO_BLOBS) -> Batch:
    """Encode events and blobs.

    Raises:
        CodecError: An event is not plain JSON, or holds a lone surrogate.
        InputError: A bad event id, or a blob whose name is not its SHA-256.
    """
    stored: dict[bytes, bytes] = {}
    if blobs:
        check_blobs(blobs)
        stored = {bytes.fromhex(name): data for name, data in blobs.items()}
    rows: list[StoredEvent] = []
    for record, event in zip(records, encode_all(records), strict=True):
        refs = None
        if event.refs:
            refs = json.encode(event.refs)
            stored |= {bytes.fromhex(name): data for name, data in event.blobs.items()}
        event_id, at = bytes.fromhex(record.event_id), to_micros(record.at)
        rows.append((record.seq, event_id, event.type, event.version, at, event.data, refs))
    uses = frozenset(map(bytes.fromhex, blob_names(records)))
    return Batch(records, rows, stored, uses.union(stored) if stored else uses)


def outgoing(message: Message) -> Outgoing:
    """Encode a message.

    Raises:
        CodecError: It is not plain JSON, or holds a lone surrogate.
    """
    row: dict[str, Value] = {
        "message_id": message.message_id,
        "lane": message.lane,
        "receiver": message.receiver,
        "task_id": message.task_id,
        "dedupe_key": message.dedupe_key,
        "priority": message.priority,
        "not_before": None if message.not_before is None else to_micros(message.not_before),
        "wire": json.encode(message.to_wire()),
    }
    return Outgoing(message=message, body=bytes.fromhex(body_digest(message)), row=row)


def new_task_row(task: Task) -> Mapping[str, Value]:
    """The row of a task that is being created."""
    return {
        "task_id": task.task_id,
        "trace_id": task.trace_id,
        "agent": task.spec.agent,
        "session_id": task.spec.session_id,
        "parent_id": task.spec.parent_id,
        "parent_path": None if task.spec.parent_id is None else task.spec.parent_path,
        "root_id": task.root_id,
        "state": task.state.value,
        "created_at": to_micros(task.created_at),
        "updated_at": to_micros(task.status.updated_at),
        "status": encode_status(task.status),
    }


def encode_status(status: TaskStatus) -> bytes:
    """The status as JSON, without what is as usual."""
    data = _status_adapter().serializer.to_json(status, exclude_defaults=True)
    if len(_WRITTEN) >= _KEPT_STATUSES:
        _WRITTEN.clear()
    _WRITTEN[data] = status
    return data


def decode_status(data: bytes) -> TaskStatus:
    """What `encode_status` wrote."""
    return _WRITTEN.get(data) or _status_adapter().validate_json(data)


def read_records(task_id: str, rows: Iterable[Row], blob: Callable[[str], bytes]) -> list[Recorded]:
    """Records out of the rows of `events_after`."""
    return [_read_record(task_id, row, blob) for row in rows]


def read_task(row: Row, blob: Callable[[str], bytes]) -> Task:
    """A task out of a row of `tasks_by_key`."""
    task_id, trace_id, status, at, *event = cast(
        "tuple[str, str, bytes, int, str, int, bytes, bytes | None]", row
    )
    spec = _read_event(*cast("tuple[str, int, bytes, bytes | None]", tuple(event)), blob)
    if not isinstance(spec, TaskCreated):
        raise CodecError(f"the stream of task {task_id} begins with {spec.type}, not task.created")
    return Task(
        task_id=task_id,
        trace_id=trace_id,
        created_at=from_micros(at),
        spec=spec,
        status=decode_status(status),
    )


def read_message(wire: bytes) -> Message:
    """A message out of its stored envelope."""
    return Message.from_wire(json.loads(wire))


def read_lease(worker_id: str, token: int, row: Row) -> Lease:
    """A lease out of a row of `ready_messages` and the token it was claimed with."""
    _, _, attempts, crashes, wire = cast("tuple[int, str, int, int, bytes]", row)
    return Lease(
        message=read_message(wire),
        token=token,
        worker_id=worker_id,
        attempts=attempts,
        crashes=crashes,
    )


def read_message_row(row: Row) -> MessageRow:
    """A message and its standing out of a row of `messages`."""
    state, attempts, crashes, worker_id, not_before, reason, wire = cast(
        "tuple[MessageState, int, int, str | None, int | None, str, bytes]", row
    )
    return MessageRow(
        message=read_message(wire),
        state=state,
        attempts=attempts,
        crashes=crashes,
        worker_id=worker_id,
        not_before=None if not_before is None else from_micros(not_before),
        reason=reason,
    )


def worker_row(worker: Worker) -> Mapping[str, Value]:
    """The row of a worker."""
    return {
        "worker_id": worker.worker_id,
        "host": worker.host,
        "pid": worker.pid,
        "lock_path": worker.lock_path,
        "renewed_at": to_micros(worker.renewed_at),
    }


def read_worker(row: Row) -> Worker:
    """A worker out of a row of `workers`."""
    worker_id, host, pid, lock_path, renewed_at = cast("tuple[str, str, int, str, int]", row)
    return Worker(
        worker_id=worker_id,
        host=host,
        pid=pid,
        lock_path=lock_path,
        renewed_at=from_micros(renewed_at),
    )


def todo_row(todo: Todo) -> tuple[str, str, int, int | None]:
    """The values of `put_todo`, in its order.

    Raises:
        CodecError: A database cannot hold the text.
    """
    json.encode([todo.todo_id, todo.text])
    if "\0" in todo.todo_id + todo.text:
        raise CodecError("a todo holds a zero byte")
    done_at = None if todo.done_at is None else to_micros(todo.done_at)
    return todo.todo_id, todo.text, to_micros(todo.made_at), done_at


def read_todo(row: Row) -> Todo:
    """A todo out of a row of `todos`."""
    todo_id, text, made_at, done_at = cast("tuple[str, str, int, int | None]", row)
    return Todo(
        todo_id=todo_id,
        text=text,
        made_at=from_micros(made_at),
        done_at=None if done_at is None else from_micros(done_at),
    )


def wait_row(wait: Wait) -> Mapping[str, Value]:
    """The row of a wait that begins."""
    return {
        "wait_id": wait.wait_id,
        "task_id": wait.task_id,
        "path": wait.path,
        "kind": wait.kind,
        "key": wait.key,
        "due_at": None if wait.due_at is None else to_micros(wait.due_at),
    }


def read_wait(row: Row) -> Wait:
    """A wait out of a row of `waits`."""
    wait_id, task_id, path, kind, key, due_at, ended, answer = cast(
        "tuple[str, str, str, WaitKind, str, int | None, int, bytes | None]", row
    )
    return Wait(
        wait_id=wait_id,
        task_id=task_id,
        path=path,
        kind=kind,
        key=key,
        due_at=None if due_at is None else from_micros(due_at),
        ended=bool(ended),
        answer=None if answer is None else json.loads(answer),
    )


def review_row(review: Review) -> Mapping[str, Value]:
    """The row of a review that is opened."""
    return {
        "review_id": review.review_id,
        "wait_id": review.wait_id,
        "task_id": review.task_id,
        "path": review.path,
        "reason": review.reason,
        "name": review.name,
        "text": review.text,
        "data": json.encode(dict(review.data)),
        "created_at": to_micros(review.created_at),
    }


def read_review(row: Row) -> Review:
    """A review out of a row of `reviews`."""
    ids, words, created_at, data, decision, answer, by, decided_at = (row[:4], row[4:7], *row[7:])
    review_id, wait_id, task_id, path = cast("tuple[str, str, str, str]", ids)
    reason, name, text = cast("tuple[ReviewReason, str, str]", words)
    return Review(
        review_id=review_id,
        wait_id=wait_id,
        task_id=task_id,
        path=path,
        reason=reason,
        name=name,
        text=text,
        created_at=from_micros(cast("int", created_at)),
        data=json.as_object(json.loads(cast("bytes", data))) or {},
        decision=cast("ReviewDecision | None", decision),
        answer=None if answer is None else json.loads(cast("bytes", answer)),
        by=cast("str", by),
        decided_at=None if decided_at is None else from_micros(cast("int", decided_at)),
    )


def effect_row(effect: EffectRow) -> Mapping[str, Value]:
    """The row of a business key."""
    return {
        "scope": effect.scope,
        "tool": effect.tool,
        "key": effect.key,
        "state": effect.state,
        "task_id": effect.task_id,
        "path": effect.path,
    }


def read_effect(row: Row) -> EffectRow:
    """A business key out of a row of `effect`."""
    scope, tool, key, state, task_id, path = cast(
        "tuple[str, str, str, EffectState, str, str]", row
    )
    return EffectRow(scope=scope, tool=tool, key=key, state=state, task_id=task_id, path=path)


def _read_record(task_id: str, row: Row, blob: Callable[[str], bytes]) -> Recorded:
    trace_id, position, token, seq, event_id, type_, version, at, data, refs = cast(
        "tuple[str, int, int, int, bytes, str, int, int, bytes, bytes | None]", row
    )
    return Recorded(
        event_id=event_id.hex(),
        task_id=task_id,
        seq=seq,
        event=_read_event(type_, version, data, refs, blob),
        at=from_micros(at),
        trace_id=trace_id,
        token=token,
        position=position,
    )


def _read_event(
    type_: str, version: int, data: bytes, refs: bytes | None, blob: Callable[[str], bytes]
) -> TaskEvent:
    names = cast("dict[str, str]", json.loads(refs)) if refs else None
    return codec.decode(type_, version, data, refs=names, blob=blob)


@cache
def _status_adapter() -> TypeAdapter[TaskStatus]:
    return TypeAdapter(TaskStatus)
