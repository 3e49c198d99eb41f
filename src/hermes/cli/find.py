"""Which task a person means."""

from __future__ import annotations

from dataclasses import replace

from hermes.core.task import Task
from hermes.errors import InputError, NotFoundError
from hermes.store import MAX_TASKS, Store, TaskQuery

_MIN_CHARS = 4


async def all_tasks(store: Store, query: TaskQuery) -> list[Task]:
    """Every task that a query finds, newest first, whatever its limit."""
    found: list[Task] = []
    while page := await store.tasks(replace(query, limit=MAX_TASKS, before=_last_id(found))):
        found.extend(page)
    return found


def _last_id(tasks: list[Task]) -> str | None:
    return tasks[-1].task_id if tasks else None


async def find_task(store: Store, wanted: str) -> Task:
    """A task by its id, by `last`, or by the first or last characters of its id.

    Raises:
        NotFoundError: No task fits.
        InputError: Several fit.
    """
    if wanted == "last":
        newest = await store.tasks(TaskQuery(limit=1))
        if not newest:
            raise NotFoundError("there are no tasks yet", hint="start one with `hermes run`")
        return newest[0]
    try:
        return await store.task(wanted)
    except NotFoundError:
        if len(wanted) < _MIN_CHARS:
            raise
    candidates = await all_tasks(store, TaskQuery())
    found = [
        task
        for task in candidates
        if task.task_id.endswith(wanted) or task.task_id.startswith((wanted, f"task_{wanted}"))
    ]
    if not found:
        raise NotFoundError(f"no task {wanted!r}", hint="`hermes tasks` lists them")
    if len(found) > 1:
        raise InputError(f"{len(found)} tasks fit {wanted!r}", hint="give more of the id")
    return found[0]
