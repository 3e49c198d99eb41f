"""The trace as a view of the journal."""

from __future__ import annotations

import json

from hermes import Agent, Child, Children, Hermes, Question, tool
from hermes.core.chat import Usage
from hermes.models import ModelReply
from hermes.store import TaskQuery
from hermes.telemetry import as_jsonl, children_of, trace
from hermes.testing import FakeClock, ScriptedModel, call, calls


async def test_the_trace_tells_when_how_long_and_what_it_cost() -> None:
    clock = FakeClock()

    @tool(effect="read")
    async def look(name: str) -> str:
        """Look."""
        clock.advance(1.5)
        return "x" * 20_000 if name == "long" else name

    wanted = ModelReply(
        text="Let me look.",
        calls=(call("look", name="long"), call("nothing")),
        usage=Usage(prompt_tokens=5, completion_tokens=1),
    )
    agent = Agent(model=ScriptedModel([wanted, calls(call("look", name="b")), "ok"]), tools=[look])
    async with Hermes("memory://", clock=clock) as app:
        response = await app.run(agent, "看")
        [task] = await app.store.tasks(TaskQuery())
        records = await app.store.events(task.task_id)

    entries = trace(records)
    assert tuple(entries) == response.trace
    by_path = {entry.path: entry for entry in entries}
    assert by_path["/turn1/model1"].thought == "Let me look."
    assert by_path["/turn1/model1"].tokens_used == 6
    assert by_path["/turn1/tool1"].duration_ms == 1500
    assert by_path["/turn1/tool2"].status == "refused"
    assert by_path["/turn2/tool1"].started_ms == 1500
    assert [entry.step for entry in entries] == list(range(1, len(entries) + 1))

    lines = [json.loads(line) for line in as_jsonl(records)]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    replied = next(line for line in lines if line["type"] == "model.replied")
    assert replied["data"]["text"] == "Let me look."
    returned = next(line for line in lines if line["type"] == "tool.returned")
    assert returned["data"]["size_chars"] == 20_000


@tool(effect="read")
async def ask(text: str) -> Question:
    """Ask."""
    return Question(text=text)


async def test_a_call_waits_until_its_answer_was_taken_in() -> None:
    model = ScriptedModel([calls(call("ask", text="Which?")), "Blue."])
    agent = Agent(model=model, tools=[ask])
    async with Hermes("memory://") as app:
        asked = await app.run(agent, "paint")
        [review] = await app.store.reviews()
        await app.store.decide(review.review_id, "answer", answer="blue", by="test")
        answered = await app.resume(asked.task_id, agent)

    assert [entry.status for entry in asked.trace] == ["ok", "waiting"]
    assert [entry.status for entry in answered.trace] == ["ok", "ok", "ok"]


async def test_a_task_names_those_it_has_handed_work_to() -> None:
    @tool(effect="read")
    async def share() -> Children:
        """Share."""
        return Children(tasks=[Child(goal=name, agent="helper") for name in ("one", "two")])

    helper = Agent(name="helper", model=ScriptedModel(["1", "2"]))
    agent = Agent(model=ScriptedModel([calls(call("share")), "Shared."]), tools=[share])
    async with Hermes("memory://", agents=[helper]) as app:
        response = await app.run(agent, "all")
        below = await app.store.tasks(TaskQuery(parent_id=response.task_id))
        records = await app.store.events(response.task_id)

    assert response.status == "succeeded"
    assert children_of(records) == [task.task_id for task in below[::-1]]
    assert len(below) == 2
