"""A run as the fold of its events: the conversation, the variables, and what is still open.

The same code reads a journal back after a crash and follows a live run, so both always agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import assert_never

from hermes.core.chat import (
    AssistantMessage,
    ChatMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    outside_line,
)
from hermes.core.events import (
    ArtifactSaved,
    BudgetExceeded,
    ContextCompacted,
    Fault,
    MessageHandled,
    MessageSent,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    Pending,
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
from hermes.tools.arguments import BAD_ARGUMENTS
from hermes.tools.arguments.text_calls import is_call_text

TOO_LONG = "context_length"
"""The code of a provider's refusal of a request that is longer than its window."""


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
        cleared: Paths of calls that are to be made again, until they are begun.
        waiting: What is waited for, by wait id, until its answer is taken in.
        approved: Calls that a person approved, by path, with the review; until they are begun.
        splits: Rounds of child tasks of each call of the present turn, by path.
        has_children: Whether it ever handed work on.
        is_begun: Whether work on the task ever began.
        reply: The last reply, as long as nothing followed it.
        repairs: Replies in a row that were sent back.
        exceeded: The bound that ends the run once no call is open.
        succeeded: Names of tools that have returned a result.
        failures: Failures in a row, by tool name; of faulty arguments all but the first.
        made: Calls begun, by the tool's name then; one that is made again counts once.
        faulty: Tools whose last call was refused for its arguments, which they may mend once.
        last_failure: What the last failure of each tool was.
        hidden: Tools that were not offered at the last model call.
        renames: Former names of tools to present ones, where a migration says so.
        deeds: Tool and business key of what was done, to the path of the call.
        handles: Blobs that `read_more` may open.
        origins: Where content from outside came from, by the path of the call that brought it; by
            "" where the task began with it.
        foreign: Blobs that came from outside, with their origins.
        unread: Places of replies in the conversation that could not be read: nothing for a person.
        compacted: From where on the conversation is sent, and what stands for the rest; the last.
        compactions: Model calls for a summary that were begun.
        may_compact: Whether another summary may be asked for: none failed or brought nothing.
        too_long: What the provider said of a request that was too long, until it is compacted.
        may_recover: Whether a request that is too long may be compacted and made again: once
            between two replies.
        broken_text: What had come of a reply that was never whole, until the next reply.
        refused: Tokens, as they were counted here, of the smallest request that was too long.
        measured: Tokens of the last request, by its provider's count or after a compaction, and
            how many messages of the conversation were in it.
        whole: Blob and size in characters of each result that was cut when it came, by call id.
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
    waiting: dict[str, Pending] = field(default_factory=dict[str, Pending])
    approved: dict[str, str] = field(default_factory=dict[str, str])
    splits: dict[str, list[TaskSplit]] = field(default_factory=dict[str, list[TaskSplit]])
    has_children: bool = False
    is_begun: bool = False
    reply: ModelReplied | None = None
    repairs: int = 0
    exceeded: BudgetExceeded | None = None
    succeeded: set[str] = field(default_factory=set[str])
    failures: dict[str, int] = field(default_factory=dict[str, int])
    made: dict[str, int] = field(default_factory=dict[str, int])
    faulty: set[str] = field(default_factory=set[str])
    last_failure: dict[str, str] = field(default_factory=dict[str, str])
    hidden: tuple[str, ...] = ()
    renames: dict[str, str] = field(default_factory=dict[str, str])
    deeds: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    handles: set[str] = field(default_factory=set[str])
    origins: dict[str, str] = field(default_factory=dict[str, str])
    foreign: dict[str, str] = field(default_factory=dict[str, str])
    saved: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    earlier: tuple[str, ...] = ()
    others: str = ""
    compacted: ContextCompacted | None = None
    compactions: int = 0
    may_compact: bool = True
    too_long: Fault | None = None
    may_recover: bool = True
    broken_text: str = ""
    refused: int | None = None
    measured: tuple[int, int] | None = None
    whole: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    unread: set[int] = field(default_factory=set[int])
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
        if not self.calls:
            return []
        return [
            OpenCall(path=path, call=call)
            for path, call in self.calls.items()
            if path not in self.outcomes
        ]

    @property
    def held(self) -> set[str]:
        """Paths of the calls that wait for something."""
        return {pending.path for pending in self.waiting.values() if pending.path}

    @property
    def outside(self) -> dict[str, str]:
        """The origins that a model knew of when it asked for the calls of the present turn."""
        own = f"{self.turn_path}/"
        return {path: text for path, text in self.origins.items() if not path.startswith(own)}

    def follow(self, event: TaskEvent) -> None:
        """Take one more event in."""
        match event:
            case TaskCreated():
                self.variables.update(event.variables)
                self._began_with(event.origin)
            case TaskStarted():
                self.earlier, self.others, self.is_begun = event.earlier, event.others, True
                self._began_with(event.origin)
            case TaskWaiting():
                self._wait(event)
            case TaskResumed():
                self._end_waits(lambda pending: not pending.path and pending.kind == "time")
            case TaskSplit():
                self.splits.setdefault(event.path, []).append(event)
                self.has_children = True
            case ReviewDecided():
                self._decided(event)
            case ModelRequested():
                self._request(event)
            case ModelReplied():
                self._replied(event)
            case ModelFailed():
                if self.intent is not None and self.intent.purpose == "compaction":
                    self.may_compact = False
                else:
                    self.broken_text = event.partial_text
                    if event.error.code == TOO_LONG:
                        self.too_long = event.error
                self.intent = None
            case ContextCompacted():
                self._compacted(event)
            case ToolStarted():
                self._made(event)
                self.started[event.path] = event
                self.cleared.discard(event.path)
                self.approved.pop(event.path, None)
            case ToolReturned():
                self._succeeded(event.name)
                if event.blob:
                    self.handles.add(event.blob)
                    self.whole[event.call_id] = event.blob, event.size_chars
                    if event.origin:
                        self.foreign[event.blob] = event.origin
                self._outcome(event, error=False)
            case ToolFailed():
                self._failed(event)
                self._outcome(event, error=True)
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
                self.saved.setdefault(event.path, []).append(event.sha256)
            case (
                TaskDispatched()
                | TaskSettled()
                | ReviewRequested()
                | ProgressReported()
                | MessageSent()
                | MessageHandled()
                | ModelRetried()
            ):
                pass
            case _:
                assert_never(event)

    def _began_with(self, origin: str) -> None:
        if origin:
            self.origins[""] = "; ".join(filter(None, (self.origins.get(""), origin)))

    def _wait(self, event: TaskWaiting) -> None:
        # A call waits for one thing at a time; calls that are not named here go on waiting.
        paths = {pending.path for pending in event.pending if pending.path}
        self._end_waits(lambda pending: pending.path in paths)
        self.waiting |= {pending.wait_id: pending for pending in event.pending if pending.wait_id}

    def _decided(self, event: ReviewDecided) -> None:
        if event.decision == "cancel":  # the end of the task is the end of all its waits
            return
        self._end_waits(lambda pending: pending.review_id == event.review_id)
        if event.decision == "approve":
            self.approved[event.path] = event.review_id

    def _end_waits(self, is_over: Callable[[Pending], bool]) -> None:
        if self.waiting:
            self.waiting = {
                wait_id: pending
                for wait_id, pending in self.waiting.items()
                if not is_over(pending)
            }

    def _made(self, event: ToolStarted) -> None:
        if event.path not in self.started:
            self.made[event.name] = self.made.get(event.name, 0) + 1

    def _succeeded(self, name: str) -> None:
        name = self.renames.get(name, name)
        self.succeeded.add(name)
        self.faulty.discard(name)
        self.failures.pop(name, None)

    def _failed(self, event: ToolFailed) -> None:
        name = self.renames.get(event.name, event.name)
        if event.status == "refused":
            if event.error.code != BAD_ARGUMENTS:
                return  # it was not tried
            if name not in self.faulty:
                self.faulty.add(name)
                return
        elif event.error.code == "cancelled":
            return
        else:
            self.faulty.discard(name)
        self.failures[name] = self.failures.get(name, 0) + 1
        self.last_failure[name] = event.error.message

    def _request(self, event: ModelRequested) -> None:
        self.intent = event
        if event.purpose == "compaction":
            self.compactions += 1
            return
        self.hidden = event.hidden
        if event.notice:
            self.messages.append(UserMessage(text=event.notice, reminder=True))
        if event.repair:
            self.repairs += 1
            self.model_calls += 1
        else:
            self.turn += 1
            self.model_calls = 1

    def _compacted(self, event: ContextCompacted) -> None:
        before = self.compacted.upto if self.compacted else 0
        if event.path and event.upto == before:
            self.may_compact = False
        if self.too_long is not None and event.after_tokens < event.before_tokens:
            self.too_long, self.may_recover = None, False
            self.refused = min(event.before_tokens, self.refused or event.before_tokens)
        self.intent, self.compacted = None, event
        self.measured = event.after_tokens, len(self.messages)
        self.handles.update(event.handles)
        if event.origin:
            self.foreign |= dict.fromkeys(event.handles, event.origin)

    def _replied(self, event: ModelReplied) -> None:
        self.intent, self.broken_text = None, ""
        self.reply, self.may_recover = event, True
        if event.usage.prompt_tokens and not (event.usage.estimated or event.cached):
            self.measured = event.usage.prompt_tokens, len(self.messages)
        self.calls = {
            f"{self.turn_path}/tool{number}": call for number, call in enumerate(event.calls, 1)
        }
        self.call_ids.update(call.id for call in event.calls)
        self.outcomes = {}
        if event.calls:
            self.repairs = 0
        if event.text or event.calls:
            if event.problem:
                self.unread.add(len(self.messages))
            self.messages.append(
                AssistantMessage(
                    text=event.text,
                    calls=event.calls,
                    reasoning=event.reasoning,
                    opaque=event.opaque,
                )
            )

    def _outcome(self, event: ToolReturned | ToolFailed | ToolReconciled, *, error: bool) -> None:
        path, origin = event.path, event.origin
        saved = self.saved.pop(path, ())
        if origin:
            self.origins[path] = origin
            self.foreign |= dict.fromkeys(saved, origin)
        begun = self.started.pop(path, None)
        if begun is not None and begun.key and not error:
            self.deeds[begun.name, begun.key] = path
        self.in_doubt.discard(path)
        self.approved.pop(path, None)
        self.splits.pop(path, None)
        self._end_waits(lambda pending: pending.path == path)
        self.outcomes[path] = ToolMessage(
            call_id=event.call_id,
            name=event.name,
            text=outside_line(origin) + event.content if origin else event.content,
            is_error=error,
            origin=origin,
        )
        if len(self.outcomes) == len(self.calls):
            self.messages.extend(self.outcomes[path] for path in self.calls)
            self.calls = {}
            self.outcomes = {}
            self.reply = None

    def _reconciled(self, event: ToolReconciled) -> None:
        self.in_doubt.discard(event.path)
        self._end_waits(lambda pending: pending.path == event.path)
        if event.decision == "again":
            self.cleared.add(event.path)
        else:
            self._succeeded(event.name)
            self._outcome(event, error=False)

    def calls_made(self, tool: str) -> int:
        """How many calls of a tool were begun, under its former names as well."""
        return sum(self.made.get(name, 0) for name in (tool, *self.former_names(tool)))

    def former_names(self, tool: str) -> list[str]:
        """What a tool was called in earlier versions of the agent."""
        return [old for old, new in self.renames.items() if new == tool]

    def latest_text(self) -> str:
        """The last thing the model said in words, or ""."""
        for place in reversed(range(len(self.messages))):
            message = self.messages[place]
            if not isinstance(message, AssistantMessage) or not message.text.strip():
                continue
            if place in self.unread:
                continue
            if not is_call_text(message.text, [call.name for call in message.calls]):
                return message.text
        return ""

    def so_far(self) -> str:
        """What is known when a run ends early: the last words, else the last results."""
        if text := self.broken_text or self.latest_text():
            return text
        results = [
            f"{message.name}: {message.text[:500]}"
            for message in self.messages
            if isinstance(message, ToolMessage) and not message.is_error
        ]
        return "\n".join(results[-5:])
