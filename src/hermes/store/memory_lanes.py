"""Messages in their lanes, in dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from hermes.core import json
from hermes.core.clock import Clock
from hermes.core.message import Message
from hermes.errors import ConflictError
from hermes.store.rules import body_digest
from hermes.store.values import Lease, MessageRow, MessageState


@dataclass(slots=True, kw_only=True)
class Queued:
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

    def row(self) -> MessageRow:
        """As the store shows it."""
        return MessageRow(
            message=self.message,
            state=self.state,
            attempts=self.attempts,
            crashes=self.crashes,
            worker_id=self.worker_id,
            not_before=self.not_before,
            reason=self.reason,
        )


class MemoryLanes:
    """All messages; the twin of `lanes.py`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queued: dict[str, Queued] = {}
        self._places = count(1)
        self._tokens: dict[str, int] = {}
        self._accepted: dict[str, tuple[str, str]] = {}
        self._dedupe_keys: dict[tuple[str, str], str] = {}

    def __iter__(self) -> Iterator[Queued]:
        return iter(sorted(self._queued.values(), key=_place))

    def find(self, message_id: str) -> Queued | None:
        """The message, if it is not done."""
        return self._queued.get(message_id)

    def held(self, lease: Lease) -> Queued | None:
        """The message of a lease, as long as that stands."""
        queued = self._queued.get(lease.message.message_id)
        fence = ("leased", lease.worker_id, lease.token)
        if queued is None or (queued.state, queued.worker_id, queued.token) != fence:
            return None
        return queued

    def take(self, queued: Queued, worker_id: str) -> Lease:
        """Lease a message to a worker."""
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

    def requeue(self, queued: Queued, retry_at: datetime) -> None:
        """Put a leased message at the end of its lane."""
        queued.state, queued.not_before, queued.place = "held", retry_at, next(self._places)

    def accepted_task(self, message: Message) -> str | None:
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

    def fresh(self, messages: Iterable[Message]) -> list[Message]:
        """Those of the messages that were not taken in before, once each."""
        fresh: dict[str, Message] = {}
        keys: set[tuple[str, str]] = set()
        for message in messages:
            json.encode(message.to_wire())
            twin = fresh.get(message.message_id)
            if twin is not None and body_digest(twin) != body_digest(message):
                raise ConflictError(f"two messages have the id {message.message_id!r}")
            if self.accepted_task(message) is not None or twin is not None:
                continue
            if message.dedupe_key is not None:
                key = (message.receiver, message.dedupe_key)
                if key in keys:
                    continue
                keys.add(key)
            fresh[message.message_id] = message
        return list(fresh.values())

    def put(self, *messages: Message) -> None:
        """Take new messages in, at the end of their lanes."""
        for message in messages:
            self._accepted.setdefault(message.message_id, (body_digest(message), message.task_id))
            if message.dedupe_key is not None:
                self._dedupe_keys.setdefault(
                    (message.receiver, message.dedupe_key), message.task_id
                )
            self._queued[message.message_id] = Queued(
                message=message,
                place=next(self._places),
                state="held",
                not_before=message.not_before,
            )
            self.advance(message.lane)

    def put_wake(self, message: Message, *, due: datetime | None = None) -> None:
        """Put the message that wakes a task into its lane, or have the one there come sooner."""
        queued = self._queued.get(message.message_id)
        if queued is None:
            self.put(message)
            queued = self._queued[message.message_id]
        elif due is None and queued.state in ("delayed", "held"):
            queued.state, queued.not_before = "held", None
        self._overtake(queued, self._clock.now() if due is None else due)
        self.advance(message.lane)

    def hurry(self, queued: Queued) -> None:
        """Have a delayed message come now."""
        queued.state, queued.not_before = "held", None
        self.advance(queued.message.lane)

    def remove(self, queued: Queued) -> None:
        """A message is done; its lane is still to be advanced."""
        del self._queued[queued.message.message_id]

    def drop(self, message_id: str) -> None:
        """Take a message out of its lane, unless somebody holds it or it is dead."""
        queued = self._queued.get(message_id)
        if queued is not None and queued.state in ("delayed", "held", "ready"):
            self.remove(queued)
            self.advance(queued.message.lane)

    def drop_dead(self, task_id: str) -> None:
        """Remove the dead messages of a task."""
        self.forget(lambda queued: queued.state == "dead" and queued.message.task_id == task_id)

    def forget(self, is_gone: Callable[[Queued], bool]) -> None:
        """Remove messages, and leave their lanes as they are."""
        self._queued = {key: each for key, each in self._queued.items() if not is_gone(each)}

    def forget_task(self, task_id: str) -> None:
        """Remove all there is about a task, also what was taken in for it."""
        self.forget(lambda queued: queued.message.task_id == task_id)
        gone = {key for key, (_, owner) in self._accepted.items() if owner == task_id}
        self._accepted = {key: each for key, each in self._accepted.items() if key not in gone}
        self._dedupe_keys = {
            key: owner for key, owner in self._dedupe_keys.items() if owner != task_id
        }
        self._tokens.pop(task_id, None)

    def advance(self, lane: str) -> None:
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

    def promote_due(self) -> None:
        """Delayed messages whose time has come are ready."""
        now = self._clock.now()
        for queued in self._queued.values():
            if queued.state == "delayed" and queued.not_before and queued.not_before <= now:
                queued.state = "ready"

    def is_due(self) -> bool:
        """Whether a delayed message could be ready."""
        now = self._clock.now()
        return any(
            queued.state == "delayed" and queued.not_before and queued.not_before <= now
            for queued in self._queued.values()
        )

    def _overtake(self, mine: Queued, due: datetime) -> None:
        """Move a message that nobody holds before the first of its lane that is due later."""
        lane = [
            queued
            for queued in self
            if queued.message.lane == mine.message.lane and queued.state in ("delayed", "held")
        ]
        if mine not in lane:
            return
        before = lane[: lane.index(mine)]
        later = [n for n, queued in enumerate(before) if (queued.not_before or due) > due]
        if not later:
            return
        moved = [mine, *before[later[0] :]]
        places = sorted(queued.place for queued in moved)
        for queued, place in zip(moved, places, strict=True):
            queued.place, queued.state = place, "held"


def _place(queued: Queued) -> int:
    return queued.place
