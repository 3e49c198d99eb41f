"""What a profile changes in a chat completions request."""

import base64
import json
from collections.abc import Mapping
from typing import cast

import pytest

from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    Image,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes.errors import ModelError
from hermes.models.base import ModelRequest
from hermes.models.openai_format import is_strict
from hermes.models.openai_request import BodyBuilder
from hermes.models.profiles import Profile, find_profile

Body = dict[str, object]
STRICT: Mapping[str, object] = {
    "type": "object",
    "properties": {"total": {"type": "number"}},
    "required": ["total"],
    "additionalProperties": False,
}
TOOLS = (ToolSpec(name="f", description="", parameters={"type": "object"}),)
CALL = ToolCall(id="c1", name="f", arguments="{}")
RESULT = ToolMessage(call_id="c1", name="f", text="ok")
ASK = UserMessage(text="the sum, as JSON")


def build(profile: Profile, *messages: ChatMessage, host: str = "", **options: object) -> Body:
    request = ModelRequest(messages=messages or (ASK,), **options)  # pyright: ignore[reportArgumentType]  # the options of each test
    return json.loads(BodyBuilder("m", profile=profile, host=host).build(request, stream=False))


def sent(body: Body, place: int) -> Body:
    return cast("list[Body]", body["messages"])[place]


def test_a_cap_is_no_more_than_the_model_can_write() -> None:
    profile = Profile(name="m", max_output=4096)

    assert build(profile, max_output_tokens=9000)["max_tokens"] == 4096
    assert build(profile, max_output_tokens=100)["max_tokens"] == 100
    assert "max_tokens" not in build(profile)


def test_a_reasoning_model_of_openai_gets_its_own_field_and_no_temperature() -> None:
    body = build(find_profile("o3-mini"), max_output_tokens=50)

    assert body["max_completion_tokens"] == 50
    assert not {"max_tokens", "temperature", "parallel_tool_calls"} & body.keys()


def test_an_unknown_server_is_asked_for_nothing_it_may_not_know() -> None:
    body = build(Profile(name="m"), tools=TOOLS, output_schema=STRICT, may_finish=False)

    assert body.keys() == {"model", "messages", "tools"}


def test_a_server_that_can_is_held_to_calling_a_tool() -> None:
    profile = Profile(name="m", tool_choice=True)

    assert build(profile, tools=TOOLS, may_finish=False)["tool_choice"] == "required"
    assert "tool_choice" not in build(profile, tools=TOOLS)
    assert "tool_choice" not in build(profile, may_finish=False)


@pytest.mark.parametrize("several", [True, False])
def test_a_server_that_wants_to_be_told_is_told_of_several_calls(several: bool) -> None:
    profile = Profile(name="m", parallel_field=True, parallel_calls=several)

    assert build(profile, tools=TOOLS)["parallel_tool_calls"] is several
    assert "parallel_tool_calls" not in build(profile)


def test_a_schema_goes_to_a_server_that_knows_schemas() -> None:
    body = build(Profile(name="m", json_mode="schema"), output_schema=STRICT)

    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": STRICT},
    }


@pytest.mark.parametrize(
    ("schema", "strict"),
    [(STRICT, True), ({**STRICT, "additionalProperties": True}, False)],
    ids=["qualifies", "does not"],
)
def test_strict_is_asked_only_for_a_schema_that_qualifies(
    schema: Mapping[str, object], strict: bool
) -> None:
    profile = Profile(name="m", json_mode="schema", strict_schema=True)
    form = cast("dict[str, Body]", build(profile, output_schema=schema)["response_format"])

    assert form["json_schema"]["strict"] is strict


def test_openai_is_not_sent_a_schema_of_something_else_than_an_object() -> None:
    schema = {"type": "array", "items": {"type": "string"}}
    openai = Profile(name="m", json_mode="schema", strict_schema=True)

    assert "response_format" not in build(openai, output_schema=schema)
    assert "response_format" in build(Profile(name="m", json_mode="schema"), output_schema=schema)


def test_json_mode_is_asked_where_there_are_no_schemas() -> None:
    profile = Profile(name="m", json_mode="object")

    assert build(profile, output_schema=STRICT)["response_format"] == {"type": "json_object"}
    assert "response_format" not in build(profile, output_schema={"type": "array"})


def test_json_mode_is_not_asked_where_no_message_has_the_word() -> None:
    body = build(
        Profile(name="m", json_mode="object"), UserMessage(text="the sum"), output_schema=STRICT
    )

    assert "response_format" not in body


def test_a_schema_stands_beside_tools_only_where_that_works() -> None:
    both = Profile(name="m", json_mode="schema", json_with_tools=True)
    one = Profile(name="m", json_mode="schema")

    assert "response_format" in build(both, tools=TOOLS, output_schema=STRICT)
    assert "response_format" not in build(one, tools=TOOLS, output_schema=STRICT)


def test_a_schema_that_changes_from_turn_to_turn_is_sent_as_it_is() -> None:
    builder = BodyBuilder("m", profile=Profile(name="m", json_mode="schema"))
    for number in range(50):
        schema = {"type": "object", "title": str(number)}
        request = ModelRequest(messages=(ASK,), output_schema=schema)
        body = json.loads(builder.build(request, stream=False))
        assert body["response_format"]["json_schema"]["schema"] == schema


