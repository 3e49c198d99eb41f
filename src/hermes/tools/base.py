"""What a tool is, what it gets, and what a call comes to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, Literal, Protocol

from typing_extensions import ParamSpec, TypeVar

from hermes.core.chat import ChatMessage, ToolSpec
from hermes.core.effects import Effect
from hermes.core.events import CallStatus, Fault
from hermes.core.request import AgentRequest
from hermes.core.todo import Todo

from .schema import without_aliases
from .waiting import Waiting

DEFAULT_TIMEOUT_S = 30.0


class NotDoneType(Enum):
    """The one value that says that a call surely did not take place."""

    NOT_DONE = "not done"


NOT_DONE: Final = NotDoneType.NOT_DONE


class Workbench(Protocol):
    """What the loop lends to a running call: the ways out of a tool."""

    def progress(self, text: str) -> None:
        """Tell people what is going on; kept at most once a second."""
        ...

    def artifact(self, name: str, data: bytes | str) -> str:
        """Keep a named piece of data with the task; returns its handle."""
        ...

    async def read(self, handle: str) -> bytes:
        """The bytes behind a handle of this task's own results and artifacts."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled or this call's time is over."""
        ...


class TodoList(Protocol):
    """The list of things to be done that all tasks of a database share."""

    async def todos(self, *, is_open: bool = True, limit: int = 100) -> list[Todo]:
        """The first todos that are open, oldest first; else the last of all, newest first."""
        ...

    async def put_todo(self, todo: Todo) -> Todo:
        """Keep a todo, or mark the one of this id as done; gives it as it is now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSnapshot:
    """Where the task stands as a call begins.

    Attributes:
        step: The present turn, from 1.
        limits: The task's bounds as a plain mapping.
    """

    task_id: str
    agent: str
    goal: str
    step: int
    session_id: str | None = None
    limits: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """One shared context for every tool of a task.

    Attributes:
        request: What was asked, as it came in.
        history: The conversation so far; read-only.
        task: Where the task stands.
        variables: The task's variable pool; what a call writes is kept with its outcome.
        idempotency_key: The same at each repeat of this call, also after a crash.
        trace_id: W3C trace id of the task.
        bench: Progress, artifacts, handles and cancellation.
        todos: What is to be done; None where there is no journal.
    """

    request: AgentRequest
    history: Sequence[ChatMessage]
    task: TaskSnapshot
    variables: MutableMapping[str, object]
    idempotency_key: str
    trace_id: str
    bench: Workbench
    todos: TodoList | None = None

    def progress(self, text: str) -> None:
        """Tell people what is going on; safe to call from a thread."""
        self.bench.progress(text)

    def artifact(self, name: str, data: bytes | str) -> str:
        """Keep a named piece of data with the task; returns a handle that `read_more` opens."""
        return self.bench.artifact(name, data)

    @property
    def cancelled(self) -> bool:
        """True once the run was cancelled or the call's time is over; long loops look at it."""
        return self.bench.cancelled


P = ParamSpec("P", default=...)
R_co = TypeVar("R_co", covariant=True, default=object)

Invoke = Callable[[Mapping[str, object], ToolContext], Awaitable[object]]
Reconcile = Callable[[str, dict[str, object]], object]
"""Idempotency key and plain arguments to the call's result if it took place, `NOT_DONE` if it
surely did not; async or plain. What it raises leaves the call in doubt."""
Preview = Callable[..., object]
"""A tool's own arguments, by name, to what the call would do; async or plain; changes nothing."""
Approval = bool | Callable[[Mapping[str, object]], bool]
"""Always, never, or by the plain arguments."""
Health = Callable[[], object]
"""Whether a tool can work: true or None if so; false, a text that says what is wrong, or an
exception if not. Async or plain."""
BusinessKey = Callable[[Mapping[str, object]], str]
"""Plain arguments to what makes two calls the same deed."""
KeyScope = Literal["root", "global"]
RunIn = Literal["thread", "process"]
Bind = Callable[[Mapping[str, object]], dict[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[P, R_co]):
    """A function that models may call; called directly, it is the function it was made from.

    Attributes:
        parameters: JSON Schema (an object schema) of the arguments.
        function: The function as it was written.
        bind: Turns plain JSON arguments into what the function's annotations promise; raises
            `ArgumentFault`. Each call makes fresh objects.
        invoke: Runs the function with bound arguments; plain functions run in a thread.
        fingerprint: Digest of name, schema and effect: what a resumed run compares.
        reconcile: Finds out whether a call whose outcome is unknown took place; with the effect
            `reconcile` alone.
        key: Two calls with the same business key are one deed, in whatever words.
        key_scope: Within the tree of tasks, or for all tasks.
        requires_approval: Whether a person decides before a call.
        preview: Says what a call would do, for the person who decides; None if nothing can.
        dry_run: The function has a parameter `dry_run`, which models do not see: with it, it
            changes nothing and gives what it would do.
        untrusted: What it gives comes from outside: web, mail, files of others.
        outbound: It may carry data out even though it only reads, as a request to the web does.
        retries: How often a call is made again after an error that says `retryable`.
        concurrency: How many calls of one process run at a time; None for no limit.
        max_calls: How often one task may call it; None for no limit.
        cache_s: For so long the same call gets the same result in this process; None for never.
        health: Whether it can work at present; None if only its calls can tell.
        run_in: Where a plain function runs.
        origin: File and line where the tool was made, `tools.py:12`; "" if unknown.
    """

    name: str
    description: str
    parameters: Mapping[str, object]
    function: Callable[P, R_co]
    bind: Bind
    invoke: Invoke
    effect: Effect = "unsafe"
    group: str = ""
    timeout_s: float | None = DEFAULT_TIMEOUT_S
    fingerprint: str = ""
    origin: str = ""
    reconcile: Reconcile | None = None
    key: BusinessKey | None = None
    key_scope: KeyScope = "root"
    requires_approval: Approval = False
    preview: Preview | None = None
    dry_run: bool = False
    untrusted: bool = False
    outbound: bool = False
    retries: int = 0
    concurrency: int | None = None
    max_calls: int | None = None
    cache_s: float | None = None
    health: Health | None = None
    run_in: RunIn = "thread"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.function(*args, **kwargs)

    @property
    def spec(self) -> ToolSpec:
        """What a model is told."""
        parameters = without_aliases(self.parameters)
        return ToolSpec(name=self.name, description=self.description, parameters=parameters)


class ArgumentFault(Exception):
    """Arguments that cannot be given to a tool; the text is written for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The one form of a result.

    Attributes:
        data: Plain JSON; None unless `ok`.
        error: What went wrong; None if `ok`.
        content: What the model reads, to the letter.
        size: Characters of the full text; more than `content` has if it was capped.
        full: UTF-8 of the full text if `content` is only its head and tail.
        waiting: What the call waits for, in place of a result; the status is then `ok`.
        may_still_act: Its time is over, but it was left to itself in a thread.
        is_late: Its time was over before it had come to anything.
        is_outside: What failed lies outside of the call: no answer in time, no connection, a
            service that is down. Arguments and business errors never do.
        tries: How often it was made, the last one included.
        cached: It is the result of an earlier call; nothing was run.
    """

    status: CallStatus
    content: str
    data: object = None
    error: Fault | None = None
    size: int = 0
    full: bytes | None = None
    duration_s: float = 0.0
    waiting: Waiting | None = None
    may_still_act: bool = False
    is_late: bool = False
    is_outside: bool = False
    tries: int = 1
    cached: bool = False
