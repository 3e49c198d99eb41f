"""The one place where a model is asked again."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

import anyio

from hermes.core.clock import span
from hermes.core.retry import RetryPolicy
from hermes.errors import ModelError

from .base import FailedAttempt, Model, ModelReply, ModelRequest, StreamPart
from .breaker import UNAVAILABLE
from .wrapper import Wrapper, parts_of

DEFAULT_POLICY = RetryPolicy(attempts=5, base_s=0.5, cap_s=20.0, total_s=120.0)

Sleep = Callable[[float], Awaitable[None]]


class RetryingModel(Wrapper):
    """Asks again where that may help: the error is `retryable`, and nothing was shown yet.

    Once a part of a stream was given away, its error goes out at once, with the text so far. An
    open breaker costs no attempt, since nothing was sent; the waiting counts.

    Args:
        inner: Asked.
        policy: How often, and how long is waited in all.
        waits_for_breaker: Wait until an open breaker lets a request through; otherwise its refusal
            goes out at once, as is right where another model is at hand.
        sleep: Waits.
        spread: A random number from 0 up to 1: spreads the waits.
    """

    def __init__(
        self,
        inner: Model,
        *,
        policy: RetryPolicy = DEFAULT_POLICY,
        waits_for_breaker: bool = True,
        sleep: Sleep = anyio.sleep,
        spread: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(inner)
        self._policy, self._waits_for_breaker = policy, waits_for_breaker
        self._sleep, self._spread = sleep, spread

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Ask until there is a reply.

        Raises:
            ModelError: The last one; it says how often was asked, and what is still to be waited.
        """
        tries = _Tries()
        while True:
            try:
                return await self._inner.reply(request)
            except ModelError as exc:
                await self._wait(request, exc, tries)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """As `reply`, until the first part.

        Raises:
            ModelError: As `reply`; `partial_text` holds what had arrived.
        """
        tries = _Tries()
        while True:
            shown = False
            try:
                async with parts_of(self._inner, request) as parts:
                    async for part in parts:
                        shown = True
                        yield part
                return
            except ModelError as exc:
                if shown:
                    raise
                await self._wait(request, exc, tries)

    async def _wait(self, request: ModelRequest, exc: ModelError, tries: _Tries) -> None:
        tries.told += 1
        delay_s = self._delay_s(exc, tries)
        if delay_s is None:
            raise _last(exc, tries) from exc
        if request.watch is not None:
            await request.watch(
                FailedAttempt(model=self.name, error=exc, attempt=tries.told, delay_s=delay_s)
            )
        await self._sleep(delay_s)
        tries.waited_s += delay_s

    def _delay_s(self, exc: ModelError, tries: _Tries) -> float | None:
        is_kept_back = exc.code == UNAVAILABLE
        if not is_kept_back:
            tries.made += 1
        if not exc.retryable or (is_kept_back and not self._waits_for_breaker):
            return None
        return self._policy.delay_s(
            1 if is_kept_back else tries.made,
            spread=self._spread(),
            retry_after_s=exc.retry_after_s or 0.0,
            waited_s=tries.waited_s,
        )


@dataclass(slots=True)
class _Tries:
    """What a request has gone through: attempts that were sent, failures told, waiting."""

    made: int = 0
    told: int = 0
    waited_s: float = 0.0

    def __str__(self) -> str:
        kept_back = self.told - self.made
        said = [f"asked {_times(self.made)}"] if self.made else []
        if kept_back:
            said.append(f"kept back {_times(kept_back)} by its breaker")
        return ", ".join([*said, f"waited {span(self.waited_s)} between"])


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _last(exc: ModelError, tries: _Tries) -> ModelError:
    said: list[str] = []
    if tries.told > 1:
        said.append(str(tries))
    if exc.retryable and exc.retry_after_s:
        said.append(f"it may be asked again in {span(exc.retry_after_s)}")
    return exc.reworded("; ".join([exc.message, *said])) if said else exc
