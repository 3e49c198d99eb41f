"""Quirks of Anthropic's Messages API, and of servers that imitate it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .quirks import EVENTS, KNOWLEDGE, MODEL, Fails, Object, Quirk, Says, Wire, dumps, refused

USAGE: Object = {"input_tokens": 11, "output_tokens": 7}
STREAMING = "https://docs.claude.com/en/docs/build-with-claude/streaming"
ERRORS = "https://docs.claude.com/en/api/errors"
HEAD: Object = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL}
TEXT: Object = {"type": "text", "text": "Hi."}
CALL: Object = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "北京"}}
HI = Says(text="Hi.")
CALLED = Says(text="Hi.", calls=(("toolu_1", "weather", '{"city":"北京"}'),), finish="tool_calls")


def message(*content: object, stop: object = "end_turn", usage: object = USAGE) -> Wire:
    """An answer in one piece."""
    return Wire(
        body=dumps(
            {
                **HEAD,
                "content": list(content),
                "stop_reason": stop,
                "stop_sequence": None,
                "usage": usage,
            }
        )
    )


def event(kind: str, **fields: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), dumps({"type": kind, **fields}))


def start(usage: object = None) -> bytes:
    empty: Object = {**HEAD, "content": [], "stop_reason": None, "stop_sequence": None}
    return event(
        "message_start",
        message={**empty, "usage": usage or {"input_tokens": 11, "output_tokens": 1}},
    )


def block(index: int, begin: Object, *deltas: Object) -> bytes:
    grown = [event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return b"".join(
        [
            event("content_block_start", index=index, content_block=begin),
            *grown,
            event("content_block_stop", index=index),
        ]
    )


def text_block(index: int, pieces: Sequence[str]) -> bytes:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": ""}, *deltas)


def call_block(index: int, pieces: Sequence[str]) -> bytes:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, {**CALL, "input": {}}, *deltas)


def end(stop: object = "end_turn", usage: object = None) -> bytes:
    delta = {"stop_reason": stop, "stop_sequence": None}
    figures = usage or {"output_tokens": 7}
    return event("message_delta", delta=delta, usage=figures) + event("message_stop")


def streamed(*pieces: bytes) -> Wire:
    return Wire(body=b"".join(pieces), kind=EVENTS)


PING = event("ping")
PLAIN = streamed(start(), text_block(0, ("Hi", ".")), end())
CALLING = streamed(
    start(), text_block(0, ("Hi.",)), call_block(1, ("", '{"city":', '"北京"}')), end("tool_use")
)
OVERLOADED: Object = {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}


def stopped(word: str, finish: str, *, official: str = "") -> Quirk:
    return Quirk(
        name=f"stop reason {word}",
        source="https://docs.claude.com/en/api/handling-stop-reasons",
        whole=message(TEXT, stop=word),
        stream=streamed(start(), text_block(0, ("Hi", ".")), end(word)),
        demand=replace(HI, finish=finish),
        official_whole=official,
        official_stream=official,
    )


def status(name: str, source: str, wire: Wire, demand: Fails) -> Quirk:
    return Quirk(name=name, source=source, whole=wire, stream=wire, demand=demand)


ANTHROPIC = [
    Quirk(
        name="pings between the events",
        source=STREAMING,
        whole=message(TEXT),
        stream=streamed(
            start(), PING, PING, text_block(0, ("Hi",)), PING, text_block(1, (".",)), PING, end()
        ),
        demand=HI,
    ),
    Quirk(
        name="text and a call, its input in pieces that are no JSON",
        source=STREAMING,
        whole=message(TEXT, CALL, stop="tool_use"),
        stream=CALLING,
        demand=CALLED,
    ),
    Quirk(
        name="R001 a call without input",
        source=STREAMING,
        whole=message({**CALL, "input": {}}, stop="tool_use"),
        stream=streamed(start(), call_block(0, ("",)), end("tool_use")),
        demand=Says(calls=(("toolu_1", "weather", "{}"),), finish="tool_calls"),
    ),
    Quirk(
        name="the input whole where the block begins",
        source=KNOWLEDGE,
        whole=message(CALL, stop="tool_use"),
        stream=streamed(start(), block(0, CALL), end("tool_use")),
        demand=Says(calls=CALLED.calls, finish="tool_calls"),
    ),
    Quirk(
        name="R012 cut after every byte",
        source="FIELD_REPORTS R012",
        whole=replace(message(TEXT, CALL, stop="tool_use"), size=1),
        stream=replace(CALLING, size=1),
        demand=CALLED,
    ),
    Quirk(
        name="thinking with a signature",
        source="https://docs.claude.com/en/docs/build-with-claude/extended-thinking",
        whole=message({"type": "thinking", "thinking": "先想", "signature": "AbC="}, TEXT),
        stream=streamed(
            start(),
            block(
                0,
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": "先"},
                {"type": "thinking_delta", "thinking": "想"},
                {"type": "signature_delta", "signature": "AbC="},
            ),
            text_block(1, ("Hi.",)),
            end(),
        ),
        demand=replace(HI, reasoning="先想"),
    ),
    Quirk(
        name="thinking that is hidden",
        source="https://docs.claude.com/en/docs/build-with-claude/extended-thinking",
        whole=message({"type": "redacted_thinking", "data": "xYz="}, TEXT),
        stream=streamed(
            start(),
            block(0, {"type": "redacted_thinking", "data": "xYz="}),
            text_block(1, ("Hi.",)),
            end(),
        ),
        demand=HI,
    ),
    Quirk(
        name="R015 figures from the cache",
        source="https://docs.claude.com/en/docs/build-with-claude/prompt-caching",
        whole=message(
            TEXT,
            usage={
                "input_tokens": 3,
                "cache_read_input_tokens": 6,
                "cache_creation_input_tokens": 2,
                "output_tokens": 7,
            },
        ),
        stream=streamed(
            start(
                {
                    "input_tokens": 3,
                    "cache_read_input_tokens": 6,
                    "cache_creation_input_tokens": 2,
                    "output_tokens": 1,
                }
            ),
            text_block(0, ("Hi.",)),
            end(),
        ),
        demand=replace(HI, usage=(11, 7, 6)),
    ),
    Quirk(
        name="R015 no figures",
        source="FIELD_REPORTS R015",
        whole=message(TEXT, usage=None),
        stream=streamed(
            event("message_start", message={**HEAD, "content": [], "stop_reason": None}),
            text_block(0, ("Hi.",)),
            event("message_delta", delta={"stop_reason": "end_turn"}),
            event("message_stop"),
        ),
        demand=replace(HI, usage=None),
        official_stream="crashes where it adds up figures that are not there",
    ),
    Quirk(
        name="R015 figures that grow in several deltas",
        source=STREAMING,
        whole=message(TEXT),
        stream=streamed(
            start(),
            text_block(0, ("Hi.",)),
            event("message_delta", delta={"stop_reason": None}, usage={"output_tokens": 3}),
            end(),
        ),
        demand=HI,
    ),
    stopped("stop_sequence", "stop"),
    stopped("max_tokens", "length"),
    stopped("model_context_window_exceeded", "length"),
    stopped("refusal", "content_filter"),
    stopped("pause_turn", "length"),
    stopped("a_new_word", "unknown"),
    Quirk(
        name="R021 no content",
        source="FIELD_REPORTS R021",
        whole=message(),
        stream=streamed(start(), end()),
        demand=Says(),
    ),
    Quirk(
        name="events and deltas that are not invented yet",
        source=STREAMING,
        whole=message({"type": "hologram", "light": 3}, TEXT),
        stream=streamed(
            start(),
            event("weather_report", sky="blue"),
            block(0, {"type": "hologram", "light": 3}, {"type": "light_delta", "light": 4}),
            text_block(1, ("Hi", ".")),
            end(),
        ),
        demand=HI,
    ),
    Quirk(
        name="no event lines, only data",
        source=KNOWLEDGE,
        whole=message(TEXT),
        stream=streamed(
            b"".join(
                line + b"\n\n" for line in PLAIN.body.splitlines() if line.startswith(b"data:")
            )
        ),
        demand=HI,
        official_stream="goes by the event lines alone and finds nothing",
    ),
    Quirk(
        name="R059 an error in the midst of a stream",
        source=STREAMING,
        whole=Wire(body=dumps(OVERLOADED)),
        stream=streamed(
            start(), text_block(0, ("Hi.",)), event("error", error=OVERLOADED["error"])
        ),
        demand=Fails(code="stream", retryable=True, partial="Hi.", words="Busy"),
        demand_whole=Fails(code="server", retryable=True, words="Busy"),
        why_not="a whole answer has no part to keep",
        official_whole="gives a message that has nothing in it",
    ),
    Quirk(
        name="R059 the connection breaks in the middle",
        source="FIELD_REPORTS R059",
        whole=replace(message(TEXT), body=message(TEXT).body[:40], cut=True),
        stream=replace(streamed(start(), text_block(0, ("Hi.",))), cut=True),
        demand=Fails(code="stream", retryable=True, partial="Hi."),
        demand_whole=Fails(code="unreachable", retryable=True),
        why_not="a whole answer that breaks has no part to keep",
        official_stream="lets an error of its HTTP library through",
    ),
    Quirk(
        name="R059 the stream ends without message_stop",
        source="FIELD_REPORTS R059",
        whole=Wire(body=message(TEXT).body[:40]),
        stream=streamed(start(), text_block(0, ("Hi.",))),
        demand=Fails(code="stream", retryable=True, partial="Hi.", words="message_stop"),
        demand_whole=Fails(code="bad_reply", words="no JSON object"),
        why_not="a whole answer that breaks has no part to keep",
        official_whole="crashes outside of its own tree of errors",
        official_stream="takes half an answer for a whole one",
    ),
    status(
        "R060 429 with seconds",
        ERRORS,
        refused(
            429,
            {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow"}},
            headers={"retry-after": "7"},
        ),
        Fails(code="rate_limited", retryable=True, words="Slow", wait_s=7.0),
    ),
    status(
        "529", ERRORS, refused(529, OVERLOADED), Fails(code="server", retryable=True, words="Busy")
    ),
    status(
        "401",
        ERRORS,
        refused(401, {"type": "error", "error": {"type": "authentication_error", "message": "No"}}),
        Fails(code="auth", words="No"),
    ),
    status(
        "404 for a model",
        ERRORS,
        refused(
            404, {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}
        ),
        Fails(code="unknown_model"),
    ),
]
