"""Tasks that begin, wait, are woken, crash and end, in any order, stand as a dictionary says."""

from __future__ import annotations

import asyncio
import atexit
import tempfile
from collections.abc import Awaitable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hermes.core import ids
from hermes.core.events import (
    Pending,
    Recorded,
    TaskCreated,
    TaskDispatched,
    TaskEvent,
    TaskResumed,
    TaskSettled,
    TaskStarted,
    TaskWaiting,
)
from hermes.core.task import fold
from hermes.errors import ConflictError, NotFoundError, StaleLeaseError
from hermes.store import Also, Lease, NewTask, Review, Store, Wait, open_store
from hermes.testing.clock import FakeClock
from tests.crash import postgres
from tests.journal import dispatch, enroll, progress, record

R = TypeVar("R")

WORKERS = ("w1", "w2")
SIGNALS = ("parcel", "bell")
KINDS = ("person", "time", "event", "event in time", "children")
PAUSES_S = (0, 1, 5, 20)
MAX_TASKS = 9


@dataclass(kw_only=True)
class Entry:
    """A message that is not done."""

    due: datetime | None = None
    is_dead: bool = False
    attempts: int = 0
    crashes: int = 0


@dataclass(kw_only=True)
class Waiting:
    """A wait whose answer was not taken in."""

    kind: str
    key: str
    due: datetime | None
    ended: bool = False
    answer: object = None


@dataclass(kw_only=True)
class Work:
    """A task, with the messages of its lane."""

    parent: str | None = None
    parent_path: str = ""
    seq: int = 2
    state: str = "dispatched"
    token: int = 0
    holder: tuple[str, str] | None = None
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    waits: dict[str, Waiting] = field(default_factory=dict[str, Waiting])
    rounds: int = 0


