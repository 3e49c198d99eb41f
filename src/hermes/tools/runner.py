"""One tool call: from a model's wish to a result, whatever happens in between."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import anyio

from hermes.core.chat import ToolCall
from hermes.core.clock import Clock
from hermes.core.effects import Effect
from hermes.core.events import CallStatus, Fault
from hermes.core.json import digest
from hermes.core.problems import did_you_mean
from hermes.errors import DriftError, StoreError

from .arguments import BAD_ARGUMENTS, ArgumentError, cut_off, read_arguments
from .arguments.exact import Repair
from .base import ArgumentFault, Tool, ToolContext, ToolResult
from .failures import described, failed_result, lies_outside, members, outcome_of, timed_out
from .registry import ToolRegistry
from .results import DEFAULT_LIMIT_CHARS, ResultFault, cap, normalise, render
from .waiting import Waiting, checked

T = TypeVar("T")

_LOG = logging.getLogger("hermes.tool")
_MAX_NAMES = 50
_CORRECT = "nothing was run; correct the arguments and call again"
# What the framework itself raises through a tool is not the tool's.
_NOT_THE_TOOLS = (StoreError, DriftError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A call that may run.

    Attributes:
        arguments: Plain JSON that fits the tool's schema.
        bound: The same as the function's annotations promise: fresh objects, for one run.
        repairs: How the arguments differ from what the model wrote.
        fingerprint: Digest of tool name and arguments.
    """

    tool: Tool
    arguments: dict[str, object]
    bound: dict[str, object] = field(repr=False, compare=False)
    repairs: tuple[Repair, ...] = ()
    fingerprint: str


def prepare(
    registry: ToolRegistry, call: ToolCall, *, finish_reason: str | None = None
) -> Prepared | ToolResult:
    """Find the tool and read the arguments; nothing runs.

    Args:
        registry: The tools that the model was offered.
        call: As the model wrote it.
        finish_reason: Of the reply it stood in; after `length` every call is refused.

    Returns:
        The call ready to run, or a result with status `refused` and one of the codes
        `unknown_tool`, `bad_arguments`, `output_limit`.
    """
    if finish_reason == "length":
        return _refused(cut_off(), hint="nothing was run")
    tool = registry.get(call.name)
    if tool is None:
        return _unknown(registry, call.name)
    read = read_arguments(tool.parameters, call.arguments, effect=tool.effect)
    if isinstance(read, ArgumentError):
        return _refused(read, hint=_CORRECT)
    bound = _bound(tool, read.values)
    if isinstance(bound, ToolResult):
        return bound
    return Prepared(
        tool=tool,
        arguments=read.values,
        bound=bound,
        repairs=read.repairs,
        fingerprint=digest([tool.name, read.values]),
    )


