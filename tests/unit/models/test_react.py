"""A model that is asked for ReAct's JSON objects: what it is sent, what its replies come to."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes import Agent, Limits, tool
from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes.models import ModelReply, ModelRequest, ReasoningDelta, StreamPart, TextDelta
from hermes.models.chain import in_dialect
from hermes.models.profiles import JsonMode, Profile
from hermes.models.react import ReActModel
from hermes.models.react_read import as_call_object, as_finish_object
from hermes.testing import Scripted, ScriptedModel

WEATHER = ToolSpec(
    name="get_weather",
    description="The weather of a city.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
TOOLS = (WEATHER,)
CALL = as_call_object("look", "get_weather", '{"city": "Paris"}')
DONE = as_finish_object("enough", "It is 23.")
ASKED = (SystemMessage(text="Be kind."), UserMessage(text="Weather in Paris?"))


def profile(json_mode: JsonMode = "none") -> Profile:
    return Profile(name="small", native_tools=False, json_mode=json_mode)


def request(
    *more: ChatMessage,
    tools: tuple[ToolSpec, ...] = TOOLS,
    may_finish: bool = True,
    output_schema: Mapping[str, object] | None = None,
) -> ModelRequest:
    return ModelRequest(
        messages=[*ASKED, *more], tools=tools, may_finish=may_finish, output_schema=output_schema
    )


def model(*replies: Scripted, json_mode: JsonMode = "none") -> tuple[ReActModel, ScriptedModel]:
    inner = ScriptedModel(replies)
    return ReActModel(inner, profile(json_mode)), inner


async def sent(asked: ModelRequest, *, json_mode: JsonMode = "none") -> ModelRequest:
    react, inner = model(DONE, json_mode=json_mode)
    await react.reply(asked)
    return inner.requests[0]


def roles(messages: Sequence[ChatMessage]) -> list[str]:
    return [message.kind for message in messages]


async def test_tools_and_rules_stand_at_the_end_of_the_system_message() -> None:
    request_sent = await sent(request())
    system = request_sent.messages[0]

    assert isinstance(system, SystemMessage)
    assert system.text.startswith("Be kind.\n\n")
    assert "get_weather: The weather of a city." in system.text
    assert '"tool_args": {…}' in system.text
    assert request_sent.tools == ()


async def test_the_system_message_is_the_same_object_turn_after_turn() -> None:
    react, inner = model(DONE, DONE)
    await react.reply(request())
    await react.reply(request(AssistantMessage(text="x"), UserMessage(text="y"), may_finish=False))

    assert inner.requests[0].messages[0] is inner.requests[1].messages[0]


async def test_past_calls_and_results_are_plain_messages_that_take_turns() -> None:
    call = ToolCall(id="c1", name="get_weather", arguments='{"city": "Paris"}')
    request_sent = await sent(
        request(
            AssistantMessage(calls=(call,), reasoning="look"),
            ToolMessage(call_id="c1", name="get_weather", text="23 C"),
            UserMessage(text="Then finish.", reminder=True),
        )
    )

    assert roles(request_sent.messages) == ["system", "user", "assistant", "user"]
    assistant, result = request_sent.messages[2:]
    assert isinstance(assistant, AssistantMessage)
    assert json.loads(assistant.text) == json.loads(CALL)
    assert isinstance(result, UserMessage)
    assert result.text.startswith("Result of get_weather:\n23 C")
    assert result.text.endswith("Then finish.")


async def test_a_failed_call_is_told_as_an_error() -> None:
    call = ToolCall(id="c1", name="get_weather", arguments="{}")
    failed = ToolMessage(call_id="c1", name="get_weather", text="no city", is_error=True)
    last = (await sent(request(AssistantMessage(calls=(call,)), failed))).messages[-1]

    assert isinstance(last, UserMessage)
    assert last.text == "Error of get_weather:\nno city"


async def test_past_answers_are_shown_in_the_form_that_is_wanted() -> None:
    request_sent = await sent(request(AssistantMessage(text="Hi."), UserMessage(text="And now?")))
    answer = request_sent.messages[2]

    assert isinstance(answer, AssistantMessage)
    assert json.loads(answer.text) == json.loads(as_finish_object("", "Hi."))


async def test_a_call_has_no_id_and_its_thought_is_reasoning() -> None:
    react, _ = model(CALL)
    reply = await react.reply(request())

    assert reply.calls == (ToolCall(id="", name="get_weather", arguments='{"city":"Paris"}'),)
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("", "look", "tool_calls")


async def test_an_answer_is_the_text_of_the_reply() -> None:
    react, _ = model(DONE)
    reply = await react.reply(request())

    assert (reply.text, reply.reasoning, reply.finish_reason) == ("It is 23.", "enough", "stop")


async def test_an_unreadable_reply_is_a_problem_and_is_shown_again_as_it_was() -> None:
    react, inner = model('{"thought": "x"}', DONE)
    reply = await react.reply(request())
    wrong = AssistantMessage(text=reply.text, opaque=reply.opaque)
    await react.reply(request(wrong, UserMessage(text=reply.problem, reminder=True)))

    assert "`action` is missing" in reply.problem
    again = inner.requests[1].messages[2]
    assert isinstance(again, AssistantMessage)
    assert again.text == '{"thought": "x"}'


async def test_a_filtered_reply_stays_as_it_is() -> None:
    filtered = ModelReply(text='{"thought"', finish_reason="content_filter")
    react, _ = model(filtered)

    assert await react.reply(request()) == filtered


async def test_without_tools_the_model_is_asked_as_it_is() -> None:
    react, inner = model("Hello.")
    reply = await react.reply(
        request(AssistantMessage(text="Hi."), UserMessage(text="?"), tools=())
    )

    assert reply.text == "Hello."
    assert [message.kind for message in inner.requests[0].messages] == [
        *("system", "user", "assistant", "user")
    ]
    assert inner.requests[0].messages[0] == ASKED[0]
    assert inner.requests[0].messages[2] == AssistantMessage(text="Hi.")


async def test_where_all_tools_are_used_up_only_the_end_is_asked_for() -> None:
    call = ToolCall(id="c1", name="get_weather", arguments="{}")
    result = ToolMessage(call_id="c1", name="get_weather", text="23 C")
    react, inner = model(DONE, json_mode="schema")
    reply = await react.reply(request(AssistantMessage(calls=(call,)), result, tools=()))
    system = inner.requests[0].messages[0]

    assert reply.text == "It is 23."
    assert isinstance(system, SystemMessage)
    assert "no tool to call any more" in system.text
    assert "tool_call" not in json.dumps(inner.requests[0].output_schema)


async def test_where_it_may_not_finish_the_last_message_says_so() -> None:
    last = (await sent(request(may_finish=False))).messages[-1]

    assert isinstance(last, UserMessage)
    assert "cannot finish yet" in last.text


@pytest.mark.parametrize(("json_mode", "schema"), [("none", None), ("object", {"type": "object"})])
async def test_a_server_is_asked_for_what_it_can_hold_a_reply_to(
    json_mode: JsonMode, schema: object
) -> None:
    request_sent = await sent(request(output_schema={"type": "object"}), json_mode=json_mode)

    assert request_sent.output_schema == schema


async def test_a_server_with_schemas_gets_the_one_of_this_turn_as_the_same_object() -> None:
    react, inner = model(DONE, DONE, CALL, json_mode="schema")
    for may_finish in (True, True, False):
        await react.reply(request(may_finish=may_finish))
    first, second, third = (asked.output_schema for asked in inner.requests)

    assert first is second
    assert "finish" in json.dumps(first)
    assert "finish" not in json.dumps(third)


async def streamed(text: str, pieces: Sequence[int], *, reasoning: str = "") -> list[object]:
    """The parts of a reply that comes in pieces of these sizes."""

    class Slow(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
            left, sizes = text, list(pieces) or [1]
            while left:
                size = sizes.pop(0) if sizes else len(left)
                yield TextDelta(text=left[:size])
                left = left[size:]
            yield ModelReply(text=text, reasoning=reasoning)

    react = ReActModel(Slow([]), profile())
    return [part async for part in react.stream(request())]


def said(parts: Sequence[object]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextDelta))


ANSWERS = st.text(alphabet=st.characters(codec="utf-8")) | st.sampled_from(
    ["😀 gut", 'sagt "ja"', "a\\b\n\tc", "}{", '","final_answer":"no"}', "中文\u2028"]
)


@given(
    answer=ANSWERS, thought=st.text(), ascii_only=st.booleans(), sizes=st.lists(st.integers(1, 5))
)
async def test_what_a_person_sees_is_the_answer_alone_wherever_it_is_cut(
    answer: str, thought: str, ascii_only: bool, sizes: list[int]
) -> None:
    whole = json.loads(as_finish_object(thought, answer))
    text = json.dumps(whole, ensure_ascii=ascii_only)
    parts = await streamed(text, sizes * 20)
    reply = parts[-1]

    assert isinstance(reply, ModelReply)
    assert said(parts) == reply.text == answer
    assert "".join(p.text for p in parts if isinstance(p, ReasoningDelta)) == thought


async def test_the_answer_comes_as_it_is_written() -> None:
    parts = await streamed(as_finish_object("t", "one two three"), [1] * 200)

    assert len([part for part in parts if isinstance(part, TextDelta)]) > 10


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (CALL, ""),
        ("Just prose.", "Just prose."),
        ('{"thought": "x"}', ""),
        ('```json\n{"action": {"type": "finish"}, "answer": "near"}\n```', "near"),
        ('{"final_answer": "first", "action": {"type": "finish"}}', "first"),
        ('{"final_answer": "no", "action": {"type": "tool_call", "tool_name": "x"}}', ""),
        ('{"action": {"type": "finish"}, "final_answer": {"n": 1}}', '{"n": 1}'),
        (f"<think>{DONE}</think>{CALL}", ""),
    ],
)
async def test_raw_json_is_never_shown(text: str, seen: str) -> None:
    parts = await streamed(text, [3] * 100)
    reply = parts[-1]

    assert isinstance(reply, ModelReply)
    assert said(parts) == seen
    assert reply.problem or reply.text == seen


async def test_a_long_call_is_read_in_linear_time() -> None:
    long = as_call_object("t", "get_weather", json.dumps({"city": "x" * 200_000}))
    parts = await streamed(long, [20] * 20_000)
    reply = parts[-1]

    assert isinstance(reply, ModelReply)
    assert len(reply.calls) == 1


@tool(effect="read")
async def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"23 C in {city}"


async def test_a_run_goes_through_call_and_result_to_an_answer() -> None:
    inner = ScriptedModel([CALL, DONE])
    agent = Agent(tools=[get_weather], model=ReActModel(inner, profile()))
    response = await agent.run("Weather in Paris?")

    assert (response.status, response.output) == ("succeeded", "It is 23.")
    assert [entry.thought for entry in response.trace if entry.type == "llm"][0] == "look"
    inner.assert_done()


async def test_unreadable_replies_go_back_with_the_error_and_are_no_steps() -> None:
    inner = ScriptedModel(['{"thought": "x"}'] * 5 + [DONE])
    agent = Agent(
        tools=[get_weather], model=ReActModel(inner, profile()), limits=Limits(max_steps=1)
    )
    response = await agent.run("Weather in Paris?")

    assert (response.status, response.output) == ("succeeded", "It is 23.")
    told = inner.requests[-1].messages[-1]
    assert isinstance(told, UserMessage)
    assert "`action` is missing" in told.text
    assert '"type": "finish"' in told.text


async def test_after_five_reminders_the_run_ends_with_the_problem() -> None:
    inner = ScriptedModel(['{"thought": "x"}'] * 6)
    agent = Agent(tools=[get_weather], model=ReActModel(inner, profile()))
    response = await agent.run("Weather in Paris?")

    assert response.status != "succeeded"
    assert response.error is not None
    assert response.error.code == "unreadable"
    inner.assert_done()


def test_the_dialect_follows_the_profile_unless_it_is_chosen() -> None:
    inner = ScriptedModel([])
    native = Profile(name="big")

    assert in_dialect(inner, native) is inner
    assert isinstance(in_dialect(inner, profile()), ReActModel)
    assert in_dialect(inner, profile(), "native") is inner
    assert isinstance(in_dialect(inner, native, "react"), ReActModel)
    assert in_dialect(ScriptedModel([], name="playbook:x"), native, "react").name == "playbook:x"
