"""The trace as a view of the journal."""

from __future__ import annotations

import json

from hermes import Agent, Hermes, tool
from hermes.core.chat import Usage
from hermes.models import ModelReply
from hermes.store import TaskQuery
from hermes.telemetry import as_jsonl, trace
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
