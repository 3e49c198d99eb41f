"""Deciding a recorded task again: the present program against the recorded replies and results.

The loop is the one of a live run. Its model gives the recorded replies, or is the playbook itself,
and its tools give the recorded results: nothing outside is asked, and nothing has an effect.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from hermes.agents import AgentDefinition, Executor
from hermes.agents.code import (
    drifts,
    limits_for,
    manifest,
    program_of,
    prompts_of,
    recorded_codes,
)
from hermes.agents.passage import present_model, present_tools
from hermes.core import ids, json
from hermes.core.chat import FinishReason, Usage
from hermes.core.clock import Clock
from hermes.core.events import (
    ModelFailed,
    ModelReplied,
    Recorded,
    TaskResumed,
    TaskStarted,
    ToolFailed,
    ToolReconciled,
    ToolReturned,
)
from hermes.core.message import Message
from hermes.core.request import AgentRequest
from hermes.core.task import Task, TaskState, fold
from hermes.errors import ModelError, StoreError, ToolError
from hermes.loop import Journal, PromptBook, Prompts, Run, RunSetup, RunState
from hermes.models import Model, ModelReply, ModelRequest, StreamPart
from hermes.models.charges import charge
from hermes.store import MemoryStore, Store, Worker
from hermes.tools import GuardPolicy, Tool, ToolContext, ToolGuard, ToolRegistry

from .decisions import Difference, compare, decisions
from .record import Record

_WORKER = "replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What deciding a task again came to.

    Attributes:
        decisions: How many were the same, from the first on.
        difference: The first other one, or None.
        is_whole: Whether the record goes to an end that the program decided.
        changes: What differs between the last program of the record and the present one.
        accepted: What had changed before, on the way, and who accepted it: the decisions before
            that are an earlier program's.
    """

    task_id: str
    decisions: int
    difference: Difference | None
    is_whole: bool
    changes: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()


async def replay(
    store: Store,
    task_id: str,
    agent: AgentDefinition,
    registry: ToolRegistry,
    model: Model | str,
    *,
    clock: Clock,
    prompts: PromptBook | None = None,
) -> Replayed:
    """Decide a task again, without any effect.

    Args:
        store: The journal, which is only read.
        task_id: The whole id.
        agent: As it is now.
        registry: Its tools that are on.
        model: Decides again if it is a program itself, as a playbook is. Of any other one the name
            is enough: the recorded replies stand in for it.
        clock: Gives the events of the replay their time, on which nothing depends.
        prompts: What the framework itself says to the model; the shipped texts if None.

    Raises:
        InputError: The task was never begun.
    """
    records = await store.events(task_id)
    record = Record.of(records)
    program = model if not isinstance(model, str) and program_of(model) else None
    stand_in = _StandIn(model if isinstance(model, str) else model.name, record)
    goal, codes = record.task.spec.goal, recorded_codes(records)
    said = prompts_of(prompts or PromptBook(), agent, goal=goal, codes=codes)
    now = manifest(agent, registry, program or stand_in, goal=goal, prompts=said)
    changes = drifts(codes[-1], now) if codes else []
    decides = stand_in
    if program is not None:
        fitting = present_model(agent, program, records, is_changed=bool(changes))
        decides = _Program(fitting, record)
    again = await _decide(
        store, record, agent, present_tools(agent, registry, records), decides, clock, said
    )
    by_program = program is not None
    after = len(record.head)
    then = decisions(records, replies=by_program, after=after)
    found = decisions(again, replies=by_program, after=after)
    then, found = record.comparable(then, found)
    same, difference = compare(then, found, is_whole=record.is_whole)
    return Replayed(
        task_id=task_id,
        decisions=same,
        difference=difference,
        is_whole=record.is_whole,
        changes=tuple(map(str, changes)),
        accepted=_accepted(records),
    )


def _accepted(records: Sequence[Recorded]) -> tuple[str, ...]:
    return tuple(
        f"{line} (accepted by {record.event.by})"
        for record in records
        if isinstance(record.event, TaskResumed)
        for line in record.event.accepted
    )


