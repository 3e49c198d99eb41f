"""What is sent of a conversation that no provider would take as it is."""

from __future__ import annotations

from time import process_time

import pytest

from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    Image,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes.models.rendering import (
    ANY,
    BEGINNING,
    EMPTY,
    GO_ON,
    MISTRAL,
    NO_RESULT,
    NOTED,
    TURNS,
    Rules,
    render,
    rules_for,
)

SYSTEM = SystemMessage(text="Rules.")
GOAL = UserMessage(text="The goal.")


def asks(*ids: str, text: str = "", name: str = "read", arguments: str = "{}") -> AssistantMessage:
    calls = tuple(ToolCall(id=known, name=name, arguments=arguments) for known in ids)
    return AssistantMessage(text=text, calls=calls)


def result(call_id: str, text: str = "done") -> ToolMessage:
    return ToolMessage(call_id=call_id, name="read", text=text)


def spelled(messages: list[ChatMessage]) -> list[str]:
    """Each message in short."""
    return [
        f"{message.call_id}={message.text}"
        if isinstance(message, ToolMessage)
        else f"{message.kind}:{message.text}{_ids(message)}"
        for message in messages
    ]


def _ids(message: ChatMessage) -> str:
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    return "".join(f"({call.id})" for call in calls)


@pytest.mark.parametrize(
    ("messages", "wanted"),
    [
        ([asks("a"), GOAL], ["assistant:(a)", f"a={NO_RESULT}", "user:The goal."]),
        ([result("a"), asks("b"), result("b")], ["assistant:(b)", "b=done"]),
        ([asks("a", "b"), result("b"), result("a")], ["assistant:(a)(b)", "a=done", "b=done"]),
        (
            [asks("a"), UserMessage(text="Wait!"), result("a")],
            ["assistant:(a)", "a=done", "user:Wait!"],
        ),
        ([asks("a"), result("a", "1"), result("a", "2")], ["assistant:(a)", "a=1"]),
        ([asks("a"), result("a", " ")], ["assistant:(a)", f"a={EMPTY}"]),
        ([asks("a", text=" \n"), result("a")], ["assistant:(a)", "a=done"]),
        ([AssistantMessage(text=" "), UserMessage(text="")], [f"user:{EMPTY}"]),
        ([SystemMessage(text=" ")], []),
        ([AssistantMessage(text="Hello.")], ["assistant:Hello.", f"user:{GO_ON}"]),
    ],
    ids=[
        "no result",
        "no call",
        "another order",
        "a word between",
        "two results",
        "an empty result",
        "blanks beside a call",
        "nothing said",
        "no rules",
        "the last word",
    ],
)
def test_what_is_sent_is_whole(messages: list[ChatMessage], wanted: list[str]) -> None:
    rendered = render([SYSTEM, GOAL, *messages], ANY)
    assert spelled(rendered) == ["system:Rules.", "user:The goal.", *wanted]


def test_an_id_that_comes_again_gets_another_and_its_result_follows() -> None:
    rendered = render([GOAL, asks("a"), result("a", "1"), asks("a"), result("a", "2")], ANY)
    first, second = (m for m in rendered if isinstance(m, AssistantMessage))
    new = second.calls[0].id
    assert first.calls[0].id == "a" != new
    assert spelled(rendered)[-1] == f"{new}=2"


def test_two_calls_of_one_id_get_the_results_in_their_order() -> None:
    rendered = render([GOAL, asks("a", "a"), result("a", "1"), result("a", "2")], ANY)
    assert [message.text for message in rendered[2:]] == ["1", "2"]


