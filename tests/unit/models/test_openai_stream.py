import json
from collections.abc import Sequence

import pytest

from hermes.core.chat import ToolCall, Usage, estimate_tokens
from hermes.errors import ModelError
from hermes.models.base import CallDelta, ModelReply, ReasoningDelta, StreamPart, TextDelta
from hermes.models.faults import Answer, Peer
from hermes.models.openai_stream import OpenAIReader, read_whole

PEER = Peer(model="m", host="api.example", secrets=("sk-secret-0001",))
PROMPT = b"p" * 400
USAGE = {"prompt_tokens": 5, "completion_tokens": 3}

Object = dict[str, object]


def whole(message: object, finish: str | None = "stop", **body: object) -> ModelReply:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return read({"model": "m-1", "choices": [choice], "usage": USAGE, **body})


def read(body: object, *, kind: str = "application/json") -> ModelReply:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_whole(Answer(status=200, kind=kind, body=raw), PEER, prompt=PROMPT)


def delta(finish: str | None = None, **fields: object) -> Object:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def sse(*chunks: object, done: bool = True) -> bytes:
    lines = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]
    return b"".join(lines) + (b"data: [DONE]\n\n" if done else b"")


def parts(data: bytes, *, size: int | None = None) -> list[StreamPart]:
    reader = OpenAIReader(PEER, kind="text/event-stream")
    step = size or len(data) or 1
    got = [
        p for start in range(0, len(data), step) for p in reader.feed(data[start : start + step])
    ]
    return got + reader.close(prompt=PROMPT)


def streamed(*chunks: object, done: bool = True) -> ModelReply:
    return last(parts(sse(*chunks, done=done)))


def last(got: Sequence[StreamPart]) -> ModelReply:
    reply = got[-1]
    assert isinstance(reply, ModelReply)
    return reply


def fault(data: bytes) -> ModelError:
    with pytest.raises(ModelError) as caught:
        parts(data)
    return caught.value


@pytest.mark.parametrize("finish", [7, True, ["stop"], {"type": "stop"}])
def test_a_finish_reason_that_is_no_word_ends_the_reply_too(finish: object) -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": finish}]}
    reply = streamed(chunk, done=False)
    assert (reply.text, reply.finish_reason) == ("hi", "unknown")


def test_half_a_character_does_not_spoil_a_whole_reply() -> None:
    body = b'{"choices":[{"message":{"content":"a\\ud83d \xe6\x8a\xa5"},"finish_reason":"stop"}]}'
    answer = Answer(status=200, kind="application/json", body=body)
    assert read_whole(answer, PEER, prompt=PROMPT).text == "a\ufffd 报"


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": "hi"}, "hi", ""),
        ({"content": None}, "", ""),
        ({}, "", ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab", ""),
        ({"content": ["a", 1, None]}, "a", ""),
        ({"content": "hi", "reasoning_content": "why"}, "hi", "why"),
        ({"content": "hi", "reasoning": "why"}, "hi", "why"),
        ({"content": "hi", "thinking": "why"}, "hi", "why"),
        ({"content": "hi", "reasoning_content": None, "reasoning": "why"}, "hi", "why"),
        ({"content": "<think>\nwhy\n</think>\n\nhi"}, "hi", "why"),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "why"}]},
                    {"type": "text", "text": "hi"},
                ]
            },
            "hi",
            "why",
        ),
    ],
)
def test_text_and_reasoning_are_told_apart(message: Object, text: str, reasoning: str) -> None:
    assert (whole(message).text, whole(message).reasoning) == (text, reasoning)
    chunk = streamed({"choices": [{"delta": message}]}, delta("stop"))
    assert (chunk.text, chunk.reasoning) == (text, reasoning)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
            ToolCall(id="a", name="f", arguments='{"x":1}'),
        ),
        (
            {"function": {"name": "f", "arguments": {"x": "霜"}}},
            ToolCall(id="", name="f", arguments='{"x":"霜"}'),
        ),
        (
            {"id": 7, "function": {"name": "f", "arguments": None}},
            ToolCall(id="7", name="f", arguments=""),
        ),
        ({"id": "a", "function": {"name": "f"}}, ToolCall(id="a", name="f", arguments="")),
        (
            {"id": "a", "function": {"arguments": "{}"}},
            ToolCall(id="a", name="", arguments="{}"),
        ),
        ({"name": "f", "arguments": "{}"}, ToolCall(id="", name="f", arguments="{}")),
    ],
)
def test_a_call_is_read_in_whatever_form_it_comes(call: Object, expected: ToolCall) -> None:
    assert whole({"tool_calls": [call]}).calls == (expected,)


