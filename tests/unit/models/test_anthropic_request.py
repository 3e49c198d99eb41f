"""Request bodies for the Messages API."""

import json
from collections.abc import Sequence
from typing import cast

import pytest

from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    Image,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes.models.anthropic_request import BodyBuilder, Thinking
from hermes.models.base import ModelRequest

Object = dict[str, object]

TOOLS = (
    ToolSpec(name="look", description="Looks.", parameters={"properties": {}}),
    ToolSpec(name="act", description="", parameters={"type": "object"}),
)
MARK = {"type": "ephemeral"}
THOUGHT = {"type": "thinking", "thinking": "想", "signature": "sig+/="}
HIDDEN = {"type": "redacted_thinking", "data": "ENC"}


def built(
    *messages: ChatMessage,
    tools: tuple[ToolSpec, ...] = (),
    may_finish: bool = True,
    cap: int | None = None,
    max_output: int | None = None,
    thinking: Thinking = None,
    parallel_calls: bool = True,
) -> Object:
    builder = BodyBuilder(
        "m", max_output=max_output, thinking=thinking, parallel_calls=parallel_calls
    )
    request = ModelRequest(
        messages=messages, tools=tools, may_finish=may_finish, max_output_tokens=cap
    )
    return json.loads(builder.build(request, stream=False))


def talk(*messages: ChatMessage) -> list[tuple[str, list[Object]]]:
    """Roles and blocks, without cache marks."""
    body = built(*messages, tools=TOOLS)
    return [
        (str(turn["role"]), [_plain(block) for block in cast("list[Object]", turn["content"])])
        for turn in cast("list[Object]", body["messages"])
    ]


def _plain(block: Object) -> Object:
    return {name: value for name, value in block.items() if name != "cache_control"}


def call(number: int, arguments: str = "{}") -> ToolCall:
    return ToolCall(id=f"toolu_{number}", name="look", arguments=arguments)


def result(number: int, text: str = "done", *, is_error: bool = False) -> ToolMessage:
    return ToolMessage(call_id=f"toolu_{number}", name="look", text=text, is_error=is_error)


def use(number: int, given: object) -> Object:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": given}


def answer(number: int, text: str = "done") -> Object:
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}


def text(words: str) -> Object:
    return {"type": "text", "text": words}


def test_the_system_message_stands_on_top() -> None:
    body = built(SystemMessage(text="Be brief."), UserMessage(text="hi"))
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": MARK}]}
    ]


def test_all_results_of_a_turn_stand_first_in_one_message_of_the_user() -> None:
    assert talk(
        UserMessage(text="go"),
        AssistantMessage(text="I look.", calls=(call(1, '{"a":1}'), call(2))),
        result(1, is_error=True),
        result(2),
        UserMessage(text="and hurry"),
        UserMessage(text="please"),
    ) == [
        ("user", [text("go")]),
        ("assistant", [text("I look."), use(1, {"a": 1}), use(2, {})]),
        ("user", [answer(1) | {"is_error": True}, answer(2), text("and hurry"), text("please")]),
    ]


def test_neighbours_of_one_role_become_one_message() -> None:
    turns = talk(
        UserMessage(text="a"),
        AssistantMessage(text="b"),
        AssistantMessage(text="c"),
        AssistantMessage(),
        UserMessage(text="d"),
    )
    assert turns == [
        ("user", [text("a")]),
        ("assistant", [text("b"), text("c")]),
        ("user", [text("d")]),
    ]


def test_white_space_is_no_text_block() -> None:
    _, said, told = talk(
        UserMessage(text="a"), AssistantMessage(text=" \n", calls=(call(1),)), result(1, " ")
    )
    assert said == ("assistant", [use(1, {})])
    assert told == ("user", [answer(1, "(empty)")])


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", "word"])
def test_arguments_that_are_no_object_are_wrapped(arguments: str) -> None:
    _, said, _ = talk(
        UserMessage(text="a"), AssistantMessage(calls=(call(1, arguments),)), result(1)
    )
    assert said == ("assistant", [use(1, {"_unreadable": arguments})])


def test_pictures_come_before_the_words_about_them() -> None:
    image = Image(media_type="image/png", data=b"\x89PNG")
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}
    assert talk(UserMessage(text="what?", images=(image,))) == [
        ("user", [{"type": "image", "source": source}, text("what?")])
    ]


@pytest.mark.parametrize(
    ("cap", "max_output", "expected"), [(9, 100, 9), (None, 100, 100), (None, None, 4096)]
)
def test_a_reply_is_always_capped(cap: int | None, max_output: int | None, expected: int) -> None:
    body = built(UserMessage(text="a"), cap=cap, max_output=max_output)
    assert body["max_tokens"] == expected


def test_who_may_not_finish_has_to_call_a_tool() -> None:
    ask = UserMessage(text="a")
    assert "tool_choice" not in built(ask, tools=TOOLS)
    assert built(ask, tools=TOOLS, may_finish=False)["tool_choice"] == {"type": "any"}
    assert "tool_choice" not in built(ask, may_finish=False)


