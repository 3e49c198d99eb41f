"""What a model and its server really do, against what its profile says: a few short requests."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import anyio

from hermes.core import json
from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    Image,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes.errors import CodecError, ModelError
from hermes.models.base import Model, ModelReply, ModelRequest, ReasoningDelta, TextDelta
from hermes.models.profiles import Profile

Status = Literal["works", "fails", "skipped"]
Open = Callable[[Mapping[str, object]], Model]
"""A model with these fields of its profile changed."""

_MAX_PAUSE_S = 30.0
_CAP = 2048  # a model that reasons needs room before it answers

_HELLO = "Answer with the one word: hello"
_ADD = "Use the tool `add` to add 17 and 25."
_TOOL = ToolSpec(
    name="add",
    description="Add two whole numbers.",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
)
_JSON = 'Answer with a JSON object that has the key "answer", and nothing else. What is 2 + 3?'
# Nothing in the question leads there: what fits the schema was held to it.
_SCHEMA_ASKS = "Say hello."
_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "colour": {"type": "string", "enum": ["red", "green", "blue"]},
        "count": {"type": "integer"},
    },
    "required": ["colour", "count"],
    "additionalProperties": False,
}
_UNCHANGED: Mapping[str, object] = {}
_ANY_OBJECT: Mapping[str, object] = {"type": "object"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check came to.

    Attributes:
        name: Of the check.
        claimed: The profile says that this works.
        text: What was seen.
        hint: What to set or do.
    """

    name: str
    status: Status
    claimed: bool = True
    text: str = ""
    hint: str = ""

    @property
    def is_fault(self) -> bool:
        """Whether a run will stumble over it."""
        return self.status == "fails" and self.claimed


