"""The reads of `PostgresStore`, as functions over a connection that is in no transaction.

What belongs together is read by one statement, which sees the state of one moment; events and
blobs never change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast

from hermes.core import json
from hermes.core.clock import from_micros
from hermes.core.events import Recorded
from hermes.core.task import Task
from hermes.core.todo import Todo
from hermes.errors import NotFoundError
from hermes.store.deeds import Deed, read_deeds, whole_blobs
from hermes.store.driver import Row
from hermes.store.postgres_connection import Connection
from hermes.store.postgres_transaction import Values
from hermes.store.queries import postgres
from hermes.store.rows import (
    read_effect,
    read_message_row,
    read_records,
    read_review,
    read_task,
    read_todo,
    read_wait,
    read_worker,
)
from hermes.store.rules import has_ended, is_blob_name
from hermes.store.values import EffectRow, MessageRow, Review, TaskQuery, Wait, Worker

_ABOVE_ALL_KEYS = 2**63 - 1


async def task(connection: Connection, task_id: str) -> Task:
    """One task, or NotFoundError."""
    found = await _rows(connection, "task", (task_id,))
    if not found:
        raise NotFoundError(f"there is no task {task_id!r:.80}")
    return (await _read_tasks(connection, found))[0]


async def tasks(connection: Connection, query: TaskQuery) -> list[Task]:
    """Tasks in the order of the query, in the state of one moment."""
    before, changed_before = _ABOVE_ALL_KEYS, _ABOVE_ALL_KEYS
    if query.before is not None:
        place = await _row(connection, "task_place", (query.before,))
        if place is None:
            raise NotFoundError(f"there is no task {query.before!r:.80}")
        before, changed_before = cast("tuple[int, int]", place)
    wanted = {
        "before": before,
        "changed_before": changed_before,
        "limit": query.limit,
        "states": [str(state) for state in query.states] or None,
        "agent": query.agent,
        "session_id": query.session_id,
        "parent_id": query.parent_id,
    }
    # Planned for these very values: which index serves best depends on what is left out.
    cursor = await connection.execute(postgres(_listing(query)), wanted, prepare=False)
    return await _read_tasks(connection, await cursor.fetchall())


async def events(connection: Connection, task_id: str, *, after: int) -> list[Recorded]:
    """A task's events above `after`, in order."""
    rows = await _rows(connection, "events_after", (task_id, max(after, 0)))
    blobs = await _blobs(connection, (row[-1] for row in rows))
    return read_records(task_id, rows, blobs.__getitem__)


async def blob(connection: Connection, name: str) -> bytes:
    """The bytes of a blob, or NotFoundError."""
    keys = [bytes.fromhex(name)] if is_blob_name(name) else []
    row = await _row(connection, "blobs", (keys,)) if keys else None
    if row is None:
        raise NotFoundError(f"no blob {name!r:.80} is stored")
    return cast("bytes", row[1])


async def messages(
    connection: Connection, *, task_id: str | None, lane: str | None
) -> list[MessageRow]:
    """Messages that are not done, in lane order."""
    wanted = {"task_id": task_id, "lane": lane}
    cursor = await connection.execute(postgres("messages"), wanted, prepare=False)
    return [read_message_row(row) for row in await cursor.fetchall()]


async def waits(connection: Connection, task_id: str, *, now: datetime) -> list[Wait]:
    """A task's waits, oldest first."""
    found = [read_wait(row) for row in await _rows(connection, "waits", (task_id,))]
    return [replace(wait, ended=has_ended(wait, now)) for wait in found]


async def review(connection: Connection, review_id: str) -> Review:
    """One review, or NotFoundError."""
    row = await _row(connection, "review", (review_id,))
    if row is None:
        raise NotFoundError(f"there is no review {review_id!r:.80}")
    return read_review(row)


async def reviews(
    connection: Connection, *, task_id: str | None, is_open: bool | None, limit: int
) -> list[Review]:
    """Reviews, oldest first."""
    name = "reviews"
    if task_id is not None:
        name = "reviews_of_task"
    elif is_open:
        name = "open_reviews"
    wanted = {"task_id": task_id, "is_open": is_open, "limit": limit}
    return [read_review(row) for row in await _rows(connection, name, wanted)]


async def effect(connection: Connection, key: tuple[str, str, str]) -> EffectRow | None:
    """A business key's row, by scope, tool and key."""
    row = await _row(connection, "effect", key)
    return None if row is None else read_effect(row)


async def deeds(connection: Connection, values: Mapping[str, int]) -> list[Deed]:
    """Outcomes of calls, in their order."""
    rows = await _rows(connection, "deeds", values)
    names = whole_blobs(rows)
    blobs = {name: await blob(connection, name) for name in names}
    return read_deeds(rows, blobs.__getitem__)


async def todos(connection: Connection, *, is_open: bool, limit: int) -> list[Todo]:
    """Todos, the open ones oldest first, else all of them newest first."""
    rows = await _rows(connection, "open_todos" if is_open else "todos", (limit,))
    return [read_todo(row) for row in rows]


async def cancels(connection: Connection, worker_id: str) -> list[str]:
    """Ids of tasks that a worker holds and that are to be cancelled."""
    rows = await _rows(connection, "cancels", (worker_id,))
    return [cast("str", task_id) for (task_id,) in rows]


async def next_due(connection: Connection) -> datetime | None:
    """When the next delayed message is to be handled, if there is one."""
    row = await _row(connection, "next_due")
    micros = None if row is None else cast("int | None", row[0])
    return None if micros is None else from_micros(micros)


async def workers(connection: Connection, *, now: datetime | None) -> list[Worker]:
    """Registered workers, by id.

    Args:
        connection: To read over.
        now: What the local clock says where signs of life were noted by the database's: their
            times are told as if by the local one. None where all used the local clock.
    """
    found: list[Worker] = []
    for *row, database_now in await _rows(connection, "workers"):
        worker = read_worker(tuple(row))
        if now is not None:
            age: timedelta = from_micros(cast("int", database_now)) - worker.renewed_at
            worker = replace(worker, renewed_at=now - age)
        found.append(worker)
    return found


async def _read_tasks(connection: Connection, rows: Sequence[Row]) -> list[Task]:
    blobs = await _blobs(connection, (row[-1] for row in rows))
    return [read_task(row, blobs.__getitem__) for row in rows]


async def _blobs(connection: Connection, refs: Iterable[object]) -> Mapping[str, bytes]:
    """The blobs that events refer to, by name; `refs` as the column of that name."""
    names: set[str] = set()
    for each in refs:
        if isinstance(each, bytes):
            names |= {str(name) for name in (json.as_object(json.loads(each)) or {}).values()}
    if not names:
        return {}
    rows = await _rows(connection, "blobs", ([bytes.fromhex(name) for name in names],))
    return {cast("bytes", key).hex(): cast("bytes", data) for key, data in rows}


def _listing(query: TaskQuery) -> str:
    """Which query walks the index that suits; each filters by what is left."""
    if query.order_by == "updated":
        return "last_changed_tasks"
    if query.parent_id is not None:
        return "newest_tasks_of_parent"
    if query.session_id is not None:
        return "newest_tasks_of_session"
    if query.agent is not None:
        return "newest_tasks_of_agent"
    if query.states:
        return "newest_tasks_in_states"
    return "newest_tasks"


async def _rows(connection: Connection, name: str, values: Values = ()) -> list[Row]:
    return await (await connection.execute(postgres(name), values)).fetchall()


async def _row(connection: Connection, name: str, values: Values = ()) -> Row | None:
    return await (await connection.execute(postgres(name), values)).fetchone()
