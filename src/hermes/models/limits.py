"""No more requests than a provider allows, and no more at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio

from hermes.core import json
from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
    estimate_tokens,
)
from hermes.core.clock import Clock
from hermes.core.quota import Quota, Rate
from hermes.errors import ModelError

from .base import Model, ModelReply, ModelRequest, StreamPart
from .wrapper import Wrapper, parts_of

Sleep = Callable[[float], Awaitable[None]]

PAUSE_S = 1.0
"""After a refusal that does not say for how long."""
LONGEST_PAUSE_S = 300.0
"""Nobody is held longer by one answer, whatever it asks for; the next one may ask again."""
REPLY_TOKENS = 500
"""Reserved for a reply that has no cap."""

_IMAGE_TOKENS = 1000
_FIRST_STEP_S, _LONGEST_STEP_S, _CALM_S = 0.05, 5.0, 10.0
_SETTLE_S = 5.0
_UNCOUNTED = frozenset(
    {"rate_limited", "unavailable", "unreachable", "auth", "bad_request", "unknown_model"}
)


class Pace:
    """A pace learnt from refusals, where nobody has told what a server allows.

    Each refusal halves it (those that were under way together count as one), and each ten seconds
    without one make it a quarter faster, until it is none again.

    Source:
        D. Chiu, R. Jain, "Analysis of the Increase and Decrease Algorithms for Congestion
        Avoidance in Computer Networks" (1989): who slows down by a factor shares fairly.
    """

    def __init__(self) -> None:
        self.step_s = 0.0
        self._calm_at_s = 0.0
        self._deaf_until_s = 0.0

    def refused(self, now_s: float, *, pause_s: float) -> None:
        """A request was one too many."""
        if now_s >= self._deaf_until_s:
            self.step_s = min(_LONGEST_STEP_S, max(_FIRST_STEP_S, self.step_s * 2))
            self._deaf_until_s = now_s + max(pause_s, PAUSE_S)
        self._calm_at_s = now_s + _CALM_S

    def went_well(self, now_s: float) -> None:
        """A request was answered."""
        if self.step_s and now_s >= self._calm_at_s:
            self.step_s = 0.0 if self.step_s < _FIRST_STEP_S / 2 else self.step_s * 0.8
            self._calm_at_s = now_s + _CALM_S

    def over(self, rate: Rate) -> Rate:
        """The rate with this pace where it has none for requests."""
        if rate.requests is not None or not self.step_s:
            return rate
        return replace(rate, requests=60 / self.step_s)


class LimitedModel(Wrapper):
    """Waits for its place in the row before each request.

    Args:
        inner: Asked.
        quota: Counts for all who share the key.
        key: Stands for one account at one provider.
        rate: What it allows.
        pace: Shared by all models of the key in this process.
        clock: Measures the pace.
        sleep: Waits.
    """

    def __init__(
        self,
        inner: Model,
        *,
        quota: Quota,
        key: str,
        rate: Rate,
        pace: Pace,
        clock: Clock,
        sleep: Sleep = anyio.sleep,
    ) -> None:
        super().__init__(inner)
        self._quota, self._key, self._rate = quota, key, rate
        self._pace, self._clock, self._sleep = pace, clock, sleep

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Ask when it is this request's turn."""
        async with self._turn(request) as turn:
            turn.reply = await self._inner.reply(request)
        return turn.reply

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """As `reply`."""
        async with self._turn(request) as turn, parts_of(self._inner, request) as parts:
            async for part in parts:
                if isinstance(part, ModelReply):
                    turn.reply = part
                else:
                    yield part
        # Last of all: who has the reply reads no further, and this would never be settled.
        if turn.reply is not None:
            yield turn.reply

    @asynccontextmanager
    async def _turn(self, request: ModelRequest) -> AsyncGenerator[_Turn]:
        tokens = 0 if self._rate.tokens is None else tokens_of(request)
        turn, used = _Turn(), 0
        slot = await self._quota.reserve(self._key, self._pace.over(self._rate), tokens=tokens)
        try:
            wait_s = slot.wait_s
            while wait_s > 0:
                await self._sleep(wait_s)
                wait_s = await self._quota.wait_s(self._key, slot)
            used = tokens
            yield turn
            if turn.reply is not None:
                used = turn.reply.usage.total_tokens or tokens
            self._pace.went_well(self._clock.monotonic())
        except ModelError as exc:
            used = 0 if exc.code in _UNCOUNTED else used
            if exc.code == "rate_limited" and exc.retryable:
                await self._refused(exc)
            raise
        finally:
            await self._settle(reserved=tokens, used=used)

    async def _refused(self, exc: ModelError) -> None:
        asked_s = PAUSE_S if exc.retry_after_s is None else exc.retry_after_s
        pause_s = min(asked_s, LONGEST_PAUSE_S)
        self._pace.refused(self._clock.monotonic(), pause_s=pause_s)
        await self._quota.pause(self._key, pause_s)

    async def _settle(self, *, reserved: int, used: int) -> None:
        if self._rate.tokens is None or reserved == used:
            return
        # Also for a request that was cancelled: what it reserved belongs to the others.
        with anyio.move_on_after(_SETTLE_S, shield=True):
            await self._quota.settle(self._key, self._rate, reserved=reserved, used=used)


class _Turn:
    """A request that may be sent, and what came of it."""

    def __init__(self) -> None:
        self.reply: ModelReply | None = None


class ConcurrentModel(Wrapper):
    """At most so many requests at a time; the others wait in the order they came.

    Args:
        inner: Asked.
        places: Shared by all models of a key.
    """

    def __init__(self, inner: Model, *, places: anyio.Semaphore) -> None:
        super().__init__(inner)
        self._places = places

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Ask when a place is free."""
        async with self._places:
            return await self._inner.reply(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """As `reply`; the place is held until the stream has ended."""
        reply: ModelReply | None = None
        async with self._places, parts_of(self._inner, request) as parts:
            async for part in parts:
                if isinstance(part, ModelReply):
                    reply = part
                else:
                    yield part
        if reply is not None:
            yield reply


def tokens_of(request: ModelRequest) -> int:
    """An estimate of what a request and its reply are going to use."""
    count = sum(map(_tokens_in, request.messages))
    for tool in request.tools:
        count += estimate_tokens(tool.name + tool.description + json.dumps(tool.parameters))
    if request.output_schema is not None:
        count += estimate_tokens(json.dumps(request.output_schema))
    return count + (request.max_output_tokens or REPLY_TOKENS)


def _tokens_in(message: ChatMessage) -> int:
    match message:
        case SystemMessage():
            return estimate_tokens(message.text)
        case UserMessage():
            return estimate_tokens(message.text) + _IMAGE_TOKENS * len(message.images)
        case AssistantMessage():
            written = "".join(call.name + call.arguments for call in message.calls)
            return estimate_tokens(message.text + written)
        case ToolMessage():
            return estimate_tokens(message.text)
