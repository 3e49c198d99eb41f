"""A hundred thousand tasks, listed a page at a time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import apsw
import psycopg

from hermes.core import codec
from hermes.core.clock import SystemClock, to_micros
from hermes.core.events import TaskCreated
from hermes.core.task import TaskState, TaskStatus
from hermes.store import SQLiteStore, Store, TaskQuery, open_store
from hermes.store.rows import encode_status
from hermes.testing.clock import START
from tests.journal import TRACE
from tests.postgres import database

TASKS = 100_000
PAGE_S = 0.050
COLUMNS = (
    "task_id", "trace_id", "agent", "session_id", "parent_id", "parent_path", "root_id",
    "state", "created_at", "updated_at", "status",
)  # fmt: skip
Row = tuple[str | int | bytes | None, ...]


def state_of(number: int) -> TaskState:
    """Most have succeeded, few have failed, a handful waits."""
    if number % 2_000 == 0:
        return TaskState.WAITING
    return TaskState.FAILED if number % 50 == 0 else TaskState.SUCCEEDED


def task_id(number: int) -> str:
    return f"task_{number:06}"


def task_rows() -> Iterator[Row]:
    """Rows of `task`, oldest first; changed in another order than created."""
    status = {
        state: encode_status(TaskStatus(state=state, seq=1, updated_at=START))
        for state in (TaskState.WAITING, TaskState.FAILED, TaskState.SUCCEEDED)
    }
    begin = to_micros(START)
    for number in range(1, TASKS + 1):
        state = state_of(number)
        parent = task_id(1 + number % 100) if number % 10 == 0 else None
        yield (
            task_id(number), TRACE, f"agent_{number % 7}", f"session_{number % 1000}",
            parent, "/turn1/tool1#1" if parent else None, parent or task_id(number),
            state.value, begin + number, begin + (number * 7919) % TASKS, status[state],
        )  # fmt: skip


def event_rows() -> Iterator[Row]:
    """The first event of each."""
    created = codec.encode(TaskCreated(agent="agent", goal="Count the lamps in the shop"))
    for number in range(1, TASKS + 1):
        event_id = number.to_bytes(16)
        at = to_micros(START) + number
        yield (number, 1, event_id, created.type, created.version, 0, at, created.data)


EVENT_COLUMNS = ("task", "seq", "event_id", "type", "version", "token", "at", "data")

QUERIES: dict[str, TaskQuery] = {
    "newest": TaskQuery(),
    "of a rare state": TaskQuery(states=(TaskState.WAITING,)),
    "of two states": TaskQuery(states=(TaskState.FAILED, TaskState.WAITING)),
    "of an agent": TaskQuery(agent="agent_3"),
    "of an agent and a rare state": TaskQuery(agent="agent_3", states=(TaskState.WAITING,)),
    "of a session": TaskQuery(session_id="session_40"),
    "of a session and a state": TaskQuery(session_id="session_40", states=(TaskState.FAILED,)),
    "children of a task": TaskQuery(parent_id=task_id(31)),
    "last changed": TaskQuery(order_by="updated"),
    "last changed of a rare state": TaskQuery(order_by="updated", states=(TaskState.WAITING,)),
    "last changed of an agent": TaskQuery(order_by="updated", agent="agent_3"),
    "last changed of a session": TaskQuery(order_by="updated", session_id="session_40"),
    "last changed children": TaskQuery(order_by="updated", parent_id=task_id(31)),
    "nothing of an agent": TaskQuery(agent="agent_99"),
    "last changed of nobody": TaskQuery(order_by="updated", agent="agent_99"),
}


async def slowest_page_s(store: Store, query: TaskQuery) -> float:
    """The longest of the first page and one in the middle, each the best of some tries."""
    longest = 0.0
    for page in (query, replace(query, before=task_id(TASKS // 2))):
        times: list[float] = []
        for _ in range(5):
            began = time.perf_counter()
            found = await store.tasks(page)
            times.append(time.perf_counter() - began)
            assert len(found) <= page.limit
            assert not page.states or {task.state for task in found} <= set(page.states)
        longest = max(longest, min(times))
    return longest


async def check_every_list(store: Store) -> None:
    times = {name: await slowest_page_s(store, query) for name, query in QUERIES.items()}
    for name, took in times.items():
        sys.stdout.write(f"{took * 1000:7.1f} ms  {name}\n")
    assert {name: took for name, took in times.items() if took > PAGE_S} == {}
    assert [task.task_id for task in await store.tasks(TaskQuery(limit=2))] == [
        task_id(TASKS),
        task_id(TASKS - 1),
    ]


TABLES: tuple[tuple[str, tuple[str, ...], Callable[[], Iterator[Row]]], ...] = (
    ("task", COLUMNS, task_rows),
    ("event", EVENT_COLUMNS, event_rows),
)


async def fill_sqlite(path: Path) -> None:
    async with SQLiteStore(path, clock=SystemClock()):
        pass  # makes the tables
    file = apsw.Connection(str(path))
    with file:
        for table, columns, rows in TABLES:
            names, marks = ", ".join(columns), ", ".join("?" * len(columns))
            insert = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608  # own names
            file.cursor().executemany(insert, rows())  # pyright: ignore[reportUnknownMemberType]  # its types need Python 3.12
    file.close()


async def fill_postgres(url: str) -> None:
    async with open_store(url, clock=SystemClock()):
        pass
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        for table, columns, rows in TABLES:
            copy = f"COPY hermes.{table} ({', '.join(columns)}) FROM STDIN"
            with cursor.copy(copy.encode()) as into:
                for row in rows():
                    into.write_row(row)
        cursor.execute(b"VACUUM ANALYZE hermes.task, hermes.event")


async def test_a_page_of_a_hundred_thousand_tasks_in_sqlite_takes_no_time(tmp_path: Path) -> None:
    await fill_sqlite(tmp_path / "many.db")
    async with SQLiteStore(tmp_path / "many.db", clock=SystemClock()) as store:
        await check_every_list(store)


async def test_a_page_of_a_hundred_thousand_tasks_in_postgresql_takes_no_time() -> None:
    with database() as url:
        await fill_postgres(url)
        async with open_store(url, clock=SystemClock()) as store:
            await check_every_list(store)
