"""What a tool returns when its result is still to come: the task then waits, without a process.

The call stays open until the wait ends, and its result is what the wait brings. A call that waits
is not made again: the intent to wait is its effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime


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
