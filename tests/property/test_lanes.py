"""Any sequence of calls leaves a store as a plain model of dictionaries says."""

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

from hermes.core.events import TaskStarted
from hermes.core.message import Message
from hermes.core.task import fold
from hermes.errors import ConcurrencyError, ConflictError, NotFoundError, StaleLeaseError
from hermes.store import Lease, MemoryStore, SQLiteStore, Store, open_store
from hermes.testing.clock import FakeClock
from tests.journal import enroll, message, opening, progress, record, settled
from tests.postgres import clear, database

R = TypeVar("R")

TASKS = ("task_1", "task_2", "task_3")
LANES = ("task_1", "task_2", "session")
WORKERS = ("w1", "w2")
PAUSES_S = (0, 1, 5, 20)


@dataclass(kw_only=True)
class Entry:
    """A message in the model: its lane is the order of the list it stands in."""

    message: Message
    not_before: datetime | None
    holder: tuple[str, int] | None = None
    is_dead: bool = False
    attempts: int = 0
    crashes: int = 0


@dataclass
class Model:
    """What a store is, said as simply as can be."""

    queue: list[Entry] = field(default_factory=list[Entry])
    accepted: dict[str, Message] = field(default_factory=dict[str, Message])
    keys: dict[str, str] = field(default_factory=dict[str, str])
    tokens: dict[str, int] = field(default_factory=dict[str, int])
    seqs: dict[str, int] = field(default_factory=dict[str, int])
    settled: set[str] = field(default_factory=set[str])
    workers: set[str] = field(default_factory=set[str])

    def state(self, entry: Entry, now: datetime) -> str:
        if entry.is_dead:
            return "dead"
        if entry.holder is not None:
            return "leased"
        lane = [e for e in self.queue if e.message.lane == entry.message.lane and not e.is_dead]
        if lane[0] is not entry:
            return "held"
        return "delayed" if entry.not_before is not None and entry.not_before > now else "ready"

    def earlier(self, sent: Message) -> str | None:
        """The task of an earlier twin of a message; ConflictError if only the id is the same."""
        if sent.message_id in self.accepted:
            if self.accepted[sent.message_id] != sent:
                raise ConflictError(sent.message_id)
            return sent.task_id
        return None if sent.dedupe_key is None else self.keys.get(sent.dedupe_key)

    def put(self, sent: Message) -> None:
        self.accepted[sent.message_id] = sent
        if sent.dedupe_key is not None:
            self.keys[sent.dedupe_key] = sent.task_id
        self.queue.append(Entry(message=sent, not_before=sent.not_before))

    def held(self, lease: Lease) -> Entry | None:
        for entry in self.queue:
            if entry.message.message_id == lease.message.message_id:
                return entry if entry.holder == (lease.worker_id, lease.token) else None
        return None