def test_calls_in_the_history_need_tools_even_where_none_can_be_called() -> None:
    body = built(UserMessage(text="a"), AssistantMessage(calls=(call(1), call(2))), result(1))
    tools = cast("list[Object]", body["tools"])
    assert [tool["name"] for tool in tools] == ["look"]
    assert body["tool_choice"] == {"type": "none"}


def test_a_model_that_makes_one_call_at_a_time_is_told_so() -> None:
    body = built(UserMessage(text="a"), tools=TOOLS, parallel_calls=False)
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


@pytest.mark.parametrize(
    ("thinking", "cap", "expected"),
    [
        (None, None, None),
        ("adaptive", None, {"type": "adaptive"}),
        (2000, 4096, {"type": "enabled", "budget_tokens": 2000}),
        (9000, 4096, {"type": "enabled", "budget_tokens": 4095}),
        (2000, 1000, None),
    ],
)
def test_thinking_leaves_room_for_the_answer(
    thinking: Thinking, cap: int | None, expected: Object | None
) -> None:
    assert built(UserMessage(text="a"), thinking=thinking, cap=cap).get("thinking") == expected


def test_a_model_that_thinks_is_not_forced() -> None:
    body = built(UserMessage(text="a"), tools=TOOLS, may_finish=False, thinking="adaptive")
    assert "tool_choice" not in body


def test_thoughts_go_back_to_the_letter_where_they_stood() -> None:
    layout = [THOUGHT, {"type": "text", "chars": 3}, HIDDEN, {"type": "tool_use"}, THOUGHT]
    layout += [{"type": "text", "chars": 2}, {"type": "tool_use"}]
    said = AssistantMessage(
        text="oneto", calls=(call(1), call(2)), reasoning="想", opaque={"anthropic": layout}
    )
    turns = talk(UserMessage(text="a"), said, result(1), result(2))
    assert turns[1][1] == [
        *[THOUGHT, text("one"), HIDDEN, use(1, {}), THOUGHT, text("to"), use(2, {})]
    ]


def test_thoughts_stand_first_where_the_rest_is_not_what_it_was() -> None:
    layout = [{"type": "text", "chars": 9}, THOUGHT, {"type": "tool_use"}]
    said = AssistantMessage(text="one", calls=(call(1),), opaque={"anthropic": layout})
    turns = talk(UserMessage(text="a"), said, result(1))
    assert turns[1][1] == [THOUGHT, text("one"), use(1, {})]


def test_what_another_provider_wants_back_is_left_out() -> None:
    said = AssistantMessage(text="one", opaque={"openai": {"x": 1}, "anthropic": "?"})
    assert talk(UserMessage(text="a"), said, UserMessage(text="b"))[1] == (
        "assistant",
        [text("one")],
    )


def marked(messages: Sequence[ChatMessage]) -> list[str]:
    """Texts of all blocks with a mark, in the provider's order."""
    body = built(*messages, tools=TOOLS)
    turns = cast("list[dict[str, list[Object]]]", body["messages"])
    blocks = [*cast("list[Object]", body["tools"]), *cast("list[Object]", body.get("system", []))]
    blocks += [block for turn in turns for block in turn["content"]]
    return [
        str(block.get("name") or block.get("text") or block.get("content"))
        for block in blocks
        if "cache_control" in block
    ]


def test_the_ends_of_what_will_be_sent_again_are_marked() -> None:
    history: list[ChatMessage] = [SystemMessage(text="rules"), UserMessage(text="goal")]
    assert marked(history) == ["act", "rules", "goal"]
    history += [AssistantMessage(calls=(call(1),)), result(1, "first")]
    assert marked(history) == ["act", "rules", "goal", "first"]
    history += [AssistantMessage(calls=(call(2), call(3))), result(2, "x"), result(3, "second")]
    assert marked(history) == ["act", "rules", "first", "second"]


def test_a_reminder_at_the_end_comes_after_the_mark() -> None:
    history: list[ChatMessage] = [UserMessage(text="goal"), AssistantMessage(calls=(call(1),))]
    reminder = UserMessage(text="finish?", reminder=True)
    assert marked([*history, result(1, "first"), reminder]) == ["act", "goal", "first"]
    said = AssistantMessage(text="hm")
    assert marked([*history, result(1, "first"), said, reminder]) == ["act", "goal", "first"]


def test_a_message_is_encoded_once_and_the_bytes_of_a_longer_history_begin_the_same() -> None:
    builder = BodyBuilder("m")
    history: list[ChatMessage] = [SystemMessage(text="rules"), UserMessage(text="goal " * 100)]
    one = builder.build(ModelRequest(messages=history, tools=TOOLS), stream=True)
    history += [AssistantMessage(text="a", calls=(call(1),)), result(1)]
    two = builder.build(ModelRequest(messages=history, tools=TOOLS), stream=True)

    shared = next(i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)
    assert shared > one.index(b"goal") + 500
    history[-1].memo["anthropic"] = b'{"type":"text","text":"from the memo"}'
    assert b"from the memo" in builder.build(ModelRequest(messages=history), stream=False)


def test_halves_of_characters_are_mended() -> None:
    body = built(SystemMessage(text="a\ud83d"), UserMessage(text="\ud83e\udd76"))
    assert "🥶" in json.dumps(body, ensure_ascii=False)
