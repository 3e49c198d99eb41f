"""A model that says what it was told to say."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from types import TracebackType
from typing import Self

from hermes.core import json
from hermes.core.chat import ToolCall
from hermes.models.base import (
    CallDelta,
    ModelReply,
    ModelRequest,
    ReasoningDelta,
    StreamPart,
    TextDelta,
)

Scripted = ModelReply | ToolCall | str | Exception | Callable[[ModelRequest], ModelReply]
"""One turn of a script: a reply, a single call, a text, an error to raise, or a function."""

_DELTA_CHARS = 5


class ScriptedModel:
    """Gives the scripted replies one after the other and remembers what it was asked.

    As a context manager it also complains, at the end of the block, of replies nobody asked for.

    Args:
        replies: What to answer, in order.
        name: How traces call it.

    Attributes:
        requests: Every request so far, in order.
    """

    def __init__(self, replies: Iterable[Scripted], *, name: str = "scripted") -> None:
        self._name = name
        self._left = deque(replies)
        self._total = len(self._left)
        self.requests: list[ModelRequest] = []

    @property
    def name(self) -> str:
        """How traces call it."""
        return self._name

    async def reply(self, request: ModelRequest) -> ModelReply:
        """The next reply of the script.

        Raises:
            AssertionError: The script is at its end.
            Exception: The error that stands in the script.
        """
        self.requests.append(request)
        if not self._left:
            raise AssertionError(
                f"model {self._name!r} was asked {len(self.requests)} times, "
                f"but its script holds {self._total} replies"
            )
        scripted = self._left.popleft()
        match scripted:
            case Exception():
                raise scripted
            case str():
                return ModelReply(text=scripted, model=self._name)
            case ToolCall():
                return calls(scripted)
            case ModelReply():
                return scripted
            case _:
                return scripted(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """The next reply in small pieces, then whole.

        Raises:
            AssertionError: As `reply`.
        """
        reply = await self.reply(request)
        for piece in _pieces(reply.reasoning):
            yield ReasoningDelta(text=piece)
        for piece in _pieces(reply.text):
            yield TextDelta(text=piece)
        for wanted in reply.calls:
            yield CallDelta(name=wanted.name)
        yield reply

    async def aclose(self) -> None:
        """Nothing is held open."""

    def assert_done(self) -> None:
        """Check that the whole script was played.

        Raises:
            AssertionError: Some replies were never asked for.
        """
        if self._left:
            raise AssertionError(
                f"model {self._name!r} has {len(self._left)} of {self._total} replies left over; "
                f"the next one is {self._left[0]!r:.200}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.assert_done()


def call(name: str, /, **arguments: object) -> ToolCall:
    """One call to write a script with; its id is empty, as some providers send it."""
    return ToolCall(id="", name=name, arguments=json.dumps(arguments))


def calls(*wanted: ToolCall, text: str = "", reasoning: str = "") -> ModelReply:
    """A reply that wants these calls, in parallel."""
    return ModelReply(text=text, reasoning=reasoning, calls=wanted, finish_reason="tool_calls")


def _pieces(text: str) -> list[str]:
    return [text[start : start + _DELTA_CHARS] for start in range(0, len(text), _DELTA_CHARS)]