class Lanes(RuleBasedStateMachine):
    """Drives a store and the model side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.runner = asyncio.Runner()
        self.store = self.make()
        self.run(self.store.__aenter__())
        self.model = Model()
        self.leases: list[Lease] = []
        self.calls = 0

    def make(self) -> Store:
        return MemoryStore(clock=self.clock)

    def run(self, call: Awaitable[R]) -> R:
        async def awaited() -> R:
            return await call

        return self.runner.run(awaited())

    def attempt(self, call: Awaitable[R]) -> R | type[Exception]:
        try:
            return self.run(call)
        except (ConcurrencyError, ConflictError, NotFoundError, StaleLeaseError) as exc:
            return type(exc)

    def teardown(self) -> None:
        self.run(self.store.__aexit__())
        self.runner.close()

    def later(self, pause_s: int | None) -> datetime | None:
        return None if pause_s is None else self.clock.now() + timedelta(seconds=pause_s)

    @rule(seconds=st.sampled_from(PAUSES_S))
    def advance(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(worker=st.sampled_from(WORKERS))
    def register(self, worker: str) -> None:
        self.run(enroll(self.store, worker))
        self.model.workers.add(worker)

    @rule(worker=st.sampled_from(WORKERS), crashed=st.booleans())
    def retire(self, worker: str, crashed: bool) -> None:
        freed = self.run(self.store.retire(worker, crashed=crashed))

        held = [e for e in self.model.queue if e.holder is not None and e.holder[0] == worker]
        for entry in held:
            entry.holder, entry.crashes = None, entry.crashes + crashed
        self.model.workers.discard(worker)
        assert freed == len(held)

    @rule(
        task=st.sampled_from(TASKS),
        lane=st.sampled_from(LANES),
        key=st.sampled_from([None, "k1", "k2"]),
    )
    def submit(self, task: str, lane: str, key: str | None) -> None:
        sent = replace(message(f"msg_{task}", task_id=task, lane=lane), dedupe_key=key)
        got = self.attempt(self.store.submit(opening(task), sent))

        try:
            earlier = self.model.earlier(sent)
        except ConflictError:
            assert got is ConflictError
            return
        if earlier is None and task not in self.model.seqs:
            self.model.put(sent)
            self.model.seqs[task] = 2
            assert not isinstance(got, type) and got.is_new
        elif earlier in self.model.seqs:
            assert not isinstance(got, type) and (got.task_id, got.is_new) == (earlier, False)
        else:
            assert got is ConflictError

    @rule(
        number=st.integers(0, 5),
        task=st.sampled_from(TASKS),
        lane=st.sampled_from([*LANES, None]),
        priority=st.integers(0, 1),
        pause_s=st.sampled_from([None, *PAUSES_S]),
        key=st.sampled_from([None, None, "k1", "k3"]),
    )
    def send(
        self,
        number: int,
        task: str,
        lane: str | None,
        priority: int,
        pause_s: int | None,
        key: str | None,
    ) -> None:
        sent = replace(
            message(f"msg_{number}", task_id=task, lane=lane),
            priority=priority,
            not_before=self.later(pause_s),
            dedupe_key=key,
        )
        got = self.attempt(self.store.send(sent))

        try:
            is_new = self.model.earlier(sent) is None
        except ConflictError:
            assert got is ConflictError
            return
        assert got is is_new
        if is_new:
            self.model.put(sent)

    @rule(worker=st.sampled_from(WORKERS), limit=st.integers(1, 4))
    def claim(self, worker: str, limit: int) -> None:
        got = self.attempt(self.store.claim(worker, limit=limit))

        if worker not in self.model.workers:
            assert got is NotFoundError
            return
        now = self.clock.now()
        ready = [entry for entry in self.model.queue if self.model.state(entry, now) == "ready"]
        ready.sort(key=lambda entry: -entry.message.priority)  # stable: age decides among equals
        assert not isinstance(got, type)
        assert [lease.message for lease in got] == [entry.message for entry in ready[:limit]]
        for entry, lease in zip(ready, got, strict=False):
            lane = entry.message.lane
            assert lease.token == self.model.tokens.get(lane, 0) + 1
            assert (lease.attempts, lease.crashes) == (entry.attempts, entry.crashes)
            self.model.tokens[lane] = lease.token
            entry.holder = (worker, lease.token)
        self.leases += got

    @precondition(lambda self: self.leases)
    @rule(
        data=st.data(),
        events=st.integers(0, 3),
        off=st.sampled_from([0, 0, 0, -1, 1]),
        sends=st.integers(0, 2),
    )
    def append(self, data: st.DataObject, events: int, off: int, sends: int) -> None:
        lease = data.draw(st.sampled_from(self.leases))
        task = lease.message.task_id
        first = self.model.seqs.get(task, 0) + 1 + off
        self.calls += 1
        batch = [progress(task, seq, salt=str(self.calls)) for seq in range(first, first + events)]
        names = [f"msg_{self.calls}_{number}" for number in range(sends)]
        extra = [message(name, task_id=task, lane=lease.message.lane) for name in names]
        got = self.attempt(self.store.append(lease, batch, messages=extra))

        if self.model.held(lease) is None:
            assert got is StaleLeaseError
        elif not batch:
            assert got is None
        elif task not in self.model.seqs:
            assert got is NotFoundError
        elif off:
            assert got is ConcurrencyError
        else:
            assert got is None
            self.model.seqs[task] += events
            again = self.attempt(self.store.append(lease, batch, messages=extra))
            assert again is None  # a repeat
        for sent in extra if got is None else []:
            self.model.put(sent)

    @precondition(lambda self: self.leases)
    @rule(
        data=st.data(),
        ends=st.sampled_from(["finish", "fail"]),
        settles=st.booleans(),
        retry_s=st.sampled_from([None, *PAUSES_S]),
        sends=st.integers(0, 2),
    )
    def end(
        self, data: st.DataObject, ends: str, settles: bool, retry_s: int | None, sends: int
    ) -> None:
        lease = data.draw(st.sampled_from(self.leases))
        task, entry = lease.message.task_id, self.model.held(lease)
        known = task in self.model.seqs
        seq = self.model.seqs.get(task, 0) + 1
        self.calls += 1
        salt = str(self.calls)
        batch = (
            [
                record(task, seq, TaskStarted(worker=lease.worker_id), salt=salt),
                settled(task, seq + 1, salt=salt),
            ]
            if settles and known and seq == 3
            else [settled(task, seq, "cancelled", salt=salt)]
            if settles and known
            else []
        )
        extra = [message(f"msg_{salt}_{n}", task_id=task, lane="session") for n in range(sends)]
        retry_at = self.later(retry_s)
        if ends == "finish":
            got = self.attempt(self.store.finish(lease, batch, messages=extra))
        else:
            got = self.attempt(self.store.fail(lease, batch, retry_at=retry_at, reason="r"))

        if entry is None:
            assert got is StaleLeaseError
            return
        assert got is None
        is_late = bool(batch) and task in self.model.settled
        if batch and not is_late:
            self.model.seqs[task] += len(batch)
            self.model.settled.add(task)
        self.model.queue.remove(entry)
        if ends == "finish":
            for sent in [] if is_late else extra:
                self.model.put(sent)
            return
        entry.holder, entry.attempts = None, entry.attempts + 1
        entry.is_dead, entry.not_before = retry_at is None, retry_at
        self.model.queue.append(entry)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(self.leases))
        got = self.attempt(self.store.release(lease))

        entry = self.model.held(lease)
        assert got is (StaleLeaseError if entry is None else None)
        if entry is not None:
            entry.holder = None

    @invariant()
    def messages_stand_as_the_model_says(self) -> None:
        now = self.clock.now()
        rows = {row.message.message_id: row for row in self.run(self.store.messages())}
        for entry in self.model.queue:
            row = rows.pop(entry.message.message_id)
            is_due = row.not_before is not None and row.not_before <= now
            state = "ready" if row.state == "delayed" and is_due else row.state
            assert row.message == entry.message
            assert state == self.model.state(entry, now)
            assert (row.attempts, row.crashes) == (entry.attempts, entry.crashes)
            assert row.worker_id == (None if entry.holder is None else entry.holder[0])
        assert not rows

    @invariant()
    def tasks_are_the_folds_of_gapless_streams(self) -> None:
        for task_id, seq in self.model.seqs.items():
            events = self.run(self.store.events(task_id))
            task = self.run(self.store.task(task_id))
            assert [item.seq for item in events] == list(range(1, seq + 1))
            assert task == fold(events)
            assert task.state.is_terminal == (task_id in self.model.settled)


class SQLiteLanes(Lanes):
    def make(self) -> Store:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "hermes.db"
        return SQLiteStore(path, clock=self.clock, synchronous="NORMAL")

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class PostgresLanes(Lanes):
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


TestMemoryStore = Lanes.TestCase
TestMemoryStore.settings = settings(max_examples=60, stateful_step_count=40)
TestSQLiteStore = SQLiteLanes.TestCase
TestSQLiteStore.settings = settings(max_examples=25, stateful_step_count=30)
TestPostgresStore = PostgresLanes.TestCase
TestPostgresStore.settings = settings(max_examples=10, stateful_step_count=30)
