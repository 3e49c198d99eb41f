"""Which tasks a list shows, found without walking over many that it does not."""

from __future__ import annotations

from typing import cast

from hermes.core import json
from hermes.errors import NotFoundError
from hermes.store.driver import Cursor, Value
from hermes.store.queries import sql
from hermes.store.values import TaskQuery

MANY = 2000
"""So many tasks are sorted quickly; of more, the first in an order are found by walking in it."""

_ABOVE_ALL = 2**63 - 1


def keys(cursor: Cursor, query: TaskQuery) -> list[int]:
    """Keys of the tasks of one page, in order.

    Raises:
        NotFoundError: There is no task with the id that the page begins after.
    """
    wanted = _bindings(cursor, query)
    if query.order_by == "updated":
        return _select(cursor, _by_change(cursor, query, wanted), wanted)
    if query.parent_id is not None:
        return _select(cursor, "newest_tasks_of_parent", wanted)
    if query.session_id is not None:
        return _select(cursor, "newest_tasks_of_session", wanted)
    if query.agent is not None:
        return _select(cursor, "newest_tasks_of_agent", wanted)
    if query.states:
        found: set[int] = set()
        for state in set(query.states):
            found.update(_select(cursor, "newest_tasks_in_state", {**wanted, "state": str(state)}))
        return sorted(found, reverse=True)[: query.limit]
    return _select(cursor, "newest_tasks", wanted)


def _bindings(cursor: Cursor, query: TaskQuery) -> dict[str, Value]:
    key, updated_at = _ABOVE_ALL, _ABOVE_ALL
    if query.before is not None:
        row = cursor.execute(sql("task_places"), (query.before,)).fetchone()
        if row is None:
            raise NotFoundError(f"there is no task {query.before!r:.80}")
        key, updated_at = cast("tuple[int, int]", row)
    return {
        "before": key,
        "before_at": updated_at,
        "limit": query.limit,
        "states": json.dumps([str(state) for state in query.states]) if query.states else None,
        "agent": query.agent,
        "session_id": query.session_id,
        "parent_id": query.parent_id,
        "many": MANY,
    }


def _by_change(cursor: Cursor, query: TaskQuery, wanted: dict[str, Value]) -> str:
    """The query that sorts what one filter leaves, if that is little; else the one that walks."""
    filters = [
        (query.parent_id, "count_some_of_parent", "last_changed_tasks_of_parent"),
        (query.session_id, "count_some_of_session", "last_changed_tasks_of_session"),
        (query.agent, "count_some_of_agent", "last_changed_tasks_of_agent"),
        (query.states or None, "count_some_in_states", "last_changed_tasks_in_states"),
    ]
    for value, how_many, sort in filters:
        if value is not None:
            ((count,),) = cursor.execute(sql(how_many), wanted).fetchall()
            if cast("int", count) < MANY:
                return sort
    return "last_changed_tasks"


def _select(cursor: Cursor, name: str, wanted: dict[str, Value]) -> list[int]:
    return [cast("int", key) for (key,) in cursor.execute(sql(name), wanted).fetchall()]
