"""Replies of the Messages API, whole or as events, read into one `ModelReply`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from hermes.core import json
from hermes.core.chat import FinishReason, ToolCall, Usage, estimate_tokens
from hermes.errors import ModelError
from hermes.models.anthropic_request import DIALECT
from hermes.models.base import CallDelta, ModelReply, ReasoningDelta, StreamPart, TextDelta
from hermes.models.faults import WHEN_BROKEN, Peer
from hermes.models.profiles import Prices
from hermes.models.surrogates import mend, mend_all

STOP_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",  # of tools that the provider runs itself; the reply is not whole
    "refusal": "content_filter",
}

_MAX_TOKENS = 10**9

Object = Mapping[str, object]
Kind = Literal["text", "thinking", "redacted_thinking", "tool_use", "other"]


@dataclass(slots=True, kw_only=True)
class _Block:
    """One content block as it grows.

    Attributes:
        kind: `other` for those of tools that the provider runs itself, of which none is offered.
        start: As it began.
        pieces: Of its text, its thinking or its input.
    """

    kind: Kind
    start: Object
    pieces: list[str] = field(default_factory=list[str])
    signature: str = ""

    @property
    def text(self) -> str:
        return mend("".join(self.pieces))

    def call(self) -> ToolCall:
        written = self.text
        if not written.strip():
            given = json.as_object(mend_all(self.start.get("input")))
            written = json.dumps(given or {})
        return ToolCall(
            id=_word(self.start.get("id")), name=_word(self.start.get("name")), arguments=written
        )

    def layout(self) -> dict[str, object]:
        """How it goes back: thoughts to the letter, all else by its place."""
        if self.kind == "thinking":
            thought = {"type": "thinking", "thinking": self.text, "signature": self.signature}
            return {**self.start, **thought}
        if self.kind == "text":
            return {"type": "text", "chars": len(self.text)}
        return dict(self.start) if self.kind == "redacted_thinking" else {"type": "tool_use"}


class ReplyReader:
    """Puts one reply together.

    Args:
        peer: Who answers, for messages and where the reply names no model.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._answered_by = ""
        self._blocks: dict[int, _Block] = {}
        self._stop = ""
        self._explanation = ""
        self._usage: dict[str, object] = {}
        self.is_begun = False

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(block.text for block in self._blocks.values() if block.kind == "text")

    def begin(self, message: Object) -> list[StreamPart]:
        """Take a message: a whole one, or the empty one that a stream begins with."""
        self.is_begun = True
        self._answered_by = _word(message.get("model"))
        self._take_usage(message.get("usage"))
        self._take_stop(message)
        parts: list[StreamPart] = []
        for index, item in enumerate(json.as_list(message.get("content"))):
            parts += self.open_block(index, json.as_object(item) or {})
        return parts

    def open_block(self, index: int, block: Object) -> list[StreamPart]:
        """A block begins, or is there whole."""
        opened = self._blocks[index] = _Block(kind=_kind(block.get("type")), start=block)
        if opened.kind == "tool_use":
            return [CallDelta(name=_word(block.get("name")))]
        opened.signature = _word(block.get("signature"))
        return self._grow(opened, _word(block.get(opened.kind)))

    def grow_block(self, index: int, delta: Object) -> list[StreamPart]:
        """A block grows.

        Raises:
            ModelError: There is no such block.
        """
        block = self._blocks.get(index)
        if block is None:
            raise ModelError(
                f"{self._peer} went on with block {index}, which has not begun",
                code="stream",
                retryable=True,
                partial_text=self.text,
                hint=WHEN_BROKEN,
            )
        match delta.get("type"):
            case "text_delta":
                return self._grow(block, _word(delta.get("text")))
            case "thinking_delta":
                return self._grow(block, _word(delta.get("thinking")))
            case "input_json_delta":
                return self._grow(block, _word(delta.get("partial_json")))
            case "signature_delta":
                block.signature += _word(delta.get("signature"))
            case _:
                pass  # citations, and what is not invented yet
        return []

    def end(self, delta: Object, usage: object) -> None:
        """Why it stopped, and what it cost in all."""
        self._take_stop(delta)
        self._take_usage(usage)

    def close(self, *, prompt: bytes, prices: Prices | None) -> ModelReply:
        """The reply.

        Args:
            prompt: The request body, to estimate its tokens from when the provider gave none.
            prices: What its tokens cost, if that is known.
        """
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        thoughts = [block.text for block in blocks if block.kind == "thinking"]
        calls = tuple(block.call() for block in blocks if block.kind == "tool_use")
        text = "".join(block.text for block in blocks if block.kind == "text")
        reasoning = "\n\n".join(filter(None, map(str.strip, thoughts)))
        finish = STOP_REASONS.get(self._stop.casefold(), "unknown")
        return ModelReply(
            text=text or (self._explanation if finish == "content_filter" else ""),
            reasoning=reasoning,
            calls=calls,
            finish_reason=finish,
            usage=_read_usage(
                self._usage, prompt=prompt, written=_written(text + reasoning, calls), prices=prices
            ),
            model=self._answered_by or self._peer.model,
            opaque=_opaque(blocks),
        )

    def usage(self, *, prompt: bytes, prices: Prices | None) -> Usage:
        """What was used until now, though nothing is whole yet."""
        blocks = self._blocks.values()
        said = "".join(block.text for block in blocks if block.kind in ("text", "thinking"))
        calls = tuple(block.call() for block in blocks if block.kind == "tool_use")
        # The output that a message begins with is no count of what was written since.
        known = {name: count for name, count in self._usage.items() if name != "output_tokens"}
        return _read_usage(known, prompt=prompt, written=_written(said, calls), prices=prices)

    def _grow(self, block: _Block, piece: str) -> list[StreamPart]:
        if not piece:
            return []
        block.pieces.append(piece)
        if block.kind == "text":
            return [TextDelta(text=mend(piece))]
        return [ReasoningDelta(text=mend(piece))] if block.kind == "thinking" else []

    def _take_stop(self, message: Object) -> None:
        self._stop = _word(message.get("stop_reason")) or self._stop
        details = json.as_object(message.get("stop_details")) or {}
        self._explanation = mend(_word(details.get("explanation"))) or self._explanation

    def _take_usage(self, usage: object) -> None:
        # Cumulative where it comes more than once, so the last figure of each kind holds.
        for name, figure in (json.as_object(usage) or {}).items():
            if figure is not None:
                self._usage[name] = figure