def test_calls_of_a_whole_reply_are_never_joined() -> None:
    call = {"id": "x", "index": 0, "function": {"name": "f", "arguments": "{}"}}
    assert len(whole({"tool_calls": [call, call]}).calls) == 2


def test_an_old_function_call_is_a_call() -> None:
    legacy = {"name": "f", "arguments": '{"x":1}'}
    expected = (ToolCall(id="", name="f", arguments='{"x":1}'),)
    reply = whole({"content": None, "function_call": legacy}, "function_call")
    assert (reply.calls, reply.finish_reason) == (expected, "tool_calls")
    pieces = [
        delta(function_call={"name": "f", "arguments": ""}),
        delta(function_call={"arguments": '{"x"'}),
        delta(function_call={"arguments": ":1}"}),
    ]
    assert streamed(*pieces, delta("function_call")).calls == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("stop", "stop"),
        ("STOP", "stop"),
        ("end_turn", "stop"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        ("sensitive", "content_filter"),
        ("whatever", "unknown"),
        (None, "unknown"),
    ],
)
def test_finish_words_of_all_providers_are_known(word: str | None, expected: str) -> None:
    assert whole({"content": "x"}, word).finish_reason == expected


@pytest.mark.parametrize("word", ["insufficient_system_resource", "network_error", "abort"])
def test_a_reply_that_broke_off_is_an_error_and_keeps_its_text(word: str) -> None:
    with pytest.raises(ModelError, match=word) as caught:
        whole({"content": "half an ans"}, word)
    assert (caught.value.code, caught.value.retryable) == ("server", True)
    assert caught.value.partial_text == "half an ans"


def test_a_refusal_is_filtered_content() -> None:
    reply = whole({"content": None, "refusal": "I cannot."})
    assert (reply.text, reply.finish_reason) == ("I cannot.", "content_filter")


def test_the_first_of_several_choices_counts() -> None:
    choices = [
        {"index": n, "message": {"content": f"c{n}"}, "finish_reason": "stop"} for n in (0, 1)
    ]
    assert read({"choices": choices}).text == "c0"
    chunks = [
        {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": None}]}
        for index, text in [(0, "a"), (1, "x"), (0, "b"), (1, "y")]
    ]
    assert streamed(*chunks, delta("stop")).text == "ab"


def test_no_choice_is_no_reply() -> None:
    bodies: list[Object] = [
        {"choices": []},
        {"choices": None},
        {"choices": ["x"]},
        {"status": "ok"},
    ]
    for body in bodies:
        with pytest.raises(ModelError, match="without any choice") as caught:
            read(body)
        assert (caught.value.code, caught.value.retryable) == ("bad_reply", True)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2}, (9, 2, 0, False)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 4},
            },
            (9, 2, 4, False),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4},
            (9, 2, 4, False),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4}, (9, 2, 4, False)),
        ({"prompt_tokens": 9.0, "completion_tokens": 2.0}, (9, 2, 0, False)),
        ({"prompt_tokens": None, "completion_tokens": None}, (100, 1, 0, True)),
        ({"prompt_tokens": 9, "completion_tokens": None}, (9, 1, 0, True)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, (100, 1, 0, True)),
        ({"prompt_tokens": -1, "completion_tokens": "2"}, (100, 1, 0, True)),
        ({}, (100, 1, 0, True)),
        (None, (100, 1, 0, True)),
        ("none", (100, 1, 0, True)),
    ],
)
def test_missing_figures_are_estimated_and_say_so(
    usage: object, expected: tuple[int, int, int, bool]
) -> None:
    got = whole({"content": "abcd"}, usage=usage).usage
    assert (
        got.prompt_tokens,
        got.completion_tokens,
        got.cached_tokens,
        got.estimated,
    ) == expected


