"""What a tool returns when its result is still to come: the task then waits, without a process.

The call stays open until the wait ends, and its result is what the wait brings. A call that waits
is not made again: the intent to wait is its effect. A tool that does nothing else is best `read`:
then it is simply called again if the process dies before the wait is written down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import cast

from .results import ResultFault, StandsAlone, normalise

MAX_CHILDREN = 100
"""Child tasks that one call may make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(StandsAlone):
    """A person is asked; the result is the answer.

    Attributes:
        text: What is asked, in a sentence.
        options: Answers to choose from; empty for any text.
    """

    text: str
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Until(StandsAlone):
    """The task goes on at a time; the result says that it has come.

    Attributes:
        at: Aware instant.
    """

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(StandsAlone):
    """The task goes on when `name` is signalled; the result is the signal's payload.

    Attributes:
        name: As given to `Hermes.signal` or `hermes signal`.
        until: Go on without it at this instant; the result then is null.
    """

    name: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Child(StandsAlone):
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
class Children(StandsAlone):
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
    """The same with its texts and variables as they are stored.

    Nothing of it was checked before: what is not as annotated here would be in the journal, where
    nobody could read it again.

    Raises:
        ResultFault: It cannot be waited for as it is; says why.
    """
    match waiting:
        case Question(text=text, options=options):
            given = cast("object", options)
            answers = _items("Question.options", () if given is None else given)
            return replace(
                waiting,
                text=_text("Question.text", text),
                options=tuple(cast("str", normalise(str(answer))) for answer in answers),
            )
        case Until(at=at):
            _check_instant("Until.at", at)
            return waiting
        case Event(name=name, until=until):
            if until is not None:
                _check_instant("Event.until", until)
            return replace(waiting, name=_text("Event.name", name))
        case Children(tasks=tasks, accept_ratio=ratio, max_rounds=rounds):
            found = _items("Children.tasks", tasks)
            _need(
                0 < len(found) <= MAX_CHILDREN,
                f"Children.tasks holds 1 to {MAX_CHILDREN} tasks, got {len(found)}",
            )
            _need(
                _is_number(ratio) and 0 <= ratio <= 1,
                f"Children.accept_ratio is from 0 to 1, got {ratio!r}",
            )
            _need(
                _is_whole(rounds) and rounds >= 0,
                f"Children.max_rounds is a whole number from 0, got {rounds!r}",
            )
            return replace(waiting, tasks=tuple(map(_checked_child, found)))


def _checked_child(child: object) -> Child:
    if not isinstance(child, Child):
        raise ResultFault(f"Children.tasks holds values of `Child`, got {_kind(child)}")
    steps, variables = child.max_steps, cast("object", child.variables)
    _need(
        steps is None or (_is_whole(steps) and steps > 0),
        f"Child.max_steps is a whole number from 1, got {steps!r}",
    )
    _need(isinstance(variables, Mapping), f"Child.variables is a mapping, got {_kind(variables)}")
    return replace(
        child,
        goal=_text("Child.goal", child.goal),
        agent=None if child.agent is None else _text("Child.agent", child.agent),
        variables=cast("dict[str, object]", normalise(variables)),
    )


def _text(what: str, value: object) -> str:
    """A text as it is stored: that of a result, which a store can also look for."""
    if not isinstance(value, str):
        raise ResultFault(f"{what} is a text, got {_kind(value)}")
    _need(bool(value.strip()), f"{what} is empty")
    _need("\x00" not in value, f"{what} holds a NUL character")
    return cast("str", normalise(value))


def _items(what: str, value: object) -> Sequence[object]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise ResultFault(f"{what} is a list, got {_kind(cast('object', value))}")
    return cast("Sequence[object]", value)


def _check_instant(what: str, at: object) -> None:
    if not isinstance(at, datetime):
        raise ResultFault(f"{what} is a datetime, got {_kind(at)}")
    _need(at.utcoffset() is not None, f"{what} needs a time zone, got {at.isoformat()}")
    try:
        at.astimezone(UTC)
    except OverflowError as exc:
        raise ResultFault(f"{what} is beyond all time in UTC, got {at.isoformat()}") from exc


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_whole(value) or isinstance(value, float)


def _kind(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _need(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ResultFault(otherwise)
