"""How five providers write the same reply, whole and in chunks, after their documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

Object = Mapping[str, object]
CREATED = 1_764_500_000


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One reply, provider-neutral; `calls` are id, name and arguments."""

    text: str
    reasoning: str
    calls: tuple[tuple[str, str, str], ...]
    finish: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    model: str

    @property
    def usage(self) -> dict[str, object]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A provider's way of writing.

    Attributes:
        call_id: Its call ids; `{}` becomes a number.
        whole: The body of an unstreamed reply.
        chunks: The JSON chunks of a streamed one.
        before_body: Sent while an unstreamed reply is being made.
        before_chunks: Sent while a streamed one is.
    """

    call_id: str
    whole: Callable[[Reply], Object]
    chunks: Callable[[Reply], Iterator[Object]]
    before_body: bytes = b""
    before_chunks: bytes = b""


def cut(text: str, size: int = 4) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def whole_calls(reply: Reply) -> list[dict[str, object]]:
    return [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id_, name, arguments in reply.calls
    ]


# OpenAI. Source: API reference, "The chat completion object" and "The chat completion chunk
# object"; with include_usage a last chunk has no choices, and `usage` is null before.


def openai_usage(reply: Reply) -> dict[str, object]:
    return {
        **reply.usage,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def openai_whole(reply: Reply) -> Object:
    message: dict[str, object] = {
        "role": "assistant",
        "content": reply.text or None,
        "refusal": None,
        "annotations": [],
    }
    if reply.calls:
        message["tool_calls"] = whole_calls(reply)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish}
    return {
        "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
        "object": "chat.completion",
        "created": CREATED,
        "model": reply.model,
        "choices": [choice],
        "usage": openai_usage(reply),
        "service_tier": "default",
        "system_fingerprint": "fp_a1b2c3",
    }


def openai_chunks(reply: Reply) -> Iterator[Object]:
    def chunk(delta: Object, finish: str | None = None) -> Object:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "choices": [choice], "usage": None, "obfuscation": "xY3"}

    head = {
        "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": reply.model,
        "service_tier": "default",
        "system_fingerprint": "fp_a1b2c3",
    }
    yield chunk({"role": "assistant", "content": "" if reply.text else None, "refusal": None})
    for piece in cut(reply.text):
        yield chunk({"content": piece})
    for index, (id_, name, arguments) in enumerate(reply.calls):
        function: Object = {"name": name, "arguments": ""}
        begin = {"index": index, "id": id_, "type": "function", "function": function}
        yield chunk({"tool_calls": [begin]})
        for piece in cut(arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, reply.finish)
    yield {**head, "choices": [], "usage": openai_usage(reply)}


# DeepSeek. Source: API docs, "Create Chat Completion" (reasoning_content,
# prompt_cache_hit_tokens, prompt_cache_miss_tokens) and "Rate Limit" (empty lines before an
# unstreamed body, `: keep-alive` comments in a stream).


def deepseek_usage(reply: Reply) -> dict[str, object]:
    return {
        **reply.usage,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
        "prompt_cache_hit_tokens": reply.cached_tokens,
        "prompt_cache_miss_tokens": reply.prompt_tokens - reply.cached_tokens,
    }


def deepseek_whole(reply: Reply) -> Object:
    message: dict[str, object] = {"role": "assistant", "content": reply.text}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        calls = enumerate(whole_calls(reply))
        message["tool_calls"] = [{"index": index, **call} for index, call in calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish}
    return {
        "id": "930c60df-bf64-41c9-a88e-3ec75f81e00e",
        "object": "chat.completion",
        "created": CREATED,
        "model": reply.model,
        "choices": [choice],
        "usage": deepseek_usage(reply),
        "system_fingerprint": "fp_eaab8d114b_prod",
    }


def deepseek_chunks(reply: Reply) -> Iterator[Object]:
    def chunk(delta: Object, finish: str | None = None, usage: Object | None = None) -> Object:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "choices": [choice], "usage": usage}

    head = {
        "id": "1f633d8bfc032625086f14113c411638",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": reply.model,
        "system_fingerprint": "fp_eaab8d114b_prod",
    }
    yield chunk({"role": "assistant", "content": None, "reasoning_content": ""})
    for piece in cut(reply.reasoning):
        yield chunk({"content": None, "reasoning_content": piece})
    for piece in cut(reply.text):
        yield chunk({"content": piece, "reasoning_content": None})
    for index, (id_, name, arguments) in enumerate(reply.calls):
        function: Object = {"name": name, "arguments": ""}
        begin = {"index": index, "id": id_, "type": "function", "function": function}
        yield chunk({"tool_calls": [begin]})
        for piece in cut(arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    # Usage comes with the last choice.
    yield chunk({"content": "", "reasoning_content": None}, reply.finish, deepseek_usage(reply))


# Qwen. Source: Alibaba Cloud Model Studio, "OpenAI compatible - Chat" and "Function calling": later
# fragments of a call carry `"id": ""` and no name, the last one an empty function.


def qwen_whole(reply: Reply) -> Object:
    message: dict[str, object] = {"role": "assistant", "content": reply.text}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        calls = enumerate(whole_calls(reply))
        message["tool_calls"] = [{**call, "index": index} for index, call in calls]
    choice = {"message": message, "finish_reason": reply.finish, "index": 0, "logprobs": None}
    return {
        "choices": [choice],
        "object": "chat.completion",
        "usage": {**reply.usage, "prompt_tokens_details": {"cached_tokens": reply.cached_tokens}},
        "created": CREATED,
        "system_fingerprint": None,
        "model": reply.model,
        "id": "chatcmpl-c4e2a989-10a3-9604-bdae-0b58b4f876a7",
    }


def qwen_chunks(reply: Reply) -> Iterator[Object]:
    def chunk(delta: Object, finish: str | None = None) -> Object:
        choice = {"delta": delta, "finish_reason": finish, "index": 0, "logprobs": None}
        return {"choices": [choice], "usage": None, **tail}

    def call(index: int, function: Object, id_: str = "") -> Object:
        item = {"function": function, "index": index, "id": id_, "type": "function"}
        return {"content": None, "tool_calls": [item]}

    tail = {
        "object": "chat.completion.chunk",
        "created": CREATED,
        "system_fingerprint": None,
        "model": reply.model,
        "id": "chatcmpl-c4e2a989-10a3-9604-bdae-0b58b4f876a7",
    }
    yield chunk({"content": None, "role": "assistant", "reasoning_content": ""})
    for piece in cut(reply.reasoning):
        yield chunk({"content": None, "reasoning_content": piece})
    for piece in cut(reply.text):
        yield chunk({"content": piece, "reasoning_content": None})
    for index, (id_, name, arguments) in enumerate(reply.calls):
        yield chunk(call(index, {"name": name, "arguments": ""}, id_))
        for piece in cut(arguments):
            yield chunk(call(index, {"arguments": piece}))
        yield chunk(call(index, {}))
    yield chunk({"content": "", "reasoning_content": None}, reply.finish)
    usage = {**reply.usage, "prompt_tokens_details": {"cached_tokens": reply.cached_tokens}}
    yield {"choices": [], "usage": usage, **tail}


# GLM. Source: Zhipu open platform, "Chat completion" reference: `request_id`, a call whole in one
# chunk, usage in the chunk that has the finish reason.


def glm_whole(reply: Reply) -> Object:
    message: dict[str, object] = {"role": "assistant", "content": reply.text}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        calls = enumerate(whole_calls(reply))
        message["tool_calls"] = [{**call, "index": index} for index, call in calls]
    return {
        "choices": [{"finish_reason": reply.finish, "index": 0, "message": message}],
        "created": CREATED,
        "id": "20251130133526a6b8c7d9e0f1a2b3",
        "model": reply.model,
        "object": "chat.completion",
        "request_id": "20251130133526a6b8c7d9e0f1a2b3",
        "usage": {**reply.usage, "prompt_tokens_details": {"cached_tokens": reply.cached_tokens}},
    }


def glm_chunks(reply: Reply) -> Iterator[Object]:
    head = {
        "id": "20251130133526a6b8c7d9e0f1a2b3",
        "created": CREATED,
        "object": "chat.completion.chunk",
        "model": reply.model,
    }
    for piece in cut(reply.reasoning):
        delta: Object = {"role": "assistant", "reasoning_content": piece}
        yield {**head, "choices": [{"index": 0, "delta": delta}]}
    for piece in cut(reply.text):
        delta = {"role": "assistant", "content": piece}
        yield {**head, "choices": [{"index": 0, "delta": delta}]}
    for index, call in enumerate(whole_calls(reply)):
        delta = {"role": "assistant", "tool_calls": [{**call, "index": index}]}
        yield {**head, "choices": [{"index": 0, "delta": delta}]}
    usage = {**reply.usage, "prompt_tokens_details": {"cached_tokens": reply.cached_tokens}}
    last: Object = {
        "index": 0,
        "finish_reason": reply.finish,
        "delta": {"role": "assistant", "content": ""},
    }
    yield {**head, "choices": [last], "usage": usage}


# Ollama. Source: its docs, "OpenAI compatibility", and openai/openai.go: `fp_ollama`, `reasoning`,
# a call whole in one chunk, usage in a chunk of its own; no cached tokens.


def ollama_whole(reply: Reply) -> Object:
    message: dict[str, object] = {"role": "assistant", "content": reply.text}
    if reply.reasoning:
        message["reasoning"] = reply.reasoning
    if reply.calls:
        calls = enumerate(whole_calls(reply))
        message["tool_calls"] = [{**call, "index": index} for index, call in calls]
    return {
        "id": "chatcmpl-838",
        "object": "chat.completion",
        "created": CREATED,
        "model": reply.model,
        "system_fingerprint": "fp_ollama",
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish}],
        "usage": reply.usage,
    }


def ollama_chunks(reply: Reply) -> Iterator[Object]:
    def chunk(delta: Object, finish: str | None = None) -> Object:
        whole = {"role": "assistant", "content": "", **delta}
        return {**head, "choices": [{"index": 0, "delta": whole, "finish_reason": finish}]}

    head = {
        "id": "chatcmpl-838",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": reply.model,
        "system_fingerprint": "fp_ollama",
    }
    for piece in cut(reply.reasoning):
        yield chunk({"reasoning": piece})
    for piece in cut(reply.text):
        yield chunk({"content": piece})
    for index, call in enumerate(whole_calls(reply)):
        yield chunk({"tool_calls": [{**call, "index": index}]})
    yield chunk({}, reply.finish)
    yield {**head, "choices": [], "usage": reply.usage}


SHAPES = {
    "openai": Shape(call_id="call_DdmO9pD3xa9XTPNJ{}", whole=openai_whole, chunks=openai_chunks),
    "deepseek": Shape(
        call_id="call_00_Zp7uPmzbxQkR{}",
        whole=deepseek_whole,
        chunks=deepseek_chunks,
        before_body=b"\n\n",
        before_chunks=b": keep-alive\n\n: keep-alive\n\n",
    ),
    "qwen": Shape(call_id="call_deb0063d315441b18b{}", whole=qwen_whole, chunks=qwen_chunks),
    "glm": Shape(call_id="call_-8217546923{}", whole=glm_whole, chunks=glm_chunks),
    "ollama": Shape(call_id="call_hk81qg8b{}", whole=ollama_whole, chunks=ollama_chunks),
}
