"""What a crash test has done, and how it is driven to its end without a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from hermes.app import Agent, Hermes
from hermes.core import json
from hermes.core.clock import SystemClock
from hermes.core.events import ReviewDecision
from hermes.core.request import AgentResponse
from hermes.errors import ConflictError
from hermes.store import Review, Wait

from .outside import Outside, Seen, watched

DEDUPE_KEY = "crashtest"
_ROUNDS = 50
_LONGEST_WAIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one run takes place.

    Attributes:
        database: URL of a database that holds nothing else.
        folder: For whatever the tools write.
    """

    database: str
    folder: Path


Drive = Callable[[Hermes, Sequence[Agent], "Scenario", Outside], Awaitable[str]]
"""Brings the scenario to its end in one process, however far it has come; returns how it ended."""


def _nothing(_: Path) -> object:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A piece of work to be broken off at every point.

    Attributes:
        agents: Makes the agents, anew in each process; the first one gets the goal. What a model
            says may hang on the conversation alone, since each process starts with a new model.
        goal: Differs from the goals of all children, so that the calls of each can be told apart.
        signals: Events that happen once nothing else moves, with their payloads.
        drive: How a process works; `inline` by default.
        measure: Looks at the folder when all is over: what must come out the same as without a
            crash.
    """

    name: str
    agents: Callable[[Path], Sequence[Agent]]
    goal: str
    variables: Mapping[str, object] = field(default_factory=dict[str, object])
    signals: Mapping[str, object] = field(default_factory=dict[str, object])
    drive: Drive | None = None
    measure: Callable[[Path], object] = _nothing


async def inline(app: Hermes, agents: Sequence[Agent], scenario: Scenario, outside: Outside) -> str:
    """Ask for the run as a client does that asks until it is answered, and answer every review."""
    agent = agents[0]
    response = await app.run(
        agent, scenario.goal, variables=scenario.variables, dedupe_key=DEDUPE_KEY
    )
    for _ in range(_ROUNDS):
        if response.status != "waiting":
            break
        if not await _move(app, response, scenario, outside):
            break
        response = await app.resume(response.task_id, agent)
    return response.status


async def live(scenario: Scenario, place: Place, outside: Outside, app: Hermes) -> None:
    """One life of a process: work until all is settled or nothing moves any more."""
    agents = [watched(agent, outside) for agent in scenario.agents(place.folder)]
    async with app:
        status = await (scenario.drive or inline)(app, agents, scenario, outside)
    outside.add(Seen(life=0, kind="end", name=status))


async def answer_reviews(app: Hermes, outside: Outside) -> int:
    """Decide every open review as somebody would who sees the world; returns how many."""
    reviews = await app.store.reviews()
    for review in reviews:
        decision, answer = truthful(review, outside)
        key = review.task_id + review.path
        outside.add(Seen(life=0, kind="decision", name=decision, key=key))
        try:
            await app.store.decide(review.review_id, decision, answer=answer, by="crash test")
        except ConflictError:  # decided in an earlier life
            continue
    return len(reviews)


def truthful(review: Review, outside: Outside) -> tuple[ReviewDecision, object]:
    """What somebody decides who looks whether the call took place."""
    match review.reason:
        case "in_doubt":
            key = review.task_id + review.path
            took_place = any(seen.kind == "tool" and seen.key == key for seen in outside.read())
            return ("done" if took_place else "retry"), None
        case "approval":
            return "approve", None
        case "question":
            options = json.as_list(review.data.get("options"))
            return "answer", options[0] if options else "yes"
        case "partial":
            return "accept", None
        case "dead_letter":
            return "retry", None


async def _move(app: Hermes, response: AgentResponse, scenario: Scenario, outside: Outside) -> bool:
    """Let happen what the task waits for; False if nothing can."""
    if await answer_reviews(app, outside):
        return True
    waits = await app.store.waits(response.task_id)
    if any(wait.ended for wait in waits):
        return True
    for wait in waits:
        if wait.kind == "event" and wait.key in scenario.signals:
            await app.store.signal(wait.key, scenario.signals[wait.key])
            return True
    return await _pass_time(waits)


async def _pass_time(waits: Sequence[Wait]) -> bool:
    now = SystemClock().now()
    due = [(wait.due_at - now).total_seconds() for wait in waits if wait.due_at is not None]
    if not due or min(due) > _LONGEST_WAIT_S:
        return False
    await anyio.sleep(max(0.0, min(due)) + 0.01)
    return True


def with_drive(scenario: Scenario, drive: Drive) -> Scenario:
    """The same scenario, worked off in another way."""
    return replace(scenario, drive=drive)
