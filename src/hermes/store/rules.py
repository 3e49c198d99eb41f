"""What every store keeps to, as pure functions: both the SQL and the dictionaries obey these."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hermes.core import codec, json
from hermes.core.codec import Encoded
from hermes.core.events import Recorded, TaskSettled
from hermes.core.message import Message
from hermes.core.task import Task, TaskStatus, apply, fold
from hermes.errors import ConcurrencyError, InputError, TransitionError

_EVENT_ID = re.compile(r"[0-9a-f]{32}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def new_task(records: Sequence[Recorded], message: Message) -> Task:
    """The task that a submit creates, folded from its first events.

    Raises:
        TransitionError: The events are no beginning of a task.
        InputError: They are not all of one task, or the message is about another.
    """
    task = fold(records)
    if task is None:
        raise TransitionError("a task begins with task.created, got no events")
    check_stream(records, task_id=message.task_id, trace_id=task.trace_id)
    return task


def check_stream(records: Sequence[Recorded], *, task_id: str, trace_id: str) -> None:
    """Refuse events that would be stored under a task or trace that is not theirs.

    Raises:
        InputError: The message names the event and what differs.
    """
    for record in records:
        if record.task_id != task_id:
            raise InputError(
                f"event {record.seq} ({record.event.type}) is of task {record.task_id!r}, "
                f"but its message is about task {task_id!r}"
            )
        if record.trace_id != trace_id:
            raise InputError(
                f"event {record.seq} of task {task_id} has trace id {record.trace_id!r}, "
                f"its task {trace_id!r}"
            )


def encode_all(records: Sequence[Recorded]) -> list[Encoded]:
    """Each event as it is stored.

    Raises:
        CodecError: An event is not plain JSON.
        InputError: An event id is not 32 hex digits.
    """
    for record in records:
        if not _EVENT_ID.fullmatch(record.event_id):
            raise InputError(
                f"an event id is 32 lower-case hex digits, got {record.event_id!r:.80}"
            )
    return [codec.encode(record.event) for record in records]


def check_blobs(blobs: Mapping[str, bytes]) -> None:
    """Refuse bytes under a name that is not their SHA-256.

    Raises:
        InputError: As said.
    """
    for name, data in blobs.items():
        if name != codec.sha256(data):
            raise InputError(
                f"{len(data)} bytes were given as blob {name!r:.80}, not their SHA-256"
            )


def is_blob_name(name: str) -> bool:
    """Whether this may name a blob: 64 lower-case hex digits."""
    return _SHA256.fullmatch(name) is not None


def advance(status: TaskStatus, records: Sequence[Recorded]) -> TaskStatus:
    """The status of a task after more events.

    Raises:
        ConcurrencyError: The first does not follow the last event of the task.
        TransitionError: An event does not fit the state, or the numbers have a gap.
    """
    if records and records[0].seq != status.seq + 1:
        first = records[0]
        raise ConcurrencyError(first.task_id, expected=first.seq - 1, actual=status.seq)
    for record in records:
        status = apply(status, record)
    return status


def settles_again(status: TaskStatus, records: Sequence[Recorded]) -> bool:
    """Whether the events would settle a settled task: then none of them is written."""
    return status.state.is_terminal and any(isinstance(item.event, TaskSettled) for item in records)


def body_digest(message: Message) -> str:
    """What tells two messages with one id apart: 32 hex digits over the envelope.

    Raises:
        CodecError: The message is not plain JSON.
    """
    return json.digest(message.to_wire(), length=32)