async def run(
    prepared: Prepared,
    context: ToolContext,
    *,
    clock: Clock,
    limit_chars: int = DEFAULT_LIMIT_CHARS,
) -> ToolResult:
    """Run a call to its end; only cancellation and faults of the framework itself are raised.

    An async tool is stopped when its time is over or the run is cancelled. A plain one cannot be:
    its thread is left to itself, and whatever it still returns is ignored.

    Args:
        prepared: From `prepare`.
        context: For the tool's `ToolContext` parameter.
        clock: Measures the duration; the timeout itself is kept by the event loop.
        limit_chars: Longest content for the model; a longer one is cut to head and tail.

    Raises:
        StoreError: The journal failed while the tool used it.
    """
    started = clock.monotonic()
    tool = prepared.tool

    async def work() -> ToolResult:
        value = await tool.invoke(prepared.bound, context)
        return result_of(value, limit_chars=limit_chars, duration_s=clock.monotonic() - started)

    outcome = await contained(work, timeout_s=tool.timeout_s, effect=tool.effect)
    if isinstance(outcome, ToolResult):
        return outcome
    duration_s = clock.monotonic() - started
    _LOG.debug("%s failed: %s", tool.name, outcome.fault.message, exc_info=outcome.cause)
    return replace(
        failed_result(outcome.status, outcome.fault, duration_s=duration_s),
        may_still_act=outcome.is_late and _runs_in_thread(tool),
        is_late=outcome.is_late,
        is_outside=outcome.is_outside,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How foreign code failed; the last three as in `ToolResult`.

    Attributes:
        cause: What it raised; None if its time was over.
    """

    status: CallStatus
    fault: Fault
    cause: BaseException | None = None
    is_late: bool = False
    is_outside: bool = False


async def contained(
    work: Callable[[], Awaitable[T]], *, timeout_s: float | None, effect: Effect
) -> T | Failure:
    """Run foreign code to its end; only cancellation and faults of the framework are raised.

    Args:
        work: What a tool's author wrote.
        timeout_s: How long it may take; None for no limit.
        effect: What a repeat of it would do: decides what an unknown outcome means.
    """
    scope = anyio.move_on_after(timeout_s)
    cause: BaseException | None = None
    try:
        with scope:
            return await work()
    except _NOT_THE_TOOLS:
        raise
    except (
        Exception,
        SystemExit,
        KeyboardInterrupt,
        BaseExceptionGroup,
        asyncio.CancelledError,
    ) as exc:
        if _comes_from_outside(exc):
            raise
        cause = exc
    if cause is None or scope.cancel_called:  # or it turned its own end into another exception
        status, fault = timed_out(timeout_s, effect)
        return Failure(status=status, fault=fault, cause=cause, is_late=True, is_outside=True)
    status, fault = outcome_of(cause, effect)
    return Failure(status=status, fault=fault, cause=cause, is_outside=lies_outside(cause))


def _runs_in_thread(tool: Tool) -> bool:
    return tool.run_in == "thread" and not inspect.iscoroutinefunction(tool.function)


def _bound(tool: Tool, arguments: dict[str, object]) -> dict[str, object] | ToolResult:
    try:
        return tool.bind(arguments)
    except Exception as exc:  # a parameter type may run its author's own code
        text = str(exc) if isinstance(exc, ArgumentFault) else described(exc)
        return _refused(ArgumentError(code=BAD_ARGUMENTS, message=text), hint=_CORRECT)


def result_of(
    value: object, *, limit_chars: int = DEFAULT_LIMIT_CHARS, duration_s: float = 0.0
) -> ToolResult:
    """The one form of what a tool returned; a value that cannot be stored becomes an error."""
    try:
        if isinstance(value, Waiting):
            return ToolResult(
                status="ok", content="", waiting=checked(value), duration_s=duration_s
            )
        data = normalise(value)
        text = render(data)
        content, full = cap(text, limit_chars)
    except Exception as exc:  # a value's own properties and iterators are foreign code
        reason = str(exc) if isinstance(exc, ResultFault) else described(exc)
        fault = Fault(
            code="bad_result",
            message=f"the tool did run, but its result cannot be stored: {reason}",
            hint="do not call it again just for the result",
        )
        _LOG.debug("%s", fault.message, exc_info=exc)
        return failed_result("error", fault, duration_s=duration_s)
    return ToolResult(
        status="ok", content=content, data=data, size=len(text), full=full, duration_s=duration_s
    )


def _comes_from_outside(exc: BaseException) -> bool:
    """Whether the run is being ended, not just this tool.

    A tool that awaits a task which somebody cancelled raises `CancelledError` too; the run goes
    on then, and the call has an outcome like any other.
    """
    if inner := members(exc):
        return any(map(_comes_from_outside, inner))
    task = asyncio.current_task()
    is_cancelling = task is not None and task.cancelling() > 0
    if isinstance(exc, KeyboardInterrupt):
        return is_cancelling  # Ctrl-C cancels first; one that comes alone is the tool's own
    if not isinstance(exc, asyncio.CancelledError):
        return not isinstance(exc, Exception | SystemExit)
    return is_cancelling or anyio.current_effective_deadline() == -math.inf


def _unknown(registry: ToolRegistry, name: str) -> ToolResult:
    names = registry.names
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    fault = Fault(
        code="unknown_tool",
        message=f"there is no tool {name!r:.80}; nothing was run. Available: "
        f"{', '.join(names[:_MAX_NAMES]) or 'none'}{more}",
        hint=did_you_mean(name, names) or "call one of the available tools, or answer without",
    )
    return failed_result("refused", fault)


def _refused(error: ArgumentError, *, hint: str) -> ToolResult:
    return failed_result("refused", Fault(code=error.code, message=error.message, hint=hint))
