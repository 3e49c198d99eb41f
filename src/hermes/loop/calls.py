"""The tool calls of one turn: refused, or begun in the journal, run, and recorded."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio

from hermes.core import json
from hermes.core.budget import Excess, excess_before_calls, excess_of_time
from hermes.core.clock import Clock
from hermes.core.effects import may_overlap, may_repeat
from hermes.core.events import (
    BudgetExceeded,
    Fault,
    Pending,
    TaskWaiting,
    ToolFailed,
    ToolInDoubt,
    ToolReturned,
    ToolStarted,
)
from hermes.errors import DriftError
from hermes.store import TaskReader
from hermes.telemetry import logs
from hermes.tools import (
    Prepared,
    TaskSnapshot,
    ToolContext,
    ToolResult,
    failed_result,
    prepare,
    run,
)

from .bench import Bench
from .journal import Journal
from .setup import RunSetup
from .state import OpenCall

_LOG = logging.getLogger("hermes.tool")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """A call that may run: its place in the turn and what it will be given."""

    open: OpenCall
    prepared: Prepared

    @property
    def path(self) -> str:
        return self.open.path


class Calls:
    """Runs what a model asked for.

    Calls of a turn run beside each other if all are `read` or `idempotent`, otherwise one after
    the other in the order given. Each call's intent is durable before it starts, and it shares
    the commit of whatever was recorded before it.
    """

    def __init__(self, setup: RunSetup, journal: Journal, reader: TaskReader, clock: Clock) -> None:
        self._setup, self._journal = setup, journal
        self._reader, self._clock = reader, clock

    async def run_open(self) -> None:
        """Bring every open call of the turn to an outcome.

        Stops early, leaving the task WAITING in the journal, when a call is in doubt. No call
        gets more time than the task has left.

        Calls beyond a bound are refused, and the bound is noted.

        Raises:
            DriftError: A call that was begun before would now be another one.
        """
        ready = self._admit(self._prepare(self._journal.state.open_calls))
        for wave in _waves(ready):
            late = excess_of_time(self._setup.limits, self._journal.spent)
            if late is not None and not self._was_begun(wave):
                self._refuse(wave, late)
            elif not await self._run_wave(wave):
                return

    def _was_begun(self, wave: Sequence[_Ready]) -> bool:
        """Whether a call of the wave broke off: it is put before a person, or made, late or not."""
        return any(item.path in self._journal.state.started for item in wave)

    def _refuse(self, calls: Sequence[_Ready], excess: Excess) -> None:
        self._journal.note(exceeded(excess))
        for item in calls:
            fault = Fault(code="budget", message=f"not run: {excess}")
            self._record(item.open, failed_result("refused", fault))

    def _prepare(self, calls: Sequence[OpenCall]) -> list[_Ready]:
        reply = self._journal.state.reply
        reason = reply.finish_reason if reply else None
        ready: list[_Ready] = []
        for item in calls:
            prepared = prepare(self._setup.registry, item.call, finish_reason=reason)
            if isinstance(prepared, Prepared):
                ready.append(_Ready(open=item, prepared=prepared))
            elif item.path in self._journal.state.started:
                then = self._journal.state.started[item.path]
                raise DriftError(
                    item.path, then=f"{then.name} {_then(then, item)}", now=prepared.content
                )
            else:
                self._record(item, prepared)
        return ready

    def _admit(self, ready: list[_Ready]) -> list[_Ready]:
        state = self._journal.state
        fresh = [item for item in ready if item.path not in state.started]
        limits, spent = self._setup.limits, self._journal.task.status.spent
        excess = excess_before_calls(limits, spent, calls=len(fresh))
        if excess is None:
            return ready
        allowed = max(0, int(excess.allowed) - spent.tool_calls)
        self._refuse(fresh[allowed:], excess)
        beyond = {item.path for item in fresh[allowed:]}
        return [item for item in ready if item.path not in beyond]

    async def _run_wave(self, wave: Sequence[_Ready]) -> bool:
        for item in wave:
            if not self._begin(item):
                await self._journal.finish()
                return False
        await self._journal.commit()
        if len(wave) == 1:
            await self._run_call(wave[0])
        else:
            await self._run_beside(wave)
        if self._journal.state.in_doubt:
            await self._journal.finish()
            return False
        return True

    async def _run_beside(self, wave: Sequence[_Ready]) -> None:
        running = len(wave)
        faults: list[Exception] = []

        async def one(item: _Ready) -> None:
            nonlocal running
            try:
                await self._run_call(item)
                running -= 1
                if running:
                    await self._journal.commit()
            except Exception as exc:  # the run's own fault: it leaves as itself, not in a group
                faults.append(exc)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for item in wave:
                group.start_soon(one, item)
        if faults:
            raise faults[0]

    def _begin(self, item: _Ready) -> bool:
        """Note the intent, or check it against the one from before; False if it is in doubt."""
        prepared, state = item.prepared, self._journal.state
        begun = state.started.get(item.path)
        if begun is None:
            self._journal.note(_intent(item))
            return True
        if begun.fingerprint != prepared.fingerprint:
            raise DriftError(
                item.path,
                then=f"{begun.name} {_then(begun, item.open)}",
                now=f"{prepared.tool.name} {json.dumps(prepared.arguments)}",
            )
        if item.path in state.cleared:
            # A new intent: the decision holds for one more try, not for every crash to come.
            self._journal.note(_intent(item))
            return True
        if may_repeat(begun.effect) and may_repeat(prepared.tool.effect):
            return True
        self._doubt(item.open, "the process ended while the call was running")
        return False

    async def _run_call(self, item: _Ready) -> None:
        prepared = item.prepared
        timeout_s = self._timeout_s(prepared.tool.timeout_s)
        if timeout_s != prepared.tool.timeout_s:
            prepared = replace(prepared, tool=replace(prepared.tool, timeout_s=timeout_s))
        bench = Bench(item.path, journal=self._journal, reader=self._reader, clock=self._clock)
        name, task = prepared.tool.name, self._journal.task
        logs.tool_started(_LOG, task, item.path, name, prepared.fingerprint)
        try:
            result = await run(
                prepared,
                self._context(item, bench),
                clock=self._clock,
                limit_chars=self._setup.result_limit_chars,
            )
        finally:
            bench.close()
        logs.tool_ended(_LOG, task, item.path, name, result.status, result.size, result.duration_s)
        self._record(item.open, result, bench)

    def _timeout_s(self, own_s: float | None) -> float | None:
        allowed = self._setup.limits.max_seconds
        if allowed is None:
            return own_s
        left_s = allowed - self._journal.spent.seconds
        if left_s <= 0:  # only a call that a person decided on is made now: it gets its own time
            return own_s
        return left_s if own_s is None else min(own_s, left_s)

    def _context(self, item: _Ready, bench: Bench) -> ToolContext:
        task, state = self._journal.task, self._journal.state
        return ToolContext(
            request=self._setup.request,
            history=tuple(state.messages),
            task=TaskSnapshot(
                task_id=task.task_id,
                agent=task.spec.agent,
                goal=task.spec.goal,
                step=state.turn,
                session_id=task.spec.session_id,
                limits=self._setup.limits_table,
            ),
            variables=bench.variables,
            idempotency_key=f"{task.task_id}{item.path}",
            trace_id=task.trace_id,
            bench=bench,
        )

    def _record(self, item: OpenCall, result: ToolResult, bench: Bench | None = None) -> None:
        call = item.call
        match result.status:
            case "ok":
                if bench is not None:
                    bench.keep()
                self._journal.note(
                    ToolReturned(
                        path=item.path,
                        call_id=call.id,
                        name=call.name,
                        content=result.content,
                        size_chars=result.size,
                        blob=self._journal.keep(result.full) if result.full else None,
                        duration_s=round(result.duration_s, 4),
                    )
                )
            case "in_doubt":
                reason = result.error.message if result.error else "its outcome is unknown"
                self._doubt(item, reason)
            case "error" | "timeout" | "refused":
                self._journal.note(
                    ToolFailed(
                        path=item.path,
                        call_id=call.id,
                        name=call.name,
                        status=result.status,
                        error=result.error or Fault(code="failed", message=result.content),
                        content=result.content,
                        duration_s=round(result.duration_s, 4),
                    )
                )

    def _doubt(self, item: OpenCall, reason: str) -> None:
        call = item.call
        self._journal.note(
            ToolInDoubt(path=item.path, call_id=call.id, name=call.name, reason=reason)
        )
        text = f"{call.name} was begun and its outcome is unknown: {reason}"
        pending = Pending(kind="in_doubt", path=item.path, name=call.name, text=text)
        self._journal.note(TaskWaiting(pending=(pending,)))


def exceeded(excess: Excess) -> BudgetExceeded:
    """The event of a bound that is reached."""
    return BudgetExceeded(limit=excess.limit, allowed=excess.allowed, spent=excess.spent)


def _then(begun: ToolStarted, item: OpenCall) -> str:
    """The arguments that a call was begun with."""
    return item.call.arguments if begun.arguments is None else json.dumps(begun.arguments)


def _intent(item: _Ready) -> ToolStarted:
    prepared = item.prepared
    return ToolStarted(
        path=item.path,
        call_id=item.open.call.id,
        name=prepared.tool.name,
        effect=prepared.tool.effect,
        fingerprint=prepared.fingerprint,
        timeout_s=prepared.tool.timeout_s,
        arguments=prepared.arguments if prepared.repairs else None,
        repairs=tuple(str(repair) for repair in prepared.repairs),
    )


def _waves(ready: Sequence[_Ready]) -> list[list[_Ready]]:
    if all(may_overlap(item.prepared.tool.effect) for item in ready):
        return [list(ready)] if ready else []
    return [[item] for item in ready]
