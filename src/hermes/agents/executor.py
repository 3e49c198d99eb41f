"""Carries one leased task with one agent, from wherever its journal stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import anyio

from hermes.core import json
from hermes.core.budget import Limits
from hermes.core.chat import ChatMessage
from hermes.core.clock import Clock
from hermes.core.events import (
    Recorded,
    TaskResumed,
    TaskStarted,
    ToolReturned,
    ToolStarted,
)
from hermes.core.ids import NewUUID, uuid7
from hermes.core.request import AgentRequest, AgentResponse
from hermes.core.task import Task, TaskState, fold
from hermes.errors import ConflictError, NotFoundError, StaleLeaseError
from hermes.loop import (
    Decision,
    Journal,
    Observer,
    PromptBook,
    Prompts,
    Run,
    RunSetup,
    RunState,
    Tenure,
    cancelled_by,
    decide,
    has_news,
    settle_cancelled,
    take_in,
)
from hermes.loop.setup import COMPACT_AT, SHORTEN_CHARS
from hermes.loop.suspend import suspend
from hermes.models import Model
from hermes.store import Lease, Store, Wait
from hermes.tools import DEFAULT_LIMIT_CHARS, ToolGuard, ToolRegistry, is_at_work
from hermes.tools.policy import Policy

from .code import Passage, limits_for, manifest, passage, program_of, prompts_of, recorded_codes
from .definition import AgentDefinition
from .opening import earlier_of, opening
from .passage import present_model, present_tools, refuse_changed, take_over
from .report import Report

LEASE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """An agent made ready: its model opened, its groups switched, its limits settled.

    Attributes:
        accept_changes: A person accepts whatever differs from the program of the record.
        model_chosen: The model was given on purpose, and may differ.
        policy: What its calls may do without a person.
        guard: What is known of the tools in this process; the run's own knowledge if None.
        prompts: What the framework itself says to the model, in all languages.
        window: Tokens of the model's whole request and reply; None if nothing is ever compacted.
        compact_at: Share of the window from which on the conversation is compacted.
        shorten_chars: An older tool result above this is sent shortened then.
    """

    agent: AgentDefinition
    model: Model
    registry: ToolRegistry
    limits: Limits
    stream: bool = False
    result_limit_chars: int = DEFAULT_LIMIT_CHARS
    observers: tuple[Observer, ...] = field(default=())
    accept_changes: bool = False
    model_chosen: bool = False
    policy: Policy = Policy()
    guard: ToolGuard | None = None
    prompts: PromptBook = PromptBook()
    window: int | None = None
    compact_at: float = COMPACT_AT
    shorten_chars: int = SHORTEN_CHARS


def _never() -> bool:
    return False


def _nothing() -> None:
    pass


def _nothing_hidden(_: str) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """How a process holds the lease, and what it says while the run goes on.

    Attributes:
        should_stop: Whether to stop at the next border between steps (drain). `carry` then
            returns with the task still at work, and the caller gives the lease back.
        interrupted: Asked when the run is cancelled: True if that is no wish to cancel the task
            (lease lost, drain's grace over). Nothing is written then.
        check_lease: Called directly before each model and tool call; raises `StaleLeaseError`
            when the lease may have run out.
        holder_is_gone: Whether the death of every other holder is proved. If not, a call that one
            of them began is reconciled or made again only after its own timeout and a lease; the
            same holds for one that is still at work in a thread of this process.
        lease_s: How long a lease is valid without a sign of life.
    """

    should_stop: Callable[[], bool] = _never
    interrupted: Callable[[], bool] = _never
    check_lease: Callable[[], None] = _nothing
    holder_is_gone: bool = True
    lease_s: float = LEASE_S


_HELD_HERE = Holding()


class Executor:
    """Works leased tasks off; writes only through the store's port, under the lease."""

    def __init__(self, store: Store, *, clock: Clock, new_id: NewUUID = uuid7) -> None:
        self._store, self._clock, self._new_id = store, clock, new_id

    async def carry(
        self,
        lease: Lease,
        equipment: Equipment,
        *,
        records: Sequence[Recorded] | None = None,
        reason: str = "",
        decision: Decision | None = None,
        holding: Holding = _HELD_HERE,
    ) -> AgentResponse:
        """Work a task until it is settled, waits, or is to be left at a border between steps.

        Args:
            lease: The right to its message.
            equipment: The agent to do it with.
            records: Its whole stream, where the caller knows it; read from the store otherwise.
            reason: Why it is resumed, for the record.
            decision: A person's word on calls in doubt, if the task waits for that.
            holding: How the process holds the lease.

        Returns:
            What the task came to, with the trace of its whole life.

        Raises:
            StoreError: The journal cannot be written; nothing was lost, the run can be resumed.
            DriftError: The program is not the one of the record, and nobody has accepted that;
                nothing was written. Or an open call is not what the present code would make.
        """
        if records is None:
            records = await self._store.events(lease.message.task_id)
        report = Report(records)
        journal = self._journal(lease, records, (report, *equipment.observers))
        tenure = self._tenure(records, holding)
        waits = await self._waits(journal)
        if journal.task.state.is_terminal or (decision is None and _is_for_nothing(journal, waits)):
            journal.end_waits(wait.wait_id for wait in waits if wait.ended)
            await journal.finish()
        else:
            try:
                await self._work(journal, equipment, reason, decision, tenure, records, waits)
            except StaleLeaseError:
                await self._testify(journal)
                raise
            except anyio.get_cancelled_exc_class():
                if holding.interrupted():
                    raise
                with anyio.CancelScope(shield=True):
                    await settle_cancelled(journal)
                raise
        return report.response(journal.task, journal.state)

    async def cancel(self, lease: Lease, observers: Sequence[Observer]) -> None:
        """Settle a leased task as cancelled without working on it."""
        records = await self._store.events(lease.message.task_id)
        journal = self._journal(lease, records, observers)
        if journal.task.state.is_terminal:
            await journal.finish()
        else:
            by = cancelled_by(journal, await self._waits(journal))
            await settle_cancelled(journal, by=by or "")

    async def _testify(self, journal: Journal) -> None:
        """End open doubts by results that came too late to be written: the calls did take place."""
        late = {
            record.event.path: record.event
            for record in journal.unwritten
            if isinstance(record.event, ToolReturned)
        }
        if not late:
            return
        for review in await self._store.reviews(task_id=journal.task.task_id):
            event = late.get(review.path)
            if review.reason == "in_doubt" and event is not None:
                with suppress(ConflictError):  # a person was faster
                    await self._store.decide(
                        review.review_id, "done", answer=event.content, by=journal.lease.worker_id
                    )

    async def _waits(self, journal: Journal) -> list[Wait]:
        """The task's waits; a task that never began and a settled one have none."""
        if journal.task.state in (TaskState.WAITING, TaskState.PROCESSING):
            return await self._store.waits(journal.task.task_id)
        return []

    def _journal(
        self, lease: Lease, records: Sequence[Recorded], observers: Sequence[Observer]
    ) -> Journal:
        task = fold(records)
        if task is None:
            raise NotFoundError(f"no task {lease.message.task_id!r}")
        return Journal(
            store=self._store,
            lease=lease,
            task=task,
            state=RunState.of(record.event for record in records),
            clock=self._clock,
            new_id=self._new_id,
            observers=observers,
        )

    async def _work(
        self,
        journal: Journal,
        equipment: Equipment,
        reason: str,
        decision: Decision | None,
        tenure: Tenure,
        records: Sequence[Recorded],
        waits: Sequence[Wait],
    ) -> None:
        agent = equipment.agent
        goal = journal.task.spec.goal
        codes = recorded_codes(records) if journal.state.is_begun else None
        prompts = prompts_of(equipment.prompts, agent, goal=goal, codes=codes)
        change = await self._begin(journal, equipment, records, reason, prompts)
        if decision is not None:
            decide(journal, decision, by="person")
        equipment = replace(
            equipment,
            model=present_model(agent, equipment.model, records, is_changed=bool(change.accepted)),
            registry=present_tools(agent, equipment.registry, records),
        )
        take_over(journal, agent, records, change.variables)
        is_program = program_of(equipment.model) is not None
        setup = RunSetup(
            model=equipment.model,
            registry=equipment.registry,
            opening=await self.opening(journal, equipment.agent, prompts),
            prompts=prompts,
            request=_request(journal.task),
            limits=limits_for(equipment.limits, equipment.model),
            output_schema=equipment.agent.output_schema,
            required_tools=equipment.agent.required_tools,
            stream=equipment.stream,
            result_limit_chars=equipment.result_limit_chars,
            tenure=tenure,
            policy=equipment.policy,
            guard=equipment.guard,
            window=None if is_program else equipment.window,
            compact_at=equipment.compact_at,
            shorten_chars=equipment.shorten_chars,
            # A program does not choose by what it is offered: its calls are refused instead.
            hidden=_nothing_hidden if is_program else None,
        )
        taken = await take_in(setup, journal, self._store, self._clock, waits)
        if taken.cancelled_by is not None:
            await self._store.request_cancel(journal.task.task_id)  # and all below it
            await settle_cancelled(journal, by=taken.cancelled_by)
            return
        if doubts := refuse_changed(journal, equipment.registry, records):
            suspend(journal, [*taken.held, *doubts], clock=self._clock)
            await journal.finish()
            return
        await Run(setup, journal, reader=self._store, clock=self._clock).carry(taken.held)

    def _tenure(self, records: Sequence[Recorded], holding: Holding) -> Tenure:
        begun = {r.event.path: r.at for r in records if isinstance(r.event, ToolStarted)}
        task_id = records[0].task_id if records else ""

        def free_at(call: ToolStarted) -> datetime | None:
            if call.path not in begun:
                return None
            if holding.holder_is_gone and not is_at_work(f"{task_id}{call.path}"):
                return None
            due = begun[call.path] + timedelta(seconds=(call.timeout_s or 0) + holding.lease_s)
            return due if due > self._clock.now() else None

        return Tenure(
            should_stop=holding.should_stop, check_lease=holding.check_lease, free_at=free_at
        )

    async def _begin(
        self,
        journal: Journal,
        equipment: Equipment,
        records: Sequence[Recorded],
        reason: str,
        prompts: Prompts,
    ) -> Passage:
        agent, worker = equipment.agent, journal.lease.worker_id
        code = manifest(
            agent,
            equipment.registry,
            equipment.model,
            goal=journal.task.spec.goal,
            prompts=prompts,
        )
        if not journal.state.is_begun:
            earlier = await earlier_of(
                self._store, journal.task, now=self._clock.now(), window=equipment.window
            )
            journal.note(
                TaskStarted(
                    worker=worker,
                    code_version=agent.digest,
                    earlier=earlier.exchanges,
                    others=earlier.others,
                    code=code,
                    origin=earlier.origin,
                )
            )
            return Passage(code=code, variables={})
        codes = recorded_codes(records)
        change = passage(
            agent,
            codes[-1] if codes else {},
            code,
            accept=equipment.accept_changes,
            model_chosen=equipment.model_chosen,
        )
        journal.note(
            TaskResumed(
                worker=worker,
                reason=reason or f"after {journal.lease.crashes} crash(es)",
                code_version=agent.digest,
                code=change.code,
                accepted=change.accepted,
                by=change.by,
            )
        )
        return change

    async def opening(
        self, journal: Journal, agent: AgentDefinition, prompts: Prompts
    ) -> tuple[ChatMessage, ...]:
        """What stands before the conversation: rules, the session's earlier tasks, the goal."""
        return await opening(self._store, journal.task, journal.state, agent, prompts=prompts)


def _is_for_nothing(journal: Journal, waits: Sequence[Wait]) -> bool:
    """Whether a message comes to a task that goes on waiting, with no answer that it lacks."""
    is_waiting = journal.task.state is TaskState.WAITING
    return is_waiting and bool(journal.state.waiting) and not has_news(journal.state, waits)


def _request(task: Task) -> AgentRequest:
    given = json.as_object(task.spec.input)
    return AgentRequest(
        input=given if given is not None else task.spec.goal,
        session_id=task.spec.session_id,
        metadata=task.spec.metadata,
    )
