"""Usage, money, and what a provider wants back, out of its replies."""

import json
from collections.abc import Mapping

import pytest

from hermes.core.chat import ToolCall
from hermes.models.base import ModelReply
from hermes.models.faults import Answer, Peer
from hermes.models.openai_stream import OpenAIReader, read_whole
from hermes.models.openai_usage import read_usage
from hermes.models.profiles import Prices
from hermes.models.thinking import after_thinking

PEER = Peer(model="m", host="openrouter.ai")
PRICES = Prices(prompt=2.0, completion=8.0, cached=0.5)


def whole(message: Mapping[str, object], usage: object = None) -> ModelReply:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    body = json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode()
    answer = Answer(status=200, kind="application/json", body=body)
    return read_whole(answer, PEER, prompt=b"x" * 40, prices=PRICES)


def streamed(*deltas: Mapping[str, object], usage: object = None) -> ModelReply:
    reader = OpenAIReader(PEER, prices=PRICES)
    chunks: list[object] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]})
    chunks.append({"choices": [], "usage": usage})
    for chunk in chunks:
        reader.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    reader.feed(b"data: [DONE]\n\n")
    reply = reader.close(prompt=b"x" * 40)[-1]
    assert isinstance(reply, ModelReply)
    return reply


USAGES: list[tuple[str, Mapping[str, object], tuple[int, int, int, int]]] = [
    (
        "openai",
        {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 60},
        },
        (100, 20, 60, 0),
    ),
    (
        "deepseek",
        {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "prompt_cache_hit_tokens": 64,
            "prompt_cache_miss_tokens": 36,
        },
        (100, 20, 64, 0),
    ),
    (
        "kimi",
        {"prompt_tokens": 100, "completion_tokens": 20, "cached_tokens": 50},
        (100, 20, 50, 0),
    ),
    (
        "openrouter",
        {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 30},
        },
        (100, 20, 10, 30),
    ),
    (
        "qwen",
        {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 0, "cache_creation_input_tokens": 90},
        },
        (100, 20, 0, 90),
    ),
    ("responses' names", {"input_tokens": 100, "output_tokens": 20}, (100, 20, 0, 0)),
    (
        "more cached than read",
        {"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 50},
        (10, 2, 10, 0),
    ),
]


@pytest.mark.parametrize(
    ("usage", "figures"), [case[1:] for case in USAGES], ids=[case[0] for case in USAGES]
)
def test_usage_of_each_provider(
    usage: Mapping[str, object], figures: tuple[int, int, int, int]
) -> None:
    found = read_usage(usage, prompt=b"", written="x")

    assert figures == (
        found.prompt_tokens,
        found.completion_tokens,
        found.cached_tokens,
        found.cache_write_tokens,
    )
    assert not found.estimated
    assert found.cost_nano == 0


USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 100,
    "prompt_tokens_details": {"cached_tokens": 600},
}


@pytest.mark.parametrize(
    "reply",
    [whole({"content": "hi"}, USAGE), streamed({"content": "hi"}, usage=USAGE)],
    ids=["whole", "streamed"],
)
def test_a_reply_costs_what_its_tokens_do(reply: ModelReply) -> None:
    assert reply.usage.cost_nano == (400 * 2000) + (600 * 500) + (100 * 8000)
    assert reply.usage.cost == pytest.approx(0.0019)


def test_an_estimated_usage_costs_too() -> None:
    reply = whole({"content": "hello"})

    assert reply.usage.estimated
    assert reply.usage.cost_nano == 10 * 2000 + 2 * 8000


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_under_any_name_is_apart_from_the_answer(field: str) -> None:
    one = whole({"content": "4", field: "2 and 2"})
    many = streamed({field: "2 "}, {field: "and 2"}, {"content": "4"})

    assert (one.text, one.reasoning) == (many.text, many.reasoning) == ("4", "2 and 2")


def test_details_of_reasoning_are_put_together_and_kept() -> None:
    reply = streamed(
        {"reasoning": "think", "reasoning_details": [_text("think")]},
        {"reasoning": "ing", "reasoning_details": [_text("ing")]},
        {"reasoning_details": [{**_text(""), "signature": "sig"}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "index": 1}]},
        {"content": "4"},
    )

    assert (reply.text, reply.reasoning) == ("4", "thinking")
    assert reply.opaque == {
        "openai": {
            "host": "openrouter.ai",
            "reasoning_details": [
                {**_text("thinking"), "signature": "sig"},
                {"type": "reasoning.encrypted", "data": "x", "index": 1},
            ],
        }
    }


def _text(text: str) -> Mapping[str, object]:
    return {"type": "reasoning.text", "text": text, "index": 0}


def test_reasoning_that_stands_in_the_details_alone_is_read() -> None:
    reply = whole({"content": "4", "reasoning_details": [_text("2 and 2")]})

    assert (reply.text, reply.reasoning) == ("4", "2 and 2")


def test_a_signature_beside_a_call_is_kept_with_its_place() -> None:
    extra = {"google": {"thought_signature": "abc"}}
    function = {"name": "f", "arguments": "{}"}
    calls = [
        {"id": "1", "function": function, "extra_content": extra, "type": "function"},
        {"id": "2", "function": function, "type": "function"},
    ]
    reply = whole({"content": None, "tool_calls": calls})

    assert [call.id for call in reply.calls] == ["1", "2"]
    assert reply.calls[0] == ToolCall(id="1", name="f", arguments="{}")
    assert reply.opaque == {"openai": {"host": "openrouter.ai", "extra_content": [extra, None]}}


def test_a_plain_reply_keeps_nothing() -> None:
    assert whole({"content": "hi"}).opaque == {}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("2 and 2\n</think>\n\n4", ("2 and 2", "4")),
        ("2 and 2\n</think>\n", ("2 and 2", "")),
        ("the tag `</think>` closes it", ("", "the tag `</think>` closes it")),
        ("<think>\n</think>\n", ("", "<think>\n</think>\n")),
        ("plain", ("", "plain")),
    ],
)
def test_reasoning_without_its_opening_tag(text: str, parts: tuple[str, str]) -> None:
    assert after_thinking(text) == parts
