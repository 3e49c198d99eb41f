"""What a model is asked for the summary of a conversation's older part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from hermes.core.events import ModelRequested
from hermes.models import ModelRequest

from .context import Context
from .prompts import shipped
from .setup import SHORTEN_CHARS
from .shortening import clipped
from .state import RunState

INSTRUCTION = shipped("en").text("summary")
"""The shipped one, in English."""

_ITEM_TOKENS = 500


class SummaryRequest:
    """Makes the request; it has no tools, and no calls that could lack their results.

    Args:
        context: Shortens the results.
        goal: Of the task.
        rules: The system message.
    """

    def __init__(self, context: Context, *, goal: str, rules: str = INSTRUCTION) -> None:
        self._context, self._goal, self._rules = context, goal, rules

    def build(self, state: RunState, intent: ModelRequested) -> ModelRequest:
        """The request of an open intent."""
        made = state.compacted
        parts = [f"The request:\n{clipped(self._goal, _ITEM_TOKENS * 4)}"]
        if made is not None and made.summary:
            parts.append(f"Your summary of what came before:\n{made.summary}")
        messages = state.messages[upto_of(state) : border_of(state, intent)]
        parts.append("\n".join(["The messages:", *self._lines(state, messages)]))
        text = clipped("\n\n".join(parts), intent.room)
        return ModelRequest(messages=[SystemMessage(text=self._rules), UserMessage(text=text)])

    def _lines(self, state: RunState, messages: Sequence[ChatMessage]) -> Iterator[str]:
        for message in messages:
            match message:
                case AssistantMessage():
                    if message.text.strip():
                        yield f"[agent] {clipped(message.text, _ITEM_TOKENS)}"
                    for call in message.calls:
                        yield f"[call] {call.name} {clipped(call.arguments, _ITEM_TOKENS)}"
                case ToolMessage():
                    what = "error" if message.is_error else "result"
                    short = self._context.shortened(state, message, SHORTEN_CHARS)[0]
                    yield f"[{what} of {message.name}] {clipped(short.text, _ITEM_TOKENS)}"
                case _:
                    yield f"[note] {clipped(message.text, _ITEM_TOKENS)}"


def upto_of(state: RunState) -> int:
    """How many messages a summary stands for."""
    return state.compacted.upto if state.compacted else 0


def border_of(state: RunState, intent: ModelRequested) -> int:
    """How many messages the summary will stand for that is asked for."""
    return upto_of(state) + intent.history
