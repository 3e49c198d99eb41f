"""The work of `hermes review`: list the questions to people, show one, decide one."""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import anyio

from hermes.agents import Launch, response_of
from hermes.app import Hermes
from hermes.config import load_settings
from hermes.core import json as codec
from hermes.core.clock import rfc3339
from hermes.core.events import ReviewDecision
from hermes.core.request import AgentResponse
from hermes.core.task import Task
from hermes.errors import InputError, LeaseHeldError
from hermes.runtime.review import decide as decide_in
from hermes.runtime.review import decisions, options
from hermes.store import Review, Store

from . import exits, output
from .find import ALL_REVIEWS, NoJournalError, find_review, find_task, require_journal

_TEXT_WIDTH = 70
_DONE = {
    "approve": "approved",
    "reject": "rejected",
    "answer": "answered",
    "done": "taken as done",
    "retry": "to be made again",
    "accept": "accepted as it is",
    "cancel": "cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a person says.

    Attributes:
        answer: Plain JSON that goes with it, if any.
        by: Who says it; the login name by default.
    """

    decision: ReviewDecision
    answer: object = None
    by: str | None = None


def list_(*, all: bool, task: str | None, json: bool) -> None:
    """Print open reviews, or all, oldest first."""

    async def read() -> list[Review]:
        async with _journal() as app:
            wanted = None if task is None else (await find_task(app.store, task)).task_id
            is_open = None if all else True
            return await app.store.reviews(task_id=wanted, is_open=is_open, limit=ALL_REVIEWS)

    try:
        found = anyio.run(read)
    except NoJournalError as exc:
        exits.tell(str(exc))
        found = []
    if json:
        output.print_json({"reviews": [review_object(review) for review in found]})
    elif not found:
        output.print_text("no reviews" if all else "no open reviews; nobody is waited for")
    else:
        output.print_text("\n".join(output.table([_HEADER, *map(_row, found)])))


def show(wanted: str, *, json: bool) -> None:
    """Print one review with all that a person has to see, and how to decide it."""

    async def read() -> tuple[Review, Task]:
        async with _journal() as app:
            review = await find_review(app.store, wanted)
            return review, await app.store.task(review.task_id)

    review, task = anyio.run(read)
    if json:
        output.print_json(review_object(review))
    else:
        output.print_text("\n".join(_explain(review, task)))


def decide(wanted: str, verdict: Verdict, *, resume: bool, json: bool) -> exits.Exit:
    """Decide one review and say what happens next; returns the exit code.

    Args:
        wanted: A review, or a task that has one open.
        verdict: What is said.
        resume: Carry the task on here, as `hermes resume` does.
        json: Print the review, or with `resume` the run's result, as one JSON value.
    """
    by = verdict.by if verdict.by is not None else login_name()
    if not by.strip():
        raise InputError("--by is empty", hint="say who decides")

    async def work() -> tuple[Review, list[Review], str]:
        async with _journal() as app:
            review = await find_review(app.store, wanted)
            decided = await decide_in(
                app.store, review, verdict.decision, answer=verdict.answer, by=by
            )
            others = await app.store.reviews(task_id=review.task_id)
            return decided, others, await _top(app.store, review.task_id)

    review, others, top = anyio.run(work)
    said = f"{_DONE[verdict.decision]} by {review.by}: {review.name or review.reason}"
    exits.tell(said) if json or resume else output.print_text(said)
    if resume:
        return _resume(top, json=json)
    if json:
        output.print_json(review_object(review))
    for line in _next(review, others, top):
        exits.tell(line)
    return exits.Exit.SUCCEEDED


def answer_of(text: str, *, json_value: bool) -> object:
    """What an answer on the command line means.

    Raises:
        InputError: It was to be JSON and is not.
    """
    if not json_value:
        return text
    try:
        return codec.loads(text)
    except codec.CodecError as exc:
        raise InputError(f"--json-value: {text!r:.80} is not JSON: {exc}") from exc


def login_name() -> str:
    """Who is logged in, as far as the system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in many containers
        return f"uid {os.getuid()}"


def review_object(review: Review) -> dict[str, object]:
    """A review for programs."""
    return {
        "review_id": review.review_id,
        "task_id": review.task_id,
        "path": review.path,
        "reason": review.reason,
        "name": review.name,
        "text": review.text,
        "data": dict(review.data),
        "created_at": rfc3339(review.created_at),
        "decisions": list(decisions(review)),
        "options": list(options(review)),
        "decision": review.decision,
        "answer": review.answer,
        "by": review.by or None,
        "decided_at": rfc3339(review.decided_at) if review.decided_at else None,
    }


_HEADER = ("review", "reason", "state", "asked (UTC)", "name", "text")


def _row(review: Review) -> tuple[str, ...]:
    return (
        review.review_id,
        review.reason,
        "open" if review.decision is None else f"{review.decision} by {review.by or '?'}",
        review.created_at.strftime("%Y-%m-%d %H:%M:%S"),
        review.name or "-",
        output.short(review.text, _TEXT_WIDTH),
    )


def _explain(review: Review, task: Task) -> list[str]:
    lines = [
        f"{review.review_id}  {review.reason}  {review.name}".rstrip(),
        output.plain(review.text),
        "",
        f"task     {review.task_id}  {task.state}{f' at {review.path}' if review.path else ''}",
        f"goal     {output.short(task.spec.goal, 200)}",
        f"asked    {review.created_at:%Y-%m-%d %H:%M:%S} UTC",
    ]
    shown = {name: value for name, value in review.data.items() if value not in ("", None, [], {})}
    width = max([8, *map(len, shown)])
    for name, value in sorted(shown.items()):
        # Each line of it stands behind the column: nothing in it can pass for what we say.
        first, *more = _value(value).splitlines() or [""]
        lines.append(f"{name:<{width}} {first}")
        lines.extend(f"{'':<{width}} {line}" for line in more)
    if review.decision is not None:
        when = f" at {review.decided_at:%Y-%m-%d %H:%M:%S} UTC" if review.decided_at else ""
        lines.extend(["", f"{_DONE[review.decision]} by {review.by or 'nobody named'}{when}"])
        if review.answer is not None:
            lines.append(f"answer   {_value(review.answer)}")
        return lines
    return [*lines, "", "decide:", *output.decide_commands(review.reason, review.review_id)]


def _value(value: object) -> str:
    if isinstance(value, str):
        return value
    items = codec.as_list(cast("object", value)) if isinstance(value, list) else []
    if items and all(isinstance(item, str) for item in items):
        return "\n".join(map(str, items))
    return codec.dumps(cast("object", value))


def _next(review: Review, others: Sequence[Review], top: str) -> list[str]:
    if others:
        ids = ", ".join(other.review_id for other in others)
        asked = output.count(len(others), "more review")
        return [f"next: {asked} of this task: {ids}"]
    deed = "ends the task" if review.decision == "cancel" else "goes on with the task"
    return [f"next: a worker {deed}, or `hermes resume {top}` does it here"]


async def _top(store: Store, task_id: str) -> str:
    """The task that the work began with, of those that are not settled."""
    task = await store.task(task_id)
    while task.spec.parent_id is not None:
        parent = await store.task(task.spec.parent_id)
        if parent.state.is_terminal:
            break
        task = parent
    return task.task_id


def _resume(task_id: str, *, json: bool) -> exits.Exit:
    from .run import View, resume

    flags = Launch.of(agent=None, tools=[], playbook=None, model=None, max_steps=None)
    view = View(stream=True, json=json, quiet=False)
    try:
        return resume(task_id, flags, in_doubt=None, accept_changes=False, view=view)
    except LeaseHeldError as exc:  # a worker was faster; the decision stands
        return _in_other_hands(task_id, exc, json=json)


def _in_other_hands(task_id: str, held: LeaseHeldError, *, json: bool) -> exits.Exit:
    """Tell of a task that somebody else goes on with."""

    async def read() -> AgentResponse:
        async with _journal() as app:
            return response_of(await app.store.events(task_id))

    response = anyio.run(read)
    exits.tell(f"{held.message}: it goes on there; `hermes show {task_id}` tells how it stands")
    if json:
        output.print_json(response.as_json())
    return exits.of_status(response.status)


def _journal() -> Hermes:
    settings = load_settings().settings
    require_journal(settings)
    return Hermes(settings=settings)
