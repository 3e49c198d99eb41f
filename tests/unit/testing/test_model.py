import pytest

from hermes.core.chat import ToolCall, UserMessage
from hermes.errors import ModelError
from hermes.models.base import (
    CallDelta,
    Model,
    ModelReply,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
)
from hermes.testing import ScriptedModel, call, calls

ASK = ModelRequest(messages=[UserMessage(text="hi")])


async def test_replies_come_in_order_in_every_form() -> None:
    whole = ModelReply(text="whole")
    model: Model = ScriptedModel(
        [
            "text",
            whole,
            call("look", at="x"),
            lambda request: ModelReply(text=str(len(request.tools))),
        ]
    )
    assert (await model.reply(ASK)).text == "text"
    assert await model.reply(ASK) is whole
    assert (await model.reply(ASK)).calls == (ToolCall(id="", name="look", arguments='{"at":"x"}'),)
    assert (await model.reply(ASK)).text == "0"


async def test_a_scripted_error_is_raised() -> None:
    error = ModelError("busy", code="rate_limited", retryable=True)
    with pytest.raises(ModelError) as caught:
        await ScriptedModel([error]).reply(ASK)
    assert caught.value is error


async def test_requests_are_remembered() -> None:
    model = ScriptedModel(["a"])
    await model.reply(ASK)
    assert model.requests == [ASK]


async def test_asking_past_the_end_says_how_long_the_script_is() -> None:
    model = ScriptedModel(["a"], name="tiny")
    await model.reply(ASK)
    with pytest.raises(AssertionError, match="'tiny' was asked 2 times, but its script holds 1"):
        await model.reply(ASK)


def test_leftovers_are_complained_of() -> None:
    with pytest.raises(AssertionError, match="2 of 2 replies left over; the next one is 'a'"):
        ScriptedModel(["a", "b"]).assert_done()


def test_the_end_of_a_with_block_asks_for_leftovers() -> None:
    with pytest.raises(AssertionError, match="left over"), ScriptedModel(["a"]):
        pass


def test_an_error_in_a_with_block_is_not_hidden_by_leftovers() -> None:
    with pytest.raises(LookupError), ScriptedModel(["a"]):
        raise LookupError


async def test_a_stream_gives_small_deltas_and_then_the_reply() -> None:
    reply = calls(call("look"), text="some longer text", reasoning="because")
    parts = [part async for part in ScriptedModel([reply]).stream(ASK)]
    assert parts[-1] is reply
    assert "".join(p.text for p in parts if isinstance(p, TextDelta)) == "some longer text"
    assert "".join(p.text for p in parts if isinstance(p, ReasoningDelta)) == "because"
    assert CallDelta(name="look") in parts
    assert len(parts) > 5


def test_calls_make_one_reply() -> None:
    reply = calls(call("a", n=1), call("b"), text="both")
    assert [wanted.name for wanted in reply.calls] == ["a", "b"]
    assert (reply.text, reply.finish_reason) == ("both", "tool_calls")
