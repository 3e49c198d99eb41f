"""What a model is sent: built anew for each call from the run's state, which is never edited."""

from __future__ import annotations

from hermes.core.chat import ChatMessage, UserMessage
from hermes.core.events import ModelRequested

from .setup import RunSetup
from .state import RunState


class Context:
    """The messages of each model call of a run."""

    def __init__(self, setup: RunSetup) -> None:
        self._setup = setup

    def messages(self, state: RunState, intent: ModelRequested) -> list[ChatMessage]:
        """The conversation that a model call carries.

        Args:
            state: With the intent taken in.
            intent: Of the call.
        """
        messages: list[ChatMessage] = [*self._setup.opening, *state.messages]
        if intent.repair:
            messages.append(UserMessage(text=intent.repair, reminder=True))
        return messages
