"""Which task a person means."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hermes.config import Settings
from hermes.core.task import Task
from hermes.errors import InputError, NotFoundError
from hermes.runtime import open_tasks
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

    `last` is the newest that a person has started: the tasks that it handed work to are no such.

    Raises:
        NotFoundError: No task fits.
        InputError: Several fit.
    """
    if wanted == "last":
        return await _last(store)
    try:
        return await store.task(wanted)
    except NotFoundError:
        pass
    candidates = await all_tasks(store, TaskQuery()) if len(wanted) >= _MIN_CHARS else []
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


async def _last(store: Store) -> Task:
    page = await store.tasks(TaskQuery(limit=1))
    while page:
        for task in page:
            if task.spec.parent_id is None:
                return task
        page = await store.tasks(TaskQuery(limit=MAX_TASKS, before=page[-1].task_id))
    raise NotFoundError("there are no tasks yet", hint="start one with `hermes run`")


async def find_review(store: Store, wanted: str) -> Review:
    """A review by its id, the first or last characters of it, or by a task that has one open.

    Of a task with no open review it is the open one of a task below it, or else one of its own
    that was decided.

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
    still_open = [review for review in of_task if review.decision is None]
    if not still_open:
        still_open = await _reviews_below(store, task)
    if not (of_task or still_open):
        raise NotFoundError(
            f"task {task.task_id} asks nobody", hint=f"`hermes show {task.task_id}` says how it is"
        )
    return _one_review(still_open or of_task, f"task {task.task_id}")


async def _reviews_below(store: Store, task: Task) -> list[Review]:
    below = await open_tasks(store, task.task_id)
    return [
        review
        for child in below
        if child.task_id != task.task_id
        for review in await store.reviews(task_id=child.task_id, limit=ALL_REVIEWS)
    ]


def _one_review(found: list[Review], what: str) -> Review:
    if len(found) == 1:
        return found[0]
    several = ", ".join(review.review_id for review in found[:5])
    raise InputError(f"{len(found)} reviews fit {what}", hint=f"say which: {several}")
