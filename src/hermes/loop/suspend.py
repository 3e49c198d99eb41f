"""Letting calls wait: for a person, for children, for a time or an event; no process is held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args

from hermes.core import ids
from hermes.core.clock import Clock
from hermes.core.events import Pending, ReviewReason, ReviewRequested, TaskSplit, TaskWaiting
from hermes.store import NewTask, Review, Wait

from .journal import Journal

_REASONS: frozenset[str] = frozenset(get_args(ReviewReason))


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A call that cannot go on before something has happened.

    Attributes:
        path: The call; "" where the task as a whole waits.
        kind: A reason to ask a person, or what else is waited for.
        text: One line for people.
        key: Name of the event, or parent path of the children.
        due_at: The wait ends then at the latest.
        data: What a person has to see.
        split: The round of children that begins.
        children: Its tasks.
        instead_of: The wait that ended and that this one follows.
        origin: Of the content from outside that a person is asked for.
    """

    path: str
    kind: ReviewReason | Literal["children", "time", "event"]
    name: str
    text: str
    key: str = ""
    due_at: datetime | None = None
    data: Mapping[str, object] = field(default_factory=dict[str, object])
    split: TaskSplit | None = None
    children: Sequence[NewTask] = ()
    instead_of: str = ""
    origin: str = ""

    @property
    def asks_a_person(self) -> bool:
        return self.kind in _REASONS


def suspend(journal: Journal, held: Sequence[Held], *, clock: Clock) -> None:
    """Note that the task waits, for these and for what it waited for before.

    The next `finish` writes all of it in one transaction: rounds of children, reviews, waits.
    """
    for item in held:
        if item.split is not None:
            journal.note(item.split)
    # Each review has an event of its own before `task.waiting`, whose number makes the ids.
    seq = journal.task.status.seq + sum(item.asks_a_person for item in held) + 1
    task_id = journal.task.task_id
    begun = [(item, ids.wait_id(task_id, item.path, seq)) for item in held]
    paths = {item.path for item in held}
    still = [pending for pending in journal.state.waiting.values() if pending.path not in paths]
    asked = [(item, wait) for item, wait in begun if item.asks_a_person]
    reviews = [_review(journal, item, wait, clock) for item, wait in asked]
    for review, (item, _) in zip(reviews, asked, strict=True):
        journal.note(
            ReviewRequested(
                review_id=review.review_id,
                reason=review.reason,
                path=review.path,
                name=review.name,
                text=review.text,
                origin=item.origin,
            )
        )
    pending = [*still, *(_pending(item, wait) for item, wait in begun)]
    journal.note(TaskWaiting(pending=tuple(pending)))
    journal.end_waits(item.instead_of for item in held if item.instead_of)
    journal.begin_waits(
        waits=[_wait(task_id, item, wait) for item, wait in begun],
        reviews=reviews,
        children=[child for item in held for child in item.children],
    )


def _review(journal: Journal, item: Held, wait_id: str, clock: Clock) -> Review:
    return Review(
        review_id=ids.review_id(wait_id),
        wait_id=wait_id,
        task_id=journal.task.task_id,
        path=item.path,
        reason=item.kind,  # pyright: ignore[reportArgumentType]  # `asks_a_person` was asked
        name=item.name,
        text=item.text,
        created_at=clock.now(),
        data=item.data,
    )


def _pending(item: Held, wait_id: str) -> Pending:
    return Pending(
        kind=item.kind,
        path=item.path,
        name=item.name,
        text=item.text,
        wait_id=wait_id,
        review_id=ids.review_id(wait_id) if item.asks_a_person else "",
        due_at=item.due_at,
    )


def _wait(task_id: str, item: Held, wait_id: str) -> Wait:
    if item.asks_a_person:
        return Wait(
            wait_id=wait_id,
            task_id=task_id,
            path=item.path,
            kind="person",
            key=ids.review_id(wait_id),
        )
    return Wait(
        wait_id=wait_id,
        task_id=task_id,
        path=item.path,
        kind=item.kind,  # pyright: ignore[reportArgumentType]  # the kinds that ask nobody
        key=item.key,
        due_at=item.due_at,
    )
