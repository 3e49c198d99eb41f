"""Whatever a conversation has become, what is sent is a request that no provider refuses."""

import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from hermes.models import ModelReply, ModelRequest
from hermes.models.anthropic_request import BodyBuilder as AnthropicBuilder
from hermes.models.mending import whole
from hermes.models.openai_request import BodyBuilder
from hermes.models.profiles import Profile
from hermes.models.react import ReActModel
from hermes.models.rendering import (
    ANTHROPIC,
    ANY,
    MISTRAL,
    NO_RESULT,
    TURNS,
    Renderer,
    Rules,
    render,
)
from hermes.testing import ScriptedModel
from tests.providers.strict import Object, Refused, check

TOOLS = (ToolSpec(name="read", description="Reads.", parameters={"type": "object"}),)
SEES = Profile(name="m", images=True)
RULES = {"openai": ANY, "mistral": MISTRAL, "turns": TURNS, "anthropic": ANTHROPIC}


def built_openai(name: str) -> Callable[[ModelRequest], bytes]:
    builder = BodyBuilder(name, profile=replace(SEES, name=name))
    return lambda request: builder.build(request, stream=False)


def built_anthropic(request: ModelRequest) -> bytes:
    return AnthropicBuilder("claude").build(request, stream=True)


def built_react(request: ModelRequest) -> bytes:
    """The body that a plain chat's server gets from the ReAct dialect."""
    inner = ScriptedModel([ModelReply(text="{}")])
    finish(ReActModel(inner, SEES).reply(request))
    return built_openai("gemma-3")(inner.requests[0])


def finish(work: Coroutine[object, object, object]) -> None:
    """Run what never waits."""
    with pytest.raises(StopIteration):
        work.send(None)


BUILT: dict[str, Callable[[ModelRequest], bytes]] = {
    "openai": built_openai("m"),
    "mistral": built_openai("mistral-small"),
    "turns": built_openai("gemma-3"),
    "react": built_react,
    "anthropic": built_anthropic,
}

ODD = ("", " ", "\n\t", "\x00", "a\x00b", "\ud83d", "\ude00", "\ud83d\ude00", "霜", "👩‍👩‍👧", "x  ")
IDS = st.sampled_from(
    ("", "a", "b", "call_1", "turn1/tool2", "x y", "é", "\ud800", "c" * 41, "d" * 300, "abcDEF123")
)
NAMES = st.sampled_from(("read", "write", "", "no such tool", "文件", "n" * 80, "functions.read:0"))
TEXTS = st.sampled_from(ODD) | st.text(max_size=12)
ARGUMENTS = st.sampled_from(
    (
        *("{}", "", "null", "[]", "1", '"text"', "{", '{"a": 1}', '{"a": NaN}', '{"a": Infinity}'),
        *('{"a": 1e999}', '{"a": "\\ud83d"}', '{"a": "\\u0000"}', '{"\\u0000": "霜"}', "\ud83d"),
        *(
            '{"a": "\x00"}',
            "{'a': 1}",
            '{"a": 1, "a": 2}',
            "[" * 300,
            '{"a":' * 300 + "1" + "}" * 300,
        ),
    )
)
CALLS = st.builds(ToolCall, id=IDS, name=NAMES, arguments=ARGUMENTS)
IMAGE = Image(media_type="image/png", data=b"\x89PNG")
MESSAGES: st.SearchStrategy[ChatMessage] = st.one_of(
    st.builds(SystemMessage, text=TEXTS),
    st.builds(
        UserMessage,
        text=TEXTS,
        images=st.sampled_from(((), (IMAGE,))),
        reminder=st.booleans(),
    ),
    st.builds(AssistantMessage, text=TEXTS, calls=st.lists(CALLS, max_size=3).map(tuple)),
    st.builds(ToolMessage, call_id=IDS, name=NAMES, text=TEXTS, is_error=st.booleans()),
)
RANDOM = st.lists(MESSAGES, max_size=10)


