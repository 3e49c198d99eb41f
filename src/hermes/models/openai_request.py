"""A canonical conversation as a chat completions request that any server accepts.

Each message is encoded once and kept in its memo; a request body is joined from the pieces, so
that a turn costs what is new in it and not the length of the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from hermes.core import json
from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes.errors import CodecError
from hermes.models.base import ModelRequest
from hermes.models.surrogates import mend_all

DIALECT = "openai"

_TOOLS_KEPT = 16


class BodyBuilder:
    """Makes request bodies for one model.

    Args:
        name: The model's name, as the provider spells it.
        cap_field: Name of the field that caps the reply's tokens.
    """

    def __init__(self, name: str, *, cap_field: str) -> None:
        self._head = b'{"model":' + json.encode(name) + b',"messages":['
        self._cap_field = json.encode(cap_field)
        # By identity: the loop passes the same tuple at each turn, and the tuple that is kept here
        # keeps its id from being used for another.
        self._tools: dict[int, tuple[tuple[ToolSpec, ...], bytes]] = {}

    def build(self, request: ModelRequest, *, stream: bool) -> bytes:
        """The request body as UTF-8 JSON."""
        fragments = _fragments(request.messages)
        # Around the first and the last fragment, so that one join copies the history once.
        fragments[0] = self._head + fragments[0]
        fragments[-1] += self._tail(request, stream=stream)
        return b",".join(fragments)

    def _tail(self, request: ModelRequest, *, stream: bool) -> bytes:
        tail = b"]"
        if request.tools:
            tail += b',"tools":' + self._encoded_tools(request.tools)
        if request.max_output_tokens is not None:
            tail += b",%s:%d" % (self._cap_field, request.max_output_tokens)
        if stream:
            tail += b',"stream":true,"stream_options":{"include_usage":true}'
        return tail + b"}"

    def _encoded_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
        known = self._tools.get(id(tools))
        if known is not None:
            return known[1]
        if len(self._tools) >= _TOOLS_KEPT:
            self._tools.clear()
        encoded = json.encode([_tool(spec) for spec in tools])
        self._tools[id(tools)] = tools, encoded
        return encoded


def _fragments(messages: Sequence[ChatMessage]) -> list[bytes]:
    fragments: list[bytes] = []
    for message in messages:
        fragment = message.memo.get(DIALECT)
        if fragment is None:
            fragment = message.memo[DIALECT] = _encode(message)
        if fragment:
            fragments.append(fragment)
    return fragments or [b""]


def _encode(message: ChatMessage) -> bytes:
    """One message as JSON; empty for an assistant that neither said nor asked anything.

    Kimi and others refuse an assistant message without content, so such a one is left out.
    """
    if isinstance(message, AssistantMessage) and not (message.text or message.calls):
        return b""
    plain = _render(message)
    try:
        return json.encode(plain)
    except CodecError:
        return json.encode(mend_all(plain))


def _render(message: ChatMessage) -> dict[str, object]:
    match message:
        case SystemMessage():
            return {"role": "system", "content": message.text}
        case UserMessage():
            return {"role": "user", "content": message.text}
        case AssistantMessage(calls=()):
            return {"role": "assistant", "content": message.text}
        case AssistantMessage():
            # null beside calls is what OpenAI itself answers; "" is refused by some.
            return {
                "role": "assistant",
                "content": message.text or None,
                "tool_calls": [_call(call) for call in message.calls],
            }
        case ToolMessage():
            # Some servers refuse an empty result; a model reads this better, too.
            text = message.text or "(empty)"
            return {"role": "tool", "tool_call_id": message.call_id, "content": text}
        case _:
            assert_never(message)


def _call(call: ToolCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": _arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _arguments(text: str) -> str:
    """Arguments as a JSON object in text, whatever the model wrote.

    Servers put past arguments through their own JSON reader and answer 400 where it fails, so
    nothing becomes `{}` and what cannot be read is wrapped.
    """
    if text.strip() in ("", "null"):
        return "{}"
    try:
        readable = json.as_object(json.loads(text)) is not None
    except CodecError:
        readable = False
    return text if readable else json.dumps({"_unreadable": text})


def _tool(spec: ToolSpec) -> dict[str, object]:
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
    }
    return {"type": "function", "function": function}
