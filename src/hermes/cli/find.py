"""Which task a person means."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hermes.config import Settings
from hermes.core.task import Task
from hermes.errors import InputError, NotFoundError
from hermes.store import MAX_TASKS, Review, Store, TaskQuery

_MIN_CHARS = 4
ALL_REVIEWS = 1_000_000
"""More than anybody will have."""


class NoJournalError(NotFoundError):
    """There is no journal to look into yet."""

    code = "not_found"


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
        NoJournalError: The message names the place.
    """
    if path := missing_journal(settings):
        raise NoJournalError(
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


async def find_review(store: Store, wanted: str) -> Review:
    """A review by its id, the first or last characters of it, or by a task that has one open.

    Of a task with no open review and one that was decided, it is that one.

    Raises:
        NotFoundError: No review fits.
        InputError: Several fit; the message names them.
    """
    try:
        return await store.review(wanted)
    except NotFoundError:
        pass
    if len(wanted) >= _MIN_CHARS:
        fits = [
            review
            for review in await store.reviews(is_open=None, limit=ALL_REVIEWS)
            if review.review_id.endswith(wanted)
            or review.review_id.startswith((wanted, f"review_{wanted}"))
        ]
        if fits:
            return _one_review(fits, f"{wanted!r}")
    try:
        task = await find_task(store, wanted)
    except NotFoundError as exc:
        raise NotFoundError(
            f"no review and no task {wanted!r}", hint="`hermes review list` lists the open ones"
        ) from exc
    of_task = await store.reviews(task_id=task.task_id, is_open=None, limit=ALL_REVIEWS)
    if not of_task:
        raise NotFoundError(
            f"task {task.task_id} asks nobody", hint=f"`hermes show {task.task_id}` says how it is"
        )
    still_open = [review for review in of_task if review.decision is None]
    return _one_review(still_open or of_task, f"task {task.task_id}")


def _one_review(found: list[Review], what: str) -> Review:
    if len(found) == 1:
        return found[0]
    several = ", ".join(review.review_id for review in found[:5])
    raise InputError(f"{len(found)} reviews fit {what}", hint=f"say which: {several}")