class Checkup:
    """Asks a model in all the ways that Hermes does.

    Args:
        profile: What is believed of it.
        open_with: Opens it.
        pause_s: Waited before a check that failed in passing is made once more, unless the server
            says how long.
    """

    def __init__(self, profile: Profile, open_with: Open, *, pause_s: float = 1.0) -> None:
        self._profile, self._open, self._pause_s = profile, open_with, pause_s
        self._calls_tools = False

    async def run(self) -> AsyncGenerator[Finding]:
        """The findings, each as soon as it is there.

        When the plain question is refused, the others are not asked.
        """
        plain = await self._try("plain", self._plain)
        yield plain
        checks: list[tuple[str, bool, Callable[[], Awaitable[Finding]]]] = [
            ("stream", True, self._stream),
            ("tool call", self._profile.native_tools, self._tool),
            ("streamed tool call", self._profile.native_tools, self._streamed_tool),
            ("tool demanded", self._profile.tool_choice, self._demanded),
            ("JSON", self._profile.json_mode != "none", self._json),
            ("JSON schema", self._profile.json_mode == "schema", self._schema),
            ("JSON beside tools", self._profile.json_with_tools, self._beside),
            ("image", self._profile.images, self._image),
        ]
        for name, claimed, check in checks:
            if plain.status == "fails":
                text = "not tried: the plain question got no answer"
                yield Finding(name=name, status="skipped", claimed=claimed, text=text)
            else:
                found = await self._try(name, check)
                # What is not claimed is not used: there is nothing to set when it fails.
                hint = found.hint if claimed or found.status == "works" else ""
                yield replace(found, claimed=claimed, hint=hint)

    async def _try(self, name: str, check: Callable[[], Awaitable[Finding]]) -> Finding:
        try:
            try:
                return replace(await check(), name=name)
            except ModelError as exc:
                if not exc.retryable:
                    raise
                await anyio.sleep(min(exc.retry_after_s or self._pause_s, _MAX_PAUSE_S))
            return replace(await check(), name=name)
        except ModelError as exc:
            hint = exc.hint or _TO_SET.get(name, "")
            return Finding(name=name, status="fails", text=exc.message, hint=hint)

    async def _plain(self) -> Finding:
        reply = await self._ask(_HELLO)
        if not reply.text.strip():
            thought = " (it only reasoned)" if reply.reasoning else ""
            return _fails(f"an empty answer, finish reason {reply.finish_reason!r}{thought}")
        figures = f"{reply.usage.prompt_tokens} tokens in, {reply.usage.completion_tokens} out"
        about = " (estimated: the server gives no usage)" if reply.usage.estimated else ""
        return _works(f"answered by {reply.model!r}: {figures}{about}")

    async def _stream(self) -> Finding:
        pieces, reply = await self._streamed(_request(_HELLO))
        if reply is None or not (reply.text.strip() or reply.reasoning):
            return _fails("the stream ended with no answer", "run with --no-stream")
        if pieces < 2:
            return _works("comes in one piece: the server, or a proxy before it, keeps it back")
        return _works(f"came in {pieces} pieces")

    async def _tool(self) -> Finding:
        reply = await self._ask(_ADD, tools=(_TOOL,), changes={"native_tools": True})
        found = _called(reply)
        if found is not None:
            return found
        self._calls_tools = True
        call = replace(reply.calls[0], id=reply.calls[0].id or "call_1")
        messages = (
            UserMessage(text=_ADD),
            AssistantMessage(
                text=reply.text, calls=(call,), reasoning=reply.reasoning, opaque=reply.opaque
            ),
            ToolMessage(call_id=call.id, name=call.name, text="42"),
        )
        answer = await self._ask(*messages, tools=(_TOOL,), changes={"native_tools": True})
        if not (answer.text.strip() or answer.calls):
            return _fails("calls the tool, but says nothing once it has the result")
        text = "calls the tool, and reads its result"
        if not self._profile.native_tools:
            return _works(text, "native_tools = true would make use of it")
        return _works(text)

    async def _streamed_tool(self) -> Finding:
        if not self._calls_tools:
            return Finding(name="", status="skipped", text="not tried: it calls no tools")
        request = _request(_ADD, tools=(_TOOL,))
        _, reply = await self._streamed(request, changes={"native_tools": True})
        found = _called(reply or ModelReply())
        if found is not None:
            return replace(found, hint="run with --no-stream")
        return _works("calls the tool")

    async def _demanded(self) -> Finding:
        if not self._calls_tools:
            return Finding(name="", status="skipped", text="not tried: it calls no tools")
        changes = {"tool_choice": True, "native_tools": True}
        reply = await self._ask(_HELLO, tools=(_TOOL,), may_finish=False, changes=changes)
        if not reply.calls:
            return _fails("answers although a tool call is demanded", _TO_SET["tool demanded"])
        return _works("calls a tool when it has to", self._unused("tool_choice"))

    async def _json(self) -> Finding:
        mode = self._profile.json_mode
        mode = "object" if mode == "none" else mode
        schema = _ANY_OBJECT
        if mode == "schema":
            schema = {
                "type": "object",
                "properties": {"answer": {"type": "integer"}},
                "required": ["answer"],
                "additionalProperties": False,
            }
        reply = await self._ask(_JSON, output_schema=schema, changes={"json_mode": mode})
        if _object(reply.text) is None:
            return _fails(f"no JSON object: {reply.text[:60]!r}", _TO_SET["JSON"])
        return _works("answers with a JSON object")

    async def _schema(self) -> Finding:
        changes = {"json_mode": "schema"}
        reply = await self._ask(_SCHEMA_ASKS, output_schema=_SCHEMA, changes=changes)
        found = _object(reply.text)
        if found is None or not _fits(found):
            what = "no JSON object" if found is None else "another object"
            text = f"the schema does not hold it: {what}: {reply.text[:60]!r}"
            return _fails(text, _TO_SET["JSON schema"])
        hint = "" if self._profile.json_mode == "schema" else 'json_mode = "schema" would use it'
        return _works("is held to the schema", hint)

    async def _beside(self) -> Finding:
        if not self._calls_tools or self._profile.json_mode == "none":
            return Finding(name="", status="skipped", text="not tried: it has not both")
        reply = await self._ask(
            f"{_ADD} Then answer in JSON.",
            tools=(_TOOL,),
            output_schema=_SCHEMA,
            changes={"json_with_tools": True},
        )
        found = _called(reply)
        if found is not None:
            return _fails(f"with JSON asked for, {found.text}", _TO_SET["JSON beside tools"])
        return _works("still calls the tool", self._unused("json_with_tools"))

    async def _image(self) -> Finding:
        message = UserMessage(
            text="Which colour is this? One word.",
            images=(Image(media_type="image/png", data=_red_square()),),
        )
        reply = await self._ask(message, changes={"images": True})
        if "red" not in reply.text.casefold():
            return _fails(f"does not see the red square: {reply.text[:60]!r}", _TO_SET["image"])
        return _works("sees that a red square is red", self._unused("images"))

    def _unused(self, field: str) -> str:
        return "" if getattr(self._profile, field) else f"{field} = true would use it"

    async def _ask(
        self,
        *said: str | ChatMessage,
        tools: tuple[ToolSpec, ...] = (),
        output_schema: Mapping[str, object] | None = None,
        may_finish: bool = True,
        changes: Mapping[str, object] = _UNCHANGED,
    ) -> ModelReply:
        request = _request(*said, tools=tools, output_schema=output_schema, may_finish=may_finish)
        model = self._open(changes)
        try:
            return await model.reply(request)
        finally:
            await model.aclose()

    async def _streamed(
        self, request: ModelRequest, *, changes: Mapping[str, object] = _UNCHANGED
    ) -> tuple[int, ModelReply | None]:
        model = self._open(changes)
        pieces, reply = 0, None
        try:
            async for part in model.stream(request):
                pieces += isinstance(part, TextDelta | ReasoningDelta)
                reply = part if isinstance(part, ModelReply) else reply
        finally:
            await model.aclose()
        return pieces, reply


