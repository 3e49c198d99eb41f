"""What goes into a store and comes out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from hermes.core.events import Recorded, ReviewDecision, ReviewReason, WaitKind
from hermes.core.message import Message
from hermes.core.task import TaskState
from hermes.errors import InputError

NO_BLOBS: Mapping[str, bytes] = {}
MAX_TASKS = 1000

MessageState = Literal["delayed", "held", "ready", "leased", "dead"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to handle one message, for as long as its worker lives.

    Attributes:
        token: Grows with every claim of the lane; a writer with an older one is refused.
        attempts: How often the message was handled before and failed.
        crashes: How often its holder died.
    """

    message: Message
    token: int
    worker_id: str
    attempts: int = 0
    crashes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The task that a submit created, or found under the same dedupe key.

    Attributes:
        lease: Of the new task's message, if it was to be claimed and nothing stood before it.
    """

    task_id: str
    is_new: bool
    lease: Lease | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A process that takes work.

    Attributes:
        worker_id: Unique for each start of a process.
        host: Host name; with `lock_path` a process on the same host can prove that this one died.
        lock_path: File that the process keeps locked while it lives; "" if it has none.
        renewed_at: Last sign of life.
    """

    worker_id: str
    host: str
    pid: int
    lock_path: str
    renewed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """Which tasks to list.

    Attributes:
        states: Only tasks in one of these; empty for any.
        parent_id: Only children of this task.
        limit: At most so many, from 1 to `MAX_TASKS`.
        order_by: The newest first, or the last changed first, to the second while at work.
        before: Id of a task; only tasks that come after it in this order, where it stands now.
    """

    states: Sequence[TaskState] = ()
    agent: str | None = None
    session_id: str | None = None
    parent_id: str | None = None
    limit: int = 50
    order_by: Literal["created", "updated"] = "created"
    before: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MAX_TASKS:
            raise InputError(f"a list holds 1 to {MAX_TASKS} tasks, got limit {self.limit}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """A task to be created: its first events, numbered from 1, and the message that starts it."""

    records: Sequence[Recorded]
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a task waits for, without a process and without a lease.

    A wait that ends puts one wake message into the task's lane; the task itself is not touched.

    Attributes:
        path: The call that waits; "" for the task as a whole.
        kind: `person` ends by the decision of review `key`; `children` when no task with this
            parent and `parent_path` = `key` is unsettled; `event` by the signal named `key`;
            `time` by `due_at` alone.
        due_at: It ends then at the latest; for `person`, never.
        answer: Plain JSON once it has ended: for `person` `{decision, answer, by}`, for `event`
            the signal's payload, else None.
    """

    wait_id: str
    task_id: str
    path: str
    kind: WaitKind
    key: str = ""
    due_at: datetime | None = None
    ended: bool = False
    answer: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A question to a person.

    Attributes:
        wait_id: The wait that its decision ends.
        data: What the person has to see: arguments, effect, outcome so far …
        decision: None while it is open.
        answer: Plain JSON that came with the decision.
        by: Who decided.
    """

    review_id: str
    wait_id: str
    task_id: str
    path: str
    reason: ReviewReason
    name: str
    text: str
    created_at: datetime
    data: Mapping[str, object] = field(default_factory=dict[str, object])
    decision: ReviewDecision | None = None
    answer: object = None
    by: str = ""
    decided_at: datetime | None = None


EffectState = Literal["started", "done", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRow:
    """A business key in the ledger: a deed that is to be done once, in whatever words.

    Attributes:
        scope: A root task's id, or "" for all tasks.
        key: What the tool's author says makes two calls the same deed.
        state: `started` also while its outcome is in doubt; `failed`: it was surely not done, and
            the key may be claimed again.
        task_id: Whose call claimed it.
        path: Which call.
    """

    scope: str
    tool: str
    key: str
    state: EffectState
    task_id: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Also:
    """What commits together with a run's events.

    Attributes:
        children: Tasks to create; one that exists under its id and message already is left alone.
        waits: Begun by this transaction; one whose end has come already wakes the task at once.
        ended_waits: Ids of waits whose answer these events take in; they are removed.
        reviews: Opened by this transaction; each with a wait of kind `person`.
        effects: Claimed (`started`), or brought to their end.
    """

    children: Sequence[NewTask] = ()
    waits: Sequence[Wait] = ()
    ended_waits: Sequence[str] = ()
    reviews: Sequence[Review] = ()
    effects: Sequence[EffectRow] = ()

    def __bool__(self) -> bool:
        return bool(self.children or self.waits or self.ended_waits or self.reviews or self.effects)


NOTHING = Also()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What `prune` removed, or would remove."""

    tasks: int
    events: int
    blobs: int
    blob_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """How a database stands.

    Attributes:
        backend: `sqlite`, `postgresql` or `memory`.
        version: Schema version of the database.
        newest: Schema version of this program.
        size_bytes: Of the database on its disk, side files included.
        tasks: How many, by state.
        messages: How many are not done, by state.
        workers: Registered ones.
        notes: What a person should know, such as that commits are not synced.
    """

    backend: str
    version: int
    newest: int
    size_bytes: int
    tasks: Mapping[str, int]
    messages: Mapping[str, int]
    workers: int
    open_reviews: int
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """A message that is not done: where it stands and who holds it.

    Attributes:
        state: `ready` may be claimed; `delayed` will be ready at `not_before`; `held` stands behind
            another message of its lane; `leased` is being handled; `dead` has failed for good.
        reason: Why it last failed; "" if it never did.
    """

    message: Message
    state: MessageState
    attempts: int
    crashes: int
    worker_id: str | None
    not_before: datetime | None
    reason: str = ""
