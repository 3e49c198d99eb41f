"""R023: wherever a conversation is cut, no call is parted from its results."""

from __future__ import annotations

import pytest

from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes.core.events import ContextCompacted, ModelRequested
from hermes.loop import RunState
from hermes.loop.context import Context, is_cut, recent_from
from hermes.models import ModelRequest
from hermes.models.openai_request import BodyBuilder
from hermes.models.profiles import Profile
from tests.providers import strict

OPENING = (SystemMessage(text="rules"), UserMessage(text="go"))
INTENT = ModelRequested(path="/turn99/model1", model="m", history=0, prompt="", tools="")


def conversation() -> list[ChatMessage]:
    """60 messages: turns of one, two and three calls, words, and notices between them."""
    found: list[ChatMessage] = []
    turn = 0
    while len(found) < 60:
        turn += 1
        if turn % 7 == 0:
            found.append(UserMessage(text="a tool is gone", reminder=True))
        if turn % 5 == 0:
            found.append(AssistantMessage(text="let me think"))
            continue
        calls = tuple(
            ToolCall(id=f"c{turn}_{n}", name="t", arguments="{}") for n in range(turn % 3 + 1)
        )
        found.append(AssistantMessage(text="", calls=calls))
        found += [ToolMessage(call_id=call.id, name="t", text="r" * 900) for call in calls]
    return found


MESSAGES = conversation()


def cut_at(place: int) -> int:
    while not is_cut(MESSAGES, place):
        place -= 1
    return place


@pytest.mark.parametrize("place", range(len(MESSAGES) + 1))
def test_r023_every_cut_makes_a_valid_request(place: int) -> None:
    for shortened in (place, len(MESSAGES)):
        state = RunState(messages=list(MESSAGES))
        state.compacted = ContextCompacted(
            path="/turn9/compact1",
            upto=cut_at(place),
            shortened=max(cut_at(place), shortened),
            summary="so far, so good",
            before_tokens=2,
            after_tokens=1,
        )
        request = ModelRequest(messages=Context(OPENING).messages(state, INTENT))
        body = BodyBuilder("m", profile=Profile(name="m")).build(request, stream=False)

        strict.check("openai", body)
        assert body.count(b'"tool_call_id"') == sum(
            isinstance(message, ToolMessage) for message in MESSAGES[cut_at(place) :]
        )


@pytest.mark.parametrize("end", [n for n in range(1, len(MESSAGES) + 1) if is_cut(MESSAGES, n)])
def test_the_loop_only_cuts_where_it_may(end: int) -> None:
    for room in (0, 100, 500, 2_000, 100_000):
        assert is_cut(MESSAGES[:end], recent_from(MESSAGES[:end], room))