_TO_SET = {
    "tool call": "set HERMES_TOOL_DIALECT=react, or native_tools = false in its profile: tools are "
    "then called in text",
    "tool demanded": "set tool_choice = false in its profile",
    "JSON": 'set json_mode = "none" in its profile',
    "JSON schema": 'set json_mode = "object" or "none" in its profile',
    "JSON beside tools": "set json_with_tools = false in its profile",
    "image": "set images = false in its profile",
}


def _request(
    *said: str | ChatMessage,
    tools: tuple[ToolSpec, ...] = (),
    output_schema: Mapping[str, object] | None = None,
    may_finish: bool = True,
) -> ModelRequest:
    messages = [UserMessage(text=each) if isinstance(each, str) else each for each in said]
    return ModelRequest(
        messages=messages,
        tools=tools,
        output_schema=output_schema,
        may_finish=may_finish,
        max_output_tokens=_CAP,
    )


def _works(text: str, hint: str = "") -> Finding:
    return Finding(name="", status="works", text=text, hint=hint)


def _fails(text: str, hint: str = "") -> Finding:
    return Finding(name="", status="fails", text=text, hint=hint)


def _called(reply: ModelReply) -> Finding | None:
    """What is wrong with the call that was asked for, or None."""
    if not reply.calls:
        return _fails("answers in text, does not call tools", _TO_SET["tool call"])
    call = reply.calls[0]
    if call.name != _TOOL.name:
        return _fails(f"calls {call.name!r:.60}, which there is not", _TO_SET["tool call"])
    given = _object(call.arguments)
    if given is None or not all(isinstance(given.get(name), int) for name in ("a", "b")):
        return _fails(f"calls with other arguments: {call.arguments!r:.60}", _TO_SET["tool call"])
    return None


def _object(text: str) -> Mapping[str, object] | None:
    try:
        return json.as_object(json.loads(text.strip()))
    except CodecError:
        return None


def _fits(found: Mapping[str, object]) -> bool:
    count = found.get("count")
    is_count = isinstance(count, int) and not isinstance(count, bool)
    return (
        set(found) == {"colour", "count"}
        and found["colour"] in ("red", "green", "blue")
        and (is_count)
    )


def _red_square(side: int = 64) -> bytes:
    """A PNG file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        size = len(data).to_bytes(4, "big")
        return size + checked + zlib.crc32(checked).to_bytes(4, "big")

    edge = side.to_bytes(4, "big")
    rows = (b"\x00" + b"\xff\x00\x00" * side) * side
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", edge + edge + b"\x08\x02\x00\x00\x00"),
            chunk(b"IDAT", zlib.compress(rows)),
            chunk(b"IEND", b""),
        )
    )