@pytest.mark.parametrize(
    ("schema", "qualifies"),
    [
        (STRICT, True),
        ({"type": "array"}, False),
        ({"type": "object"}, False),
        ({**STRICT, "required": []}, False),
        ({**STRICT, "properties": {"total": {}}}, False),
        ({**STRICT, "properties": {"total": {"type": "number", "default": 1}}}, False),
        ({**STRICT, "properties": {"total": {"allOf": [{"type": "number"}]}}}, False),
        ({**STRICT, "properties": {"total": {"anyOf": [{"type": "number"}, STRICT]}}}, True),
        ({**STRICT, "properties": {"total": {"anyOf": [{"type": "object"}]}}}, False),
        ({**STRICT, "properties": {"total": {"type": "array", "items": STRICT}}}, True),
        ({**STRICT, "properties": {"total": {"type": "array"}}}, False),
        ({**STRICT, "properties": {"total": {"type": ["object", "null"]}}}, False),
        ({**STRICT, "properties": {"total": {"$ref": "#/$defs/t"}}, "$defs": {"t": STRICT}}, True),
        ({**STRICT, "$defs": {"t": {"type": "object"}}}, False),
        ({**STRICT, "anyOf": [STRICT]}, False),
    ],
)
def test_which_schemas_are_strict(schema: Mapping[str, object], qualifies: bool) -> None:
    assert is_strict(schema) is qualifies


def test_a_schema_nested_too_deeply_is_not_strict() -> None:
    schema: Mapping[str, object] = STRICT
    for _ in range(5):
        schema = {**STRICT, "properties": {"total": schema}}

    assert not is_strict(schema)


PNG = Image(media_type="image/png", data=b"\x89PNG")


def test_images_go_as_parts_after_the_text() -> None:
    profile = Profile(name="m", images=True)
    body = build(profile, UserMessage(text="what is this?", images=(PNG, PNG)))

    url = "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()
    part = {"type": "image_url", "image_url": {"url": url}}
    assert sent(body, 0)["content"] == [{"type": "text", "text": "what is this?"}, part, part]


def test_an_image_without_words_needs_no_text() -> None:
    body = build(Profile(name="m", images=True), UserMessage(text="", images=(PNG,)))

    content = cast("list[Body]", sent(body, 0)["content"])
    assert content[-1]["type"] == "image_url"


def test_an_image_is_never_dropped_in_silence() -> None:
    message = UserMessage(text="what is this?", images=(PNG,))
    build(Profile(name="seer", images=True), message)

    with pytest.raises(ModelError, match=r"'blind' is not known to read images.*nothing was sent"):
        build(Profile(name="blind"), message)


THOUGHT = AssistantMessage(text="", calls=(CALL,), reasoning="first f")
ANSWER = AssistantMessage(text="done", reasoning="all is well")
TALK = (ASK, THOUGHT, RESULT, ANSWER, UserMessage(text="thanks"))


@pytest.mark.parametrize(
    ("name", "host", "with_call", "without"),
    [
        ("deepseek-reasoner", "api.deepseek.com", "first f", None),
        ("deepseek-v4-pro", "api.deepseek.com", "first f", "all is well"),
        ("deepseek-chat", "api.deepseek.com", None, None),
        ("kimi-k2-thinking", "api.moonshot.cn", "first f", None),
        ("glm-4.7", "open.bigmodel.cn", "first f", None),
        ("qwen-plus", "dashscope.aliyuncs.com", None, None),
        ("gpt-5", "api.openai.com", None, None),
        ("deepseek-r1:7b", "localhost:11434", None, None),
    ],
)
def test_reasoning_goes_back_to_those_who_want_it(
    name: str, host: str, with_call: str | None, without: str | None
) -> None:
    body = build(find_profile(name, host=host), *TALK, host=host)

    assert sent(body, 1).get("reasoning_content") == with_call
    assert sent(body, 3).get("reasoning_content") == without


def test_what_one_server_sealed_goes_back_to_it_alone() -> None:
    details = [{"type": "reasoning.encrypted", "data": "xyz", "index": 0}]
    extra = {"google": {"thought_signature": "abc"}}
    opaque: dict[str, object] = {
        "openai": {
            "host": "openrouter.ai",
            "reasoning_details": details,
            "extra_content": [extra],
        },
        "anthropic": {"blocks": []},
    }
    message = AssistantMessage(calls=(CALL,), opaque=opaque)

    back = sent(build(Profile(name="m"), ASK, message, RESULT, host="openrouter.ai"), 1)
    assert back["reasoning_details"] == details
    assert cast("list[Body]", back["tool_calls"])[0]["extra_content"] == extra

    other = sent(build(Profile(name="m"), ASK, message, RESULT, host="api.groq.com"), 1)
    assert other.keys() == {"role", "content", "tool_calls"}
    assert cast("list[Body]", other["tool_calls"])[0].keys() == {"id", "type", "function"}


def test_a_model_whose_template_wants_turns_gets_them() -> None:
    said = (UserMessage(text="one"), UserMessage(text="two"))

    assert (
        len(cast("list[Body]", build(Profile(name="m", alternates=True), *said)["messages"])) == 1
    )
    assert len(cast("list[Body]", build(Profile(name="m"), *said)["messages"])) == 2


def test_a_long_conversation_is_not_encoded_again() -> None:
    builder = BodyBuilder("m", profile=find_profile("gpt-4o"), host="api.openai.com")
    messages: list[ChatMessage] = [ASK]
    for number in range(100):
        call = ToolCall(id=f"c{number}", name="f", arguments="{}")
        messages += [
            AssistantMessage(calls=(call,)),
            ToolMessage(call_id=call.id, name="f", text="ok"),
        ]
    builder.build(ModelRequest(messages=messages), stream=False)
    kept = [list(message.memo.values()) for message in messages]
    messages.append(AssistantMessage(text="and"))
    messages.append(UserMessage(text="more"))
    builder.build(ModelRequest(messages=messages), stream=False)

    for before, message in zip(kept, messages, strict=False):
        assert all(one is other for one, other in zip(before, message.memo.values(), strict=True))
