"""Quirks of bytes: how servers cut, frame, encode and break off what they send."""

from __future__ import annotations

import json
from dataclasses import replace

from .quirks import (
    EVENTS,
    JSON,
    KNOWLEDGE,
    Fails,
    Quirk,
    Says,
    Wire,
    call,
    chunk,
    events,
    figures,
    stream,
    whole,
)

ARGUMENTS = '{"q":"霜 é 🥶"}'
FROST = "霜 é 🥶"
WHOLE = whole({"content": FROST, "tool_calls": [call("call_a", "look", ARGUMENTS)]}, "tool_calls")
PARTS = (
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "霜 "}),
    chunk({"content": "é 🥶"}),
    chunk({"tool_calls": [call("call_a", "look", "", index=0)]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": ARGUMENTS}}]}),
    chunk({}, "tool_calls"),
    figures(),
)
STREAM = stream(*PARTS)
SAYS = Says(text=FROST, calls=(("call_a", "look", ARGUMENTS),), finish="tool_calls")
PRETTY = b"".join(
    b"".join(
        b"data: %s\n" % line.encode()
        for line in json.dumps(part, ensure_ascii=False, indent=1).splitlines()
    )
    + b"\n"
    for part in PARTS
)
COMPRESSED_WHOLE, COMPRESSED = replace(WHOLE, compressed=True), replace(STREAM, compressed=True)
HALF = events(*PARTS[:3], done=False)
REQUIRES_JSON = "crashes outside of its own tree of errors"


def sent(name: str, source: str, body: bytes, *, official: str = "", whole: Wire = WHOLE) -> Quirk:
    """The same stream in other bytes."""
    return Quirk(
        name=name,
        source=source,
        whole=whole,
        stream=Wire(body=body, kind=EVENTS),
        demand=SAYS,
        official_stream=official,
    )


def broken(
    name: str,
    source: str,
    whole: Wire,
    stream: Wire,
    demand: Fails,
    *,
    demand_whole: Fails | None = None,
    official_whole: str = "",
    official_stream: str = "",
) -> Quirk:
    return Quirk(
        name=name,
        source=source,
        whole=whole,
        stream=stream,
        demand=demand,
        demand_whole=demand_whole,
        why_not="a whole reply that breaks has no part to keep" if demand_whole else "",
        official_whole=official_whole,
        official_stream=official_stream,
    )


CUT = "takes half an answer for a whole one"
WIRES = [
    Quirk(
        name="R012 cut after every byte",
        source="FIELD_REPORTS R012",
        whole=replace(WHOLE, size=1),
        stream=replace(STREAM, size=1),
        demand=SAYS,
    ),
    Quirk(
        name="gzip",
        source=KNOWLEDGE,
        whole=COMPRESSED_WHOLE,
        stream=COMPRESSED,
        demand=SAYS,
    ),
    Quirk(
        name="gzip cut after every byte",
        source=KNOWLEDGE,
        whole=replace(COMPRESSED_WHOLE, size=1),
        stream=replace(COMPRESSED, size=1),
        demand=SAYS,
    ),
    sent(
        "R058 DeepSeek: keep-alive comments, empty lines before a whole body",
        "https://platform.deepseek.com/api-docs/quick_start/rate_limit",
        b": keep-alive\n\n".join([b"", *(events(part, done=False) for part in PARTS)])
        + b": keep-alive\n\ndata: [DONE]\n\n",
        whole=replace(WHOLE, body=b"\n\n\n\n" + WHOLE.body),
    ),
    sent(
        "OpenRouter: comments between chunks",
        "https://openrouter.ai/docs/api-reference/streaming",
        b": OPENROUTER PROCESSING\n\n" * 3 + STREAM.body,
    ),
    sent(
        "CRLF line ends",
        KNOWLEDGE,
        STREAM.body.replace(b"\n", b"\r\n"),
        whole=replace(WHOLE, body=WHOLE.body.replace(b"{", b"{\r\n", 1) + b"\r\n"),
    ),
    sent("CR line ends", KNOWLEDGE, STREAM.body.replace(b"\n", b"\r")),
    sent(
        "a byte order mark first",
        KNOWLEDGE,
        b"\xef\xbb\xbf" + STREAM.body,
        whole=replace(WHOLE, body=b"\xef\xbb\xbf" + WHOLE.body),
    ),
    sent("no space after data:", KNOWLEDGE, STREAM.body.replace(b"data: ", b"data:")),
    sent(
        "event, id and retry lines beside the data",
        "https://html.spec.whatwg.org/multipage/server-sent-events.html",
        STREAM.body.replace(b"data: {", b"event: message\nid: 7\nretry: 100\ndata: {"),
    ),
    sent("one event over several data lines", KNOWLEDGE, PRETTY + b"data: [DONE]\n\n"),
    sent(
        "no blank lines between events",
        KNOWLEDGE,
        STREAM.body.replace(b"\n\n", b"\n"),
        official="joins the events to one that is no JSON; each line is",
    ),
    sent("many blank lines between events", KNOWLEDGE, STREAM.body.replace(b"\n\n", b"\n\n\n\n")),
    sent(
        "empty data lines to keep the line open",
        KNOWLEDGE,
        b"data: \n\n".join([b"", *(events(part, done=False) for part in PARTS)])
        + b"data:\n\ndata: [DONE]\n\n",
        official="takes empty data for JSON and crashes; the standard says to drop it",
    ),
    sent("[DONE] missing", KNOWLEDGE, STREAM.body.removesuffix(b"data: [DONE]\n\n")),
    sent("the last blank line missing", KNOWLEDGE, STREAM.body.removesuffix(b"\n\n")),
    sent("words after [DONE]", KNOWLEDGE, STREAM.body + b"data: bye\n\n"),
    Quirk(
        name="the connection breaks after [DONE]",
        source=KNOWLEDGE,
        whole=WHOLE,
        stream=replace(STREAM, cut=True),
        demand=SAYS,
    ),
    Quirk(
        name="another content type",
        source=KNOWLEDGE,
        whole=replace(WHOLE, kind="text/plain; charset=utf-8"),
        stream=replace(STREAM, kind="application/json"),
        demand=SAYS,
    ),
    Quirk(
        name="no content type",
        source=KNOWLEDGE,
        whole=replace(WHOLE, kind=""),
        stream=replace(STREAM, kind=""),
        demand=SAYS,
    ),
    Quirk(
        name="a server that knows no streaming",
        source=KNOWLEDGE,
        whole=WHOLE,
        stream=WHOLE,
        demand=SAYS,
        official_stream="finds no event in it",
    ),
    Quirk(
        name="a server that always streams",
        source=KNOWLEDGE,
        whole=STREAM,
        stream=STREAM,
        demand=SAYS,
        official_whole="hands on the bytes as if they were a reply",
    ),
    broken(
        "R059 the connection breaks in the middle",
        "FIELD_REPORTS R059",
        replace(WHOLE, body=WHOLE.body[:60], cut=True),
        Wire(body=HALF, kind=EVENTS, cut=True),
        Fails(code="stream", retryable=True, partial=FROST),
        demand_whole=Fails(code="unreachable", retryable=True, words="broke off its answer"),
    ),
    broken(
        "R059 the stream ends in the middle without a word",
        "https://github.com/anomalyco/opencode/pull/40061",
        replace(WHOLE, body=WHOLE.body[:60]),
        Wire(body=HALF, kind=EVENTS),
        Fails(code="stream", retryable=True, partial=FROST, words="without a finish reason"),
        demand_whole=Fails(code="bad_reply", words="no JSON object"),
        official_whole=REQUIRES_JSON,
        official_stream=CUT,
    ),
    broken(
        "R012 bytes that are no UTF-8",
        "FIELD_REPORTS R012",
        replace(WHOLE, body=WHOLE.body.replace("é".encode(), b"\xe9")),
        Wire(body=HALF + events(chunk({"content": "@"})).replace(b"@", b"\xe9"), kind=EVENTS),
        Fails(code="stream", retryable=True, partial=FROST, words="not UTF-8"),
        demand_whole=Fails(code="bad_reply"),
        official_whole=REQUIRES_JSON,
        official_stream=REQUIRES_JSON,
    ),
    broken(
        "a chunk that is no JSON",
        KNOWLEDGE,
        replace(WHOLE, body=WHOLE.body + b"}"),
        Wire(body=HALF + b"data: {oops\n\n", kind=EVENTS),
        Fails(code="stream", retryable=True, partial=FROST),
        demand_whole=Fails(code="bad_reply"),
        official_whole=REQUIRES_JSON,
        official_stream=REQUIRES_JSON,
    ),
    broken(
        "an empty body",
        "https://dev.to/mohammadhasankaman/why-is-my-llm-stream-empty-a-field-guide-to-broken-sse-responses-4l0k",
        Wire(body=b""),
        Wire(body=b"", kind=EVENTS),
        Fails(code="bad_reply", retryable=True),
        official_whole=REQUIRES_JSON,
        official_stream="gives an answer that has nothing in it",
    ),
    broken(
        "[DONE] and nothing else",
        KNOWLEDGE,
        Wire(body=b"{}"),
        Wire(body=b"data: [DONE]\n\n", kind=EVENTS),
        Fails(code="bad_reply", retryable=True, words="without any choice"),
        official_whole="gives an answer that has nothing in it",
        official_stream="gives an answer that has nothing in it",
    ),
    broken(
        "choices empty",
        KNOWLEDGE,
        Wire(body=b'{"choices":[]}', kind=JSON),
        stream(figures()),
        Fails(code="bad_reply", retryable=True, words="without any choice"),
        official_whole="gives an answer that has nothing in it",
        official_stream="gives an answer that has nothing in it",
    ),
    broken(
        "R086 the HTML page of another server",
        KNOWLEDGE,
        Wire(body=b"<!DOCTYPE html><title>Sign in</title>", kind="text/html"),
        Wire(body=b"<!DOCTYPE html><title>Sign in</title>", kind="text/html"),
        Fails(code="bad_reply", words="text/html"),
        official_whole="hands on the page as if it were a reply",
        official_stream="finds no event in it",
    ),
]
