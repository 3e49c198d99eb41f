"""Quirks of errors: in a status, inside an answer with status 200, and inside a stream."""

from __future__ import annotations

from dataclasses import replace

from .quirks import (
    EVENTS,
    HEAD,
    KNOWLEDGE,
    Fails,
    Object,
    Quirk,
    Wire,
    chunk,
    dumps,
    events,
    refused,
    stream,
    whole,
)

TWO = (chunk({"role": "assistant", "content": "two "}), chunk({"content": "chunks"}))
PARTIAL = "two chunks"
QUOTA: Object = {"error": {"message": "quota exceeded"}}
TEXTLESS = "gives an answer that has nothing in it"
HALF = "takes half an answer for a whole one"
UNSEEN = "does not know this way of telling an error"


def status(name: str, source: str, wire: Wire, demand: Fails, *, official: str = "") -> Quirk:
    """A refusal: the same whatever was asked for."""
    return Quirk(
        name=name,
        source=source,
        whole=wire,
        stream=wire,
        demand=demand,
        official_whole=official,
        official_stream=official,
    )


def inside(
    name: str,
    source: str,
    body: object,
    tail: bytes,
    demand: Fails,
    *,
    official_whole: str = "",
    official_stream: str = "",
) -> Quirk:
    """An error where an answer should be: alone, and after two chunks of text."""
    return Quirk(
        name=name,
        source=source,
        whole=Wire(body=dumps(body)),
        stream=Wire(body=events(*TWO, done=False) + tail, kind=EVENTS),
        demand=demand,
        demand_whole=replace(demand, code="server", partial=""),
        why_not="a whole answer has no part to keep, and it is the server that failed, no stream",
        official_whole=official_whole,
        official_stream=official_stream,
    )


def after(error: object) -> bytes:
    return b"data: " + dumps(error) + b"\n\n"


STREAM_FAULT = Fails(code="stream", partial=PARTIAL, words="quota exceeded")
BUSY = Fails(code="rate_limited", retryable=True)
LIMIT: Object = {"error": {"message": "Rate limit reached", "type": "requests", "code": None}}
IN_7_S = "Thu, 01 Jan 2026 00:00:07 GMT"
"""Seven seconds after the start of the tests' clock."""

