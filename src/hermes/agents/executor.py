"""Carries one leased task with one agent, from wherever its journal stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio

from hermes.core import json
from hermes.core.budget import Limits
from hermes.core.chat import AssistantMessage, ChatMessage, SystemMessage, UserMessage
from hermes.core.clock import Clock
from hermes.core.events import Recorded, TaskResumed, TaskSettled, TaskStarted
from hermes.core.ids import NewUUID, uuid7
from hermes.core.request import AgentRequest, AgentResponse
from hermes.core.task import TERMINAL, Task, TaskState, fold
from hermes.errors import NotFoundError
from hermes.loop import (
    Decision,
    Journal,
    Observer,
    Run,
    RunSetup,
    RunState,
    decide,
    settle_cancelled,
    system_prompt,
)
from hermes.models import Model
from hermes.store import Lease, Store, TaskQuery
from hermes.telemetry import TraceView
from hermes.tools import DEFAULT_LIMIT_CHARS, ToolRegistry

from .definition import AgentDefinition

EARLIER_TASKS = 10
"""How many settled tasks of a session a new one is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """An agent made ready: its model opened, its groups switched, its limits settled."""

    agent: AgentDefinition
    model: Model
    registry: ToolRegistry
    limits: Limits
    stream: bool = False
    result_limit_chars: int = DEFAULT_LIMIT_CHARS
    observers: tuple[Observer, ...] = field(default=())


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
    ) -> AgentResponse:
        """Work a task until it is settled or waits.

        Args:
            lease: The right to its message.
            equipment: The agent to do it with.
            records: Its whole stream, where the caller knows it; read from the store otherwise.
            reason: Why it is resumed, for the record.
            decision: A person's word on calls in doubt, if the task waits for that.

        Returns:
            What the task came to, with the trace of its whole life.
        """
        if records is None:
            records = await self._store.events(lease.message.task_id)
        report = _Report(records)
        journal = self._journal(lease, records, (report, *equipment.observers))
        if journal.task.state.is_terminal:
            await journal.finish()
        else:
            try:
                await self._work(journal, equipment, reason, decision)
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True):
                    await settle_cancelled(journal)
                raise
        return report.response(journal.task, journal.state)

    async def cancel(self, lease: Lease, observers: Sequence[Observer]) -> None:
        """Settle a leased task as cancelled without working on it."""
        records = await self._store.events(lease.message.task_id)
        await settle_cancelled(self._journal(lease, records, observers))

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
        self, journal: Journal, equipment: Equipment, reason: str, decision: Decision | None
    ) -> None:
        await self._begin(journal, equipment.agent, reason)
        if decision is not None:
            decide(journal, decision, by="person")
        setup = RunSetup(
            model=equipment.model,
            registry=equipment.registry,
            opening=await self._opening(journal, equipment.agent),
            request=_request(journal.task),
            limits=equipment.limits,
            output_schema=equipment.agent.output_schema,
            required_tools=equipment.agent.required_tools,
            stream=equipment.stream,
            result_limit_chars=equipment.result_limit_chars,
        )
        await Run(setup, journal, reader=self._store, clock=self._clock).carry()

    async def _begin(self, journal: Journal, agent: AgentDefinition, reason: str) -> None:
        worker = journal.lease.worker_id
        if journal.task.state == TaskState.DISPATCHED:
            earlier = await self._earlier(journal.task)
            journal.note(TaskStarted(worker=worker, code_version=agent.digest, earlier=earlier))
        else:
            why = reason or f"after {journal.lease.crashes} crash(es)"
            journal.note(TaskResumed(worker=worker, reason=why, code_version=agent.digest))

    async def _earlier(self, task: Task) -> tuple[str, ...]:
        if task.spec.session_id is None:
            return ()
        query = TaskQuery(
            session_id=task.spec.session_id, states=sorted(TERMINAL), limit=EARLIER_TASKS
        )
        found = await self._store.tasks(query)
        return tuple(item.task_id for item in reversed(found))

    async def _opening(self, journal: Journal, agent: AgentDefinition) -> tuple[ChatMessage, ...]:
        system = system_prompt(
            role=agent.role,
            instructions=agent.instructions,
            variables=journal.task.spec.variables,
            output_schema=agent.output_schema,
        )
        opening: list[ChatMessage] = [SystemMessage(text=system)]
        for task_id in journal.state.earlier:
            opening.extend(await self._exchange(task_id))
        opening.append(UserMessage(text=journal.task.spec.goal))
        return tuple(opening)

    async def _exchange(self, task_id: str) -> list[ChatMessage]:
        task = fold(records := await self._store.events(task_id))
        last = next((r.event for r in reversed(records) if isinstance(r.event, TaskSettled)), None)
        if task is None or last is None or last.output is None:
            return []
        text = last.output if isinstance(last.output, str) else json.dumps(last.output)
        return [UserMessage(text=task.spec.goal), AssistantMessage(text=text)]


class _Report:
    """Watches a journal, old or live, for what the response needs."""

    def __init__(self, records: Sequence[Recorded]) -> None:
        self.view, self.settled = TraceView(), None
        for record in records:
            self.recorded(record)

    def recorded(self, record: Recorded) -> None:
        self.view.follow(record)
        if isinstance(record.event, TaskSettled):
            self.settled: TaskSettled | None = record.event

    def delta(self, text: str, *, reasoning: bool = False) -> None:
        pass

    def progress(self, path: str, text: str) -> None:
        pass

    def response(self, task: Task, state: RunState) -> AgentResponse:
        return AgentResponse(
            output=self.settled.output if self.settled else (state.so_far() or None),
            trace=tuple(self.view.entries),
            usage=task.status.spent.usage,
            task_id=task.task_id,
            status=task.state.value,
            error=task.status.error,
            pending=task.status.pending,
        )


def _request(task: Task) -> AgentRequest:
    given = json.as_object(task.spec.input)
    return AgentRequest(
        input=given if given is not None else task.spec.goal,
        session_id=task.spec.session_id,
        metadata=task.spec.metadata,
    )


def response_of(records: Sequence[Recorded]) -> AgentResponse:
    """What a recorded task came to so far.

    Args:
        records: Its whole stream.

    Raises:
        NotFoundError: The stream is empty.
    """
    task = fold(records)
    if task is None:
        raise NotFoundError("no such task")
    state = RunState.of(record.event for record in records)
    return _Report(records).response(task, state)
