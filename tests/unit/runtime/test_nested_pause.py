"""A pause inside a task below: what came before it is not done again, however often one resumes."""

from __future__ import annotations

from pathlib import Path

from hermes import Agent, Child, Children, Hermes, Question, tool
from hermes.store import TaskQuery
from hermes.testing import ScriptedModel, call
from hermes.testing.model import Scripted

RAN: list[str] = []


@tool
def charge() -> str:
    """Charge."""
    RAN.append("charge")
    return "charged"


@tool
def ask() -> object:
    """Ask a person."""
    return Question(text="ship it?")


@tool
def ship() -> str:
    """Ship."""
    RAN.append("ship")
    return "shipped"


@tool
def hand_on() -> object:
    """Have a child do it."""
    return Children(tasks=[Child(goal="charge, ask, ship", agent="child")])


def boss(*replies: Scripted) -> Agent:
    return Agent(name="boss", model=ScriptedModel(replies), tools=[hand_on])


def child(*replies: Scripted) -> Agent:
    return Agent(name="child", model=ScriptedModel(replies), tools=[charge, ask, ship])


async def test_r028_a_pause_in_a_child_repeats_nothing_and_a_second_resume_changes_nothing(
    workdir: Path,
) -> None:
    RAN.clear()
    first = [child(call("charge"), call("ask"))]
    async with Hermes("sqlite:///j.db", agents=first) as app:
        response = await app.run(boss(call("hand_on")), "go")
        assert response.status == "waiting"
        [review] = await app.store.reviews()
    async with Hermes("sqlite:///j.db") as app:
        await app.store.decide(review.review_id, "answer", answer="yes", by="ann")
    second = [child(call("ship"), "Shipped.")]
    async with Hermes("sqlite:///j.db", agents=second) as app:
        done = await app.resume(response.task_id, boss("All done."))
        assert (done.status, done.output) == ("succeeded", "All done.")
    async with Hermes("sqlite:///j.db", agents=[child()]) as app:
        events = await app.store.events(response.task_id)
        again = await app.resume(response.task_id, boss())
        assert (again.status, again.output) == ("succeeded", "All done.")
        assert await app.store.events(response.task_id) == events
        assert len(await app.store.tasks(TaskQuery())) == 2
    assert RAN == ["charge", "ship"]
