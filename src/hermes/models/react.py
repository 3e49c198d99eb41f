"""Tool calls for models that have none: each reply is one JSON object, thought and action.

Source:
    Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models" (2023).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace

from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolCall,
    ToolSpec,
    UserMessage,
)

from .base import Model, ModelReply, ModelRequest, ReasoningDelta, StreamPart, TextDelta
from .profiles import Profile
from .react_prompt import MUST_CALL, RAW, rules, spelled
from .react_read import Reading, read_reply
from .react_schema import reply_schema
from .react_stream import AnswerStream
from .rendering import Rules, render
from .thinking import ThinkSplitter
from .wrapper import Wrapper, parts_of

_KEPT = 16
_ANY_OBJECT: Mapping[str, object] = {"type": "object"}
_PROGRAM = "playbook:"


class ReActModel(Wrapper):
    """Asks a model for ReAct's JSON objects and reads them as calls and answers.

    The model gets no `tools`: they stand at the end of the system message, which changes only when
    they do; past calls and results are plain messages. Where the server can hold a reply to a JSON
    Schema, it gets one that allows what is allowed at this turn and nothing else. A reply that
    cannot be read says so in its `problem`. Without any tool, now or before, the model is asked as
    it is.

    Args:
        inner: Speaks to the provider.
        profile: What the model and its server can do.
    """

    def __init__(self, inner: Model, profile: Profile) -> None:
        super().__init__(inner)
        self.profile = self._profile = profile
        self._prompts: dict[tuple[int, str], tuple[object, SystemMessage]] = {}
        self._schemas: dict[tuple[int, int, bool], tuple[object, object, dict[str, object]]] = {}
        self._spelled: dict[tuple[int, bool], tuple[ChatMessage, ChatMessage]] = {}

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Ask, and read what comes.

        Raises:
            ModelError: As the inner model's.
        """
        return self._read(request, await self._inner.reply(self._request(request)))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """Ask, and give the answer's own text as it comes, the thought as reasoning.

        Raises:
            ModelError: As the inner model's.
        """
        is_asked = _is_asked(request)
        splitter, answer = ThinkSplitter(), AnswerStream()
        async with parts_of(self._inner, self._request(request)) as parts:
            async for part in parts:
                match part:
                    case TextDelta(text=text) if is_asked:
                        reasoning, text = splitter.feed(text)
                        if reasoning:
                            yield ReasoningDelta(text=reasoning)
                        for piece in answer.feed(text):
                            yield piece
                    case ModelReply():
                        reply = self._read(request, part)
                        if is_asked and (rest := answer.rest(reply)):
                            yield TextDelta(text=rest)
                        yield reply
                    case _:
                        yield part

    def _request(self, request: ModelRequest) -> ModelRequest:
        whole = render(request.messages, Rules())
        is_asked = _is_asked(request)
        messages = [self._plain(message, in_dialect=is_asked) for message in whole]
        self._forget(len(messages))
        output_schema = request.output_schema
        if is_asked:
            messages = self._with_rules(messages, request)
            if request.tools and not request.may_finish:
                messages.append(UserMessage(text=MUST_CALL, reminder=True))
            output_schema = self._schema(request)
        return replace(
            request,
            messages=render(messages, Rules(alternates=True)),
            tools=(),
            output_schema=output_schema,
            may_finish=True,
        )

    def _plain(self, message: ChatMessage, *, in_dialect: bool) -> ChatMessage:
        known = self._spelled.get((id(message), in_dialect))
        if known is not None:
            return known[1]
        plain = spelled(message, in_dialect=in_dialect)
        if plain is not message:
            # The message is kept too, so that its id is not used for another.
            self._spelled[id(message), in_dialect] = message, plain
        return plain

    def _forget(self, size: int) -> None:
        if len(self._spelled) > 1_000 + 2 * size:
            self._spelled.clear()

    def _with_rules(self, messages: list[ChatMessage], request: ModelRequest) -> list[ChatMessage]:
        first = messages[0] if messages and isinstance(messages[0], SystemMessage) else None
        key = id(request.tools), first.text if first else ""
        known = self._prompts.get(key)
        if known is None:
            if len(self._prompts) >= _KEPT:
                self._prompts.clear()
            text = rules(
                request.tools,
                request.output_schema,
                is_bounded=self._profile.json_mode == "schema",
            )
            system = SystemMessage(text=f"{first.text}\n\n{text}" if first else text)
            known = self._prompts[key] = request.tools, system
        return [known[1], *messages[1 if first else 0 :]]

    def _schema(self, request: ModelRequest) -> Mapping[str, object] | None:
        match self._profile.json_mode:
            case "none":
                return None
            case "object":
                return _ANY_OBJECT
            case "schema":
                return self._narrowed(request)

    def _narrowed(self, request: ModelRequest) -> Mapping[str, object]:
        key = id(request.tools), id(request.output_schema), request.may_finish
        known = self._schemas.get(key)
        if known is None:
            if len(self._schemas) >= _KEPT:
                self._schemas.clear()
            schema = reply_schema(
                request.tools,
                may_finish=request.may_finish,
                output_schema=request.output_schema,
            )
            known = self._schemas[key] = request.tools, request.output_schema, schema
        return known[2]

    def _read(self, request: ModelRequest, reply: ModelReply) -> ModelReply:
        if reply.calls or reply.problem or reply.finish_reason == "content_filter":
            return reply
        if not _is_asked(request):
            return reply
        reasoning, text = _split(reply.text)
        reading = read_reply(
            text,
            _names(request.tools),
            has_schema=request.output_schema is not None,
            is_cut=reply.finish_reason == "length",
        )
        thought = "\n\n".join(filter(None, (reply.reasoning, reasoning, reading.thought)))
        return _made(replace(reply, reasoning=thought), text, reading)


def _is_asked(request: ModelRequest) -> bool:
    """Whether the next reply is asked for in the dialect.

    Also where all tools are used up: a model that has written such objects goes on writing them.
    """
    return bool(request.tools) or any(
        isinstance(message, AssistantMessage) and message.calls for message in request.messages
    )


def _made(reply: ModelReply, text: str, reading: Reading) -> ModelReply:
    if reading.problem:
        opaque = {**reply.opaque, RAW: "raw"}
        return replace(reply, text=text, problem=reading.problem, opaque=opaque)
    if reading.calls:
        calls = tuple(
            ToolCall(id="", name=call.name, arguments=call.arguments) for call in reading.calls
        )
        return replace(reply, text="", calls=calls, finish_reason="tool_calls")
    is_whole = reply.finish_reason == "length" and not reading.is_cut and reading.answer != text
    reason = "stop" if is_whole else reply.finish_reason
    return replace(reply, text=reading.answer or "", finish_reason=reason)


def _split(text: str) -> tuple[str, str]:
    splitter = ThinkSplitter()
    reasoning, answer = splitter.feed(text)
    more, rest = splitter.close()
    return reasoning + more, answer + rest


def _names(tools: tuple[ToolSpec, ...]) -> frozenset[str]:
    return frozenset(tool.name for tool in tools)
