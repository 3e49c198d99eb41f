"""The store's contract: the journal, the lanes of messages, and who works on what.

Every write is one transaction, durable on return. A write of a worker carries its `Lease`; the
store refuses it with `StaleLeaseError` once another worker holds the lane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar

from hermes.core.budget import Bounds, Draw, Drawn
from hermes.core.events import Recorded, ReviewDecision
from hermes.core.message import Message
from hermes.core.quota import Meter
from hermes.core.task import Task
from hermes.core.todo import Todo

from .budgets import TreeBudget
from .deeds import BEGINNING, PAGE, Deed, Place
from .values import (
    NO_BLOBS,
    NOTHING,
    Also,
    EffectRow,
    Lease,
    MessageRow,
    Pruned,
    Review,
    StoreStatus,
    Submitted,
    TaskQuery,
    Wait,
    Worker,
)

R = TypeVar("R")


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

    async def draw(self, lease: Lease, wanted: Draw) -> Drawn:
        """Give the lease's task a share of its tree's budget, for its next call at least.

        Shares count from the beginning of their tasks, so a repeat takes nothing twice; the sum of
        them never passes the bounds, however many draw at once. What has to be counted of the task
        itself comes with `wanted`; what its journal says must be written before.

        Raises:
            StaleLeaseError: The lane was taken over; nothing was written.
        """
        ...

    async def put_budget(self, root_id: str, bounds: Bounds) -> None:
        """Put bounds in force for a whole tree, in place of those that its tasks know."""
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

    async def budget(self, root_id: str) -> TreeBudget:
        """How the budget of a tree stands; of no tasks for an unknown root."""
        ...

    async def deeds(
        self, *, after: Place = BEGINNING, since: datetime | None = None, limit: int = PAGE
    ) -> list[Deed]:
        """Calls in all tasks, task by task, for who adds them up.

        Args:
            after: The place of the last one that was read before.
            since: Only of tasks with an event since then; there may be older ones among theirs.
            limit: At most so many.
        """
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


class QuotaTable(Protocol):
    """How far the rates of providers are used up."""

    async def meter(self, key: str, turn: Callable[[Meter, int], tuple[Meter, R]]) -> R:
        """Change a key's meter in one transaction.

        Args:
            key: An account at a provider; no secret.
            turn: Gets the meter and the store's time in microseconds, gives the meter as it is to
                be kept and what comes back from here; pure, since it may be repeated.
        """
        ...


class Store(TaskWriter, TaskReader, WorkerTable, QuotaTable, Maintenance, Protocol):
    """All of it; opened and closed with `async with`."""

    @property
    def run_dir(self) -> str | None:
        """Folder for the lock files of this store's workers; None where none is needed."""
        ...

    async def __aenter__(self) -> Store: ...

    async def __aexit__(self, *exc_info: object) -> None: ...
