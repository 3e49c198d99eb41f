"""A canonical conversation as a request to Anthropic's Messages API.

Each message is encoded once, as the content blocks it becomes, and kept in its memo; a request body
is joined from the pieces, so that a turn costs what is new in it and not the length of the history.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, assert_never

from hermes.core import json
from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    Image,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes.errors import CodecError
from hermes.models.base import ModelRequest
from hermes.models.rendering import ANTHROPIC, Renderer
from hermes.models.surrogates import mend_all

DIALECT = "anthropic"
MAX_TOKENS = 4096
"""Cap of a reply where neither the request nor the profile knows one: the API demands a number."""

Thinking = Literal["adaptive"] | int | None
"""How much a model may think before it answers: as it likes, so many tokens, or its own default."""

_MIN_THINKING = 1024
_MARK = b',"cache_control":{"type":"ephemeral"}}'
_MARKED_TURNS = 2
_TOOLS_KEPT = 16
_EMPTY = "(empty)"

Block = dict[str, object]


@dataclass(slots=True, kw_only=True)
class _Turn:
    """Neighbours of one role, as the one message that they become.

    Attributes:
        results: Blocks of tool results; they stand first.
        others: All other blocks.
        passing: How many of the others, at the end, will not be there next time.
    """

    role: Literal["user", "assistant"]
    results: list[bytes] = field(default_factory=list[bytes])
    others: list[bytes] = field(default_factory=list[bytes])
    passing: int = 0


class BodyBuilder:
    """Makes request bodies for one model.

    Three kinds of places are marked for the provider's cache, at most four in all: the last tool,
    the system prompt, and the ends of the last two turns of the user. So a request finds what the
    one before it has put there, however many blocks came in between. What will not stand there
    next time, such as a reminder at the end, comes after the mark.

    Args:
        name: The model's name, as the provider spells it.
        max_output: Cap of a reply's tokens where the request names none.
        parallel_calls: Several calls in one reply are welcome.
        thinking: How much it may think; less than the cap is left for the answer.
    """

    def __init__(
        self,
        name: str,
        *,
        max_output: int | None = None,
        parallel_calls: bool = True,
        thinking: Thinking = None,
    ) -> None:
        self._head = b'{"model":' + json.encode(name)
        self._renderer = Renderer(ANTHROPIC)
        self._max_output = max_output or MAX_TOKENS
        self._parallel_calls, self._thinking = parallel_calls, thinking
        # By identity: the loop passes the same tuple at each turn, and the tuple that is kept here
        # keeps its id from being used for another.
        self._tools: dict[int, tuple[tuple[ToolSpec, ...], bytes]] = {}

    def build(self, request: ModelRequest, *, stream: bool) -> bytes:
        """The request body as UTF-8 JSON; what stays the same stands first."""
        messages = self._renderer.render(request.messages)
        system = [_fragment(m) for m in messages if isinstance(m, SystemMessage)]
        body = [self._head, b',"max_tokens":%d' % self.cap(request)]
        body += self._offer(request, messages)
        if system := [fragment for fragment in system if fragment]:
            system[-1] = _marked(system[-1])
            body += [b',"system":[', b",".join(system), b"]"]
        body += [b',"messages":[', b",".join(_written(_turns(messages))), b"]"]
        body += [self._thinks(request), b',"stream":true}' if stream else b"}"]
        return b"".join(body)

    def cap(self, request: ModelRequest) -> int:
        """Most tokens of the reply."""
        return request.max_output_tokens or self._max_output

    def _budget(self, request: ModelRequest) -> int:
        """Tokens to think with; 0 for no fixed number."""
        wanted = self._thinking if isinstance(self._thinking, int) else 0
        budget = min(wanted, self.cap(request) - 1)
        return budget if budget >= _MIN_THINKING else 0

    def _is_thinking(self, request: ModelRequest) -> bool:
        return self._thinking == "adaptive" or self._budget(request) > 0

    def _thinks(self, request: ModelRequest) -> bytes:
        if self._thinking == "adaptive":
            return b',"thinking":{"type":"adaptive"}'
        budget = self._budget(request)
        return b',"thinking":{"type":"enabled","budget_tokens":%d}' % budget if budget else b""

    def _offer(self, request: ModelRequest, messages: Sequence[ChatMessage]) -> list[bytes]:
        """The tools, and how they may be chosen."""
        if not request.tools:
            # The API refuses calls in the history if it is told of no tools.
            called = _called(messages)
            if not called:
                return []
            gone = tuple(ToolSpec(name=name, description="", parameters={}) for name in called)
            return [b',"tools":', _tools(gone), b',"tool_choice":{"type":"none"}']
        choice: dict[str, object] = {}
        # The API refuses to be forced while it thinks.
        if not request.may_finish and not self._is_thinking(request):
            choice = {"type": "any"}
        if not self._parallel_calls:
            choice = {"type": "auto", **choice, "disable_parallel_tool_use": True}
        offer = [b',"tools":', self._encoded_tools(request.tools)]
        return [*offer, b',"tool_choice":', json.encode(choice)] if choice else offer

    def _encoded_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
        known = self._tools.get(id(tools))
        if known is not None:
            return known[1]
        if len(self._tools) >= _TOOLS_KEPT:
            self._tools.clear()
        encoded = _tools(tools)
        self._tools[id(tools)] = tools, encoded
        return encoded


def _called(messages: Sequence[ChatMessage]) -> list[str]:
    """Names of all tools that were called, each once, in order."""
    calls = (call for m in messages if isinstance(m, AssistantMessage) for call in m.calls)
    return list(dict.fromkeys(call.name for call in calls))


def _tools(tools: Sequence[ToolSpec]) -> bytes:
    encoded = [json.encode(_tool(spec)) for spec in tools]
    encoded[-1] = _marked(encoded[-1])
    return b"[" + b",".join(encoded) + b"]"


def _tool(spec: ToolSpec) -> Block:
    known: Block = {"name": spec.name}
    if spec.description:
        known["description"] = spec.description
    return {**known, "input_schema": {"type": "object", **spec.parameters}}


def _marked(blocks: bytes) -> bytes:
    """Blocks with a cache mark in the last one."""
    return blocks[:-1] + _MARK


def _turns(messages: Sequence[ChatMessage]) -> list[_Turn]:
    turns: list[_Turn] = []
    for message in messages:
        fragment = b"" if isinstance(message, SystemMessage) else _fragment(message)
        if not fragment:
            continue
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        if not turns or turns[-1].role != role:
            turns.append(_Turn(role=role))
        turn = turns[-1]
        is_result = isinstance(message, ToolMessage)
        (turn.results if is_result else turn.others).append(fragment)
        is_reminder = isinstance(message, UserMessage) and message.reminder
        turn.passing = turn.passing + 1 if is_reminder else 0
    return turns


def _written(turns: Sequence[_Turn]) -> Iterable[bytes]:
    """Each turn as one message, the ends of the last ones marked."""
    marks = _MARKED_TURNS
    written: list[bytes] = []
    for number, turn in enumerate(reversed(turns)):
        blocks = [*turn.results, *turn.others]
        # A reminder amid the conversation stays there: only the end of the last turn may pass.
        end = len(blocks) - (turn.passing if number == 0 else 0)
        if turn.role == "user" and marks and end:
            blocks[end - 1] = _marked(blocks[end - 1])
            marks -= 1
        head = b'{"role":"%s","content":[' % turn.role.encode()
        written.append(head + b",".join(blocks) + b"]}")
    return reversed(written)


def _fragment(message: ChatMessage) -> bytes:
    """The content blocks that a message becomes, joined by commas; empty for none."""
    fragment = message.memo.get(DIALECT)
    if fragment is None:
        fragment = message.memo[DIALECT] = b",".join(map(_encode, _blocks(message)))
    return fragment


def _encode(block: Block) -> bytes:
    try:
        return json.encode(block)
    except CodecError:
        return json.encode(mend_all(block))


def _blocks(message: ChatMessage) -> list[Block]:
    match message:
        case SystemMessage():
            return _text(message.text)
        case UserMessage():
            # Anthropic: pictures are understood best before the words about them.
            return [*map(_image, message.images), *_text(message.text)] or _text(_EMPTY)
        case AssistantMessage():
            return _said(message)
        case ToolMessage():
            result: Block = {
                "type": "tool_result",
                "tool_use_id": message.call_id,
                "content": message.text if message.text.strip() else _EMPTY,
            }
            return [result | {"is_error": True} if message.is_error else result]
        case _:
            assert_never(message)


def _text(text: str) -> list[Block]:
    """A text as a block; none for white space alone, which the API refuses."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _image(image: Image) -> Block:
    data = b64encode(image.data).decode("ascii")
    source = {"type": "base64", "media_type": image.media_type, "data": data}
    return {"type": "image", "source": source}


