"""Replies of the Messages API, whole and as events."""

import json
from collections.abc import Sequence

import pytest

from hermes.core.chat import FinishReason, ToolCall, Usage
from hermes.errors import ModelError
from hermes.models.anthropic_stream import AnthropicReader, read_whole
from hermes.models.base import CallDelta, ModelReply, ReasoningDelta, StreamPart, TextDelta
from hermes.models.faults import Answer, Peer
from hermes.models.profiles import Prices
from tests.providers.anthropic_server import as_stream, events, whole

PEER = Peer(model="m", host="api.example", secrets=("sk-ant-secret-01",))
PROMPT = b"p" * 400
PRICES = Prices(prompt=3, completion=15, cached=0.3, cache_write=3.75)

Object = dict[str, object]


def text(words: str) -> Object:
    return {"type": "text", "text": words}


def use(number: int, given: object) -> Object:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": given}


THOUGHT: Object = {"type": "thinking", "thinking": "想一想 🥶", "signature": "sig+/="}
HIDDEN: Object = {"type": "redacted_thinking", "data": "ENC=="}


def read(body: object) -> ModelReply:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = Answer(status=200, kind="application/json", body=raw)
    return read_whole(answer, PEER, prompt=PROMPT, prices=PRICES)


def parts(data: bytes, *, size: int | None = None) -> list[StreamPart]:
    reader = AnthropicReader(PEER, kind="text/event-stream", prices=PRICES)
    step = size or len(data) or 1
    pieces = [data[start : start + step] for start in range(0, len(data), step)]
    return [p for piece in pieces for p in reader.feed(piece)] + reader.close(prompt=PROMPT)


def last(got: Sequence[StreamPart]) -> ModelReply:
    reply = got[-1]
    assert isinstance(reply, ModelReply)
    return reply


def both(*content: Object, **given: object) -> ModelReply:
    """The reply, the same whole and streamed."""
    message = whole({"content": list(content), **given})
    reply = read(message)
    assert reply == last(parts(as_stream(events(message))))
    return reply


def fault(data: bytes) -> ModelError:
    with pytest.raises(ModelError) as caught:
        parts(data)
    return caught.value


def event(kind: str, **fields: object) -> Object:
    return {"type": kind, **fields}


START = events(whole({"content": []}))[0]


def test_text_and_calls_are_read() -> None:
    reply = both(text("霜 "), text("é🥶"), use(1, {"q": "北京"}), use(2, {}))
    assert reply.text == "霜 é🥶"
    assert [(call.id, json.loads(call.arguments)) for call in reply.calls] == [
        ("toolu_1", {"q": "北京"}),
        ("toolu_2", {}),
    ]
    assert (reply.finish_reason, reply.model, reply.opaque) == ("tool_calls", "claude", {})


def test_thoughts_are_kept_apart_and_to_the_letter() -> None:
    reply = both(THOUGHT, text("one"), HIDDEN, use(1, {"a": 1}))
    assert (reply.text, reply.reasoning) == ("one", "想一想 🥶")
    layout = [THOUGHT, {"type": "text", "chars": 3}, HIDDEN, {"type": "tool_use"}]
    assert reply.opaque == {"anthropic": layout}


def test_a_thought_that_is_not_shown_still_goes_back() -> None:
    thought = {**THOUGHT, "thinking": ""}
    reply = both(thought, text("one"))
    assert reply.reasoning == ""
    assert reply.opaque == {"anthropic": [thought, {"type": "text", "chars": 3}]}


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "length"),
        ("refusal", "content_filter"),
        ("something_new", "unknown"),
        (None, "unknown"),
    ],
)
def test_stop_reasons_are_told_apart(stop: str | None, expected: FinishReason) -> None:
    assert both(text("a"), stop=stop).finish_reason == expected


def test_a_refusal_says_why_where_nothing_else_was_said() -> None:
    message = whole({"content": [], "stop": "refusal"})
    message["stop_details"] = {"type": "refusal", "explanation": "too dangerous"}
    assert read(message).text == "too dangerous"


def test_all_that_was_read_counts_as_prompt() -> None:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 2000,
        "cache_creation_input_tokens": 300,
        "output_tokens": 40,
    }
    assert both(text("a"), usage=usage).usage == Usage(
        prompt_tokens=2310,
        completion_tokens=40,
        cached_tokens=2000,
        cache_write_tokens=300,
        cost_nano=round((10 * 3 + 2000 * 0.3 + 300 * 3.75 + 40 * 15) * 1000),
    )


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": None}, {"input_tokens": "x"}])
def test_figures_that_are_missing_are_estimated(usage: object) -> None:
    got = read({**whole({"content": [text("abcdefgh")]}), "usage": usage}).usage
    assert got.estimated
    assert (got.prompt_tokens, got.completion_tokens) == (100, 2)


def test_an_empty_reply_is_a_reply() -> None:
    reply = both()
    assert (reply.text, reply.calls, reply.finish_reason) == ("", (), "stop")


