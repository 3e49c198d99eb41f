"""The reads, as functions over a cursor of a SQLite connection that is in no transaction.

Each runs its statements to the end, so that no read transaction is left open to hold up a
checkpoint. Events and blobs never change, so several statements see one state of them.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import cast

from hermes.core import json
from hermes.core.events import Recorded
from hermes.core.task import Task
from hermes.core.todo import Todo
from hermes.errors import NotFoundError
from hermes.store import task_list
from hermes.store.deeds import Deed, read_deeds
from hermes.store.driver import Cursor
from hermes.store.queries import sql
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


def task(cursor: Cursor, task_id: str) -> Task:
    """One task, or NotFoundError."""
    keys = [_task_key(cursor, task_id)]
    return _tasks_by_key(cursor, keys)[0]


def tasks(cursor: Cursor, query: TaskQuery) -> list[Task]:
    """Tasks in the order of the query, in the state of one moment."""
    cursor.execute("BEGIN")
    try:
        return _tasks_by_key(cursor, task_list.keys(cursor, query))
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


def messages(cursor: Cursor, *, task_id: str | None, lane: str | None) -> list[MessageRow]:
    """Messages that are not done, in lane order."""
    wanted = {"task_id": task_id, "lane": lane}
    rows = cursor.execute(sql("messages" if task_id is None else "messages_about"), wanted)
    return [read_message_row(row) for row in rows.fetchall()]


def waits(cursor: Cursor, task_id: str, *, now: datetime) -> list[Wait]:
    """A task's waits, oldest first."""
    found = [read_wait(row) for row in cursor.execute(sql("waits"), (task_id,)).fetchall()]
    return [replace(wait, ended=has_ended(wait, now)) for wait in found]


def review(cursor: Cursor, review_id: str) -> Review:
    """One review, or NotFoundError."""
    row = cursor.execute(sql("review"), (review_id,)).fetchone()
    if row is None:
        raise NotFoundError(f"there is no review {review_id!r:.80}")
    return read_review(row)


def reviews(
    cursor: Cursor, *, task_id: str | None, is_open: bool | None, limit: int
) -> list[Review]:
    """Reviews, oldest first."""
    name = "reviews"
    if task_id is not None:
        name = "reviews_of_task"
    elif is_open:
        name = "open_reviews"
    wanted = {"task_id": task_id, "is_open": is_open, "limit": limit}
    return [read_review(row) for row in cursor.execute(sql(name), wanted).fetchall()]


def effect(cursor: Cursor, key: tuple[str, str, str]) -> EffectRow | None:
    """A business key's row, by scope, tool and key."""
    row = cursor.execute(sql("effect"), key).fetchone()
    return None if row is None else read_effect(row)


def deeds(cursor: Cursor, values: dict[str, int]) -> list[Deed]:
    """Outcomes of calls, in their order."""
    return read_deeds(
        cursor.execute(sql("deeds"), values).fetchall(), lambda name: blob(cursor, name)
    )


def todos(cursor: Cursor, *, is_open: bool, limit: int) -> list[Todo]:
    """Todos, the open ones oldest first, else all of them newest first."""
    rows = cursor.execute(sql("open_todos" if is_open else "todos"), (limit,)).fetchall()
    return [read_todo(row) for row in rows]


def cancels(cursor: Cursor, worker_id: str) -> list[str]:
    """Ids of tasks that a worker holds and that are to be cancelled."""
    rows = cursor.execute(sql("cancels"), (worker_id,)).fetchall()
    return [cast("str", task_id) for (task_id,) in rows]


def pulse(cursor: Cursor, *, now: int) -> tuple[int, bool]:
    """What changes with every commit of others, and whether a delayed message is due."""
    ((version,),) = cursor.execute("PRAGMA data_version").fetchall()
    ((is_due,),) = cursor.execute(sql("is_work_due"), (now,)).fetchall()
    return cast("int", version), bool(is_due)


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
