"""What a tool returns when its result is still to come: the task then waits, without a process.

The call stays open until the wait ends, and its result is what the wait brings. A call that waits
is not made again: the intent to wait is its effect. A tool that does nothing else is best `read`:
then it is simply called again if the process dies before the wait is written down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import cast

from .results import ResultFault, normalise

MAX_CHILDREN = 100
"""Child tasks that one call may make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A person is asked; the result is the answer.

    Attributes:
        text: What is asked, in a sentence.
        options: Answers to choose from; empty for any text.
    """

    text: str
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """The task goes on at a time; the result says that it has come.

    Attributes:
        at: Aware instant.
    """

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The task goes on when `name` is signalled; the result is the signal's payload.

    Attributes:
        name: As given to `Hermes.signal` or `hermes signal`.
        until: Go on without it at this instant; the result then is null.
    """

    name: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """Work for a task of its own.

    Attributes:
        goal: What it is to do.
        agent: Name of the agent; the parent's own by default.
        variables: The variable pool it starts with.
        max_steps: Its bound; the agent's own by default.
    """

    goal: str
    agent: str | None = None
    variables: Mapping[str, object] = field(default_factory=dict[str, object])
    max_steps: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """Child tasks; the result is a list of `{task_id, status, output, error}` in their order.

    When all children of a round are settled: if all succeeded, the call returns. If at least
    `accept_ratio` of all parts succeeded, a person accepts the result as it is or rejects it.
    Below that the unmet parts are made again, at most `max_rounds` times, and then a person is
    asked.

    Attributes:
        tasks: At least one.
        accept_ratio: From 0 to 1.
        max_rounds: Rounds after the first one.
    """

    tasks: Sequence[Child]
    accept_ratio: float = 0.5
    max_rounds: int = 2


Waiting = Question | Until | Event | Children


def checked(waiting: Waiting) -> Waiting:
    """The same with its variables as plain JSON.

    Raises:
        ResultFault: It cannot be waited for as it is; says why.
    """
    match waiting:
        case Question(text=text, options=options):
            _need(bool(text.strip()), "a Question needs a text")
            _need(not isinstance(options, str), "options is a list of texts, not one text")
            return replace(waiting, options=tuple(str(option) for option in options))
        case Until(at=at):
            _check_instant("Until.at", at)
            return waiting
        case Event(name=name, until=until):
            _need(bool(name.strip()), "an Event needs a name")
            if until is not None:
                _check_instant("Event.until", until)
            return waiting
        case Children(tasks=tasks, accept_ratio=ratio, max_rounds=rounds):
            _need(0 < len(tasks) <= MAX_CHILDREN, f"Children holds 1 to {MAX_CHILDREN} tasks")
            _need(0 <= ratio <= 1, f"accept_ratio is from 0 to 1, got {ratio!r}")
            _need(rounds >= 0, f"max_rounds is 0 or more, got {rounds!r}")
            return replace(waiting, tasks=tuple(map(_checked_child, tasks)))


def _checked_child(child: Child) -> Child:
    _need(bool(child.goal.strip()), "a Child needs a goal")
    _need(child.max_steps is None or child.max_steps > 0, "max_steps must be above 0")
    variables = cast("dict[str, object]", normalise(child.variables))
    return replace(child, variables=variables)


def _check_instant(what: str, at: datetime) -> None:
    _need(at.tzinfo is not None, f"{what} needs a time zone, got {at.isoformat()}")


def _need(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ResultFault(otherwise)
