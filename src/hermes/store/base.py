"""The store's contract: the journal, the lanes of messages, and who works on what.

Every write is one transaction, durable on return. A write of a worker carries its `Lease`; the
store refuses it with `StaleLeaseError` once another worker holds the lane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from hermes.core.events import Recorded
from hermes.core.message import Message
from hermes.core.task import Task, TaskState
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
    """Which tasks to list, newest first.

    Attributes:
        states: Only tasks in one of these; empty for any.
        limit: At most so many, from 1 to `MAX_TASKS`.
        before: Id of a task; only tasks created before it.
    """

    states: Sequence[TaskState] = ()
    agent: str | None = None
    session_id: str | None = None
    limit: int = 50
    before: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MAX_TASKS:
            raise InputError(f"a list holds 1 to {MAX_TASKS} tasks, got limit {self.limit}")


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
        limit: int = 1,
    ) -> list[Lease]:
        """Take ready messages, at most one a lane, highest priority and oldest first.

        Args:
            worker_id: A registered worker.
            receivers: Only messages to these; empty for any.
            task_id: Only messages about this task.
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
    ) -> None:
        """Append events to the lease's task; outgoing messages and blobs commit with them.

        Repeating an append whose outcome was lost changes nothing.

        Args:
            lease: Of a message about the task.
            records: In order; may be empty.
            messages: What the events send; each is taken in once, as by `send`.
            blobs: By SHA-256.

        Raises:
            StaleLeaseError: The lane was taken over; nothing was written.
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
    ) -> None:
        """As `append`, and the message is done, outgoing messages are sent, the lane moves on.

        Finishing the message of a settled task with no records is allowed and only ends it.
        """
        ...

    async def fail(
        self, lease: Lease, records: Sequence[Recorded], *, retry_at: datetime | None, reason: str
    ) -> None:
        """As `append`, and the message comes back at `retry_at`, or is dead when that is None."""
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


class TaskReader(Protocol):
    """What can be asked of the journal; every read is short and consistent in itself."""

    async def task(self, task_id: str) -> Task:
        """One task.

        Raises:
            NotFoundError: No such task.
        """
        ...

    async def tasks(self, query: TaskQuery) -> list[Task]:
        """Tasks, newest first."""
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

    async def messages(self, *, task_id: str | None = None) -> list[MessageRow]:
        """Messages that are not done, in lane order."""
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


class Store(TaskWriter, TaskReader, WorkerTable, Protocol):
    """All of it; opened and closed with `async with`."""

    @property
    def run_dir(self) -> str | None:
        """Folder for the lock files of this store's workers; None where none is needed."""
        ...

    async def __aenter__(self) -> Store: ...

    async def __aexit__(self, *exc_info: object) -> None: ...