@st.composite
def conversations(draw: st.DrawFn) -> list[ChatMessage]:
    """A sound one: ids are unique, each call has its result, the user has the first word."""
    messages: list[ChatMessage] = [SystemMessage(text="Rules."), UserMessage(text="The goal.")]
    number = 0
    for _ in range(draw(st.integers(0, 5))):
        count = draw(st.integers(0, 3))
        calls = tuple(
            ToolCall(id=f"call_{number + place}", name="read", arguments='{"a": 1}')
            for place in range(count)
        )
        number += count
        messages.append(AssistantMessage(text=draw(st.sampled_from(("", "So."))), calls=calls))
        if not calls:
            messages[-1] = AssistantMessage(text=f"answer {number}")
            messages.append(UserMessage(text=f"and {number}?"))
        messages += [
            ToolMessage(call_id=call.id, name="read", text=f"of {call.id}") for call in calls
        ]
    return messages


@st.composite
def damaged(draw: st.DrawFn) -> list[ChatMessage]:
    """A sound one that was cut, and lost, got twice or had moved some of its messages."""
    messages = draw(conversations())
    start = draw(st.integers(0, len(messages)))
    messages = messages[start : draw(st.integers(start, len(messages)))]
    for _ in range(draw(st.integers(0, 3))):
        if not messages:
            break
        place = draw(st.integers(0, len(messages) - 1))
        match draw(st.sampled_from(("lose", "double", "move", "odd"))):
            case "lose":
                del messages[place]
            case "double":
                messages.insert(draw(st.integers(0, len(messages))), messages[place])
            case "move":
                messages.insert(draw(st.integers(0, len(messages) - 1)), messages.pop(place))
            case _:
                messages.insert(place, draw(MESSAGES))
    return messages


def request_of(messages: Sequence[ChatMessage], *, has_tools: bool = True) -> ModelRequest:
    return ModelRequest(messages=messages, tools=TOOLS if has_tools else ())


def texts(body: Object, role: str) -> str:
    """All that somebody is shown to have said, in order."""
    found: list[str] = []
    for message in cast("list[dict[str, object]]", body["messages"]):
        content = message["content"] if message["role"] == role else None
        parts = cast("list[dict[str, str]]", content if isinstance(content, list) else [])
        found += [part["text"] for part in parts if part["type"] == "text"]
        if isinstance(content, str):
            found.append(content)
    return "\n\n".join(found)


def stand_in_order(wanted: Sequence[str], text: str) -> bool:
    place = 0
    for piece in wanted:
        place = text.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    return True


def said(messages: Sequence[ChatMessage], kind: type[ChatMessage]) -> list[str]:
    found = [whole(message.text) for message in messages if isinstance(message, kind)]
    return [text for text in found if text.strip()]


@pytest.mark.parametrize("kind", BUILT)
@given(messages=RANDOM | damaged(), has_tools=st.booleans())
def test_any_conversation_makes_a_valid_request_that_has_every_word(
    kind: str, messages: list[ChatMessage], has_tools: bool
) -> None:
    body = check(kind, BUILT[kind](request_of(messages, has_tools=has_tools)))
    assert stand_in_order(said(messages, UserMessage), texts(body, "user"))
    if kind != "react":  # there, what an assistant said stands inside JSON
        assert stand_in_order(said(messages, AssistantMessage), texts(body, "assistant"))


@pytest.mark.parametrize("kind", RULES)
@given(messages=RANDOM | damaged())
def test_what_was_rendered_is_rendered_as_it_is(kind: str, messages: list[ChatMessage]) -> None:
    once = render(messages, RULES[kind])
    twice = render(once, RULES[kind])
    assert len(twice) == len(once)
    assert all(again is first for again, first in zip(twice, once, strict=True))
    assert render(messages, RULES[kind]) == once


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@given(messages=conversations())
def test_a_sound_conversation_stays_as_it_is(kind: str, messages: list[ChatMessage]) -> None:
    rendered = render(messages, RULES[kind])
    assert all(now is before for now, before in zip(rendered, messages, strict=False))
    # Where the assistant has the last word, the user is given another one.
    assert len(rendered) - len(messages) == isinstance(messages[-1], AssistantMessage)