def test_calls_count_in_the_estimate() -> None:
    call = {"function": {"name": "f" * 40, "arguments": "{}"}}
    assert whole({"tool_calls": [call]}, usage=None).usage.completion_tokens == 11


def test_usage_in_a_last_chunk_without_choices() -> None:
    reply = streamed(delta(content="a"), delta("stop"), {"choices": [], "usage": USAGE})
    assert reply.usage == Usage(prompt_tokens=5, completion_tokens=3)


def test_usage_that_comes_several_times_counts_once() -> None:
    chunks: list[Object] = [
        {**delta(content="a"), "usage": {"prompt_tokens": 5, "completion_tokens": 1}},
        {**delta("stop"), "usage": USAGE},
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": None}},
    ]
    assert streamed(*chunks).usage == Usage(prompt_tokens=5, completion_tokens=3)


def test_usage_within_a_choice() -> None:
    last_chunk: Object = {
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]
    }
    assert streamed(delta(content="a"), last_chunk).usage.prompt_tokens == 5


def test_no_usage_at_all_is_estimated() -> None:
    reply = streamed(delta(content="霜冻 abcd"), delta("stop"))
    assert reply.usage == Usage(prompt_tokens=100, completion_tokens=4, estimated=True)
    assert estimate_tokens("霜冻 abcd") == 4


def test_deltas_come_as_they_arrive() -> None:
    got = parts(
        sse(
            delta(role="assistant", content=""),
            delta(reasoning_content="hm"),
            delta(content="a"),
            delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f"}}]),
            delta("tool_calls"),
        )
    )
    assert got[:3] == [ReasoningDelta(text="hm"), TextDelta(text="a"), CallDelta(name="f")]
    assert last(got).calls == (ToolCall(id="c", name="f", arguments=""),)


def test_a_missing_done_is_no_fault_after_a_finish_reason() -> None:
    assert streamed(delta(content="a"), delta("stop"), done=False).text == "a"


def test_a_missing_finish_reason_is_no_fault_before_done() -> None:
    reply = streamed(delta(content="a"))
    assert (reply.text, reply.finish_reason) == ("a", "unknown")


def test_a_stream_that_just_ends_has_broken() -> None:
    error = fault(sse(delta(content="half"), done=False))
    assert (error.code, error.retryable, error.partial_text) == ("stream", True, "half")
    assert "without a finish reason" in error.message


@pytest.mark.parametrize("data", [b"", b": ping\n\n", b"data: [DONE]\n\n"])
def test_a_stream_without_anything_is_no_reply(data: bytes) -> None:
    assert fault(data).code == "bad_reply"


def test_what_follows_done_is_not_read() -> None:
    assert last(parts(sse(delta(content="a")) + b"data: nonsense\n\n")).text == "a"


def test_a_chunk_over_several_data_lines() -> None:
    lines = json.dumps(delta("stop", content="a"), indent=1).replace("\n", "\ndata: ")
    assert last(parts(f"data: {lines}\n\n".encode())).text == "a"


def test_chunks_without_blank_lines_between() -> None:
    one = sse(delta(content="a"), delta("stop", content="b"))
    assert last(parts(one.replace(b"\n\n", b"\n"))).text == "ab"


def test_a_whole_reply_to_a_stream_request() -> None:
    choice = {"index": 0, "message": {"content": "whole"}, "finish_reason": "stop"}
    body = {"choices": [choice], "usage": USAGE}
    for raw in (json.dumps(body), json.dumps(body, indent=2), "\n\n" + json.dumps(body)):
        got = parts(raw.encode())
        assert got[0] == TextDelta(text="whole")
        assert last(got).usage == Usage(prompt_tokens=5, completion_tokens=3)