def test_an_id_is_mapped_the_same_each_time() -> None:
    messages = [GOAL, asks("call_1"), result("call_1")]
    once, again = render(messages, MISTRAL), render([*messages, asks("call_2")], MISTRAL)
    assert once == again[: len(once)]
    called = once[1]
    assert isinstance(called, AssistantMessage)
    assert len(called.calls[0].id) == 9
    assert called.calls[0].id.isalnum()


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("", "{}"),
        ("null", "{}"),
        ('{"a": 1}', '{"a": 1}'),
        ("[1]", '{"_unreadable":"[1]"}'),
        ('{"a": NaN}', '{"_unreadable":"{\\"a\\": NaN}"}'),
        ('{"a": "\\u0000b"}', '{"a":"\ufffdb"}'),
    ],
)
def test_arguments_are_a_json_object(arguments: str, wanted: str) -> None:
    called = render([GOAL, asks("a", arguments=arguments), result("a")], ANY)[1]
    assert isinstance(called, AssistantMessage)
    assert called.calls[0].arguments == wanted


@pytest.mark.parametrize(
    ("name", "wanted"), [("", "unknown"), ("functions.read:0", "functions_read_0"), ("文件", "__")]
)
def test_a_name_that_a_model_made_up_is_made_legal(name: str, wanted: str) -> None:
    called = render([GOAL, asks("a", name=name), result("a")], ANY)[1]
    assert isinstance(called, AssistantMessage)
    assert called.calls[0].name == wanted


def test_system_messages_are_joined_at_the_beginning() -> None:
    rendered = render([GOAL, SYSTEM, SystemMessage(text="More.")], ANY)
    assert spelled(rendered) == ["system:Rules.\n\nMore.", "user:The goal."]
    apart = render([GOAL, SYSTEM, GOAL], Rules(system_first=False))
    assert spelled(apart) == ["user:The goal.", "system:Rules.", "user:The goal."]


def test_roles_take_turns_where_they_have_to() -> None:
    image = Image(media_type="image/png", data=b"1")
    messages = [
        AssistantMessage(text="Hello."),
        AssistantMessage(text="So.", calls=asks("a").calls),
        result("a"),
        UserMessage(text="One.", images=(image,)),
        UserMessage(text="Two.", reminder=True),
    ]
    rendered = render(messages, TURNS)
    assert spelled(rendered) == [
        f"user:{BEGINNING}",
        "assistant:Hello.\n\nSo.(a)",
        "a=done",
        f"assistant:{NOTED}",
        "user:One.\n\nTwo.",
    ]
    last = rendered[-1]
    assert isinstance(last, UserMessage)
    assert (last.images, last.reminder) == ((image,), False)


def test_a_final_assistants_text_ends_without_blanks() -> None:
    rendered = render([GOAL, AssistantMessage(text="It is ")], Rules(user_last=False))
    assert spelled(rendered) == ["user:The goal.", "assistant:It is"]


@pytest.mark.parametrize(
    ("name", "host", "wanted"),
    [
        ("gpt-5", "api.openai.com", ANY),
        ("Mistral-Small", "", MISTRAL),
        ("ministral-8b", "127.0.0.1", MISTRAL),
        ("devstral-small-2", "", MISTRAL),
        ("anything", "api.mistral.ai", MISTRAL),
        ("gemma-3-4b-it", "", TURNS),
        ("deepseek-reasoner", "", TURNS),
        ("deepseek-chat", "", ANY),
        ("smollm2", "", ANY),
    ],
)
def test_the_rules_are_known_by_name_and_host(name: str, host: str, wanted: Rules) -> None:
    assert rules_for(name, host=host) == wanted


def test_a_long_conversation_that_is_fit_costs_little_and_grows_with_its_length() -> None:
    """Well under 1 ms for 1,000 messages; ten times that is allowed on a busy machine."""
    messages: list[ChatMessage] = [SYSTEM, GOAL]
    while len(messages) < 1_000:
        known = f"call_{len(messages)}"
        messages += [asks(known), result(known, "霜" * 3_000)]
    assert render(messages, ANY) == messages  # each was looked at once
    best = min(_seconds(messages) for _ in range(20))
    assert best < 0.01


def _seconds(messages: list[ChatMessage]) -> float:
    began = process_time()
    render(messages, ANY)
    return process_time() - began
