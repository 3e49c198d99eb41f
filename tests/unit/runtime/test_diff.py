"""Two tasks beside each other, aligned by the paths of their steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes import Agent, Hermes, Tool
from hermes.errors import NotFoundError
from hermes.runtime.diff import Change, TaskDiff, as_object, diff
from hermes.testing import Scripted, ScriptedModel, call, calls
from tests.unit.agents.broken import named


async def compare(
    left: list[Scripted], right: list[Scripted], *, instructions: str = "", tools: list[Tool]
) -> TaskDiff:
    async with Hermes("memory://") as app:
        first = await app.run(Agent(model=ScriptedModel(left), tools=tools), "go")
        second = await app.run(
            Agent(model=ScriptedModel(right), tools=tools, instructions=instructions), "go"
        )
        return diff(await app.store.events(first.task_id), await app.store.events(second.task_id))


@pytest.fixture
def tools() -> list[Tool]:
    return [named("look", []), named("pay", [])]


async def test_two_runs_alike_are_the_same(tools: list[Tool]) -> None:
    found = await compare([call("look"), "ok"], [call("look"), "ok"], tools=tools)
    assert found.is_same
    assert [(step.path, step.how) for step in found.steps] == [
        ("/turn1/model1", "same"),
        ("/turn1/tool1", "same"),
        ("/turn2/model1", "same"),
    ]
    assert found.left != found.right


async def test_each_side_has_its_own_steps(tools: list[Tool]) -> None:
    found = await compare(
        [calls(call("look"), call("look", what="x")), "ok"],
        [call("look"), call("pay"), "ok"],
        tools=tools,
    )
    assert [(step.path, step.how) for step in found.steps] == [
        ("/turn1/model1", "changed"),
        ("/turn1/tool1", "same"),
        ("/turn1/tool2", "left"),
        ("/turn2/model1", "changed"),
        ("/turn2/tool1", "right"),
        ("/turn3/model1", "right"),
    ]


async def test_arguments_results_prompt_and_outcome_are_told(tools: list[Tool]) -> None:
    found = await compare(
        [call("look", what="a"), "ok"],
        [call("look", what="b"), "well"],
        instructions="Be kind.",
        tools=tools,
    )
    by_path = {step.path: {change.what for change in step.changes} for step in found.steps}
    assert by_path["/turn1/model1"] == {"prompt", "calls"}
    assert by_path["/turn1/tool1"] == {"arguments"}
    assert found.task == (Change(what="output", left="ok", right="well"),)
    assert [change.what for change in found.code] == ["prompt"]


async def test_a_failed_call_differs_by_status_and_result(tools: list[Tool]) -> None:
    found = await compare([call("look"), "ok"], [call("look", number=1), "ok"], tools=tools)
    [step] = [step for step in found.steps if step.path == "/turn1/tool1"]
    assert [(c.what, c.left) for c in step.changes if c.what == "status"] == [("status", "ok")]


async def test_totals_and_the_form_for_programs(tools: list[Tool]) -> None:
    found = as_object(await compare([call("look"), "ok"], ["ok"], tools=tools))
    assert found["same"] is False
    left, right = found["totals"]  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]  # plain JSON
    assert (left["turns"], left["tool_calls"], left["status"]) == (2, 1, "succeeded")
    assert (right["turns"], right["tool_calls"]) == (1, 0)


def test_of_an_unknown_task_there_is_no_diff() -> None:
    with pytest.raises(NotFoundError):
        diff([], [])


async def test_ten_turns_stand_in_their_order(tmp_path: Path, tools: list[Tool]) -> None:
    replies: list[Scripted] = [*(call("look") for _ in range(9)), "ok"]
    found = await compare(list(replies), list(replies), tools=tools)
    models = [step.path for step in found.steps if "/model" in step.path]
    assert models == [f"/turn{turn}/model1" for turn in range(1, 11)]
