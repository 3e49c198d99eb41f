"""The model's contract: a conversation and tools in, one reply out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hermes.core.chat import ChatMessage, FinishReason, ToolCall, ToolSpec, Usage
from hermes.errors import ModelError


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """An attempt that came to nothing and that another one follows.

    Attributes:
        model: That failed.
        attempt: Its number, from 1, among all of the request.
        delay_s: What is waited before the next one.
        next_model: That is asked next, where it is another one.
    """

    model: str
    error: ModelError
    attempt: int
    delay_s: float = 0.0
    next_model: str = ""


Watch = Callable[[FailedAttempt], Awaitable[None]]
"""Told of each failed attempt before the next one is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What a model is asked.

    Attributes:
        messages: The canonical conversation, system message first; never empty.
        tools: What may be called; the same tuple object turn after turn while nothing changes.
        variables: The task's variable pool, for rule engines; never sent to a provider.
        output_schema: JSON Schema that the final answer has to fit, or None for prose.
        max_output_tokens: Cap of the reply, or None for the provider's own.
        may_finish: Whether a final answer is allowed now; otherwise a tool has to be called.
        watch: Told of failed attempts, by whoever makes more than one.
    """

    messages: Sequence[ChatMessage]
    tools: tuple[ToolSpec, ...] = ()
    variables: Mapping[str, object] = field(default_factory=dict[str, object])
    output_schema: Mapping[str, object] | None = None
    max_output_tokens: int | None = None
    may_finish: bool = True
    watch: Watch | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """One reply.

    Attributes:
        calls: As the provider sent them; an `id` may be empty or repeated.
        finish_reason: One of the known reasons; `unknown` for a missing or foreign word.
        model: The model that answered, as the provider names it.
        usage: From the provider, else an estimate that says so.
        problem: Why the text is no reply in the model's dialect, for the model to read.
        cached: It came from Hermes' own cache; nothing was asked.
        opaque: As in `AssistantMessage`.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: Usage = Usage()
    model: str = ""
    problem: str = ""
    cached: bool = False
    opaque: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """A piece of the answer, as it comes."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta:
    """A piece of the reasoning, as it comes."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDelta:
    """The model has begun a tool call."""

    name: str


StreamPart = TextDelta | ReasoningDelta | CallDelta | ModelReply
"""A stream is any number of deltas and, last, the whole reply."""


class Model(Protocol):
    """Speaks to one model."""

    @property
    def name(self) -> str:
        """How traces call it."""
        ...

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Ask and wait for the whole reply.

        Raises:
            ModelError: No usable reply; its `retryable` says whether trying again may help.
        """
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        """Ask and get the reply as it comes; the last part is the whole `ModelReply`.

        Raises:
            ModelError: As `reply`; `partial_text` holds what had arrived.
        """
        ...

    async def aclose(self) -> None:
        """Give connections back."""
        ...
