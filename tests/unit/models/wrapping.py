"""Models to wrap, and time that passes as it is told."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import AsyncGenerator, Callable

import anyio
import anyio.lowlevel

from hermes.core.chat import UserMessage
from hermes.errors import ModelError
from hermes.models import FailedAttempt, Model, ModelReply, ModelRequest, StreamPart, TextDelta
from hermes.testing import FakeClock

HELLO = ModelRequest(messages=[UserMessage(text="hello")])


def fault(
    code: str = "server", *, retryable: bool = True, after_s: float | None = None
) -> ModelError:
    return ModelError(
        f"it is {code}", code=code, retryable=retryable, retry_after_s=after_s, hint="look"
    )


class Time:
    """A clock whose sleepers wake in order, one after the other, once all others are idle."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.slept: list[float] = []
        self._sleepers: list[tuple[float, int, anyio.Event]] = []
        self._number = itertools.count()

    async def sleep(self, seconds: float) -> None:
        """Until `pass_by` has come so far."""
        self.slept.append(seconds)
        woken = anyio.Event()
        until = self.clock.monotonic() + seconds
        heapq.heappush(self._sleepers, (until, next(self._number), woken))
        await woken.wait()

    async def skip(self, seconds: float) -> None:
        """A sleep that is over at once, for a test with one task."""
        self.slept.append(seconds)
        self.clock.advance(seconds)
        await anyio.lowlevel.checkpoint()

    async def pass_by(self) -> None:
        """Wake all sleepers, until cancelled."""
        while True:
            await anyio.wait_all_tasks_blocked()
            if not self._sleepers:
                return
            until, _, woken = heapq.heappop(self._sleepers)
            self.clock.advance(max(0.0, until - self.clock.monotonic()))
            woken.set()


class Server:
    """A model that does what a function says, and knows how it was asked.

    Attributes:
        asked: How often.
        at_once: Most requests at a time.
        closed: How often it was closed.
    """

    asked: int

    def __init__(
        self, answer: Callable[[int], ModelReply] | None = None, *, name: str = "served"
    ) -> None:
        self.name = name
        self._answer = answer or raising()
        self.asked = self.at_once = self.closed = self._busy = 0
        self.gate: anyio.Event | None = None

    async def reply(self, request: ModelRequest) -> ModelReply:
        self.asked += 1
        self._busy += 1
        self.at_once = max(self.at_once, self._busy)
        number = self.asked
        try:
            if self.gate is not None:
                await self.gate.wait()
            return self._answer(number)
        finally:
            self._busy -= 1

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        reply = await self.reply(request)
        if reply.text:
            yield TextDelta(text=reply.text)
        yield reply

    async def aclose(self) -> None:
        self.closed += 1


class Broken(Server):
    """Its stream breaks after the first piece."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        self.asked += 1
        yield TextDelta(text="half")
        raise ModelError("it broke", code="stream", retryable=True, partial_text="half")


def raising(*faults: ModelError | None) -> Callable[[int], ModelReply]:
    """Answers with these errors in turn, then well."""

    def answer(number: int) -> ModelReply:
        found = faults[number - 1] if number <= len(faults) else None
        if found is not None:
            raise found
        return ModelReply(text="hi there")

    return answer


class Watcher:
    """Keeps what it is told of failed attempts."""

    def __init__(self) -> None:
        self.told: list[FailedAttempt] = []

    async def __call__(self, failed: FailedAttempt) -> None:
        self.told.append(failed)

    @property
    def request(self) -> ModelRequest:
        return ModelRequest(messages=HELLO.messages, watch=self)


async def streamed(model: Model, request: ModelRequest = HELLO) -> list[StreamPart]:
    """All parts of a model's stream."""
    return [part async for part in model.stream(request)]