class Tasks(RuleBasedStateMachine):
    """Drives a store and the dictionaries side by side, as the engine does."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.runner = asyncio.Runner()
        self.stack = ExitStack()
        self.store = self.make()
        self.run(self.store.__aenter__())
        self.tasks: dict[str, Work] = {}
        self.reviews: dict[str, tuple[str, str | None]] = {}
        self.signals: dict[str, object] = {}
        self.workers: set[str] = set()
        self.leases: list[Lease] = []
        self.calls = 0

    def make(self) -> Store:
        return open_store("memory://", clock=self.clock)

    def run(self, call: Awaitable[R]) -> R:
        async def awaited() -> R:
            return await call

        return self.runner.run(awaited())

    def attempt(self, call: Awaitable[R]) -> R | type[Exception]:
        try:
            return self.run(call)
        except (ConflictError, NotFoundError, StaleLeaseError) as exc:
            return type(exc)

    def teardown(self) -> None:
        self.run(self.store.__aexit__())
        self.runner.close()
        self.stack.close()

    # What the dictionaries say

    def held(self, lease: Lease) -> Work | None:
        """The task of a lease that stands."""
        work = self.tasks[lease.message.task_id]
        mine = (lease.worker_id, lease.message.message_id)
        return work if work.holder == mine and work.token == lease.token else None

    def has_ended(self, wait: Waiting) -> bool:
        return wait.ended or (wait.due is not None and wait.due <= self.clock.now())

    def may_be_claimed(self, work: Work) -> bool:
        return work.holder is None and any(
            not entry.is_dead and (entry.due is None or entry.due <= self.clock.now())
            for entry in work.entries.values()
        )

    def end_wait(self, wait_id: str, answer: object) -> None:
        for work in self.tasks.values():
            wait = work.waits.get(wait_id)
            if wait is not None and not self.has_ended(wait):
                wait.ended, wait.answer = True, answer
                work.entries = {key: e for key, e in work.entries.items() if not e.is_dead}
                work.entries.setdefault(ids.wake_id(wait_id), Entry()).due = None

    def take_in(self, work: Work, wait_id: str) -> None:
        del work.waits[wait_id]
        wake = ids.wake_id(wait_id)
        entry = work.entries.get(wake)
        is_held = work.holder is not None and work.holder[1] == wake
        if entry is not None and not entry.is_dead and not is_held:
            del work.entries[wake]

    def settle(self, task_id: str) -> None:
        work = self.tasks[task_id]
        work.state = "settled"
        for wait_id in list(work.waits):
            self.take_in(work, wait_id)
        for review_id, (owner, decision) in self.reviews.items():
            if owner == task_id and decision is None:
                self.reviews[review_id] = (owner, "cancel")
        if work.parent is None:
            return
        siblings = [
            other
            for other in self.tasks.values()
            if (other.parent, other.parent_path) == (work.parent, work.parent_path)
        ]
        if all(other.state == "settled" for other in siblings):
            for wait_id, wait in list(self.tasks[work.parent].waits.items()):
                if (wait.kind, wait.key) == ("children", work.parent_path):
                    self.end_wait(wait_id, None)

    def next(self, task_id: str, event: TaskEvent) -> Recorded:
        self.calls += 1
        return record(task_id, self.tasks[task_id].seq + 1, event, salt=str(self.calls))

    # What happens

    @initialize()
    def begin(self) -> None:
        for worker in WORKERS:
            self.register(worker)
        self.submit()
        self.submit()
        self.claim(WORKERS[0])

    @rule(seconds=st.sampled_from(PAUSES_S))
    def advance(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(worker=st.sampled_from(WORKERS))
    def register(self, worker: str) -> None:
        self.run(enroll(self.store, worker))
        self.workers.add(worker)

    @rule(worker=st.sampled_from(WORKERS))
    def heartbeat(self, worker: str) -> None:
        assert self.run(self.store.renew(worker)) is (worker in self.workers)

    @rule(worker=st.sampled_from(WORKERS))
    def claim_again(self, worker: str) -> None:
        """Twice as often as anything else: without a claim nothing moves."""
        self.claim(worker)

    @rule(worker=st.sampled_from(WORKERS), crashed=st.booleans())
    def retire(self, worker: str, crashed: bool) -> None:
        freed = self.run(self.store.retire(worker, crashed=crashed))

        held = [w for w in self.tasks.values() if w.holder is not None and w.holder[0] == worker]
        for work in held:
            assert work.holder is not None
            work.entries[work.holder[1]].crashes += crashed
            work.holder = None
        self.workers.discard(worker)
        assert freed == len(held)

    @precondition(lambda self: len(self.tasks) < MAX_TASKS)
    @rule()
    def submit(self) -> None:
        task_id = f"task_{len(self.tasks)}"
        created = TaskCreated(agent="a", goal="go")
        self.run(self.store.submit(opening(task_id, created), dispatch(task_id)))
        self.tasks[task_id] = Work(entries={f"msg_{task_id}": Entry()})

    @rule(worker=st.sampled_from(WORKERS))
    def claim(self, worker: str) -> None:
        got = self.attempt(self.store.claim(worker, limit=100))

        if worker not in self.workers:
            assert got is NotFoundError
            return
        assert not isinstance(got, type)
        expected = {key for key, work in self.tasks.items() if self.may_be_claimed(work)}
        assert {lease.message.task_id for lease in got} == expected
        for lease in got:
            work = self.tasks[lease.message.task_id]
            entry = work.entries[lease.message.message_id]
            assert lease.token == work.token + 1
            assert (lease.attempts, lease.crashes) == (entry.attempts, entry.crashes)
            work.token, work.holder = lease.token, (worker, lease.message.message_id)
        self.leases += got

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        """Begin or resume, taking the answers in that have come; and note an outcome."""
        lease = self.drawn(data)
        self.begin_or_resume(lease)
        if self.tasks[lease.message.task_id].state == "processing":
            self.append(lease)

    def begin_or_resume(self, lease: Lease) -> None:
        task_id, work = lease.message.task_id, self.held(lease)
        known = self.tasks[task_id]
        if known.state == "settled":
            self.check_fence(work, self.attempt(self.store.finish(lease, [])))
            if work is not None:
                self.leave(work, lease)
            return
        begins = known.state == "dispatched"
        worker = lease.worker_id
        event = TaskStarted(worker=worker) if begins else TaskResumed(worker=worker, reason="r")
        ended = [key for key, wait in known.waits.items() if self.has_ended(wait)]
        records = [self.next(task_id, event)]
        got = self.attempt(self.store.append(lease, records, also=Also(ended_waits=ended)))

        self.check_fence(work, got)
        if work is not None:
            work.seq, work.state = work.seq + 1, "processing"
            for wait_id in ended:
                self.take_in(work, wait_id)

    def append(self, lease: Lease) -> None:
        task_id, work = lease.message.task_id, self.held(lease)
        self.calls += 1
        outcome = progress(task_id, self.tasks[task_id].seq + 1, salt=str(self.calls))
        got = self.attempt(self.store.append(lease, [outcome]))

        self.check_fence(work, got)
        if work is not None:
            work.seq += 1
            assert self.attempt(self.store.append(lease, [outcome])) is None, "a repeat is none"

    @precondition(lambda self: self.leases)
    @rule(
        data=st.data(),
        kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=2),
        pause_s=st.sampled_from(PAUSES_S),
        name=st.sampled_from(SIGNALS),
    )
    def wait_more(self, data: st.DataObject, kinds: list[str], pause_s: int, name: str) -> None:
        """Twice as often: this is what it is about."""
        self.wait(data=data, kinds=kinds, pause_s=pause_s, name=name)

    @precondition(lambda self: self.leases)
    @rule(
        data=st.data(),
        kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=2),
        pause_s=st.sampled_from(PAUSES_S),
        name=st.sampled_from(SIGNALS),
    )
    def wait(self, data: st.DataObject, kinds: list[str], pause_s: int, name: str) -> None:
        lease = self.drawn(data)
        if self.tasks[lease.message.task_id].state in ("dispatched", "waiting"):
            self.begin_or_resume(lease)
        task_id, work = lease.message.task_id, self.held(lease)
        if self.tasks[task_id].state != "processing":
            return
        self.tasks[task_id].rounds += 1
        due = self.clock.now() + timedelta(seconds=pause_s)
        also, begun = Also(), list[tuple[Wait, Review | None]]()
        children: list[NewTask] = []
        for number, kind in enumerate(kinds, 1):
            path = f"/turn{self.tasks[task_id].rounds}/tool{number}"
            wait = self.new_wait(task_id, path, kind, due=due, name=name)
            begun.append((wait, self.new_review(wait) if kind == "person" else None))
            if kind == "children":
                children += self.new_children(task_id, wait.key)
        also = Also(
            children=children,
            waits=[wait for wait, _ in begun],
            reviews=[review for _, review in begun if review is not None],
        )
        event = TaskWaiting(pending=tuple(pending(wait) for wait, _ in begun))
        got = self.attempt(self.store.finish(lease, [self.next(task_id, event)], also=also))

        self.check_fence(work, got)
        if work is not None:
            work.seq, work.state = work.seq + 1, "waiting"
            self.leave(work, lease)
            self.now_waits(task_id, also)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """Settle the task; once more if it is settled, which changes nothing."""
        self.end_by(self.drawn(data))

    @precondition(lambda self: any(work.parent for work in self.tasks.values()))
    @rule(worker=st.sampled_from(WORKERS))
    def end_all_children(self, worker: str) -> None:
        """So that parents hear of it: left to chance, it hardly ever happens."""
        self.claim(worker)
        for lease in list(self.leases):
            work = self.held(lease)
            if work is not None and work.parent is not None:
                self.end_by(lease)

    def end_by(self, lease: Lease) -> None:
        task_id, work = lease.message.task_id, self.held(lease)
        records = [self.next(task_id, TaskSettled(outcome="failed"))]
        got = self.attempt(self.store.finish(lease, records))

        self.check_fence(work, got)
        if work is not None:
            self.leave(work, lease)
            if work.state != "settled":
                work.seq += 1
                self.settle(task_id)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), retry_s=st.sampled_from([None, *PAUSES_S]))
    def fail(self, data: st.DataObject, retry_s: int | None) -> None:
        lease = self.drawn(data)
        work = self.held(lease)
        retry_at = None if retry_s is None else self.clock.now() + timedelta(seconds=retry_s)
        got = self.attempt(self.store.fail(lease, [], retry_at=retry_at, reason="r"))

        self.check_fence(work, got)
        if work is not None:
            entry = work.entries[lease.message.message_id]
            entry.attempts, entry.due, entry.is_dead = (
                entry.attempts + 1,
                retry_at,
                retry_at is None,
            )
            work.holder = None

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        lease = self.drawn(data)
        work = self.held(lease)
        self.check_fence(work, self.attempt(self.store.release(lease)))
        if work is not None:
            work.holder = None
            work.entries[lease.message.message_id].due = None

    @precondition(lambda self: self.reviews)
    @rule(data=st.data(), answer=st.sampled_from(["blue", None, 3]))
    def decide(self, data: st.DataObject, answer: object) -> None:
        still_open = [key for key, (_, said) in self.reviews.items() if said is None]
        review_id = data.draw(st.sampled_from(sorted(still_open or self.reviews)))
        owner, decision = self.reviews[review_id]
        got = self.attempt(self.store.decide(review_id, "answer", answer=answer, by="ann"))

        if decision is not None:
            assert got is ConflictError
            return
        self.reviews[review_id] = (owner, "answer")
        said = {"decision": "answer", "answer": answer, "by": "ann"}
        self.end_wait(review_id.replace("review_", "wait_", 1), said)

    @rule(name=st.sampled_from(SIGNALS), payload=st.sampled_from([None, {"n": 1}]))
    def signal(self, name: str, payload: object) -> None:
        assert self.run(self.store.signal(name, payload)) is (name not in self.signals)

        if name not in self.signals:
            self.signals[name] = payload
            for work in list(self.tasks.values()):
                for wait_id, wait in list(work.waits.items()):
                    if (wait.kind, wait.key) == ("event", name):
                        self.end_wait(wait_id, payload)

    # What always holds

    @invariant()
    def tasks_are_folds_in_the_state_that_is_known(self) -> None:
        for task_id, work in self.tasks.items():
            events = self.run(self.store.events(task_id))
            task = self.run(self.store.task(task_id))
            assert [item.seq for item in events] == list(range(1, work.seq + 1))
            assert task == fold(events)
            state = "settled" if task.state.is_terminal else task.state.value
            assert state == work.state

    @invariant()
    def messages_and_their_holders_are_those_that_are_known(self) -> None:
        rows = self.run(self.store.messages())
        for row in rows:
            work = self.tasks[row.message.task_id]
            entry = work.entries[row.message.message_id]
            is_held = work.holder is not None and work.holder[1] == row.message.message_id
            assert (row.state == "leased") is is_held
            assert (row.state == "dead") is entry.is_dead
            assert (row.attempts, row.crashes) == (entry.attempts, entry.crashes)
        assert len(rows) == sum(len(work.entries) for work in self.tasks.values())

    @invariant()
    def waits_and_reviews_are_those_that_are_known(self) -> None:
        for task_id, work in self.tasks.items():
            waits = {wait.wait_id: wait for wait in self.run(self.store.waits(task_id))}
            assert {key: (w.ended, w.answer) for key, w in waits.items()} == {
                key: (self.has_ended(w), w.answer) for key, w in work.waits.items()
            }
        reviews = self.run(self.store.reviews(is_open=None))
        found = {review.review_id: (review.task_id, review.decision) for review in reviews}
        assert found == self.reviews

    # Parts of the rules

    def drawn(self, data: st.DataObject) -> Lease:
        """One of the leases there ever were; mostly one that stands."""
        live = [lease for lease in self.leases if self.held(lease) is not None]
        if not live or data.draw(st.integers(0, 5)) == 5:
            return data.draw(st.sampled_from(self.leases))
        return data.draw(st.sampled_from(live))

    def check_fence(self, work: Work | None, got: object) -> None:
        assert got is (StaleLeaseError if work is None else None)

    def leave(self, work: Work, lease: Lease) -> None:
        del work.entries[lease.message.message_id]
        work.holder = None

    def new_wait(self, task_id: str, path: str, kind: str, *, due: datetime, name: str) -> Wait:
        wait_id = ids.wait_id(task_id, path, self.tasks[task_id].seq + 1)
        match kind:
            case "person":
                key = ids.review_id(wait_id)
                return Wait(wait_id=wait_id, task_id=task_id, path=path, kind=kind, key=key)
            case "time":
                return Wait(wait_id=wait_id, task_id=task_id, path=path, kind=kind, due_at=due)
            case "children":
                key = f"{path}#1"
                return Wait(wait_id=wait_id, task_id=task_id, path=path, kind=kind, key=key)
            case _:
                until = due if kind == "event in time" else None
                return Wait(
                    wait_id=wait_id,
                    task_id=task_id,
                    path=path,
                    kind="event",
                    key=name,
                    due_at=until,
                )

    def new_review(self, wait: Wait) -> Review:
        return Review(
            review_id=wait.key,
            wait_id=wait.wait_id,
            task_id=wait.task_id,
            path=wait.path,
            reason="question",
            name="ask",
            text="?",
            created_at=self.clock.now(),
        )

    def new_children(self, task_id: str, parent_path: str) -> list[NewTask]:
        made: list[NewTask] = []
        for number in (1, 2):
            child = ids.child_task_id(task_id, f"{parent_path}.{number}")
            created = TaskCreated(
                agent="a", goal="part", parent_id=task_id, parent_path=parent_path, root_id=task_id
            )
            made.append(NewTask(records=opening(child, created), message=dispatch(child)))
        return made

    def now_waits(self, task_id: str, also: Also) -> None:
        work = self.tasks[task_id]
        for child in also.children:
            name = child.message.task_id
            created = child.records[0].event
            assert isinstance(created, TaskCreated)
            self.tasks[name] = Work(
                parent=task_id,
                parent_path=created.parent_path,
                entries={child.message.message_id: Entry()},
            )
        for review in also.reviews:
            self.reviews[review.review_id] = (task_id, None)
        for wait in also.waits:
            work.waits[wait.wait_id] = Waiting(kind=wait.kind, key=wait.key, due=wait.due_at)
            if wait.due_at is not None:
                work.entries[ids.wake_id(wait.wait_id)] = Entry(due=wait.due_at)
            if wait.kind == "event" and wait.key in self.signals:
                self.end_wait(wait.wait_id, self.signals[wait.key])


def opening(task_id: str, created: TaskCreated) -> list[Recorded]:
    sent = TaskDispatched(receiver="executor.a", message_id=f"msg_{task_id}")
    return [record(task_id, 1, created), record(task_id, 2, sent)]


def pending(wait: Wait) -> Pending:
    kind = "question" if wait.kind == "person" else wait.kind
    return Pending(kind=kind, path=wait.path, name=wait.key, text="?", wait_id=wait.wait_id)


class SQLiteTasks(Tasks):
    def make(self) -> Store:
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        url = f"sqlite:///{folder}/hermes.db"
        return open_store(url, clock=self.clock, synchronous="NORMAL")


@cache
def ground() -> postgres.PostgresGround:
    stack = ExitStack()
    atexit.register(stack.close)
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    return stack.enter_context(postgres.PostgresGround(Path(folder)))


class PostgresTasks(Tasks):
    def make(self) -> Store:
        return open_store(ground().fresh().database, clock=self.clock)


TestMemoryStore = Tasks.TestCase
TestMemoryStore.settings = settings(max_examples=60, stateful_step_count=50)
TestSQLiteStore = SQLiteTasks.TestCase
TestSQLiteStore.settings = settings(max_examples=25, stateful_step_count=40)


class TestPostgresStore(PostgresTasks.TestCase):
    settings = settings(
        max_examples=12, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow]
    )
