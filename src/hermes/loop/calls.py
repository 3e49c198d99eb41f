"""The tool calls of one turn: refused, or begun in the journal, run, and recorded."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel

from hermes.core.budget import Excess
from hermes.core.clock import Clock
from hermes.core.effects import Effect, may_overlap, may_repeat
from hermes.core.events import BudgetExceeded, Fault
from hermes.errors import DriftError, EffectTakenError, ToolError
from hermes.store import TaskReader
from hermes.telemetry import logs
from hermes.tools import (
    Children,
    Event,
    Prepared,
    Question,
    Tool,
    ToolGuard,
    ToolResult,
    Until,
    Waiting,
    failed_result,
    prepare,
    unavailable,
)
from hermes.tools.policy import origin_of
from hermes.tools.preview import has_preview

from . import handover
from .attempts import Attempts
from .begin import Beginnings, arguments_then
from .bench import Bench
from .children import split
from .journal import Journal
from .offer import is_used_up, used_up
from .outcome import Ready, record
from .purse import Purse
from .setup import RunSetup
from .state import OpenCall
from .suspend import Held, suspend

MAX_RACES = 5
"""How often a call may be too late with one business key before that is a fault."""

_LOG = logging.getLogger("hermes.tool")


class Calls:
    """Runs what a model asked for.

    Calls of a turn run beside each other if all are `read` or `idempotent`, otherwise one after
    the other in the order given. Each call's intent is durable before it starts, and it shares
    the commit of whatever was recorded before it. Tools that do not work at present, or that
    failed too often in this task, are not called.
    """

    def __init__(
        self,
        setup: RunSetup,
        journal: Journal,
        reader: TaskReader,
        clock: Clock,
        guard: ToolGuard,
        purse: Purse,
    ) -> None:
        self._setup, self._journal, self._guard, self._purse = setup, journal, guard, purse
        self._reader, self._clock = reader, clock
        self._attempts = Attempts(setup, journal, reader, clock, guard, purse)
        self._beginnings = Beginnings(setup, journal, reader, clock)
        self._races: Counter[str] = Counter()

    async def run_open(self, held: Sequence[Held] = ()) -> None:
        """Bring every open call of the turn to an outcome.

        Stops early, leaving the task WAITING in the journal, when a call waits for something or
        is in doubt: calls beside it have ended by then, calls after it are not begun. Stops early
        as well where the holder of the lease wants to stop, and where another call was faster
        with a business key; what is still open then is to be run again.

        No call gets more time than the task has left. Calls beyond a bound are refused, and the
        bound is noted.

        Args:
            held: What calls that waited before have to wait for now.

        Raises:
            DriftError: A call that was begun before would now be another one.
            EffectTakenError: A business key was lost to others more than `MAX_RACES` times.
        """
        open_calls, waits = self._journal.state.open_calls, self._journal.state.held
        waiting = [item for item in open_calls if item.path in waits]
        free = [item for item in open_calls if item.path not in waits]
        ready = await self._admit(self._prepare(free))
        found = list(held)
        for wave in self._waves(ready, waiting):
            if self._setup.tenure.should_stop():
                return
            late = self._purse.late()
            if late is not None and not self._was_begun(wave):
                self._refuse(wave, late)
                continue
            try:
                found += await self._run_wave(wave)
            except EffectTakenError as exc:
                self._races[exc.key] += 1
                if self._races[exc.key] > MAX_RACES:  # what is read and what is refused differ
                    raise
                self._journal.reload(await self._reader.events(self._journal.task.task_id))
                return
            if found:
                break
        if found or waiting:
            suspend(self._journal, found, clock=self._clock)
            await self._journal.finish()

    def _waves(self, ready: Sequence[Ready], waiting: Sequence[OpenCall]) -> list[list[Ready]]:
        """What may run beside each other; nothing that comes after a call that waits in order."""
        started = self._journal.state.started
        begun: list[Effect] = [
            started[item.path].effect for item in waiting if item.path in started
        ]
        overlap = all(map(_may_overlap, (item.prepared.tool for item in ready)))
        if overlap and len(begun) == len(waiting) and all(map(may_overlap, begun)):
            return [list(ready)] if ready else []
        order = [item.path for item in self._journal.state.open_calls]
        first = min((order.index(item.path) for item in waiting), default=len(order))
        return [[item] for item in ready if order.index(item.path) < first]

    def _was_begun(self, wave: Sequence[Ready]) -> bool:
        """Whether a call of the wave broke off: it is put before a person, or made, late or not."""
        return any(item.path in self._journal.state.started for item in wave)

    def _refuse(self, calls: Sequence[Ready], excess: Excess) -> None:
        known = self._journal.state.exceeded
        if known is None or known.limit != excess.limit:
            self._journal.note(exceeded(excess))
        for item in calls:
            fault = Fault(code="budget", message=f"not run: {excess}")
            record(self._journal, item.open, failed_result("refused", fault))

    def _prepare(self, calls: Sequence[OpenCall]) -> list[Ready]:
        state = self._journal.state
        reason = state.reply.finish_reason if state.reply else None
        ready: list[Ready] = []
        begun = self._held_back()
        for item in calls:
            if refused := self._refusal(item, begun):
                record(self._journal, item, refused)
                continue
            prepared = prepare(self._setup.registry, item.call, finish_reason=reason)
            if isinstance(prepared, Prepared):
                if item.path not in state.started:
                    begun[prepared.tool.name] += 1
                ready.append(Ready(open=item, prepared=prepared))
            elif item.path in state.started:
                then = state.started[item.path]
                raise DriftError(
                    item.path,
                    then=f"{then.name} {arguments_then(then, item)}",
                    now=prepared.content,
                )
            else:
                record(self._journal, item, prepared)
        return ready

    def _held_back(self) -> Counter[str]:
        """Calls of the turn that wait for something before they begin, by tool name."""
        state, found = self._journal.state, Counter[str]()
        for item in state.open_calls if state.waiting else ():
            tool = self._setup.registry.get(item.call.name)
            if tool is not None and item.path in state.held and item.path not in state.started:
                found[tool.name] += 1
        return found

    def _refusal(self, item: OpenCall, begun: Mapping[str, int] | None = None) -> ToolResult | None:
        """Why a call is not even begun, whatever its arguments are.

        Args:
            item: The call.
            begun: Calls of the same turn that are about to begin, by tool name; None if all that
                are have begun.
        """
        state = self._journal.state
        tool = self._setup.registry.get(item.call.name)
        if tool is None or item.path in state.started:
            return None
        name = state.renames.get(tool.name, tool.name)
        fault = handover.refusal(self._setup, state, name)
        if fault is None and is_used_up(state, tool, more=(begun or {}).get(tool.name, 0)):
            fault = used_up(tool)
        if fault is None and name in state.hidden:
            fault = unavailable(name, "it was not offered, since it does not work", "wait for it")
        fault = fault or self._guard.refusal(tool)
        return None if fault is None else failed_result("refused", fault)

    async def _admit(self, ready: list[Ready]) -> list[Ready]:
        state = self._journal.state
        fresh = [item for item in ready if item.path not in state.started]
        allowed, excess = await self._purse.before_tool_calls(len(fresh))
        if excess is None:
            return ready
        self._refuse(fresh[allowed:], excess)
        beyond = {item.path for item in fresh[allowed:]}
        return [item for item in ready if item.path not in beyond]

    async def _run_wave(self, wave: Sequence[Ready]) -> list[Held]:
        """Run what may run; what the others, or these themselves, have to wait for."""
        if len(wave) == 1 and wave[0].prepared.tool.concurrency is not None:
            async with self._place(wave[0]) as is_free:
                return await self._begin_and_run(wave) if is_free else []
        return await self._begin_and_run(wave)

    async def _begin_and_run(self, wave: Sequence[Ready]) -> list[Held]:
        held: list[Held] = []
        begun: list[Ready] = []
        for item in wave:
            if refused := self._refusal(item.open):
                record(self._journal, item.open, refused)
                continue
            match await self._beginnings.begin(item):
                case Held() as why:
                    held.append(why)
                case True:
                    begun.append(item)
                case False:
                    pass
        if not begun:
            return held
        await self._journal.commit()
        if len(wave) == 1:
            return held + await self._run_call(begun[0])
        return held + await self._run_beside(begun)

    @asynccontextmanager
    async def _place(self, item: Ready) -> AsyncGenerator[bool]:
        """One of the places of a call's tool; false where the task's time was over before.

        A call that runs alone has its place before its intent is written: from then on its time
        runs, for those who have to know when it can surely not act any more.
        """
        tool = item.prepared.tool
        if tool.concurrency is None:
            yield True
            return
        # A call that may have been made before is never told as one that was not.
        may_be_done = item.path in self._journal.state.started and not may_repeat(tool.effect)
        with anyio.move_on_after(None if may_be_done else self._left_s()) as scope:
            await self._guard.take_place(tool, before_waiting=self._journal.commit)
        if scope.cancelled_caught:
            self._out_of_time(item)
            yield False
            return
        try:
            yield True
        finally:
            self._guard.give_place(tool)

    def _left_s(self) -> float | None:
        """Seconds that the task has; None for no bound, or where it is out of time and goes on."""
        return self._purse.left_s() or None

    def _out_of_time(self, item: Ready) -> None:
        allowed = self._setup.limits.max_seconds or 0.0
        late = Excess(limit="max_seconds", allowed=allowed, spent=allowed)
        self._refuse([item], self._purse.late() or late)

    async def _run_beside(self, wave: Sequence[Ready]) -> list[Held]:
        running = len(wave)
        faults: list[Exception] = []
        held: list[Held] = []

        async def one(item: Ready) -> None:
            nonlocal running
            try:
                async with self._place(item) as is_free:
                    if is_free:
                        held.extend(await self._run_call(item))
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
        return held

    async def _run_call(self, item: Ready) -> list[Held]:
        """Run a call to its outcome; or to what it has to wait for, which is all it gives."""
        name, task = item.prepared.tool.name, self._journal.task
        await self._pass_cancellation(item)
        self._setup.tenure.check_lease()
        logs.tool_started(_LOG, task, item.path, name, item.prepared.fingerprint)
        result, bench = await self._attempts.make(item)
        status = result.status if result.waiting is None else "waiting"
        logs.tool_ended(
            _LOG, task, item.path, name, status, result.size, result.duration_s, result.tries
        )
        if result.waiting is not None:
            return await self._suspended(item, result.waiting, bench)
        if result.status == "in_doubt":
            return await self._after_doubt(item, result)
        record(self._journal, item.open, result, bench, origin=origin_of(item.prepared))
        return []

    async def _pass_cancellation(self, item: Ready) -> None:
        """Begin nothing for a run that was cancelled while the call's intent was written."""
        try:
            await anyio.lowlevel.checkpoint_if_cancelled()
        except anyio.get_cancelled_exc_class():
            fault = Fault(code="cancelled", message="not run: the run was cancelled")
            record(self._journal, item.open, failed_result("refused", fault))
            raise

    async def _after_doubt(self, item: Ready, result: ToolResult) -> list[Held]:
        match await self._beginnings.settle_doubt(item, result):
            case Held() as held:
                return [held]
            case True:
                await self._journal.commit()
                return await self._run_call(*self._prepare([item.open]))
            case False:
                return []

    async def _suspended(self, item: Ready, waiting: Waiting, bench: Bench) -> list[Held]:
        name = item.prepared.tool.name
        if isinstance(waiting, Children):
            try:
                held = await split(
                    self._journal,
                    self._reader,
                    self._clock,
                    item.path,
                    name,
                    waiting,
                    limits=self._setup.limits,
                )
            except ToolError as exc:
                fault = Fault(code=exc.code, message=exc.message, hint=exc.hint)
                record(self._journal, item.open, failed_result("error", fault))
                return []
        else:
            held = _held(item.path, name, waiting)
        bench.keep()
        return [held]


def exceeded(excess: Excess) -> BudgetExceeded:
    """The event of a bound that is reached."""
    return BudgetExceeded(
        limit=excess.limit,
        allowed=excess.allowed,
        spent=round(excess.spent, 9),
        estimate=round(excess.estimate, 9),
    )


def _held(path: str, name: str, waiting: Question | Until | Event) -> Held:
    match waiting:
        case Question(text=text, options=options):
            data: dict[str, object] = {"question": text}
            if options:
                data["options"] = list(options)
            return Held(path=path, kind="question", name=name, text=text, data=data)
        case Until(at=at):
            return Held(path=path, kind="time", name=name, text=f"{name} waits", due_at=at)
        case Event(name=key, until=until):
            text = f"{name} waits for the event {key!r}"
            return Held(path=path, kind="event", name=key, text=text, key=key, due_at=until)


def _may_overlap(tool: Tool) -> bool:
    # A call that a key or a person may hold back is a step of its own: no intent waits meanwhile.
    if tool.key is not None or tool.requires_approval or has_preview(tool):
        return False
    return may_overlap(tool.effect)