async def _decide(
    store: Store,
    record: Record,
    agent: AgentDefinition,
    registry: ToolRegistry,
    model: _StandIn,
    clock: Clock,
    prompts: Prompts,
) -> list[Recorded]:
    """Run the loop over the record, in memory; returns the events that it wrote."""
    task_id = record.task.task_id
    async with MemoryStore(clock=clock) as memory:
        await memory.register(_worker(clock))
        done = await memory.submit(record.head, _message(record.task), claim_for=_WORKER)
        task = fold(record.head)
        assert done.lease is not None and task is not None
        journal = Journal(
            store=memory,
            lease=done.lease,
            task=task,
            state=RunState.of(item.event for item in record.head),
            clock=clock,
            new_id=ids.uuid7,
        )
        if task.state == TaskState.DISPATCHED:
            journal.note(TaskStarted(worker=_WORKER, earlier=record.earlier, others=record.others))
        else:
            journal.note(TaskResumed(worker=_WORKER, reason="replay"))
        model.journal = journal
        setup = RunSetup(
            model=model,
            registry=_recorded_tools(registry, record),
            opening=await Executor(store, clock=clock).opening(journal, agent, prompts),
            prompts=prompts,
            request=_request(record.task),
            limits=limits_for(record.limits, model),
            stop=record.stop,
            output_schema=agent.output_schema,
            required_tools=agent.required_tools,
            result_limit_chars=_NO_LIMIT,
            guard=ToolGuard(clock=clock, policy=GuardPolicy(failures=None)),
            hidden=lambda path: record.hidden.get(path, ()),
            asks=False,
            compactions=record.compactions,
        )
        try:
            await Run(setup, journal, reader=memory, clock=clock).carry()
        except _RecordEnds:
            await journal.commit()
        return await memory.events(task_id)


_NO_LIMIT = 2**31


def _worker(clock: Clock) -> Worker:
    return Worker(worker_id=_WORKER, host="", pid=0, lock_path="", renewed_at=clock.now())


def _message(task: Task) -> Message:
    return Message(
        message_id=ids.message_id(),
        sender=_WORKER,
        receiver=task.spec.agent,
        message_type="task.dispatch",
        task_id=task.task_id,
        trace_id=task.trace_id,
        created_at=task.created_at,
        order_key=task.task_id,
    )


def _request(task: Task) -> AgentRequest:
    given = json.as_object(task.spec.input)
    return AgentRequest(input=task.spec.goal if given is None else given)


class _RecordEnds(StoreError):
    """The record holds no outcome for this call; it goes through tools as it is."""


def _recorded_tools(registry: ToolRegistry, record: Record) -> ToolRegistry:
    """The present tools, each of which gives the recorded result of the call at its path."""

    def stand_in(tool: Tool) -> Tool:
        async def invoke(_: Mapping[str, object], context: ToolContext) -> object:
            return _result(record, context)

        return replace(
            tool,
            invoke=invoke,
            timeout_s=None,
            key=None,
            reconcile=None,
            requires_approval=False,
            retries=0,
            concurrency=None,
            run_in="thread",
        )

    return registry.each(stand_in)


def _result(record: Record, context: ToolContext) -> object:
    path = context.idempotency_key.removeprefix(record.task.task_id)
    result = record.results.get(path)
    match result:
        case ToolReturned(content=content) | ToolReconciled(content=content):
            context.variables.update(record.written.get(path, {}))
            return content
        case ToolFailed(error=error):
            raise ToolError(
                error.message, code=error.code, retryable=error.retryable, hint=error.hint
            )
        case None:
            raise _RecordEnds(f"the record holds no outcome of {path}")


class _StandIn:
    """What the loop asks in place of a model; sets the variables that no call of the task set.

    Attributes:
        journal: Of the replay.
    """

    def __init__(self, name: str, record: Record) -> None:
        self.name, self.journal = name, cast("Journal", None)
        self._left, self._given, self._asked = deque(record.replies), deque(record.given), 0

    async def reply(self, request: ModelRequest) -> ModelReply:
        fresh: dict[str, object] = {}
        while self._given and self._given[0][0] <= self._asked:
            fresh[self._given[0][1].name] = self._given[0][1].value
            self.journal.note(self._given.popleft()[1])
        self._asked += 1
        if not self._left:
            raise _RecordEnds("the record holds no outcome of this model call")
        return await self._answer(
            self._left.popleft(), replace(request, variables={**request.variables, **fresh})
        )

    async def _answer(
        self, recorded: ModelReplied | ModelFailed, request: ModelRequest
    ) -> ModelReply:
        if isinstance(recorded, ModelFailed):
            error = recorded.error
            again = ModelError(
                error.message,
                code=error.code,
                retryable=error.retryable,
                hint=error.hint,
                partial_text=recorded.partial_text,
            )
            if recorded.usage != Usage():
                charge(again, recorded.usage)
            raise again
        return ModelReply(
            text=recorded.text,
            reasoning=recorded.reasoning,
            calls=recorded.calls,
            finish_reason=cast("FinishReason", recorded.finish_reason),
            usage=recorded.usage,
            model=recorded.model,
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        yield await self.reply(request)

    async def aclose(self) -> None:
        pass


class _Program(_StandIn):
    """A model that is a program itself and decides anew, as long as the record goes on."""

    def program_parts(self, goal: str) -> Mapping[str, str]:
        program = program_of(self._model)
        return {} if program is None else program.program_parts(goal)

    def __init__(self, model: Model, record: Record) -> None:
        super().__init__(model.name, record)
        self._model = model

    async def _answer(
        self, recorded: ModelReplied | ModelFailed, request: ModelRequest
    ) -> ModelReply:
        return await self._model.reply(request)
