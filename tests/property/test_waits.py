"""Whatever ends a wait, in whatever order: the task is woken, once it is due, and not before."""

import asyncio
import tempfile
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hermes.core import ids
from hermes.core.events import Recorded, TaskResumed, WaitKind
from hermes.errors import ConflictError
from hermes.store import Also, Lease, MemoryStore, SQLiteStore, Store, Wait, open_store
from hermes.testing.clock import FakeClock
from tests.journal import (
    WORKER,
    asking,
    child,
    enroll,
    record,
    review,
    settled,
    submit,
    wait,
    waiting,
)
from tests.postgres import clear, database

R = TypeVar("R")

EVENTS = ("a", "b")
KINDS: list[WaitKind] = ["event", "event", "time", "person", "children"]
PAUSES_S = (-5, 5, 10, 20)
MAX_TASKS = 6


@dataclass(kw_only=True)
class Known:
    """A task in the model, and its waits by id: what ended each, or None while it is open."""

    task_id: str
    parent: str | None = None
    seq: int = 2
    is_settled: bool = False
    is_to_cancel: bool = False
    has_begun: bool = False
    waits: dict[str, Wait] = field(default_factory=dict[str, Wait])
    children: int = 0


class Waits(RuleBasedStateMachine):
    """Drives a store and a model of what its tasks wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.runner = asyncio.Runner()
        self.store = self.make()
        self.run(self.store.__aenter__())
        self.run(enroll(self.store))
        self.tasks: dict[str, Known] = {}
        self.signals: dict[str, int] = {}
        self.leases: dict[str, Lease] = {}
        self.count = 0
        self.submit()

    def make(self) -> Store:
        return MemoryStore(clock=self.clock)

    def run(self, call: Awaitable[R]) -> R:
        async def awaited() -> R:
            return await call

        return self.runner.run(awaited())

    def teardown(self) -> None:
        self.run(self.store.__aexit__())
        self.runner.close()

    # What the model knows

    def is_over(self, one: Wait) -> bool:
        """Whether a wait has ended, by what it was for or by its time."""
        by_time = one.kind != "person" and one.due_at is not None
        return one.ended or (by_time and one.due_at is not None and one.due_at <= self.now())

    def now(self) -> datetime:
        return self.clock.now()

    def open_waits(self, kind: WaitKind, key: str) -> list[tuple[Known, Wait]]:
        return [
            (task, one)
            for task in self.tasks.values()
            for one in task.waits.values()
            if (one.kind, one.key) == (kind, key) and not self.is_over(one)
        ]

    def has_unsettled(self, task: Known) -> bool:
        return any(
            other.parent == task.task_id and not other.is_settled for other in self.tasks.values()
        )

    def end(self, task: Known, one: Wait, answer: object) -> None:
        task.waits[one.wait_id] = replace(one, ended=True, answer=answer)

    def is_ready(self, task: Known) -> bool:
        """Whether somebody has to come by a task that nobody holds."""
        is_new = not task.has_begun
        return not task.is_settled and (
            is_new or task.is_to_cancel or any(map(self.is_over, task.waits.values()))
        )

    # What can happen

    @rule(seconds=st.sampled_from([1, 5, 10]))
    def advance(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: len(self.tasks) < 2)
    @rule()
    def submit(self) -> None:
        task_id = f"task_{len(self.tasks)}"
        self.run(submit(self.store, task_id))
        self.tasks[task_id] = Known(task_id=task_id)

    @precondition(lambda self: any(map(self.is_ready, self.tasks.values())))
    @rule(limit=st.integers(1, 3))
    def claim(self, limit: int) -> None:
        got = self.run(self.store.claim(WORKER, limit=limit))

        able = [
            task
            for task in self.tasks.values()
            if task.task_id not in self.leases and self.is_ready(task)
        ]
        assert len(got) == min(limit, len(able))
        for lease in got:
            assert lease.message.task_id in {task.task_id for task in able}
            self.leases[lease.message.task_id] = lease

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), kinds=st.lists(st.sampled_from(KINDS), max_size=3), split=st.booleans())
    def suspend(self, data: st.DataObject, kinds: list[WaitKind], split: bool) -> None:
        """Take in what has ended, begin new waits, and let go."""
        task = self.tasks[data.draw(st.sampled_from(sorted(self.leases)))]
        lease = self.leases.pop(task.task_id)
        over = [key for key, one in task.waits.items() if self.is_over(one)]
        if split:
            kinds = [*kinds, "children"]
        begun = [self.new_wait(data, task, kind) for kind in kinds]
        asked = [
            review(int(one.key.rpartition("_")[2]), task_id=task.task_id)
            for one in begun
            if one.kind == "person"
        ]
        made = [self.new_child(task)] if split and len(self.tasks) < MAX_TASKS else []
        also = Also(
            waits=begun,
            reviews=asked,
            ended_waits=over,
            children=[child(key, parent_id=task.task_id, path="/p") for key in made],
        )
        self.run(self.store.finish(lease, self.records(task, waiting), also=also))

        task.has_begun = True
        for key in over:
            del task.waits[key]
        for one in begun:
            task.waits[one.wait_id] = one
            if one.kind == "event" and one.key in self.signals and not self.is_over(one):
                self.end(task, one, self.signals[one.key])
            if one.kind == "children" and not self.has_unsettled(task):
                self.end(task, one, None)

    def new_wait(self, data: st.DataObject, task: Known, kind: WaitKind) -> Wait:
        self.count += 1
        due_in_s = data.draw(st.sampled_from([None, *PAUSES_S]))
        if kind == "time" and due_in_s is None:
            due_in_s = 5
        one = wait(
            f"wait_{self.count}",
            task_id=task.task_id,
            kind=kind,
            key={
                "event": data.draw(st.sampled_from(EVENTS)),
                "children": "/p",
                "person": f"review_{self.count}",
                "time": "",
            }[kind],
            due_at=None if due_in_s is None else self.now() + timedelta(seconds=due_in_s),
        )
        return asking(review(self.count, task_id=task.task_id)) if kind == "person" else one

    def new_child(self, parent: Known) -> str:
        task_id = f"task_{len(self.tasks)}"
        self.tasks[task_id] = Known(
            task_id=task_id, parent=parent.task_id, is_to_cancel=parent.is_to_cancel
        )
        return task_id

    def records(self, task: Known, last: object) -> list[Recorded]:
        """Work goes on, and then what `last` makes."""
        first = record(
            task.task_id, task.seq + 1, TaskResumed(worker=WORKER, reason="woken"), salt="r"
        )
        task.seq += 2
        if last is waiting:
            return [first, waiting(task.task_id, task.seq)]
        return [first, settled(task.task_id, task.seq)]

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        task = self.tasks[data.draw(st.sampled_from(sorted(self.leases)))]
        self.run(self.store.finish(self.leases.pop(task.task_id), self.records(task, settled)))

        task.is_settled, task.has_begun = True, True
        task.waits.clear()
        parent = self.tasks.get(task.parent or "")
        if parent is not None and not self.has_unsettled(parent):
            for owner, one in self.open_waits("children", "/p"):
                if owner is parent:
                    self.end(parent, one, None)

    @precondition(lambda self: self.leases)
    @rule(crashed=st.booleans())
    def retire(self, crashed: bool) -> None:
        """The worker ends, and what it held comes back."""
        assert self.run(self.store.retire(WORKER, crashed=crashed)) == len(self.leases)
        self.run(enroll(self.store))
        self.leases.clear()

    @rule(name=st.sampled_from(EVENTS))
    def signal(self, name: str) -> None:
        self.count += 1
        is_new = self.run(self.store.signal(name, self.count))

        assert is_new is (name not in self.signals)
        if is_new:
            self.signals[name] = self.count
            for task, one in self.open_waits("event", name):
                self.end(task, one, self.count)

    @rule(data=st.data())
    def decide(self, data: st.DataObject) -> None:
        asked = self.run(self.store.reviews(is_open=None))
        if not asked:
            return
        one = data.draw(st.sampled_from(asked))
        try:
            self.run(self.store.decide(one.review_id, "approve", answer=1, by="ana"))
        except ConflictError:
            assert one.decision is not None
            return
        assert one.decision is None
        for task, open_wait in self.open_waits("person", one.review_id):
            self.end(task, open_wait, {"decision": "approve", "answer": 1, "by": "ana"})

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        task_id = data.draw(st.sampled_from(sorted(self.tasks)))
        marked = self.run(self.store.request_cancel(task_id))

        below = {task_id}
        for task in self.tasks.values():  # parents stand before their children
            if task.parent in below:
                below.add(task.task_id)
        assert marked == sorted(key for key in below if not self.tasks[key].is_settled)
        for key in marked:
            self.tasks[key].is_to_cancel = True

    # What must always hold

    @invariant()
    def waits_stand_as_the_model_says(self) -> None:
        for task in self.tasks.values():
            stored = self.run(self.store.waits(task.task_id))
            assert stored == [replace(one, ended=self.is_over(one)) for one in task.waits.values()]

    @invariant()
    def who_is_to_go_on_has_a_message_and_nobody_else(self) -> None:
        rows = self.run(self.store.messages())
        for task in self.tasks.values():
            mine = [row for row in rows if row.message.task_id == task.task_id]
            due = [
                row
                for row in mine
                if row.state == "ready"
                or (row.not_before is not None and row.not_before <= self.now())
            ]
            if task.task_id in self.leases:
                assert [row.worker_id for row in mine if row.state == "leased"] == [WORKER]
            else:
                assert bool(due) == self.is_ready(task), (task, mine)
            if task.is_settled:
                assert not mine

    @invariant()
    def the_holder_learns_what_is_to_be_cancelled(self) -> None:
        assert self.run(self.store.cancels(WORKER)) == [
            key for key in self.tasks if key in self.leases and self.tasks[key].is_to_cancel
        ]

    @invariant()
    def only_open_tasks_have_open_reviews(self) -> None:
        for one in self.run(self.store.reviews()):
            assert one.wait_id in self.tasks[one.task_id].waits
            assert one.review_id == ids.review_id(one.wait_id)


class SQLiteWaits(Waits):
    def make(self) -> Store:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "hermes.db"
        return SQLiteStore(path, clock=self.clock, synchronous="NORMAL")

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class PostgresWaits(Waits):
    def make(self) -> Store:
        url = postgres_url()
        clear(url)
        return open_store(url, clock=self.clock)


RESOURCES = ExitStack()


@cache
def postgres_url() -> str:
    """A database for all examples."""
    return RESOURCES.enter_context(database())


@pytest.fixture(scope="module", autouse=True)
def resources() -> Iterator[None]:
    yield
    RESOURCES.close()


TestMemoryStore = Waits.TestCase
TestMemoryStore.settings = settings(max_examples=80, stateful_step_count=50)
TestSQLiteStore = SQLiteWaits.TestCase
TestSQLiteStore.settings = settings(max_examples=25, stateful_step_count=50)
TestPostgresStore = PostgresWaits.TestCase
TestPostgresStore.settings = settings(max_examples=10, stateful_step_count=50)