ERRORS = [
    inside(
        "R059 an error event, then [DONE]",
        "FIELD_REPORTS R059",
        QUOTA,
        after(QUOTA) + b"data: [DONE]\n\n",
        STREAM_FAULT,
        official_whole=TEXTLESS,
    ),
    inside(
        "R059 an error without data:",
        "FIELD_REPORTS R059",
        QUOTA,
        dumps(QUOTA),
        STREAM_FAULT,
        official_whole=TEXTLESS,
        official_stream=HALF,
    ),
    inside(
        "LM Studio: an error event with its own name",
        "https://github.com/editor-code-assistant/eca/pull/559",
        QUOTA,
        b"event: error\n" + after(QUOTA),
        STREAM_FAULT,
        official_whole=TEXTLESS,
    ),
    inside(
        "Ollama: the error is a text",
        KNOWLEDGE,
        {"error": "quota exceeded"},
        after({"error": "quota exceeded"}),
        STREAM_FAULT,
        official_whole=TEXTLESS,
    ),
    inside(
        "FastAPI: detail",
        KNOWLEDGE,
        {"detail": "quota exceeded"},
        after({"detail": "quota exceeded"}),
        STREAM_FAULT,
        official_whole=TEXTLESS,
        official_stream=UNSEEN,
    ),
    inside(
        "vLLM: an object that calls itself error",
        KNOWLEDGE,
        {"object": "error", "message": "quota exceeded", "type": "BadRequestError", "code": 400},
        after({"object": "error", "message": "quota exceeded", "code": 400}),
        STREAM_FAULT,
        official_whole=TEXTLESS,
        official_stream=UNSEEN,
    ),
    inside(
        "SGLang: an error that may pass",
        "https://github.com/sgl-project/sglang/pull/20027",
        {"error": {"message": "no free slot", "type": "ServiceUnavailable", "code": 503}},
        after({"error": {"message": "no free slot", "type": "x", "code": 503}}),
        Fails(code="stream", retryable=True, partial=PARTIAL, words="no free slot"),
        official_whole=TEXTLESS,
    ),
    Quirk(
        name="OpenRouter: the choice says error",
        source="https://openrouter.ai/docs/api-reference/streaming",
        whole=whole({"content": "two chunks"}, "error"),
        stream=stream(
            *TWO,
            {
                **HEAD,
                "error": {"code": 502, "message": "Provider disconnected"},
                "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
            },
        ),
        demand=Fails(code="stream", retryable=True, partial=PARTIAL, words="Provider disconnected"),
        demand_whole=Fails(code="server", retryable=True, partial=PARTIAL, words="broke off"),
        why_not="the whole one has the word in its finish reason only",
        official_whole="hands on half an answer with a finish reason of its own",
    ),
    *[
        Quirk(
            name=f"{who}: finish reason {word}",
            source=source,
            whole=whole({"content": PARTIAL}, word),
            stream=stream(*TWO, chunk({}, word)),
            demand=Fails(code="server", retryable=True, partial=PARTIAL, words=word),
            official_whole="hands on half an answer with a finish reason of its own",
            official_stream="hands on half an answer with a finish reason of its own",
        )
        for who, word, source in (
            (
                "DeepSeek",
                "insufficient_system_resource",
                "https://api-docs.deepseek.com/api/create-chat-completion",
            ),
            ("Zhipu", "network_error", "https://docs.bigmodel.cn/api-reference"),
            ("vLLM", "abort", KNOWLEDGE),
        )
    ],
    status(
        "R060 429 with seconds",
        "FIELD_REPORTS R060",
        refused(429, LIMIT, headers={"retry-after": "7"}),
        replace(BUSY, wait_s=7.0),
    ),
    status(
        "R060 429 with a date",
        "FIELD_REPORTS R060",
        refused(429, LIMIT, headers={"retry-after": IN_7_S}),
        replace(BUSY, wait_s=7.0),
    ),
    status("R060 429 without a time", "FIELD_REPORTS R060", refused(429, LIMIT), BUSY),
    status(
        "Azure: 429 with milliseconds",
        "https://learn.microsoft.com/azure/ai-services/openai/how-to/quota",
        refused(429, LIMIT, headers={"retry-after-ms": "1500", "retry-after": "2"}),
        replace(BUSY, wait_s=1.5),
    ),
    status(
        "429 with a time that is none",
        KNOWLEDGE,
        refused(429, LIMIT, headers={"retry-after": "soon"}),
        BUSY,
    ),
    status(
        "OpenAI: 429 because the quota is spent",
        "https://platform.openai.com/docs/guides/error-codes",
        refused(429, {"error": {"message": "You exceeded", "type": "insufficient_quota"}}),
        Fails(code="rate_limited"),
    ),
    status(
        "Zhipu: 429 with a number for a code",
        "https://docs.bigmodel.cn/cn/api/api-code",
        refused(429, {"error": {"code": "1302", "message": "并发数过高"}}),
        replace(BUSY, words="并发数过高"),
    ),
    status(
        "R060 503 with a body and a time",
        "FIELD_REPORTS R060",
        refused(503, {"error": {"message": "overloaded"}}, headers={"retry-after": "3"}),
        Fails(code="server", retryable=True, words="overloaded", wait_s=3.0),
    ),
    status(
        "503 in plain words",
        KNOWLEDGE,
        refused(503, b"upstream connect error", kind="text/plain"),
        Fails(code="server", retryable=True, words="upstream connect error"),
    ),
    status(
        "nginx: 502 with an HTML page",
        KNOWLEDGE,
        refused(502, b"<html><h1>502 Bad Gateway</h1></html>", kind="text/html"),
        Fails(code="server", retryable=True, words="502"),
    ),
    status(
        "Anthropic behind a gateway: 529",
        "https://docs.anthropic.com/en/api/errors",
        refused(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}),
        Fails(code="server", retryable=True, words="Busy"),
    ),
    status(
        "DeepSeek: 402",
        "https://platform.deepseek.com/api-docs/quick_start/error_codes",
        refused(402, {"error": {"message": "Insufficient Balance"}}),
        Fails(code="auth", words="Insufficient Balance"),
    ),
    status(
        "401",
        "https://platform.openai.com/docs/guides/error-codes",
        refused(401, {"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}),
        Fails(code="auth", words="Incorrect API key"),
    ),
    status(
        "Ollama: 404 for a model",
        KNOWLEDGE,
        refused(404, {"error": {"message": 'model "test-model" not found, try pulling it'}}),
        Fails(code="unknown_model", words="does not know model 'test-model'"),
    ),
    status(
        "404 for the path",
        KNOWLEDGE,
        refused(404, {"detail": "Not Found"}),
        Fails(code="bad_request", words="no chat completions"),
    ),
    status(
        "a redirect",
        KNOWLEDGE,
        refused(307, b"", headers={"location": "http://127.0.0.1:9/v1"}),
        Fails(code="bad_request", words="redirect"),
    ),
    status(
        "408",
        KNOWLEDGE,
        refused(408, {"error": {"message": "took too long"}}),
        Fails(code="timeout", retryable=True),
    ),
    status(
        "422 with a list of places",
        "https://fastapi.tiangolo.com/tutorial/handling-errors/",
        refused(422, {"detail": [{"loc": ["body", "tools"], "msg": "field required"}]}),
        Fails(code="bad_request", words="field required"),
    ),
    status(
        "500 with an error that is null",
        KNOWLEDGE,
        refused(500, {"error": None}),
        Fails(code="server", retryable=True),
    ),
    status(
        "a refusal in gzip",
        KNOWLEDGE,
        refused(503, {"error": {"message": "overloaded"}}, compressed=True),
        Fails(code="server", retryable=True, words="overloaded"),
    ),
]
