import json
from typing import cast

import pytest

from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes.models.base import ModelRequest
from hermes.models.openai_request import BodyBuilder
from hermes.models.profiles import Profile

Body = dict[str, object]


def build(*messages: ChatMessage, **options: object) -> Body:
    request = ModelRequest(messages=messages, **options)  # pyright: ignore[reportArgumentType]  # the options of each test
    return json.loads(builder().build(request, stream=False))


def builder() -> BodyBuilder:
    return BodyBuilder("m", profile=Profile(name="m"))


def rendered(message: ChatMessage) -> Body:
    return cast("list[Body]", build(UserMessage(text="q"), message)["messages"])[1]


def called(arguments: str) -> object:
    call = ToolCall(id="c1", name="f", arguments=arguments)
    message = rendered(AssistantMessage(calls=(call,)))
    return cast("list[dict[str, Body]]", message["tool_calls"])[0]["function"]["arguments"]


def test_a_whole_conversation() -> None:
    call = ToolCall(id="c1", name="f", arguments='{"x": "霜"}')
    body = build(
        SystemMessage(text="rules"),
        UserMessage(text="问"),
        AssistantMessage(text="let me see", calls=(call,), reasoning="hm"),
        ToolMessage(call_id="c1", name="f", text="result"),
        AssistantMessage(text="done"),
        UserMessage(text="thanks"),
    )
    function = {"name": "f", "arguments": '{"x": "霜"}'}
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "rules"},
            {"role": "user", "content": "问"},
            {
                "role": "assistant",
                "content": "let me see",
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "result"},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "thanks"},
        ],
    }


def test_calls_without_text_have_null_content() -> None:
    call = ToolCall(id="c1", name="f", arguments="{}")
    assert rendered(AssistantMessage(calls=(call,)))["content"] is None


def test_an_assistant_that_said_nothing_is_left_out() -> None:
    body = build(UserMessage(text="q"), AssistantMessage(reasoning="hm"), UserMessage(text="r"))
    messages = cast("list[Body]", body["messages"])
    assert [message["content"] for message in messages] == ["q", "r"]


def test_an_empty_result_is_a_text_all_the_same() -> None:
    call = ToolCall(id="c", name="f", arguments="{}")
    result = ToolMessage(call_id="c", name="f", text="")
    body = build(UserMessage(text="q"), AssistantMessage(calls=(call,)), result)
    assert cast("list[Body]", body["messages"])[2]["content"] == "(empty)"


@pytest.mark.parametrize("nothing", ["", "  \n", "null", " null "])
def test_empty_arguments_become_an_empty_object(nothing: str) -> None:
    assert called(nothing) == "{}"


@pytest.mark.parametrize("text", ['{"path": "a', "[1]", '"x"', "{'a': 1}", '{"a": NaN}', "1e999"])
def test_unreadable_arguments_are_wrapped(text: str) -> None:
    assert json.loads(str(called(text))) == {"_unreadable": text}


def test_readable_arguments_stay_as_they_were_written() -> None:
    assert called('{ "a":1,\n"b": 2 }') == '{ "a":1,\n"b": 2 }'


def test_a_lone_surrogate_does_not_reach_the_wire() -> None:
    assert rendered(UserMessage(text="a\ud83db"))["content"] == "a\ufffdb"


def test_a_message_is_encoded_once() -> None:
    message = UserMessage(text="hi")
    bodies = builder()
    bodies.build(ModelRequest(messages=[message]), stream=False)
    message.memo["openai"] = b'{"role":"user","content":"from the memo"}'
    assert b"from the memo" in bodies.build(ModelRequest(messages=[message]), stream=False)


def test_tools_are_encoded_once_for_the_same_tuple() -> None:
    parameters: Body = {"type": "object"}
    tools = (ToolSpec(name="f", description="does f", parameters=parameters),)
    request = ModelRequest(messages=[UserMessage(text="q")], tools=tools)
    bodies = builder()
    first = bodies.build(request, stream=False)
    parameters["changed"] = True
    assert bodies.build(request, stream=False) == first
    assert json.loads(first)["tools"] == [
        {
            "type": "function",
            "function": {"name": "f", "description": "does f", "parameters": {"type": "object"}},
        }
    ]


def test_many_tool_sets_are_not_mixed_up() -> None:
    bodies = builder()
    for number in range(50):
        spec = ToolSpec(name=f"f{number}", description="", parameters={})
        request = ModelRequest(messages=[UserMessage(text="q")], tools=(spec,))
        body = json.loads(bodies.build(request, stream=False))
        assert body["tools"][0]["function"]["name"] == f"f{number}"


def test_a_cap_and_a_stream_are_asked_for() -> None:
    request = ModelRequest(messages=[UserMessage(text="q")], max_output_tokens=99)
    body = json.loads(builder().build(request, stream=True))
    assert body["max_tokens"] == 99
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


def test_variables_are_never_sent() -> None:
    assert set(build(UserMessage(text="q"), variables={"secret": 1})) == {"model", "messages"}
