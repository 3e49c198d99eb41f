"""A call that a model wrote as text is run or sent back; it is never the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from hermes import Agent, Hermes, Limits, tool
from hermes.app import RunOptions
from hermes.core.chat import AssistantMessage, ToolMessage
from hermes.core.events import ModelReplied, ModelRequested, TaskSettled, ToolFailed, ToolStarted
from hermes.core.request import AgentResponse
from hermes.loop.answer import MAX_REPAIRS
from hermes.loop.prompts import empty_reply
from hermes.models import ModelReply
from hermes.testing import Scripted, ScriptedModel, call
from hermes.tools import Tool
from tests.unit.agents.broken import playbook
from tests.unit.loop.stage import Stage

READ = '{"name": "read_file", "arguments": {"path": "a.md"}}'
MARKED = f"<tool_call>{READ}</tool_call>"
QWEN = "<function=read_file>\n<parameter=path>\na.md\n</parameter>\n</function>"


def reader(ran: list[str]) -> Tool:
    @tool(effect="read")
    async def read_file(path: str) -> str:
        """Read a file."""
        ran.append(path)
        return f"{path} 的内容"

    return read_file


async def play(
    replies: Sequence[Scripted], ran: list[str], **options: object
) -> tuple[AgentResponse, ScriptedModel]:
    model = ScriptedModel(replies)
    agent = Agent(tools=[reader(ran)], model=model, **options)  # pyright: ignore[reportArgumentType]  # options are named by each test
    return await agent.run("what is in it?"), model


@pytest.mark.parametrize(
    "text",
    [
        MARKED,
        f"<tool_call>\n{READ}",
        QWEN,
        READ,
        f"```json\n{READ}\n```",
        f"<think>Let me see.</think>\n{MARKED}",
        f"我来看一下。\n{MARKED}",
        'read_file(path="a.md")',
        '{"thought": "t", "action": {"type": "tool_call", "tool_name": "read_file", '
        '"tool_args": {"path": "a.md"}}}',
    ],
)
async def test_a_text_that_is_only_a_call_is_run(text: str) -> None:
    ran: list[str] = []
    response, model = await play([text, "It says so."], ran)

    assert (response.status, response.output, ran) == ("succeeded", "It says so.", ["a.md"])
    *_, asked, result = model.requests[-1].messages
    assert isinstance(asked, AssistantMessage)
    assert isinstance(result, ToolMessage)
    assert asked.text == text
    assert [(c.id, c.name) for c in asked.calls] == [(result.call_id, "read_file")]
    assert json.loads(asked.calls[0].arguments) == {"path": "a.md"}
    assert result.text == "a.md 的内容"


async def test_several_calls_in_one_text_have_ids_of_their_own() -> None:
    ran: list[str] = []
    other = MARKED.replace("a.md", "b.md")
    _, model = await play([f"{MARKED}\n{other}", f"{MARKED}", "Done."], ran)

    assert sorted(ran[:2]) == ["a.md", "b.md"]
    ids = [m.call_id for m in model.requests[-1].messages if isinstance(m, ToolMessage)]
    assert len(set(ids)) == 3


async def test_calls_of_the_provider_are_not_joined_by_their_copy_in_the_text() -> None:
    ran: list[str] = []
    reply = ModelReply(text=MARKED, calls=(call("read_file", path="b.md"),))
    response, _ = await play([reply, "Done."], ran)

    assert (response.output, ran) == ("Done.", ["b.md"])


@pytest.mark.parametrize(
    "text",
    [
        f"<think>I could send {MARKED}</think>It is empty.",
        f"<think>\n{READ}\n</think>\nIt is empty.",
        f"You call it like this: {MARKED} and wait.",
        f"An example:\n{MARKED}",
        f"Send this:\n```json\n{READ}\n```\nThen wait.",
        '{"name": "Anna", "age": 5}',
    ],
)
async def test_reasoning_and_examples_run_nothing_and_are_a_part_of_the_answer(text: str) -> None:
    ran: list[str] = []
    response, model = await play([text], ran)

    assert (response.status, response.output, ran) == ("succeeded", text, [])
    assert len(model.requests) == 1


@pytest.mark.parametrize("text", [f"<think>\n{MARKED}", f"<think>{MARKED}</think>\n<|im_end|>"])
async def test_a_text_of_reasoning_alone_is_an_empty_reply(text: str) -> None:
    ran: list[str] = []
    response, model = await play([text, "It is empty."], ran)

    assert (response.status, response.output, ran) == ("succeeded", "It is empty.", [])
    assert model.requests[1].messages[-1].text == empty_reply()


async def test_reasoning_beside_the_text_runs_nothing() -> None:
    ran: list[str] = []
    response, _ = await play([ModelReply(text="Empty.", reasoning=MARKED)], ran)

    assert (response.output, ran) == ("Empty.", [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (MARKED.replace("read_file", "reed_file"), "did you mean `read_file`"),
        (READ.replace("read_file", "reed_file"), "did you mean `read_file`"),
        ('<tool_call>{"name": "read_file", "arguments": {"path": "a.', "cut off"),
        ("<function=read_file><parameter=path>a.", "does not end"),
        (f"{MARKED}\nIt holds 12 lines.", "text follows the call"),
    ],
)
async def test_a_broken_call_is_sent_back_with_the_reason(text: str, why: str) -> None:
    ran: list[str] = []
    response, model = await play([text, MARKED, "It says so."], ran)

    assert (response.status, response.output, ran) == ("succeeded", "It says so.", ["a.md"])
    assert why in model.requests[1].messages[-1].text
    assert [m.text for m in model.requests[1].messages[-2:-1]] == [text]


async def test_a_call_that_stays_broken_ends_the_run_without_becoming_its_output() -> None:
    ran: list[str] = []
    broken = MARKED.replace("read_file", "reed_file")
    response, model = await play([broken] * (MAX_REPAIRS + 1), ran, limits=Limits(max_steps=20))

    assert len(model.requests) == MAX_REPAIRS + 1
    assert (response.status, response.output, ran) == ("failed", None, [])
    assert response.error is not None
    assert response.error.code == "text_call"


async def test_arguments_that_do_not_fit_come_back_as_for_any_call() -> None:
    ran: list[str] = []
    text = MARKED.replace('"path"', '"paht"')
    response, model = await play([text, MARKED, "Done."], ran)

    assert (response.output, ran) == ("Done.", ["a.md"])
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolMessage)
    assert result.is_error


@pytest.mark.parametrize("text", [MARKED, MARKED[:-20]])
async def test_a_reply_cut_at_the_output_limit_runs_nothing(text: str) -> None:
    ran: list[str] = []
    response, model = await play([ModelReply(text=text, finish_reason="length"), "Done."], ran)

    assert (response.output, ran) == ("Done.", [])
    assert len(model.requests) == 2


async def test_a_filtered_reply_runs_nothing() -> None:
    ran: list[str] = []
    response, _ = await play([ModelReply(text=MARKED, finish_reason="content_filter")], ran)

    assert (response.status, response.output, ran) == ("failed", None, [])


async def test_what_is_known_so_far_is_never_the_text_of_a_call() -> None:
    ran: list[str] = []
    response, _ = await play(
        [MARKED, MARKED.replace("a.md", "b.md")], ran, limits=Limits(max_steps=2)
    )

    assert (response.status, ran) == ("partial", ["a.md", "b.md"])
    assert response.output == "read_file: a.md 的内容\nread_file: b.md 的内容"


async def test_a_streamed_text_is_run_as_well() -> None:
    ran: list[str] = []

    agent = Agent(tools=[reader(ran)], model=ScriptedModel([MARKED, "Done."]))
    async with Hermes("memory://") as app:
        response = await app.run(agent, "go", options=RunOptions(stream=True))

    assert (response.output, ran) == ("Done.", ["a.md"])


async def test_an_output_schema_that_asks_for_the_same_json_gets_it() -> None:
    ran: list[str] = []
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
    }
    response, _ = await play([READ], ran, output_schema=schema)

    assert (response.output, ran) == (json.loads(READ), [])


async def test_a_text_call_with_an_output_schema_is_run() -> None:
    ran: list[str] = []
    schema = {"type": "object", "properties": {"lines": {"type": "integer"}}}
    response, _ = await play([READ, '{"lines": 1}'], ran, output_schema=schema)

    assert (response.output, ran) == ({"lines": 1}, ["a.md"])


async def test_a_playbook_that_quotes_a_call_answers_with_it(tmp_path: Path) -> None:
    ran: list[str] = []
    book = playbook(tmp_path, "[]", answer=MARKED.replace('"', "'"))
    response = await Agent(tools=[reader(ran)], model=book).run("go")

    assert (response.output, ran) == (MARKED.replace('"', "'"), [])


async def test_the_event_holds_the_calls_and_a_replay_decides_the_same(tmp_path: Path) -> None:
    ran: list[str] = []
    broken = MARKED.replace("read_file", "reed_file")
    agent = Agent(tools=[reader(ran)], model=ScriptedModel([broken, MARKED, "Done."]))
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        task = (await app.run(agent, "go")).task_id
        events = [record.event for record in await app.store.events(task)]
        found = await app.replay(task, Agent(tools=[reader(ran)], model=ScriptedModel([])))

    [_, replied, _] = [event for event in events if isinstance(event, ModelReplied)]
    [started] = [event for event in events if isinstance(event, ToolStarted)]
    assert replied.text == MARKED
    assert [one.id for one in replied.calls] == [started.call_id]
    assert (found.difference, found.is_whole, ran) == (None, True, ["a.md"])


async def test_a_run_that_breaks_off_after_a_text_call_goes_on_with_it(stage: Stage) -> None:
    ran = stage.ran
    stage.play([MARKED, "Done."], reader(ran))
    task = await stage.submit()
    await stage.break_off(task)
    response = await stage.carry(task)

    assert (response.output, ran) == ("Done.", ["a.md", "a.md"])
    assert len(await stage.events(task, ModelRequested)) == 2


async def test_a_bounced_call_counts_as_no_failed_call(stage: Stage) -> None:
    stage.play([MARKED.replace("read_file", "reed_file"), MARKED, "Done."], reader(stage.ran))
    task = await stage.submit()
    response = await stage.carry(task)

    assert response.output == "Done."
    assert await stage.events(task, ToolFailed) == []
    [settled] = await stage.events(task, TaskSettled)
    assert settled.outcome == "succeeded"