def _said(message: AssistantMessage) -> list[Block]:
    """Text and calls, with the reasoning that the provider wants back where it stood."""
    if not (message.text.strip() or message.calls):
        return []
    layout = [found for item in _layout(message) if (found := json.as_object(item))]
    chars = [size for item in layout if isinstance(size := item.get("chars"), int)]
    calls = sum(item.get("type") == "tool_use" for item in layout)
    is_whole = sum(chars) == len(message.text) or not message.text
    if layout and is_whole and calls == len(message.calls):
        return _as_it_stood(layout, message)
    thoughts = [dict(item) for item in layout if item.get("type") in THOUGHTS]
    return [*thoughts, *_text(message.text), *map(_call, message.calls)]


THOUGHTS = ("thinking", "redacted_thinking")
"""Blocks that go back to the letter."""


def _layout(message: AssistantMessage) -> list[object]:
    return list(json.as_list(message.opaque.get(DIALECT)))


def _as_it_stood(layout: Sequence[Mapping[str, object]], message: AssistantMessage) -> list[Block]:
    blocks: list[Block] = []
    calls, start = iter(message.calls), 0
    for item in layout:
        chars = item.get("chars")
        if item.get("type") in THOUGHTS:
            blocks.append(dict(item))
        elif isinstance(chars, int):
            blocks += _text(message.text[start : start + chars])
            start += chars
        else:
            blocks += [_call(call) for call in [next(calls)]]
    return blocks


def _call(call: ToolCall) -> Block:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call.arguments)}


def _input(arguments: str) -> Mapping[str, object]:
    """Arguments as an object, whatever the model wrote; what cannot be read is wrapped."""
    if not arguments.strip():
        return {}
    try:
        found = json.as_object(json.loads(arguments))
    except CodecError:
        found = None
    return found if found is not None else {"_unreadable": arguments}