@pytest.mark.parametrize("kind", RULES)
@given(messages=conversations(), data=st.data())
def test_each_result_stays_with_its_call(
    kind: str, messages: list[ChatMessage], data: st.DataObject
) -> None:
    results = [message for message in messages if isinstance(message, ToolMessage)]
    if results:
        messages.remove(data.draw(st.sampled_from(results)))
    due: list[ToolCall] = []
    known = {f"of {call.id}" for message in calling(messages) for call in message.calls}
    places = iter([call.id for message in calling(messages) for call in message.calls])
    for message in render(messages, RULES[kind]):
        if isinstance(message, AssistantMessage):
            due = list(message.calls)
        elif isinstance(message, ToolMessage):
            assert message.call_id == due.pop(0).id
            assert message.text in (f"of {next(places)}", NO_RESULT)
            known.discard(message.text)
    assert len(known) == bool(results)


def calling(messages: Sequence[ChatMessage]) -> list[AssistantMessage]:
    return [message for message in messages if isinstance(message, AssistantMessage)]


@pytest.mark.parametrize("kind", RULES)
@given(messages=conversations() | RANDOM | damaged(), data=st.data())
def test_a_conversation_that_grows_is_rendered_as_one_that_is_new(
    kind: str, messages: list[ChatMessage], data: st.DataObject
) -> None:
    renderer = Renderer(RULES[kind])
    reminder = UserMessage(text="go on", reminder=True)
    for end in sorted(data.draw(st.lists(st.integers(1, len(messages) or 1), max_size=5))):
        begun = data.draw(st.integers(0, 1)) * data.draw(st.integers(0, end))
        sent = [
            *messages[:1],
            *messages[1 + begun : end],
            *data.draw(st.sampled_from([[], [reminder]])),
        ]

        assert renderer.render(sent) == render(sent, RULES[kind])


@pytest.mark.parametrize("rules", [ANY, MISTRAL], ids=["any", "mistral"])
@given(messages=conversations())
def test_a_longer_conversation_begins_as_the_shorter_one_did(
    rules: Rules, messages: list[ChatMessage]
) -> None:
    """A provider's cache is kept, also where all ids have to be others."""
    rendered = render(messages, rules)
    for place, message in enumerate(messages):
        is_end = place + 1 == len(messages) or not isinstance(messages[place + 1], ToolMessage)
        if isinstance(message, ToolMessage) and is_end:
            shorter = render(messages[: place + 1], rules)
            assert rendered[: len(shorter)] == shorter


def sixty() -> list[ChatMessage]:
    messages: list[ChatMessage] = [SystemMessage(text="Rules."), UserMessage(text="The goal.")]
    while len(messages) < 60:
        turn = len(messages)
        ids = [f"call_{turn}_{place}" for place in range(turn % 3 + 1)]
        calls = tuple(ToolCall(id=known, name="read", arguments="{}") for known in ids)
        messages.append(AssistantMessage(text="", calls=calls))
        messages += [ToolMessage(call_id=known, name="read", text="done") for known in ids]
    return messages


@pytest.mark.parametrize("kind", BUILT)
def test_every_cut_of_a_history_makes_a_valid_request(kind: str) -> None:
    """R023: also with the rules before the cut, and where nothing is left."""
    messages = sixty()
    for place in range(len(messages) + 1):
        check(kind, BUILT[kind](request_of(messages[place:])))
        check(kind, BUILT[kind](request_of([*messages[:2], *messages[place:]])))
        check(kind, BUILT[kind](request_of(messages[:place])))


@pytest.mark.parametrize("kind", BUILT)
def test_the_strict_provider_refuses_what_is_not_rendered(kind: str) -> None:
    """The check itself has teeth."""
    lone = {"role": "tool", "tool_call_id": "a", "content": "done"}
    body = {"model": "m", "max_tokens": 1, "messages": [lone]}
    with pytest.raises(Refused):
        check(kind, json.dumps(body).encode())
