"""How often a task may call a tool: hidden once used up, refused beyond, kept over a crash."""

from __future__ import annotations

import pytest

from hermes import Agent, tool
from hermes.core.chat import ToolMessage, UserMessage
from hermes.errors import ToolDefinitionError
from hermes.models import ModelRequest
from hermes.models.profiles import Profile
from hermes.models.react import ReActModel
from hermes.models.react_read import as_call_object, as_finish_object
from hermes.testing import ScriptedModel, call, calls
from hermes.tools import Tool
from tests.unit.loop.stage import Stage


def looker(ran: list[str], *, max_calls: int | None = 1) -> Tool:
    @tool(effect="read", max_calls=max_calls)
    async def look(place: str) -> str:
        """Look somewhere."""
        ran.append(place)
        return f"seen {place}"

    return look


@tool(effect="read")
async def other() -> str:
    """Other."""
    return "fine"


def offered(model: ScriptedModel) -> list[list[str]]:
    own = ("look", "other")
    names = [[spec.name for spec in request.tools] for request in model.requests]
    return [[name for name in listed if name in own] for listed in names]


def reminders(request: ModelRequest) -> list[str]:
    return [m.text for m in request.messages if isinstance(m, UserMessage) and m.reminder]


async def test_a_tool_is_not_offered_once_its_calls_are_used_up() -> None:
    model = ScriptedModel([call("look", place="a"), call("other"), "Done."])
    await Agent(tools=[looker([]), other], model=model).run("go")

    assert offered(model) == [["look", "other"], ["other"], ["other"]]


async def test_the_model_is_told_once_that_it_is_used_up_and_not_that_it_is_broken() -> None:
    model = ScriptedModel([call("look", place="a"), call("other"), "Done."])
    await Agent(tools=[looker([]), other], model=model).run("go")
    told = reminders(model.requests[-1])

    assert [text for text in told if "look" in text] == [
        "look is used up: it may be called once in a task, and it was. Go on with its results."
    ]


async def test_a_call_beyond_is_refused_and_not_made() -> None:
    ran: list[str] = []
    model = ScriptedModel([call("look", place="a"), call("look", place="b"), "Done."])
    response = await Agent(tools=[looker(ran)], model=model).run("go")
    last = model.requests[-1].messages[-1]

    assert ran == ["a"]
    assert isinstance(last, ToolMessage)
    assert "look is used up: a task may call it once; nothing was run" in last.text
    assert response.status == "succeeded"


async def test_calls_of_one_turn_count_together() -> None:
    ran: list[str] = []
    asked = calls(*(call("look", place=place) for place in "abc"))
    await Agent(tools=[looker(ran, max_calls=2)], model=ScriptedModel([asked, "Done."])).run("go")

    assert sorted(ran) == ["a", "b"]


async def test_a_call_with_wrong_arguments_does_not_count() -> None:
    ran: list[str] = []
    model = ScriptedModel([call("look"), call("look", place="a"), "Done."])
    await Agent(tools=[looker(ran)], model=model).run("go")

    assert ran == ["a"]


async def test_each_task_has_its_own_count() -> None:
    ran: list[str] = []
    look = looker(ran)
    for _ in range(2):
        model = ScriptedModel([call("look", place="a"), "Done."])
        await Agent(tools=[look], model=model).run("go")

    assert ran == ["a", "a"]


async def test_a_resumed_run_goes_on_counting(stage: Stage) -> None:
    look = looker(stage.ran)
    stage.play([call("look", place="a")], look)
    await stage.submit()
    await stage.break_off()
    stage.play([call("look", place="b"), "Done."], look)
    await stage.carry()

    assert stage.ran == ["a", "a"]


async def test_a_call_that_is_made_again_after_a_crash_counts_once(stage: Stage) -> None:
    look = looker(stage.ran, max_calls=2)
    stage.play([call("look", place="a")], look)
    await stage.submit()
    await stage.break_off()
    stage.play([call("look", place="b"), "Done."], look)
    await stage.carry()

    assert stage.ran == ["a", "a", "b"]


async def test_a_call_that_waits_for_a_person_keeps_its_place(stage: Stage) -> None:
    @tool(effect="unsafe", requires_approval=True, max_calls=1)
    async def send(to: str) -> str:
        """Send."""
        stage.ran.append(to)
        return "sent"

    stage.play([calls(call("send", to="ann"), call("send", to="bob")), "Done."], send)
    await stage.start()
    await stage.decide("approve")

    assert stage.ran == ["ann"]


def test_fewer_than_one_call_is_refused_when_the_tool_is_made() -> None:
    with pytest.raises(ToolDefinitionError, match="max_calls must be at least 1, got 0"):
        looker([], max_calls=0)


async def test_the_react_schema_offers_what_policy_allows_at_that_turn() -> None:
    inner = ScriptedModel(
        [
            as_call_object("t", "look", '{"place": "a"}'),
            as_call_object("t", "other", "{}"),
            as_finish_object("t", "Done."),
        ]
    )
    profile = Profile(name="small", native_tools=False, json_mode="schema")
    agent = Agent(
        tools=[looker([]), other],
        model=ReActModel(inner, profile),
        required_tools=["look", "other"],
    )
    response = await agent.run("go")
    texts = [str(request.output_schema) for request in inner.requests]

    assert response.output == "Done."
    assert ["'look'" in text for text in texts] == [True, False, False]
    assert ["finish" in text for text in texts] == [False, False, True]
