"""One run: turns until the model ends, a bound is reached, or nobody can go on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import anyio

from hermes.core.budget import Excess, number
from hermes.core.chat import Usage
from hermes.core.clock import Clock
from hermes.core.effects import may_repeat
from hermes.core.events import (
    BudgetExceeded,
    Fault,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    TaskSettled,
    ToolFailed,
    ToolInDoubt,
    ToolStarted,
)
from hermes.core.failpoints import hit
from hermes.core.task import TaskState
from hermes.errors import ModelError
from hermes.models import (
    CallDelta,
    FailedAttempt,
    ModelReply,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
)
from hermes.models.charges import charge_of, estimated_usage
from hermes.store import TaskReader
from hermes.telemetry import logs
from hermes.tools import ToolGuard
from hermes.tools.policy import origins_line

from .answer import End, SendBack, calls_of
from .calls import Calls, exceeded
from .compaction import Compaction
from .context import Context
from .handover import conclude
from .ids import unique_calls
from .journal import Journal
from .offer import Offer
from .purse import prices_of, purse_of
from .setup import RunSetup
from .suspend import Held

_LOG = logging.getLogger("hermes.model")


class Run:
    """Carries one task from where its journal stands to its end.

    A run that was broken off goes on at the step where it broke: a finished call is never made
    again, an open `read` or `idempotent` call is, and an open `unsafe` call waits for a person.
    """

    def __init__(
        self, setup: RunSetup, journal: Journal, *, reader: TaskReader, clock: Clock
    ) -> None:
        self._setup, self._journal, self._clock = setup, journal, clock
        guard = setup.guard or ToolGuard(clock=clock)
        self._purse = purse_of(setup, journal)
        self._calls = Calls(setup, journal, reader, clock, guard, self._purse)
        self._offer = Offer(setup, guard)
        self._context = Context(setup.opening, tools_tokens=setup.registry.tokens)
        self._compaction = Compaction(setup, journal, self._context, self._purse)
        self._system = ""
        self._words: list[str] = []
        self._thoughts: list[str] = []

    async def carry(self, held: Sequence[Held] = ()) -> None:
        """Work until the task is settled or waits; either is in the journal on return.

        Where the holder of the lease wants to stop, work ends at the next border between steps
        with the task still at work, all that happened in the journal.

        Args:
            held: What calls that waited have to wait for next.

        Raises:
            StoreError: The journal cannot be written; nothing was lost, the run can be resumed.
            DriftError: The journal's open call is not what the present code would make.
        """
        while self._journal.task.state == TaskState.PROCESSING:
            if self._setup.tenure.should_stop() and not self._has_ended():
                await self._journal.commit()
                return
            await self._step(held)

    async def _step(self, held: Sequence[Held]) -> None:
        state = self._journal.state
        if state.open_calls:
            await self._calls.run_open(held)
        elif state.exceeded is not None:
            await self._stop(state.exceeded)
        elif state.reply is not None and state.intent is None:
            match conclude(self._setup, state, state.reply):
                case End() as end:
                    await self._settle(end)
                case SendBack(text=text):
                    await self._turn(repair=text)
        else:
            await self._turn()

    def _has_ended(self) -> bool:
        """Whether nothing is left to do but to settle, which no drain has to wait for."""
        state = self._journal.state
        if state.open_calls:
            return False
        if state.exceeded is not None:
            return True
        if state.reply is None or state.intent is not None:
            return False
        return isinstance(conclude(self._setup, state, state.reply), End)

    async def _turn(self, repair: str = "") -> None:
        intent = self._journal.state.intent
        if intent is None:
            excess = await self._purse.before_model_call(self._prompt_tokens(), is_step=not repair)
            if excess is not None:
                self._journal.note(exceeded(excess))
                return
            path = self._path(repair)
            match self._compaction.begin(path):
                case "noted":
                    return  # everything is looked at anew
                case "full":
                    await self._overflow()
                    return
                case "none":
                    intent = await self._intent(path, repair)
            self._journal.note(intent)
        # Also where the intent is from before a crash: nothing is asked without the lease.
        await self._journal.commit()
        await self._ask(intent)

    def _path(self, repair: str) -> str:
        state = self._journal.state
        if repair:
            return f"/turn{state.turn}/model{state.model_calls + 1}"
        return f"/turn{state.turn + 1}/model1"

    def _prompt_tokens(self) -> int:
        """Of the next request, by an estimate, where its size is asked for."""
        return self._context.size(self._journal.state) if self._purse.counts_tokens else 0

    async def _intent(self, path: str, repair: str) -> ModelRequested:
        state = self._journal.state
        hidden = await self._offer.hidden(path, state)
        notice = self._offer.notice(state, hidden)
        return ModelRequested(
            path=path,
            model=self._setup.model.name,
            history=self._context.count(state) + bool(notice),
            prompt=self._setup.prompt_digest,
            tools=self._setup.registry.digest,
            repair=repair,
            hidden=tuple(hidden),
            notice=notice,
            may_finish=self._offer.may_finish(state),
            system=self._kept_rules(),
        )

    def _kept_rules(self) -> str:
        """The blob of the system message; kept once, it is the same in the whole run."""
        if not self._system and self._context.rules:
            self._system = self._journal.keep(
                self._context.rules.encode("utf-8", "backslashreplace")
            )
        return self._system

    async def _ask(self, intent: ModelRequested) -> None:
        if intent.purpose == "compaction":
            await self._summarise(intent)
            return
        state = self._journal.state
        request = ModelRequest(
            messages=self._context.messages(state, intent),
            tools=self._offer.specs(intent.hidden),
            variables=state.variables,
            output_schema=self._setup.output_schema,
            may_finish=intent.may_finish,
            watch=partial(self._retried, intent),
        )
        self._setup.tenure.check_lease()
        began, left_s = self._clock.monotonic(), self._purse.left_s()
        scope = None if left_s is None else anyio.move_on_after(left_s)
        try:
            with scope or nullcontext():
                hit("loop.model.before")
                reply = await self._reply(request)
                hit("loop.model.after")
                self._replied(intent, reply, self._clock.monotonic() - began)
                return
        except ModelError as exc:
            await self._failed(intent, exc, self._clock.monotonic() - began)
            return
        except anyio.get_cancelled_exc_class():
            text = "the run was cancelled before the reply was whole"
            fault = Fault(code="cancelled", message=text)
            self._broken_off(intent, fault, self._clock.monotonic() - began)
            raise
        if scope is not None and scope.cancelled_caught:
            await self._out_of_time(intent, self._clock.monotonic() - began)

    async def _summarise(self, intent: ModelRequested) -> None:
        request = replace(self._compaction.request(intent), watch=partial(self._retried, intent))
        self._setup.tenure.check_lease()
        began, left_s = self._clock.monotonic(), self._purse.left_s()
        scope = None if left_s is None else anyio.move_on_after(left_s)
        try:
            with scope or nullcontext():
                hit("loop.model.before")
                reply = await self._setup.model.reply(request)
                hit("loop.model.after")
                self._compaction.replied(intent, reply, self._clock.monotonic() - began)
                return
        except ModelError as exc:
            self._compaction.failed(
                intent, _fault_of(exc), self._clock.monotonic() - began, charge_of(exc)
            )
            return
        if scope is not None and scope.cancelled_caught:
            await self._out_of_time(intent, self._clock.monotonic() - began)

    async def _overflow(self) -> None:
        known = self._journal.state.so_far() or None
        outcome = "failed" if self._journal.state.too_long else "partial"
        fault = self._compaction.overflow()
        await self._settle(End(outcome=outcome, output=known, error=fault))

    async def _reply(self, request: ModelRequest) -> ModelReply:
        self._words, self._thoughts = [], []
        if not self._setup.stream:
            return await self._setup.model.reply(request)
        async for part in self._setup.model.stream(request):
            match part:
                case TextDelta(text=text):
                    self._words.append(text)
                    self._journal.delta(text)
                case ReasoningDelta(text=text):
                    self._thoughts.append(text)
                    self._journal.delta(text, reasoning=True)
                case CallDelta(name=name):
                    self._journal.call_begun(name)
                case ModelReply():
                    return part
        raise ModelError("the model's stream ended without a reply", code="stream", retryable=True)

    def _replied(self, intent: ModelRequested, reply: ModelReply, duration_s: float) -> None:
        turn_path = intent.path.rpartition("/")[0]
        event = ModelReplied(
            path=intent.path,
            text=reply.text,
            reasoning=reply.reasoning,
            calls=unique_calls(
                calls_of(self._setup, reply), intent.path, self._journal.state.call_ids
            ),
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            model=reply.model,
            duration_s=round(duration_s, 4),
            problem=reply.problem,
            cached=reply.cached,
            opaque=reply.opaque,
        )
        self._journal.note(event)
        logs.model_round(_LOG, self._journal.task, turn_path, event)

    async def _retried(self, intent: ModelRequested, failed: FailedAttempt) -> None:
        self._journal.note(
            ModelRetried(
                path=intent.path,
                model=failed.model,
                error=_fault_of(failed.error),
                attempt=failed.attempt,
                delay_s=round(failed.delay_s, 3),
                next_model=failed.next_model,
                usage=charge_of(failed.error),
            )
        )
        await self._journal.commit()

    async def _failed(self, intent: ModelRequested, exc: ModelError, duration_s: float) -> None:
        fault, may_recover = _fault_of(exc), self._compaction.may_recover(intent, exc)
        self._journal.note(
            ModelFailed(
                path=intent.path,
                error=fault,
                partial_text=exc.partial_text,
                duration_s=round(duration_s, 4),
                usage=charge_of(exc),
            )
        )
        if may_recover:
            return  # the conversation is compacted next
        known = self._journal.state.so_far() or None
        await self._settle(End(outcome="failed", output=known, error=fault))

    async def _out_of_time(self, intent: ModelRequested, duration_s: float) -> None:
        fault = Fault(code="budget", message="the task's time was over before the reply came")
        self._broken_off(intent, fault, duration_s)
        allowed = self._setup.limits.max_seconds or 0.0
        late = Excess(limit="max_seconds", allowed=allowed, spent=allowed)
        self._journal.note(exceeded(self._purse.late() or late))

    def _broken_off(self, intent: ModelRequested, fault: Fault, duration_s: float) -> None:
        """Note a call that is not waited for any longer, with what had been heard of the reply."""
        words, usage = "".join(self._words), Usage()
        if heard := words + "".join(self._thoughts):  # else nobody knows whether it had begun
            usage = estimated_usage(
                prompt=self._context.size(self._journal.state),
                written=heard,
                prices=prices_of(self._setup.model),
            )
        self._journal.note(
            ModelFailed(
                path=intent.path,
                error=fault,
                partial_text=words,
                duration_s=round(duration_s, 4),
                usage=usage,
            )
        )

    async def _stop(self, reached: BudgetExceeded) -> None:
        excess = Excess(
            limit=reached.limit,
            allowed=reached.allowed,
            spent=reached.spent,
            estimate=reached.estimate,
        )
        least = number(max(reached.allowed, reached.spent + reached.estimate))
        fault = Fault(
            code="budget",
            message=f"task too complex for its budget: {excess}",
            hint=f"raise {reached.limit} well above {least}, or ask for less at once",
        )
        known = self._journal.state.so_far() or None
        await self._settle(End(outcome="partial", output=known, error=fault))

    async def _settle(self, end: End) -> None:
        origin = origins_line(self._journal.state.origins)
        self._journal.note(
            TaskSettled(outcome=end.outcome, output=end.output, error=end.error, origin=origin)
        )
        await self._journal.finish()


def _fault_of(exc: ModelError) -> Fault:
    return Fault(code=exc.code, message=exc.message, retryable=exc.retryable, hint=exc.hint)


async def settle_cancelled(journal: Journal, *, by: str = "") -> None:
    """Record that a run was stopped from outside, whatever it was at or waited for.

    A call under way that may be repeated, or that only waits, is recorded as stopped, an unsafe
    one as in doubt. What the task waited for is given up with it.

    Args:
        journal: Of the task.
        by: The person who decided so, if it was one.
    """
    if journal.task.state.is_terminal or journal.is_finished:
        return
    held = journal.state.held - journal.state.in_doubt
    for begun in list(journal.state.started.values()):
        if begun.path in held or may_repeat(begun.effect):
            journal.note(_stopped_call(begun))
        elif begun.path not in journal.state.in_doubt:
            journal.note(_doubtful_call(begun))
    message = f"the run was cancelled by {by}" if by else "the run was cancelled"
    fault = Fault(code="cancelled", message=message)
    doubtful = [begun.name for begun in journal.state.started.values()]
    if doubtful:
        fault = Fault(
            code="cancelled",
            message=f"{message} while {', '.join(doubtful)} was running: "
            "whether it took place is unknown",
            hint="look whether it did before you start the task again",
        )
    known = journal.state.so_far() or None
    origin = origins_line(journal.state.origins)
    journal.note(TaskSettled(outcome="cancelled", output=known, error=fault, origin=origin))
    await journal.finish()


def _stopped_call(begun: ToolStarted) -> ToolFailed:
    fault = Fault(code="cancelled", message="stopped: the run was cancelled")
    return ToolFailed(
        path=begun.path,
        call_id=begun.call_id,
        name=begun.name,
        status="error",
        error=fault,
        content=fault.message,
    )


def _doubtful_call(begun: ToolStarted) -> ToolInDoubt:
    return ToolInDoubt(
        path=begun.path,
        call_id=begun.call_id,
        name=begun.name,
        reason="the run was cancelled while the call was running",
    )
