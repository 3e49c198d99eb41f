"""What can happen to a task: the journal's vocabulary.

Each event is a small frozen value; `Recorded` is the envelope that the journal puts around it.
Where one has an `origin`, that is where content from outside came from, in one line: web, mail,
files of others; "" where there is none.
`SCHEMA_VERSION` counts the forms these values have had; older forms are read through `codec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal

from hermes.core.budget import Limits
from hermes.core.chat import ToolCall, Usage
from hermes.core.effects import Effect

SCHEMA_VERSION = 4
"""Grows with every change of form. A default is part of the form: it is left out when stored."""

Outcome = Literal["succeeded", "failed", "partial", "cancelled"]
CallStatus = Literal["ok", "error", "timeout", "in_doubt", "refused"]
WaitKind = Literal["person", "children", "time", "event"]
ReviewReason = Literal["in_doubt", "approval", "question", "partial", "dead_letter"]
ReviewDecision = Literal["approve", "reject", "answer", "done", "retry", "accept", "cancel"]
"""What a person may say. `approve`/`reject`: of a call that needs approval. `answer`: of a
question. `done`: a call in doubt took place. `retry`: a call in doubt is made again, or a dead
message comes back. `accept`/`reject`: of a partial outcome. `cancel`: whatever it waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An error as a value.

    Attributes:
        code: A short word for programs: `budget`, `auth`, `timeout`, `bad_arguments` …
        message: One line for people: what was seen and where.
        retryable: Whether the same thing may work later.
        hint: What to do next.
    """

    code: str
    message: str
    retryable: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """What a waiting task waits for: a person (by a review), children, a time, or an event.

    Attributes:
        kind: A reason of a review, or `children`, `time`, `event`.
        path: The call that waits; "" if it is the task as a whole.
        name: Of the tool, the event, or the message.
        text: One line for people.
        wait_id: The wait that ends it.
        review_id: The review that a person decides; "" if no person is asked.
        due_at: When the wait ends by itself.
    """

    kind: Literal[ReviewReason, "children", "time", "event"]
    path: str
    name: str
    text: str
    wait_id: str = ""
    review_id: str = ""
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCreated:
    """A task is there.

    Attributes:
        origin: Of what the parent had read when it handed the task on.
    """

    type: ClassVar[Literal["task.created"]] = "task.created"
    agent: str
    goal: str
    input: object = None
    session_id: str | None = None
    parent_id: str | None = None
    parent_path: str = ""
    root_id: str | None = None
    retry_of: str | None = None
    fork_of: str | None = None
    criteria: tuple[str, ...] = ()
    limits: Limits = Limits()
    priority: int = 0
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    tenant: str = ""
    code_version: str = ""
    variables: Mapping[str, object] = field(default_factory=dict[str, object])
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    launch: Mapping[str, object] = field(default_factory=dict[str, object])
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDispatched:
    type: ClassVar[Literal["task.dispatched"]] = "task.dispatched"
    receiver: str
    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted:
    """Work begins.

    Attributes:
        code_version: Digest of the agent's definition.
        earlier: The session's tasks whose goal and answer the model is shown.
        others: What it is told of other tasks of the session; "" for nothing.
        code: What the run depends on, name to digest, as `prompt`, `model`, `tool:NAME`: what a
            resume under changed code is compared with. `version` is the agent's own, if it has one.
        origin: Of what the earlier tasks had read.
    """

    type: ClassVar[Literal["task.started"]] = "task.started"
    worker: str
    code_version: str = ""
    earlier: tuple[str, ...] = ()
    others: str = ""
    code: Mapping[str, str] = field(default_factory=dict[str, str])
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWaiting:
    type: ClassVar[Literal["task.waiting"]] = "task.waiting"
    pending: tuple[Pending, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResumed:
    """Work goes on after a crash, an interruption or a wait.

    Attributes:
        code: As in `TaskStarted`, from here on; empty if nothing has changed.
        accepted: The differences to before that were accepted, one line each.
        by: Who accepted them: a person, or a declared migration.
    """

    type: ClassVar[Literal["task.resumed"]] = "task.resumed"
    worker: str
    reason: str
    code_version: str = ""
    code: Mapping[str, str] = field(default_factory=dict[str, str])
    accepted: tuple[str, ...] = ()
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSplit:
    """A call handed work to child tasks and waits for them.

    Attributes:
        path: The call.
        round: From 1; a later round makes the unmet parts again.
        children: Task ids of this round, in the order of their results.
        unmet: Places, from 0, in the first round's list that this round makes again.
        accept_ratio: Share of succeeded children from which a person may accept the rest as unmet.
        max_rounds: How often unmet parts are made again before a person is asked.
    """

    type: ClassVar[Literal["task.split"]] = "task.split"
    path: str
    round: int
    children: tuple[str, ...]
    unmet: tuple[int, ...] = ()
    accept_ratio: float = 0.5
    max_rounds: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRequested:
    """A person is asked; the open question itself stands in the store's reviews.

    Attributes:
        origin: Of the content from outside that the call was stopped for.
    """

    type: ClassVar[Literal["review.requested"]] = "review.requested"
    review_id: str
    reason: ReviewReason
    path: str
    name: str
    text: str
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewDecided:
    """The run took a person's decision in."""

    type: ClassVar[Literal["review.decided"]] = "review.decided"
    review_id: str
    path: str
    decision: ReviewDecision
    by: str
    answer: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettled:
    """The one end of a task.

    Attributes:
        origin: Of what it had read by then.
    """

    type: ClassVar[Literal["task.settled"]] = "task.settled"
    outcome: Outcome
    output: object = None
    error: Fault | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequested:
    """The intent of a model call: the recipe of the request, never its text.

    Attributes:
        history: How many conversation messages the request carries.
        prompt: Digest of the system prompt.
        tools: Digest of the tool schemas, those of the hidden ones included.
        repair: Text of a passing reminder that is sent but kept out of the conversation.
        hidden: Names of the tools that were not offered, since they do not work at present.
        notice: What the model is told of that where it has changed; stays in the conversation.
        may_finish: Whether a final answer was allowed; not before the required tools succeeded.
        purpose: A `turn` of the conversation, or a `compaction` of it, which is no step.
        system: SHA-256 of the system message, which is kept as a blob.
        room: Tokens that the messages to be summarised may have in it, estimated.
    """

    type: ClassVar[Literal["model.requested"]] = "model.requested"
    path: str
    model: str
    history: int
    prompt: str
    tools: str
    repair: str = ""
    hidden: tuple[str, ...] = ()
    notice: str = ""
    may_finish: bool = True
    purpose: Literal["turn", "compaction"] = "turn"
    system: str = ""
    room: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRetried:
    """An attempt at a model call came to nothing, and another one follows.

    Attributes:
        model: That failed.
        attempt: Its number, from 1.
        delay_s: What is waited before the next one.
        next_model: That is asked next, where it is another one.
        usage: What the provider may charge for a reply that broke off, estimated.
    """

    type: ClassVar[Literal["model.retried"]] = "model.retried"
    path: str
    model: str
    error: Fault
    attempt: int
    delay_s: float = 0.0
    next_model: str = ""
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplied:
    """A model's reply.

    Attributes:
        model: That answered, as its provider names it.
        problem: Why the text is no reply in the model's dialect; the model is told.
        cached: It came from Hermes' own cache; nothing was asked.
        opaque: As in `AssistantMessage`.
    """

    type: ClassVar[Literal["model.replied"]] = "model.replied"
    path: str
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    usage: Usage = Usage()
    model: str = ""
    duration_s: float = 0.0
    problem: str = ""
    cached: bool = False
    opaque: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompacted:
    """The older part of the conversation is sent as a summary from here on.

    Attributes:
        path: Of the model call that wrote the summary; "" if none was made.
        upto: Messages of the conversation, from its first, that the summary stands for.
        shortened: Messages, from the first, whose long tool results are sent shortened.
        summary: What stands for the older part.
        before_tokens: Estimated size of the request before, `after_tokens` after.
        usage: Of the call that wrote the summary.
        progress: What the record says of the work at this moment, for the model: what is done,
            what is open.
        variables: The same of the variables.
        origin: Where what the summary tells came from, if that was from outside.
        over_chars: A tool result above this is sent shortened.
        handles: Blobs with the whole of results that are sent shortened or no more.
    """

    type: ClassVar[Literal["context.compacted"]] = "context.compacted"
    path: str
    upto: int
    shortened: int
    summary: str
    before_tokens: int
    after_tokens: int
    usage: Usage = Usage()
    model: str = ""
    duration_s: float = 0.0
    progress: str = ""
    variables: str = ""
    origin: str = ""
    over_chars: int = 500
    handles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed:
    """A model call came to nothing.

    Attributes:
        usage: As in `ModelRetried`, of the last attempt.
    """

    type: ClassVar[Literal["model.failed"]] = "model.failed"
    path: str
    error: Fault
    partial_text: str = ""
    duration_s: float = 0.0
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """The intent of a tool call: committed before the tool may act.

    Attributes:
        fingerprint: Digest of tool name and canonical arguments.
        arguments: The arguments as the tool gets them, if they differ from what the model wrote.
        repairs: What was changed on the way, one line each.
        key: The business key that this call claims, with its scope: "" for none.
    """

    type: ClassVar[Literal["tool.started"]] = "tool.started"
    path: str
    call_id: str
    name: str
    effect: Effect
    fingerprint: str
    timeout_s: float | None = None
    arguments: Mapping[str, object] | None = None
    repairs: tuple[str, ...] = ()
    key: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned:
    """A tool's result: `content` is to the letter what the model reads.

    Attributes:
        blob: SHA-256 of the full result when `content` is a head and tail of it.
        size_chars: Characters of the full result.
        tries: How often it was made, the last one included.
        origin: If there is one, the model reads a line of it before the content.
        cached: It is the result of an earlier call; nothing was run.
    """

    type: ClassVar[Literal["tool.returned"]] = "tool.returned"
    path: str
    call_id: str
    name: str
    content: str
    size_chars: int
    blob: str | None = None
    duration_s: float = 0.0
    tries: int = 1
    origin: str = ""
    cached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFailed:
    """A call that came to nothing: it raised, ran out of time, or was refused and never ran.

    Attributes:
        tries: As in `ToolReturned`.
        origin: As in `ToolReturned`: an error may quote what came from outside.
    """

    type: ClassVar[Literal["tool.failed"]] = "tool.failed"
    path: str
    call_id: str
    name: str
    status: Literal["error", "timeout", "refused"]
    error: Fault
    content: str
    duration_s: float = 0.0
    tries: int = 1
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInDoubt:
    """A started call whose outcome nobody knows and which may not simply be made again."""

    type: ClassVar[Literal["tool.in_doubt"]] = "tool.in_doubt"
    path: str
    call_id: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReconciled:
    """A doubt was ended: the call took place (`done`) or did not and is made now (`again`).

    Attributes:
        origin: As in `ToolReturned`.
    """

    type: ClassVar[Literal["tool.reconciled"]] = "tool.reconciled"
    path: str
    call_id: str
    name: str
    decision: Literal["done", "again"]
    by: str
    content: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableSet:
    type: ClassVar[Literal["variable.set"]] = "variable.set"
    name: str
    value: object
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReported:
    type: ClassVar[Literal["progress.reported"]] = "progress.reported"
    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactSaved:
    """A tool kept a named piece of data; the bytes are the blob `sha256`."""

    type: ClassVar[Literal["artifact.saved"]] = "artifact.saved"
    path: str
    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetExceeded:
    """A bound ends the run.

    Attributes:
        spent: In the whole tree of tasks, where the bound holds for that.
        estimate: What the next call would have taken; 0 where nobody can say.
    """

    type: ClassVar[Literal["budget.exceeded"]] = "budget.exceeded"
    limit: str
    allowed: float
    spent: float
    estimate: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSent:
    type: ClassVar[Literal["message.sent"]] = "message.sent"
    message: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHandled:
    type: ClassVar[Literal["message.handled"]] = "message.handled"
    message_id: str


TaskEvent = (
    TaskCreated
    | TaskDispatched
    | TaskStarted
    | TaskWaiting
    | TaskResumed
    | TaskSettled
    | TaskSplit
    | ModelRequested
    | ModelRetried
    | ModelReplied
    | ModelFailed
    | ContextCompacted
    | ToolStarted
    | ToolReturned
    | ToolFailed
    | ToolInDoubt
    | ToolReconciled
    | VariableSet
    | ProgressReported
    | ArtifactSaved
    | BudgetExceeded
    | ReviewRequested
    | ReviewDecided
    | MessageSent
    | MessageHandled
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One event in the journal.

    Attributes:
        event_id: 32 hex digits, made by the writer; a repeat of the same write finds it.
        position: Place in the whole journal; 0 until the store has given one.
        seq: Place in the task's stream, from 1, without gaps.
        token: Lease token of the writer.
        at: When it happened, in UTC, to the microsecond.
    """

    event_id: str
    task_id: str
    seq: int
    event: TaskEvent
    at: datetime
    trace_id: str
    token: int = 0
    position: int = 0
