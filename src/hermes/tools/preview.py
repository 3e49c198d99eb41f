"""What a call would do, told before it is made."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hermes.core.clock import Clock
from hermes.core.json import as_object

from .base import DEFAULT_TIMEOUT_S, Preview, Tool, ToolContext
from .results import boundary
from .runner import Prepared, run
from .threads import call_in_thread

MAX_PREVIEW_CHARS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Previewed:
    """What a preview came to.

    Attributes:
        text: What the call would do, its middle left out if it is long.
        problem: Why that is not known; "" if it is.
    """

    text: str = ""
    problem: str = ""


def has_preview(tool: Tool) -> bool:
    """Whether a tool can say what a call would do."""
    return tool.preview is not None or tool.dry_run


async def preview(prepared: Prepared, context: ToolContext, *, clock: Clock) -> Previewed:
    """Ask a tool what a call would do; its own `preview` goes before its `dry_run`.

    It has the time of a call, or `DEFAULT_TIMEOUT_S` where a call has no limit.

    Args:
        prepared: The call; its tool has one of the two.
        context: Of the call. A dry run has another idempotency key: whoever keeps to keys must
            not take the call itself for done.
        clock: Measures the duration.
    """
    tool = prepared.tool
    ask, dry = tool.preview, tool.invoke

    async def invoke(bound: Mapping[str, object], given: ToolContext) -> object:
        if ask is not None:
            return await _answer(ask, _arguments(ask, tool, bound))
        return await dry({**bound, "dry_run": True}, given)

    timeout_s = DEFAULT_TIMEOUT_S if tool.timeout_s is None else tool.timeout_s
    asking = replace(tool, invoke=invoke, effect="read", retries=0, timeout_s=timeout_s)
    asked = replace(prepared, tool=asking)
    dry_context = replace(context, idempotency_key=f"{context.idempotency_key}#preview")
    # Cut here, since what is cut off by `run` would have to be kept somewhere.
    result = await run(asked, dry_context, clock=clock, limit_chars=_NO_LIMIT)
    if result.waiting is not None:
        return Previewed(problem="the preview returned something to wait for")
    if result.status != "ok":
        return Previewed(problem=result.error.message if result.error else result.content)
    return Previewed(text=_cut(result.content))


_NO_LIMIT = 2**31


def _cut(text: str) -> str:
    if len(text) <= MAX_PREVIEW_CHARS:
        return text
    head = boundary(text, MAX_PREVIEW_CHARS * 3 // 4)
    tail = boundary(text, len(text) - MAX_PREVIEW_CHARS // 4, forward=True)
    return f"{text[:head]}\n… {tail - head:,} characters left out …\n{text[tail:]}"


def _is_needed(item: inspect.Parameter) -> bool:
    return item.default is item.empty


def _arguments(
    ask: Callable[..., object], tool: Tool, bound: Mapping[str, object]
) -> dict[str, object]:
    """Those of the tool's arguments that its preview takes, defaults included."""
    own = inspect.signature(tool.function).parameters
    known = as_object(tool.parameters.get("properties")) or {}
    every = {
        name: bound[name] if name in bound else own[name].default
        for name in known
        if name in bound or (name in own and not _is_needed(own[name]))
    }
    taken = inspect.signature(ask).parameters
    if any(item.kind is item.VAR_KEYWORD for item in taken.values()):
        return every
    return {name: value for name, value in every.items() if name in taken}


async def _answer(ask: Preview, arguments: Mapping[str, object]) -> object:
    call = functools.partial(ask, **arguments)
    answer = call() if inspect.iscoroutinefunction(ask) else await call_in_thread(call)
    return await answer if inspect.isawaitable(answer) else answer
