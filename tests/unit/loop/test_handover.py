"""A tool that failed so often in a row is not called any more, and a person is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes import Agent, Hermes, ToolError, tool
from hermes.agents import Holding
from hermes.core.budget import Limits
from hermes.core.codec import decode
from hermes.core.events import TaskCreated, TaskSettled, ToolFailed, ToolStarted
from hermes.models import open_model
from hermes.runtime.decisions import decisions
from hermes.testing import Scripted, ScriptedModel, call, calls
from hermes.tools import Tool
from tests.unit.loop.resilient import Shift, told
from tests.unit.loop.stage import Stage


def look(stage: Stage, *outcomes: str) -> Tool:
    """A tool whose calls come to these in turn, and to errors after them."""
    left = list(outcomes)

    @tool(effect="unsafe")
    async def look(number: int = 0) -> str:
        """Look."""
        stage.ran.append("look")
        outcome = left.pop(0) if left else "error"
        if outcome == "error":
            raise ToolError("the disk is full")
        return outcome

    return look


async def test_after_three_failures_in_a_row_it_is_refused_and_the_end_says_so(
    stage: Stage,
) -> None:
    shift = Shift(stage)
    response, model = await shift.run([*[call("look")] * 5, "I could not look."], look(stage))

    assert len(stage.ran) == 3
    failed = await stage.events(response.task_id, ToolFailed)
    assert [(f.status, f.error.code) for f in failed[3:]] == [("refused", "stopped")] * 2
    assert len(await stage.events(response.task_id, ToolStarted)) == 3
    refused = json.loads(told(model)[-1])["error"]
    assert "look failed 3 times in a row, at last: the disk is full" in refused["message"]
    assert "hand over to a person" in refused["hint"]
    assert "ask_human" in refused["hint"]
    assert (response.status, response.output) == ("partial", "I could not look.")
    [settled] = await stage.events(response.task_id, TaskSettled)
    assert settled.error is not None
    assert settled.error.code == "stopped"
    assert "look failed 3 times in a row" in settled.error.message
    assert "see what is wrong with look" in settled.error.hint


async def test_calls_of_one_turn_that_run_in_order_stop_as_well(stage: Stage) -> None:
    await Shift(stage).run([calls(*[call("look")] * 5), "No."], look(stage))
    assert len(stage.ran) == 3


async def test_a_success_begins_the_row_again(stage: Stage) -> None:
    tool = look(stage, "error", "error", "seen", "error", "error")
    response, _ = await Shift(stage).run([*[call("look")] * 5, "Done."], tool)
    assert (response.status, len(stage.ran)) == ("succeeded", 5)


@pytest.mark.parametrize(
    ("script", "ran"),
    [
        pytest.param(["x", "0", "0", "0"], 3, id="the first is free"),
        pytest.param(["x", "x", "0", "0", "0"], 2, id="the second counts"),
        pytest.param(["x", "x", "x", "x", "0"], 0, id="four in a row"),
        pytest.param(["0", "x", "0", "x", "0"], 3, id="each first one after a real call is free"),
    ],
)
async def test_of_faulty_arguments_the_first_does_not_count(
    stage: Stage, script: list[str], ran: int
) -> None:
    replies: list[Scripted] = [call("look", number=word) for word in script]
    await Shift(stage).run([*replies, "No."], look(stage))
    assert len(stage.ran) == ran


async def test_refusals_of_other_kinds_do_not_count(stage: Stage) -> None:
    unknown = [call("lok")] * 4
    response, _ = await Shift(stage).run([*unknown, "No."], look(stage))
    assert response.status == "succeeded"


async def test_it_is_known_after_a_restart(stage: Stage) -> None:
    stage.play([*[call("look")] * 3, call("look"), "No."], look(stage))
    task_id = await stage.submit()
    await stage.carry(task_id, Holding(should_stop=lambda: len(stage.ran) == 3))
    await stage.crash()
    response = await stage.carry(task_id)
    assert (response.status, len(stage.ran)) == ("partial", 3)


@pytest.mark.parametrize("bound", [1, 5, None])
async def test_the_bound_is_a_limit_of_the_task(stage: Stage, bound: int | None) -> None:
    limits = Limits(max_steps=None, max_tool_failures=bound)
    response, _ = await Shift(stage).run([*[call("look")] * 7, "No."], look(stage), limits=limits)
    assert len(stage.ran) == (bound or 7)
    assert response.status == ("partial" if bound else "succeeded")


async def test_a_required_tool_that_is_stopped_is_not_asked_for_any_more() -> None:
    @tool(effect="read")
    async def look() -> str:
        """Look."""
        raise ToolError("no")

    model = ScriptedModel([*[call("look")] * 3, "I could not."])
    response = await Agent(model=model, tools=[look], required_tools=["look"]).run("go")
    assert (response.status, response.output) == ("partial", "I could not.")
    assert response.error is not None
    assert response.error.code == "stopped"


async def test_a_playbook_decides_itself_what_an_error_means(stage: Stage, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "playbook: 1\nname: p\nrules:\n  - name: all\n    when: {any: [go]}\n    steps:\n"
        "      - {call: look, foreach: '[1,2,3,4,5]', item: n, with: {number: '{{ n }}'},\n"
        "         as: seen, on_error: continue}\n"
        "    answer: '{{ seen | length }}'\n"
    )
    model = open_model(f"playbook:{rules}")
    agent = Agent(name="a", model=model, tools=[look(stage, *["error"] * 4, "seen")])
    async with Hermes("memory://") as app:
        response = await app.run(agent, "go")
        replayed = await app.replay(response.task_id, agent)
    assert (response.status, len(stage.ran)) == ("succeeded", 5)
    assert replayed.difference is None


async def test_a_replay_decides_the_same() -> None:
    @tool(effect="read")
    async def look() -> str:
        """Look."""
        raise ToolError("no")

    def agent(model: ScriptedModel) -> Agent:
        return Agent(name="a", model=model, tools=[look])

    async with Hermes("memory://") as app:
        script = [*[call("look")] * 5, "No."]
        response = await app.run(agent(ScriptedModel(script)), "go")
        assert response.status == "partial"
        replayed = await app.replay(response.task_id, agent(ScriptedModel([])))
        records = await app.store.events(response.task_id)
    assert (replayed.difference, replayed.is_whole) == (None, True)
    refusals = [item for item in decisions(records, replies=False) if item.what == "refusal"]
    assert [item.facts["code"] for item in refusals] == ["stopped", "stopped"]


def test_a_task_from_before_has_no_such_bound() -> None:
    for limits in ("", ', "limits": {"max_steps": 4}'):
        event = decode("task.created", 2, f'{{"agent": "a", "goal": "g"{limits}}}'.encode())
        assert isinstance(event, TaskCreated)
        assert event.limits.max_tool_failures is None
        assert event.limits.max_steps == (4 if limits else 10)