def test_arguments_that_were_cut_stay_as_they_are() -> None:
    message = whole({"content": [use(1, {"a": "long"})], "stop": "max_tokens"})
    found = [e for e in events(message) if '"ng"' not in json.dumps(e)]
    cut = [e for e in found if '"partial_json": "}' not in json.dumps(e)]
    last_piece = [place for place, e in enumerate(cut) if "partial_json" in json.dumps(e)][-1]
    reply = last(parts(as_stream([*cut[:last_piece], *cut[last_piece + 1 :]])))
    assert reply.finish_reason == "length"
    assert not reply.calls[0].arguments.endswith("}")


def test_input_that_comes_with_the_start_of_its_block_counts() -> None:
    found = [
        START,
        event("content_block_start", index=0, content_block=use(1, {"a": 1})),
        event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 3}),
        event("message_stop"),
    ]
    reply = last(parts(as_stream(found)))
    assert reply.calls == (ToolCall(id="toolu_1", name="look", arguments='{"a":1}'),)


def test_a_stream_tells_what_comes() -> None:
    got = parts(as_stream(events(whole({"content": [THOUGHT, text("hello"), use(1, {})]}))))
    assert got[:-1] == [
        ReasoningDelta(text="想一想"),
        ReasoningDelta(text=" 🥶"),
        TextDelta(text="hel"),
        TextDelta(text="lo"),
        CallDelta(name="look"),
    ]


def test_every_single_byte_may_come_alone() -> None:
    message = whole({"content": [THOUGHT, text("霜 é 🥶"), use(1, {"where": "霜é🥶"})]})
    for line_end in (b"\n", b"\r\n"):
        data = as_stream(events(message), line_end=line_end)
        assert last(parts(data, size=1)) == read(message)


def test_a_stream_may_be_one_whole_message() -> None:
    message = whole({"content": [text("霜")]})
    assert last(parts(json.dumps(message).encode())) == read(message)


def test_events_and_blocks_that_are_not_known_are_passed_over() -> None:
    server_tool = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}}
    message = whole({"content": [server_tool, text("a")]})
    found = events(message)
    found.insert(1, event("something_new", index=0, delta=7))
    delta: Object = {"type": "citations_delta", "citation": {}}
    found.insert(-3, event("content_block_delta", index=1, delta=delta))
    reply = last(parts(as_stream(found)))
    assert (reply.text, reply.calls) == ("a", ())


def test_a_stream_without_its_end_is_broken() -> None:
    found = events(whole({"content": [text("hello")]}))
    error = fault(as_stream(found[:-1]))
    assert (error.code, error.retryable, error.partial_text) == ("stream", True, "hello")
    assert "message_stop" in error.message


@pytest.mark.parametrize(
    ("kind", "code", "retryable"),
    [
        ("overloaded_error", "stream", True),
        ("api_error", "stream", True),
        ("rate_limit_error", "rate_limited", True),
        ("timeout_error", "timeout", True),
        ("authentication_error", "auth", False),
        ("permission_error", "auth", False),
        ("billing_error", "auth", False),
        ("not_found_error", "unknown_model", False),
        ("request_too_large", "bad_request", False),
        ("invalid_request_error", "bad_request", False),
        ("new_error", "stream", False),
    ],
)
def test_an_error_amid_a_stream_is_told_by_its_type(kind: str, code: str, retryable: bool) -> None:
    told = event("error", error={"type": kind, "message": "no sk-ant-secret-01"})
    error = fault(as_stream([*events(whole({"content": [text("hello")]}))[:4], told]))
    assert (error.code, error.retryable, error.partial_text) == (code, retryable, "hel")
    assert kind in error.message
    assert "secret" not in error.message


def test_an_error_with_status_200_is_an_error() -> None:
    with pytest.raises(ModelError, match="Overloaded") as caught:
        read({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert (caught.value.code, caught.value.retryable) == ("server", True)


def test_bytes_that_are_no_utf_8_break_the_stream() -> None:
    data = as_stream([START]) + b'data: {"type":"ping","x":"\xff"}\n\n'
    assert "not UTF-8" in fault(data).message


def test_an_event_that_is_no_json_breaks_the_stream() -> None:
    error = fault(as_stream([START]) + b"data: sk-ant-secret-01 {\n\n")
    assert error.code == "stream"
    assert "secret" not in error.message


def test_a_piece_of_a_block_that_has_not_begun_breaks_the_stream() -> None:
    delta = {"type": "text_delta", "text": "a"}
    error = fault(as_stream([START, event("content_block_delta", index=3, delta=delta)]))
    assert (error.code, error.retryable) == ("stream", True)


def test_a_page_instead_of_a_stream_hints_at_the_address() -> None:
    error = fault(b"<html>\n<body>hello</body>\n\n")
    assert (error.code, error.retryable) == ("bad_reply", False)
    assert "API_BASE" in error.hint


@pytest.mark.parametrize("body", [{}, {"type": "message"}, {"content": "a"}])
def test_an_answer_without_content_is_no_reply(body: object) -> None:
    with pytest.raises(ModelError, match="without a message") as caught:
        read(body)
    assert caught.value.retryable


def test_a_stream_of_nothing_is_no_reply() -> None:
    assert fault(b"").code == "bad_reply"
    assert fault(b": ping\n\n").code == "bad_reply"


def test_a_stream_without_end_is_given_up() -> None:
    reader = AnthropicReader(PEER, max_bytes=100)
    with pytest.raises(ModelError, match="it is over"):
        reader.feed(b"x" * 101)
