"""The reads, as functions over a cursor of a SQLite connection that is in no transaction.

Each runs its statements to the end, so that no read transaction is left open to hold up a
checkpoint. Events and blobs never change, so several statements see one state of them.
"""

from __future__ import annotations

from typing import cast

from hermes.core import json
from hermes.core.events import Recorded
from hermes.core.task import Task
from hermes.errors import NotFoundError
from hermes.store.base import MessageRow, TaskQuery, Worker
from hermes.store.driver import Bindings, Cursor
from hermes.store.queries import sql
from hermes.store.rows import read_message_row, read_records, read_task, read_worker
from hermes.store.rules import is_blob_name

_ABOVE_ALL_KEYS = 2**63 - 1


def task(cursor: Cursor, task_id: str) -> Task:
    """One task, or NotFoundError."""
    keys = [_task_key(cursor, task_id)]
    return _tasks_by_key(cursor, keys)[0]


def tasks(cursor: Cursor, query: TaskQuery) -> list[Task]:
    """Tasks, newest first, in the state of one moment."""
    wanted: Bindings = {
        "before": _ABOVE_ALL_KEYS if query.before is None else _task_key(cursor, query.before),
        "limit": query.limit,
        "states": json.dumps([str(state) for state in query.states]) if query.states else None,
        "agent": query.agent,
        "session_id": query.session_id,
    }
    # Which index to walk; the query of each filters by what is left.
    if query.session_id is not None:
        name = "newest_tasks_of_session"
    elif query.agent is not None:
        name = "newest_tasks_of_agent"
    elif query.states:
        name = "newest_tasks_in_states"
    else:
        name = "newest_tasks"
    cursor.execute("BEGIN")
    try:
        keys = [cast("int", key) for (key,) in cursor.execute(sql(name), wanted).fetchall()]
        return _tasks_by_key(cursor, keys)
    finally:
        cursor.execute("COMMIT")


def events(cursor: Cursor, task_id: str, *, after: int) -> list[Recorded]:
    """A task's events above `after`, in order."""
    rows = cursor.execute(sql("events_after"), (task_id, after)).fetchall()
    return read_records(task_id, rows, lambda name: blob(cursor, name))


def blob(cursor: Cursor, name: str) -> bytes:
    """The bytes of a blob, or NotFoundError."""
    key = bytes.fromhex(name) if is_blob_name(name) else b""
    row = cursor.execute(sql("blob"), (key,)).fetchone()
    if row is None:
        raise NotFoundError(f"no blob {name!r:.80} is stored")
    return cast("bytes", row[0])


def messages(cursor: Cursor, *, task_id: str | None) -> list[MessageRow]:
    """Messages that are not done, in lane order."""
    return [read_message_row(row) for row in cursor.execute(sql("messages"), (task_id,)).fetchall()]


def workers(cursor: Cursor) -> list[Worker]:
    """Registered workers, by id."""
    return [read_worker(row) for row in cursor.execute(sql("workers")).fetchall()]


def _task_key(cursor: Cursor, task_id: str) -> int:
    row = cursor.execute(sql("task_key"), (task_id,)).fetchone()
    if row is None:
        raise NotFoundError(f"there is no task {task_id!r:.80}")
    return cast("int", row[0])


def _tasks_by_key(cursor: Cursor, keys: list[int]) -> list[Task]:
    rows = cursor.execute(sql("tasks_by_key"), (json.dumps(keys),)).fetchall()
    return [read_task(row, lambda name: blob(cursor, name)) for row in rows]
