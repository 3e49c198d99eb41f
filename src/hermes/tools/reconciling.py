"""Asking a tool whether a call whose outcome nobody knows took place."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Mapping
from dataclasses import replace

from hermes.core.clock import Clock
from hermes.core.events import Fault

from .base import NOT_DONE, NotDoneType, Reconcile, ToolContext, ToolResult
from .failures import LOOK_FIRST, failed_result
from .results import DEFAULT_LIMIT_CHARS
from .runner import Prepared, run
from .threads import call_in_thread


async def reconcile(
    prepared: Prepared,
    context: ToolContext,
    *,
    clock: Clock,
    limit_chars: int = DEFAULT_LIMIT_CHARS,
) -> ToolResult | NotDoneType:
    """What a call came to, by the tool's own `reconcile`.

    Args:
        prepared: The call; its tool has a `reconcile`.
        context: Of the call: its idempotency key is what the tool is asked about.
        clock: Measures the duration.
        limit_chars: Longest content for the model.

    Returns:
        Its result if it took place, `NOT_DONE` if it surely did not, and a result with status
        `in_doubt` if the tool cannot tell: it raised, or took longer than its own timeout.
    """
    ask = prepared.tool.reconcile
    assert ask is not None
    answers: list[object] = []

    async def invoke(bound: Mapping[str, object], given: ToolContext) -> object:
        answers.append(await _answer(ask, given.idempotency_key, bound))
        return answers[-1]

    asked = replace(
        prepared,
        tool=replace(prepared.tool, invoke=invoke, effect="read"),
        bound=copy.deepcopy(prepared.arguments),
    )
    result = await run(asked, context, clock=clock, limit_chars=limit_chars)
    if any(answer is NOT_DONE for answer in answers):
        return NOT_DONE
    if result.status == "ok" and result.waiting is None:
        return result
    why = result.error.message if result.error else "reconcile returned something to wait for"
    fault = Fault(code="in_doubt", message=f"reconcile cannot tell: {why}", hint=LOOK_FIRST)
    return failed_result("in_doubt", fault, duration_s=result.duration_s)


async def _answer(ask: Reconcile, key: str, arguments: Mapping[str, object]) -> object:
    call = functools.partial(ask, key, dict(arguments))
    answer = call() if inspect.iscoroutinefunction(ask) else await call_in_thread(call)
    return await answer if inspect.isawaitable(answer) else answer
