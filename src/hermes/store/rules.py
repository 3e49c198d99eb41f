"""What every store keeps to, as pure functions: both the SQL and the dictionaries obey these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from hermes.core import codec, ids, json
from hermes.core.clock import rfc3339
from hermes.core.codec import Encoded
from hermes.core.events import (
    ArtifactSaved,
    ContextCompacted,
    ModelRequested,
    Recorded,
    ReviewDecision,
    ReviewReason,
    TaskSettled,
    ToolReturned,
)
from hermes.core.message import Message
from hermes.core.task import TERMINAL, Task, TaskState, TaskStatus, apply, fold
from hermes.errors import (
    ConcurrencyError,
    ConflictError,
    EffectTakenError,
    InputError,
    NotFoundError,
    TransitionError,
)
from hermes.store.values import Also, EffectRow, Review, Wait

WAKER = "hermes"
"""Sender of the messages that the store itself writes, and who closes reviews of ended tasks."""

UNSETTLED = tuple(state for state in TaskState if state not in TERMINAL)

DECISIONS: Mapping[ReviewReason, tuple[ReviewDecision, ...]] = {
    "in_doubt": ("done", "retry", "cancel"),
    "approval": ("approve", "reject", "cancel"),
    "question": ("answer", "cancel"),
    "partial": ("accept", "reject", "cancel"),
    "dead_letter": ("retry", "cancel"),
}
"""What a person may say to each kind of review; `cancel` ends the whole task."""

PLACE_LAG_US = 1_000_000
"""How far a task at work may lag behind in the list of the last changed, in microseconds: moving it
at each event is a fifth of a short commit."""

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


def blob_names(records: Iterable[Recorded]) -> set[str]:
    """Blobs that the events name in their data, beside the texts taken out of them."""
    names: set[str] = set()
    for record in records:
        event = record.event
        if isinstance(event, ToolReturned) and event.blob:
            names.add(event.blob)
        elif isinstance(event, ArtifactSaved):
            names.add(event.sha256)
        elif isinstance(event, ContextCompacted):
            names.update(event.handles)
        elif isinstance(event, ModelRequested) and event.system and not record.token:
            # A fork's. A run keeps the blob itself, once, and not by every event that names it.
            names.add(event.system)
    return set(filter(is_blob_name, names))


def check_also(also: Also, task_id: str) -> None:
    """Refuse waits and reviews of another task, and what cannot be stored.

    Raises:
        InputError: A wait or review is of another task than the lease's.
        CodecError: Something is not plain JSON, or holds a lone surrogate.
    """
    for item in (*also.waits, *also.reviews):
        if item.task_id != task_id:
            raise InputError(
                f"{type(item).__name__.lower()} of task {item.task_id!r:.80} cannot be written "
                f"by a lease of task {task_id!r}"
            )
    for wait in also.waits:
        json.encode([wait.wait_id, wait.path, wait.key])
    for review in also.reviews:
        words = [review.review_id, review.wait_id, review.path, review.name, review.text]
        json.encode([*words, dict(review.data)])
    for effect in also.effects:
        json.encode([effect.scope, effect.tool, effect.key, effect.path])


def check_decision(review: Review, decision: ReviewDecision) -> None:
    """Refuse a second decision, and one that does not fit the reason.

    Raises:
        ConflictError: It was decided before; says what, by whom and when.
        InputError: The reason does not allow it; names what it does.
    """
    if review.decision is not None:
        when = "" if review.decided_at is None else f" at {rfc3339(review.decided_at)}"
        raise ConflictError(
            f"review {review.review_id} was decided before: {review.decision} by "
            f"{review.by or 'nobody named'}{when}",
            hint="the first decision stands",
        )
    allowed = DECISIONS[review.reason]
    if decision not in allowed:
        raise InputError(
            f"review {review.review_id} ({review.reason}) cannot be decided {decision!r:.40}",
            hint=f"it takes {', '.join(allowed)}",
        )


def decided(decision: ReviewDecision, answer: object, by: str) -> dict[str, object]:
    """The answer of a wait for a person."""
    return {"decision": decision, "answer": answer, "by": by}


def has_ended(wait: Wait, now: datetime) -> bool:
    """Whether a wait is over: by what it waited for, or by its time."""
    return wait.ended or (ends_by_time(wait) and wait.due_at is not None and wait.due_at <= now)


def ends_by_time(wait: Wait) -> bool:
    """Whether the wait has a time at which it ends by itself."""
    return wait.due_at is not None and wait.kind != "person"


def wake_message(
    wait_id: str, *, task_id: str, agent: str, trace_id: str, at: datetime, due: datetime | None
) -> Message:
    """The one message that lets a task go on after a wait.

    Args:
        wait_id: The wait that ends.
        task_id: Of the task that waits.
        agent: Its agent.
        trace_id: Its trace.
        at: When the message is made.
        due: When it is to be handled; None for at once.
    """
    return Message(
        message_id=ids.wake_id(wait_id),
        sender=WAKER,
        receiver=agent,
        message_type="task.wake",
        task_id=task_id,
        trace_id=trace_id,
        created_at=at,
        payload={"wait_id": wait_id},
        order_key=task_id,
        dedupe_key=f"wake:{wait_id}",
        not_before=due,
    )


def cancel_message(*, task_id: str, agent: str, trace_id: str, at: datetime) -> Message:
    """A message for a task that is to be cancelled and has none that would let somebody see it."""
    key = f"cancel:{task_id}"
    return Message(
        message_id=ids.wake_id(key),
        sender=WAKER,
        receiver=agent,
        message_type="task.cancel",
        task_id=task_id,
        trace_id=trace_id,
        created_at=at,
        order_key=task_id,
        dedupe_key=key,
    )


def claim_effect(known: EffectRow | None, wanted: EffectRow) -> bool:
    """Whether a business key's row is to be written as `wanted`; False where nothing changes.

    Raises:
        EffectTakenError: It is another call's.
        NotFoundError: An end is told of a key that nobody has claimed.
    """
    if known is None:
        if wanted.state != "started":
            raise NotFoundError(
                f"{wanted.tool} with key {wanted.key!r:.80} was not claimed, "
                f"so it cannot be {wanted.state}"
            )
        return True
    if (known.task_id, known.path) == (wanted.task_id, wanted.path):
        # Its own claim again: a repeat, unless the call surely was not done.
        return known.state != wanted.state and not (
            known.state == "done" and wanted.state == "started"
        )
    if known.state == "failed" and wanted.state == "started":
        return True
    raise EffectTakenError(known.tool, known.key, task_id=known.task_id, path=known.path)
