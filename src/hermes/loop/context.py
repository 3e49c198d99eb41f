"""What a model is sent: built anew for each call from the run's state, which is never edited.

In this order: the rules; what was said before in the session; the goal and what must hold at the
end; once the conversation was compacted, how the work stands, the summary and the variables; and
the conversation from there on. Between two compactions a request only gets longer at its end, so
that a provider's cache of the common beginning holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
    estimate_tokens,
    outside_line,
)
from hermes.core.events import ContextCompacted, ModelRequested

from .shortening import shortened
from .state import RunState

RECENT = 20
"""Messages that a compaction leaves as they are, at most; whole turns, and at least the last."""
_FRAME_TOKENS = 4
_SIZE = "tokens"
_IMAGE_TOKENS = 1_000


class Context:
    """The messages of each model call of a run.

    Args:
        opening: What stands before the conversation.
        tools_tokens: Of all tools that may ever be offered, estimated.

    Attributes:
        rules: The system message; "" if there is none.
    """

    def __init__(self, opening: Sequence[ChatMessage], *, tools_tokens: int = 0) -> None:
        self._opening, self._tools_tokens = opening, tools_tokens
        self.rules = next((item.text for item in opening if isinstance(item, SystemMessage)), "")
        self._made: ContextCompacted | None = None
        self._middle: list[ChatMessage] = []
        self._fixed: int | None = None

    def messages(self, state: RunState, intent: ModelRequested) -> list[ChatMessage]:
        """The conversation that a model call carries.

        Args:
            state: With the intent taken in.
            intent: Of the call.
        """
        messages = [*self._opening, *self.middle(state), *self.recent(state)]
        if intent.repair:
            messages.append(UserMessage(text=intent.repair, reminder=True))
        return messages

    def middle(self, state: RunState) -> list[ChatMessage]:
        """What stands for the messages that are not sent as they came; the same objects each time.

        Empty before the first compaction.
        """
        made = state.compacted
        if made is None:
            return []
        if self._made is not made:
            self._middle = [*_standing(made), *self.short(state, made)]
            self._made = made
        return self._middle

    def short(self, state: RunState, made: ContextCompacted) -> list[ChatMessage]:
        """The messages that are sent, but with their long results shortened."""
        return [
            self.shortened(state, message, made.over_chars)[0]
            for message in state.messages[made.upto : made.shortened]
        ]

    def shortened(
        self, state: RunState, message: ChatMessage, over_chars: int
    ) -> tuple[ChatMessage, bytes | None]:
        """A message as it is sent once it is older; and the whole of it, if that is no blob yet."""
        if not isinstance(message, ToolMessage):
            return message, None
        whole = state.whole.get(message.call_id)
        return shortened(message, over_chars, rules=self.rules, whole=whole)

    def count(self, state: RunState) -> int:
        """How many messages a request carries, a passing reminder aside."""
        return len(self._opening) + len(self.middle(state)) + len(self.recent(state))

    def estimate(self, state: RunState) -> int:
        """Tokens of the next request, all of it estimated."""
        return self.fixed + tokens_of(self.middle(state)) + tokens_of(self.recent(state))

    def size(self, state: RunState) -> int:
        """Tokens of the next request: the last one by its provider's count, what is new estimated.

        All of it is estimated where there is no such count.
        """
        if state.measured is None:
            return self.estimate(state)
        known, upto = state.measured
        return known + tokens_of(state.messages[upto:])

    @property
    def fixed(self) -> int:
        """Tokens of what every request carries, estimated: the opening and the tools."""
        if self._fixed is None:
            self._fixed = self._tools_tokens + tokens_of(self._opening)
        return self._fixed

    def recent(self, state: RunState) -> Sequence[ChatMessage]:
        """The messages that are sent as they came."""
        made = state.compacted
        return state.messages[max(made.upto, made.shortened) :] if made else state.messages


def _standing(made: ContextCompacted) -> list[ChatMessage]:
    """How the work stands, the summary and the variables, as one message."""
    if not made.upto:
        return []
    summary = made.summary and f"Summary of those messages:\n{made.summary}"
    if summary and made.origin:
        summary = outside_line(made.origin) + summary
    parts = [part for part in (made.progress, summary, made.variables) if part]
    return [UserMessage(text="\n\n".join(parts), reminder=True)]


def tokens_of(messages: Sequence[ChatMessage]) -> int:
    """Tokens of messages, estimated; each message is counted once."""
    return sum(map(_tokens, messages))


def _tokens(message: ChatMessage) -> int:
    known = message.memo.get(_SIZE)
    if known is not None:
        return int.from_bytes(known, "big")
    found = _FRAME_TOKENS + estimate_tokens(message.text)
    if isinstance(message, AssistantMessage):
        for call in message.calls:
            found += _FRAME_TOKENS * 3 + estimate_tokens(call.name + call.arguments + call.id)
    elif isinstance(message, UserMessage):
        found += _IMAGE_TOKENS * len(message.images)
    message.memo[_SIZE] = found.to_bytes(8, "big")
    return found


def is_cut(messages: Sequence[ChatMessage], place: int) -> bool:
    """Whether a conversation may begin at a place: no call is parted from its results."""
    return place >= len(messages) or not isinstance(messages[place], ToolMessage)


def recent_from(messages: Sequence[ChatMessage], room_tokens: int) -> int:
    """Where the recent part begins: whole turns, at least the last one, at most `RECENT` messages.

    Args:
        messages: The conversation, no call of it open.
        room_tokens: What the part may have, estimated, beyond the last turn.
    """
    first = next(
        (
            place
            for place in reversed(range(len(messages)))
            if isinstance(messages[place], AssistantMessage)
        ),
        0,
    )
    used = tokens_of(messages[first:])
    for place in reversed(range(first)):
        used += tokens_of(messages[place : place + 1])
        if len(messages) - place > RECENT or used > room_tokens:
            break
        if is_cut(messages, place):
            first = place
    return first
