"""Which task a person means."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hermes.config import Settings
from hermes.core.task import Task
from hermes.errors import InputError, NotFoundError
from hermes.store import MAX_TASKS, Store, TaskQuery

_MIN_CHARS = 4


def missing_journal(settings: Settings) -> Path | None:
    """Where the journal would be made, if it is a file that is not there."""
    scheme, _, rest = settings.database_url.partition(":///")
    if scheme != "sqlite" or not rest or "?" in rest:  # the store says what is wrong with it
        return None
    path = Path(rest).absolute()
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return path
    except OSError:
        return None
    return None


def require_journal(settings: Settings) -> None:
    """Refuse to look for tasks where there is no journal, rather than make an empty one.

    Raises:
        NotFoundError: The message names the place.
    """
    if path := missing_journal(settings):
        raise NotFoundError(
            f"no journal at {path}",
            hint="`hermes run` makes one; HERMES_DATABASE_URL leads to one in another place",
        )


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
