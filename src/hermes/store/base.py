"""The store's contract: the journal, the lanes of messages, and who works on what.

Every write is one transaction, durable on return. A write of a worker carries its `Lease`; the
store refuses it with `StaleLeaseError` once another worker holds the lane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from hermes.core.events import Recorded, ReviewDecision, ReviewReason, WaitKind
from hermes.core.message import Message
from hermes.core.task import Task, TaskState
from hermes.core.todo import Todo
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
        order_by: The newest first, or the last changed first.
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


class TaskWriter(Protocol):
    """The transactions."""

    async def submit(
        self, records: Sequence[Recorded], message: Message, *, claim_for: str | None = None
    ) -> Submitted:
        """Create a task with its first events and its message, all or nothing.

        Args:
            records: `task.created` and what follows it, numbered from 1.
            message: Its `dedupe_key`, if any, makes a repeat find the first task.
            claim_for: A registered worker that works on it at once, if it is first in its lane.

        Raises:
            ConflictError: The task id or message id is in use for something else.
        """
        ...

    async def claim(
        self,
        worker_id: str,
        *,
        receivers: Sequence[str] = (),
        task_id: str | None = None,
        root_id: str | None = None,
        limit: int = 1,
    ) -> list[Lease]:
        """Take ready messages, at most one a lane, highest priority and oldest first.

        Args:
            worker_id: A registered worker.
            receivers: Only messages to these; empty for any.
            task_id: Only messages about this task.
            root_id: Only messages about this task and those below it.
            limit: At most so many.
        """
        ...

    async def append(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        messages: Sequence[Message] = (),
        blobs: Mapping[str, bytes] = NO_BLOBS,
        also: Also = NOTHING,
    ) -> None:
        """Append events to the lease's task; outgoing messages and blobs commit with them.

        Repeating an append whose outcome was lost changes nothing.

        Args:
            lease: Of a message about the task.
            records: In order; may be empty.
            messages: What the events send; each is taken in once, as by `send`.
            blobs: By SHA-256.
            also: Children, waits, reviews and business keys.

        Raises:
            StaleLeaseError: The lane was taken over; nothing was written.
            EffectTakenError: A business key is another call's; nothing was written.
            ConcurrencyError: The stream is at another version; nothing was written.
            TransitionError: An event does not fit the task's state; nothing was written.
            ConflictError: An event or message id is in use for something else; nothing was written.
        """
        ...

    async def finish(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        messages: Sequence[Message] = (),
        blobs: Mapping[str, bytes] = NO_BLOBS,
        also: Also = NOTHING,
    ) -> None:
        """As `append`, and the message is done, outgoing messages are sent, the lane moves on.

        Where the events settle a child, its parent's wait for children ends in this transaction
        if it was the last. Finishing the message of a settled task with no records is allowed and
        only ends it.
        """
        ...

    async def fail(
        self,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        retry_at: datetime | None,
        reason: str,
        also: Also = NOTHING,
    ) -> None:
        """As `append`, and the message comes back at `retry_at`, or is dead when that is None.

        What kills a task's message settles the task or puts it into review by `records` and
        `also`, in the same transaction. A dead message goes when its task is woken.
        """
        ...

    async def release(self, lease: Lease) -> None:
        """Give the message back, ready at once, without counting an attempt."""
        ...

    async def send(self, message: Message) -> bool:
        """Put a message into its lane; False if its dedupe key was seen before.

        Raises:
            ConflictError: The message id is in use with another body.
        """
        ...

    async def decide(
        self, review_id: str, decision: ReviewDecision, *, answer: object = None, by: str
    ) -> Review:
        """Record a person's decision and wake the task, in one transaction; the first one wins.

        Raises:
            NotFoundError: No such review.
            ConflictError: It was decided before; the message says what, by whom and when.
        """
        ...

    async def signal(self, name: str, payload: object = None) -> bool:
        """Let the event `name` happen: every wait for it ends, now or later; False if it had.

        Raises:
            CodecError: The payload is not plain JSON.
        """
        ...

    async def put_todo(self, todo: Todo) -> Todo:
        """Keep a todo, or mark the one of this id as done if `todo` is; gives it as it is now.

        The text and times of one that is there already stay: a repeat changes nothing.

        Raises:
            CodecError: The text holds a lone surrogate or a zero byte.
        """
        ...

    async def request_cancel(self, task_id: str) -> list[str]:
        """Mark a task and all below it as to be cancelled; returns the unsettled ones' ids.

        Who holds one sees it within a second; who holds none wakes it to be settled.

        Raises:
            NotFoundError: No such task.
        """
        ...


class TaskReader(Protocol):
    """What can be asked of the journal; every read is short and consistent in itself."""

    async def task(self, task_id: str) -> Task:
        """One task.

        Raises:
            NotFoundError: No such task.
        """
        ...

    async def tasks(self, query: TaskQuery) -> list[Task]:
        """Tasks in the order of the query."""
        ...

    async def events(self, task_id: str, *, after: int = 0) -> list[Recorded]:
        """A task's events with `seq` above `after`, in order; empty for an unknown task."""
        ...

    async def blob(self, sha256: str) -> bytes:
        """The bytes with this hash.

        Raises:
            NotFoundError: None are stored.
        """
        ...

    async def messages(
        self, *, task_id: str | None = None, lane: str | None = None
    ) -> list[MessageRow]:
        """Messages that are not done, in lane order; of one task, of one lane, or all."""
        ...

    async def waits(self, task_id: str) -> list[Wait]:
        """A task's waits, oldest first; those whose answer was taken in are gone."""
        ...

    async def review(self, review_id: str) -> Review:
        """One review.

        Raises:
            NotFoundError: No such review.
        """
        ...

    async def reviews(
        self, *, task_id: str | None = None, is_open: bool | None = True, limit: int = 100
    ) -> list[Review]:
        """Reviews, oldest first; the open ones by default, all with None."""
        ...

    async def effect(self, scope: str, tool: str, key: str) -> EffectRow | None:
        """A business key's place in the ledger, or None if nobody has claimed it."""
        ...

    async def todos(self, *, is_open: bool = True, limit: int = 100) -> list[Todo]:
        """The first todos that are open, oldest first; else the last of all, newest first."""
        ...

    async def cancels(self, worker_id: str) -> list[str]:
        """Ids of the tasks that a worker holds and that are to be cancelled."""
        ...

    async def work_hint(self, timeout_s: float) -> None:
        """Wait until there may be something to claim; a hint only, and at most `timeout_s`.

        What came since the last claim of this store object is not missed: it returns at once.
        """
        ...