def test_a_whole_message_at_the_end_of_a_stream_is_no_repetition() -> None:
    end: Object = {
        "choices": [{"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}],
        "usage": USAGE,
    }
    reply = streamed(delta(content="a"), delta(content="b"), end)
    assert (reply.text, reply.finish_reason) == ("ab", "stop")


def test_an_emoji_cut_in_two_escapes_is_joined() -> None:
    data = (
        b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}\n\n'
        b'data: {"choices":[{"index":0,"delta":{"content":"\\uDE00"},"finish_reason":"stop"}]}\n\n'
    )
    assert last(parts(data)).text == "😀"


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(b'data: {"error":{"message":"quota exceeded"}}\n\n', id="as an event"),
        pytest.param(b'{"error":{"message":"quota exceeded"}}', id="without data:"),
        pytest.param(b'{"error":{"message":"quota exceeded"}}\ndata: [DONE]\n\n', id="then done"),
        pytest.param(b'{\n  "error": "quota exceeded"\n}\n', id="over several lines"),
        pytest.param(b'event: error\ndata: {"message":"quota exceeded"}\n\n', id="bare message"),
        pytest.param(b'data: {"detail":"quota exceeded"}\n\n', id="detail"),
    ],
)
def test_an_error_inside_a_stream_fails_and_keeps_the_text(error: bytes) -> None:
    got = fault(sse(delta(content="two "), delta(content="chunks"), done=False) + error)
    assert (got.code, got.partial_text) == ("stream", "two chunks")
    assert got.message == "model 'm' at api.example reported: quota exceeded"


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        ({"message": "x", "type": "insufficient_quota"}, False),
        ({"message": "x", "type": "overloaded_error"}, True),
        ({"message": "x", "code": 503}, True),
        ({"message": "x", "code": "rate_limit_exceeded"}, True),
        ("just words", False),
    ],
)
def test_an_error_says_whether_it_may_pass(error: object, retryable: bool) -> None:
    assert fault(sse({"error": error})).retryable is retryable
    with pytest.raises(ModelError) as caught:
        read({"error": error})
    assert (caught.value.code, caught.value.retryable) == ("server", retryable)


def test_a_null_error_is_none() -> None:
    assert streamed({**delta("stop", content="a"), "error": None}).text == "a"


def test_bytes_that_are_no_utf8_are_a_stated_stream_error() -> None:
    wrong = (
        sse(delta(content="ok"), done=False)
        + b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n'
    )
    error = fault(wrong)
    assert (error.code, error.partial_text) == ("stream", "ok")
    assert "byte 33 of a chunk is not UTF-8" in error.message


def test_a_chunk_that_is_no_json_is_a_stream_error() -> None:
    error = fault(sse(delta(content="ok"), done=False) + b"data: {oops\n\n")
    assert (error.code, error.partial_text) == ("stream", "ok")
    assert "'{oops'" in error.message


def test_a_chunk_that_is_no_object_is_a_stream_error() -> None:
    assert "no JSON object: '3'" in fault(b"data: 3\n\n").message


def test_a_page_of_html_is_no_reply() -> None:
    page = b"<!doctype html>\n<title>Welcome</title>\n"
    for error in (fault(page), read_fault(page, "text/html; charset=utf-8")):
        assert error.code == "bad_reply"
        assert "<title>Welcome</title>" in error.message
        assert "API_BASE" in error.hint


def read_fault(body: bytes, kind: str) -> ModelError:
    with pytest.raises(ModelError) as caught:
        read(body, kind=kind)
    return caught.value


def test_a_key_in_a_servers_words_is_not_repeated() -> None:
    body = {"error": {"message": "wrong key sk-secret-0001"}}
    for error in (fault(sse(body)), read_fault(json.dumps(body).encode(), "application/json")):
        assert "sk-secret" not in repr(error) + str(error)
        assert "wrong key ***" in error.message


def test_a_stream_without_end_is_cut_off() -> None:
    reader = OpenAIReader(PEER, max_bytes=2**20)
    chunk = sse(delta(content="x" * 1000), done=False)
    with pytest.raises(ModelError, match="over 1 MiB") as caught:
        for _ in range(1100):
            reader.feed(chunk)
    assert len(caught.value.partial_text) > 900_000
