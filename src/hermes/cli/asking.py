"""Calls that need a person's leave: asked at the terminal, or decided by a flag."""

from __future__ import annotations

import select
import sys
from collections.abc import Sequence
from typing import Literal

import anyio

from hermes.app import Hermes
from hermes.config import Settings
from hermes.core import json
from hermes.errors import ConflictError, InputError
from hermes.runtime import open_tasks
from hermes.runtime.review import decide
from hermes.store import Review

from . import exits, output
from .find import ALL_REVIEWS
from .reviews import login_name

Decision = Literal["approve", "reject"]

_VALUE_CHARS = 600
_LISTEN_S = 0.2
_YES = ("y", "yes", "是")
_NO = ("n", "no", "否")
_FLAGS: dict[Decision, str] = {"approve": "--yes", "reject": "--deny"}


def decision_of(*, yes: bool, deny: bool, detach: bool = False) -> Decision | None:
    """What the flags decide; None if they say nothing.

    Raises:
        InputError: They contradict each other.
    """
    if yes and deny:
        raise InputError("--yes and --deny contradict each other", hint="give one of them")
    if (yes or deny) and detach:
        raise InputError(
            f"{'--yes' if yes else '--deny'} decides nothing with --detach: a worker carries the "
            "task, and its calls wait for `hermes review`",
            hint="leave one of the two out",
        )
    return "approve" if yes else "reject" if deny else None


class Asker:
    """Decides on calls that need leave while a command waits for their task.

    Args:
        settings: Say where the journal is.
        decision: By flag; None asks whoever sits at the terminal, if anybody does.
    """

    def __init__(self, settings: Settings, decision: Decision | None) -> None:
        self._settings = settings
        self._decision: Decision | None = decision
        self._left: set[str] = set()

    def decide(self, task_id: str) -> bool:
        """Decide what a task and those below it ask; whether anything was decided.

        What a person leaves for later is not asked again.
        """
        if self._decision is None and not (sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        if self._settings.database_url.startswith("memory:"):
            exits.tell("a journal in memory is gone by now: nobody can decide what waited there")
            return False
        is_decided = False
        for review in anyio.run(self._open, task_id):
            decision = _ask(review) if self._decision is None else self._decision
            if decision is None:
                self._left.add(review.review_id)
                return is_decided
            anyio.run(self._note, review, decision)
            is_decided = True
        return is_decided

    async def _open(self, task_id: str) -> list[Review]:
        async with Hermes(settings=self._settings) as app:
            return [
                review
                for task in await open_tasks(app.store, task_id)
                for review in await app.store.reviews(task_id=task.task_id, limit=ALL_REVIEWS)
                if review.reason == "approval" and review.review_id not in self._left
            ]

    async def _note(self, review: Review, decision: Decision) -> None:
        flag = _FLAGS[decision] if self._decision is not None else ""
        words = f"by {flag}, unasked" if flag and decision == "reject" else None
        async with Hermes(settings=self._settings) as app:
            try:
                await decide(app.store, review, decision, answer=words, by=flag or login_name())
            except ConflictError as exc:  # somebody else was faster
                exits.tell(exc.message)
                return
        if flag:
            exits.tell(f"  {review.name}: {decision} by {flag}")


def question(review: Review) -> list[str]:
    """What a person has to see before the call is made, a line each."""
    data = dict(review.data)
    lines = [f"{review.name} needs your leave ({data.get('effect', '?')}), at {review.path}"]
    arguments = json.as_object(data.get("arguments")) or {}
    lines += [f"  {name} = {_value(value)}" for name, value in arguments.items()]
    reasons = data.get("because")
    lines += [f"  because {reason}" for reason in json.as_list(reasons) if reasons]
    if problem := data.get("preview_failed"):
        lines.append(f"  what it would do is not known: {problem}")
    if preview := data.get("preview"):
        lines += ["  it would:", *(f"  | {line}" for line in str(preview).splitlines())]
    return [output.plain(line) for line in lines]


def _value(value: object) -> str:
    text = json.dumps(value)
    if len(text) <= _VALUE_CHARS:
        return text
    return f"{text[:_VALUE_CHARS]}… ({len(text):,} characters; `hermes review show` has them all)"


def _ask(review: Review) -> Decision | None:
    _show(question(review))
    while True:
        try:
            sys.stderr.write("make this call? y = yes, n = no, Enter = later: ")
            sys.stderr.flush()
            line = _typed_line()
        except UnicodeDecodeError:
            continue
        except KeyboardInterrupt:
            exits.tell("")
            return None
        word = line.strip().casefold()
        if not word:
            return None
        if word in _YES:
            return "approve"
        if word in _NO:
            return "reject"


def _typed_line() -> str:
    """A line from the terminal.

    A Ctrl-C just before a read begins would be heard only when the read ends, so the wait is
    in short pieces. No line can lie unseen in a buffer: a terminal gives one a read.
    """
    while not select.select([sys.stdin], [], [], _LISTEN_S)[0]:
        pass
    return sys.stdin.readline()


def _show(lines: Sequence[str]) -> None:
    for line in lines:
        exits.tell(line)