class WorkerTable(Protocol):
    """Which processes live."""

    async def register(self, worker: Worker) -> None:
        """Add a worker."""
        ...

    async def renew(self, worker_id: str) -> bool:
        """Record a sign of life; False when the worker was declared dead."""
        ...

    async def retire(self, worker_id: str, *, crashed: bool) -> int:
        """Remove a worker; its leased messages become ready again.

        Args:
            worker_id: Whose leases end.
            crashed: Each of its messages then counts one more crash.

        Returns:
            How many messages became ready.
        """
        ...

    async def workers(self) -> list[Worker]:
        """All registered workers."""
        ...


class Maintenance(Protocol):
    """What an operator does with the database as a whole."""

    async def status(self) -> StoreStatus:
        """How it stands."""
        ...

    async def backup(self, target: Path) -> None:
        """Write a consistent copy to a new file while others go on working.

        Raises:
            InputError: The file exists.
            StoreUnavailableError: It cannot be written, or the tool for it is missing.
        """
        ...

    async def prune(self, before: datetime, *, dry_run: bool = False) -> Pruned:
        """Remove whole trees of settled tasks whose last event is older than `before`.

        A tree goes only if no task of it is unsettled, no message of it is left but dead ones, no
        review of it is open and no unsettled task of its session needs it. With it go its business
        keys, those for all tasks too: prune later than a deed could be asked for again. Signals
        older than `before` go, then blobs that nothing refers to, and the space is given back to
        the disk. All in short transactions; a prune that is broken off is gone on with by the next.
        """
        ...


class Store(TaskWriter, TaskReader, WorkerTable, Maintenance, Protocol):
    """All of it; opened and closed with `async with`."""

    @property
    def run_dir(self) -> str | None:
        """Folder for the lock files of this store's workers; None where none is needed."""
        ...

    async def __aenter__(self) -> Store: ...

    async def __aexit__(self, *exc_info: object) -> None: ...