_KINDS: dict[object, Kind] = {
    "text": "text",
    "thinking": "thinking",
    "redacted_thinking": "redacted_thinking",
    "tool_use": "tool_use",
}


def _kind(word: object) -> Kind:
    return _KINDS.get(word, "other") if isinstance(word, str) else "other"


def _opaque(blocks: Sequence[_Block]) -> dict[str, object]:
    """The order of the blocks, where there are thoughts that have to go back."""
    if not any(block.kind in ("thinking", "redacted_thinking") for block in blocks):
        return {}
    kept = [block for block in blocks if block.kind != "other"]
    return {DIALECT: [mend_all(block.layout()) for block in kept]}


def _written(said: str, calls: Sequence[ToolCall]) -> str:
    """All that the model wrote, to estimate its tokens from."""
    return said + "".join(call.name + call.arguments for call in calls)


def _read_usage(usage: Object, *, prompt: bytes, written: str, prices: Prices | None) -> Usage:
    """Token figures; each that is missing or an impossible zero is estimated."""
    cached = _count(usage.get("cache_read_input_tokens"))
    put = _count(usage.get("cache_creation_input_tokens"))
    asked = _count(usage.get("input_tokens")) + cached + put
    answered = _count(usage.get("output_tokens"))
    figures = Usage(
        prompt_tokens=asked or estimate_tokens(prompt.decode()),
        completion_tokens=answered or estimate_tokens(written),
        cached_tokens=cached,
        cache_write_tokens=put,
        cost_nano=0,
        estimated=not asked or (not answered and bool(written)),
    )
    return figures if prices is None else replace(figures, cost_nano=prices.cost_nano(figures))


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    """A token figure; 0 for anything that is none, or that no model can have read."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value) if 0 <= value <= _MAX_TOKENS else 0
    return 0
