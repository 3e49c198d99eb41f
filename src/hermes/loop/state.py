"""A run as the fold of its events: the conversation, the variables, and what is still open.

The same code reads a journal back after a crash and follows a live run, so both always agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from hermes.core.chat import AssistantMessage, ChatMessage, ToolCall, ToolMessage
from hermes.core.events import (
    ArtifactSaved,
    BudgetExceeded,
    MessageHandled,
    MessageSent,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ProgressReported,
    ReviewDecided,
    ReviewRequested,
    TaskCreated,
    TaskDispatched,
    TaskEvent,
    TaskResumed,
    TaskSettled,
    TaskSplit,
    TaskStarted,
    TaskWaiting,
    ToolFailed,
    ToolInDoubt,
    ToolReconciled,
    ToolReturned,
    ToolStarted,
    VariableSet,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall:
    """A tool call of the present turn that has no outcome yet."""

    path: str
    call: ToolCall


@dataclass(slots=True, kw_only=True)
class RunState:
    """What a run knows; changed only by `follow`.

    Attributes:
        messages: The conversation after the opening messages, complete turns only.
        turn: Number of the present turn, 0 before the first.
        model_calls: Model calls begun in the present turn, repairs included.
        intent: A model call that was begun and has no outcome.
        calls: The calls of the last reply, by path, until all have outcomes.
        started: Intents of tool calls without an outcome, by path.
        in_doubt: Paths of calls whose outcome nobody knows.
        cleared: Paths of calls that a person decided to make again, until they are begun.
        reply: The last reply, as long as nothing followed it.
        repairs: Replies in a row that were sent back.
        exceeded: The bound that ends the run once no call is open.
        succeeded: Names of tools that have returned a result.
        handles: Blobs that `read_more` may open.
    """

    messages: list[ChatMessage] = field(default_factory=list[ChatMessage])
    variables: dict[str, object] = field(default_factory=dict[str, object])
    turn: int = 0
    model_calls: int = 0
    intent: ModelRequested | None = None
    calls: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])
    outcomes: dict[str, ToolMessage] = field(default_factory=dict[str, ToolMessage])
    started: dict[str, ToolStarted] = field(default_factory=dict[str, ToolStarted])
    in_doubt: set[str] = field(default_factory=set[str])
    cleared: set[str] = field(default_factory=set[str])
    reply: ModelReplied | None = None
    repairs: int = 0
    exceeded: BudgetExceeded | None = None
    succeeded: set[str] = field(default_factory=set[str])
    handles: set[str] = field(default_factory=set[str])
    earlier: tuple[str, ...] = ()
    call_ids: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, events: Iterable[TaskEvent]) -> RunState:
        """The state after all of these events."""
        state = cls()
        for event in events:
            state.follow(event)
        return state

    @property
    def turn_path(self) -> str:
        return f"/turn{self.turn}"

    @property
    def open_calls(self) -> list[OpenCall]:
        """Calls of the present turn that still need an outcome, in call order."""
        return [
            OpenCall(path=path, call=call)
            for path, call in self.calls.items()
            if path not in self.outcomes
        ]

    def follow(self, event: TaskEvent) -> None:
        """Take one more event in."""
        match event:
            case TaskCreated():
                self.variables.update(event.variables)
            case TaskStarted():
                self.earlier = event.earlier
            case ModelRequested():
                self._request(event)
            case ModelReplied():
                self._replied(event)
            case ModelFailed():
                self.intent = None
            case ToolStarted():
                self.started[event.path] = event
                self.cleared.discard(event.path)
            case ToolReturned():
                self.succeeded.add(event.name)
                if event.blob:
                    self.handles.add(event.blob)
                self._outcome(event.path, event.call_id, event.name, event.content, error=False)
            case ToolFailed():
                self._outcome(event.path, event.call_id, event.name, event.content, error=True)
            case BudgetExceeded():
                self.exceeded = event
            case ToolInDoubt():
                self.in_doubt.add(event.path)
            case ToolReconciled():
                self._reconciled(event)
            case VariableSet():
                self.variables[event.name] = event.value
            case ArtifactSaved():
                self.handles.add(event.sha256)
            case (
                TaskDispatched()
                | TaskWaiting()
                | TaskResumed()
                | TaskSettled()
                | TaskSplit()
                | ReviewRequested()
                | ReviewDecided()
                | ProgressReported()
                | MessageSent()
                | MessageHandled()
            ):
                pass
            case _:
                assert_never(event)

    def _request(self, event: ModelRequested) -> None:
        self.intent = event
        if event.repair:
            self.repairs += 1
            self.model_calls += 1
        else:
            self.turn += 1
            self.model_calls = 1

    def _replied(self, event: ModelReplied) -> None:
        self.intent = None
        self.reply = event
        self.calls = {
            f"{self.turn_path}/tool{number}": call for number, call in enumerate(event.calls, 1)
        }
        self.call_ids.update(call.id for call in event.calls)
        self.outcomes = {}
        if event.calls:
            self.repairs = 0
        if event.text or event.calls:
            self.messages.append(
                AssistantMessage(text=event.text, calls=event.calls, reasoning=event.reasoning)
            )

    def _outcome(self, path: str, call_id: str, name: str, content: str, *, error: bool) -> None:
        self.started.pop(path, None)
        self.in_doubt.discard(path)
        self.outcomes[path] = ToolMessage(call_id=call_id, name=name, text=content, is_error=error)
        if len(self.outcomes) == len(self.calls):
            self.messages.extend(self.outcomes[path] for path in self.calls)
            self.calls = {}
            self.outcomes = {}
            self.reply = None

    def _reconciled(self, event: ToolReconciled) -> None:
        self.in_doubt.discard(event.path)
        if event.decision == "again":
            self.cleared.add(event.path)
        else:
            self._outcome(event.path, event.call_id, event.name, event.content, error=False)

    def latest_text(self) -> str:
        """The last thing the model said in words, or ""."""
        for message in reversed(self.messages):
            if isinstance(message, AssistantMessage) and message.text.strip():
                return message.text
        return ""

    def so_far(self) -> str:
        """What is known when a run ends early: the last words, else the last results."""
        if text := self.latest_text():
            return text
        results = [
            f"{message.name}: {message.text[:500]}"
            for message in self.messages
            if isinstance(message, ToolMessage) and not message.is_error
        ]
        return "\n".join(results[-5:])
