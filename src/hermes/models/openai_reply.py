"""Chat completions replies, whole or in chunks, read into one `ModelReply`.

Both forms go through the same reader: a whole reply is one chunk whose `message` is complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes.core import json
from hermes.core.chat import FinishReason, ToolCall, Usage
from hermes.errors import ModelError
from hermes.models.base import ModelReply, ReasoningDelta, StreamPart, TextDelta
from hermes.models.faults import WHEN_BROKEN, Peer
from hermes.models.openai_calls import CallReader
from hermes.models.openai_details import DetailReader
from hermes.models.openai_message import DETAILS, DIALECT, EXTRAS, HOST
from hermes.models.openai_usage import read_usage
from hermes.models.profiles import Prices
from hermes.models.surrogates import mend
from hermes.models.thinking import ThinkSplitter, after_thinking

FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",  # Mistral
    "content_filter": "content_filter",
    "sensitive": "content_filter",  # Zhipu
    "safety": "content_filter",
    "refusal": "content_filter",
}

BROKEN_OFF = frozenset(
    {
        "insufficient_system_resource",  # DeepSeek: the request was interrupted
        "network_error",  # Zhipu: inference failed
        "error",  # OpenRouter
        "abort",  # vLLM, SGLang
    }
)
"""Finish reasons that say that the reply is not whole, and that a second try may be."""

_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")


class ReplyReader:
    """Puts one reply together.

    Args:
        peer: Who answers, for messages and where the reply names no model.
        prices: What its tokens cost, if that is known.
    """

    def __init__(self, peer: Peer, *, prices: Prices | None = None) -> None:
        self._peer, self._prices = peer, prices
        self._answered_by = ""
        self._choice: object = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._splitter = ThinkSplitter()
        self._calls = CallReader()
        self._details = DetailReader()
        self._finish = ""
        self._was_refused = False
        self._usage: dict[str, object] = {}
        self._is_over = False

    @property
    def text(self) -> str:
        """The answer so far."""
        return mend("".join(self._text))

    @property
    def has_choice(self) -> bool:
        """Whether anything of an answer has come, even an empty one."""
        return self._choice is not None

    @property
    def is_finished(self) -> bool:
        """Whether the provider has said that nothing more comes."""
        return self._is_over or bool(self._finish)

    def feed(self, body: Mapping[str, object]) -> list[StreamPart]:
        """Take a whole reply or one chunk; gives the deltas in it.

        Raises:
            ModelError: A tool call fragment belongs to no call or to several; `partial_text`
                is for the caller to add.
        """
        self._answered_by = self._answered_by or _text_of(body.get("model"))
        self._take_usage(body.get("usage"))
        self._take_usage((json.as_object(body.get("x_groq")) or {}).get("usage"))
        choice = self._first_choice(body)
        if choice is None:
            self._is_over = self._is_over or bool(self._usage)
            return []
        self._take_usage(choice.get("usage"))  # Kimi puts it here
        reason = choice.get("finish_reason")
        # Some word is there, if not one that can be read: nothing more comes.
        self._finish = _text_of(reason) or ("unknown" if reason else self._finish)
        delta = json.as_object(choice.get("delta"))
        if delta:
            return self._take(delta, is_whole=False)
        message = json.as_object(choice.get("message"))
        # Some servers end a stream with the whole message once more.
        if message and not (self._text or self._reasoning or self._calls.is_begun):
            return self._take(message, is_whole=True)
        return []

    def close(self, *, prompt: bytes) -> tuple[list[StreamPart], ModelReply]:
        """The deltas held back until now, and the reply.

        Args:
            prompt: The request body, to estimate its tokens from when the provider gave none.

        Raises:
            ModelError: The provider says that it broke off.
        """
        parts = self._split(*self._splitter.close())
        before, text = after_thinking(self.text)
        reasoning = mend("".join(self._reasoning) + before).strip()
        if self._finish.casefold() in BROKEN_OFF:
            raise ModelError(
                f"{self._peer} broke off: {self._finish}",
                code="server",
                retryable=True,
                partial_text=text,
                hint=WHEN_BROKEN,
            )
        calls = self._calls.close()
        reply = ModelReply(
            text=text,
            reasoning=reasoning,
            calls=calls,
            finish_reason="content_filter" if self._was_refused else finish_reason(self._finish),
            usage=self._used(text + reasoning, calls, prompt),
            model=self._answered_by or self._peer.model,
            opaque=self._opaque(),
        )
        return parts, reply

    def usage(self, *, prompt: bytes) -> Usage:
        """What was used until now, though nothing is whole yet."""
        return self._used(self.text + "".join(self._reasoning), self._calls.close(), prompt)

    def _used(self, said: str, calls: Sequence[ToolCall], prompt: bytes) -> Usage:
        written = said + "".join(call.name + call.arguments for call in calls)
        return read_usage(self._usage, prompt=prompt, written=written, prices=self._prices)

    def _opaque(self) -> dict[str, object]:
        """What this server, and no other, has to be given back."""
        found: dict[str, object] = {}
        if details := self._details.close():
            found[DETAILS] = details
        if extras := self._calls.extras():
            found[EXTRAS] = extras
        return {DIALECT: {HOST: self._peer.host, **found}} if found else {}

    def _first_choice(self, body: Mapping[str, object]) -> Mapping[str, object] | None:
        for item in json.as_list(body.get("choices")):
            choice = json.as_object(item)
            if choice is None:
                continue
            index = choice.get("index") or 0
            if self._choice is None:
                self._choice = index
            if index == self._choice:
                return choice
        return None

    def _take(self, message: Mapping[str, object], *, is_whole: bool) -> list[StreamPart]:
        parts: list[StreamPart] = []
        text, reasoning = _content(message.get("content"))
        detailed = self._details.feed(json.as_list(message.get(DETAILS)))
        told = (found for name in _REASONING_FIELDS if (found := _reasoning(message.get(name))))
        reasoning += next(told, detailed)
        if reasoning:
            self._reasoning.append(reasoning)
            parts.append(ReasoningDelta(text=mend(reasoning)))
        if text:
            parts += self._split(*self._splitter.feed(text))
        if refusal := _text_of(message.get("refusal")):
            self._was_refused = True
            self._text.append(refusal)
            parts.append(TextDelta(text=mend(refusal)))
        if fragments := json.as_list(message.get("tool_calls")):
            parts += self._calls.feed(fragments, is_whole=is_whole)
        elif legacy := json.as_object(message.get("function_call")):
            parts += self._calls.feed([{"index": 0, "function": legacy}], is_whole=is_whole)
        return parts

    def _split(self, reasoning: str, text: str) -> list[StreamPart]:
        parts: list[StreamPart] = []
        if reasoning:
            self._reasoning.append(reasoning)
            parts.append(ReasoningDelta(text=mend(reasoning)))
        if text:
            self._text.append(text)
            parts.append(TextDelta(text=mend(text)))
        return parts

    def _take_usage(self, usage: object) -> None:
        # Cumulative where it comes more than once, so the last figure of each kind holds.
        for name, figure in (json.as_object(usage) or {}).items():
            if figure is not None:
                self._usage[name] = figure


def finish_reason(word: str) -> FinishReason:
    """A provider's word as one of ours; `unknown` for none or a foreign one."""
    return FINISH_REASONS.get(word.casefold(), "unknown")


def _content(value: object) -> tuple[str, str]:
    """Text and reasoning of a message's content: a text, a list of parts, or nothing."""
    if isinstance(value, str):
        return value, ""
    text, reasoning = "", ""
    for item in json.as_list(value):
        part = json.as_object(item)
        if part is None:
            text += _text_of(item)
        elif part.get("type") in ("thinking", "reasoning"):
            reasoning += _reasoning(part.get("thinking") or part.get("reasoning") or part)
        else:
            text += _text_of(part.get("text"))
    return text, reasoning


def _reasoning(value: object) -> str:
    """Reasoning as a text, as one part or as a list of parts (Mistral)."""
    if isinstance(value, str):
        return value
    if part := json.as_object(value):
        return _text_of(part.get("text"))
    return "".join(map(_reasoning, json.as_list(value)))


def _text_of(value: object) -> str:
    return value if isinstance(value, str) else ""
