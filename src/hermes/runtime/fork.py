"""A new task out of the record of another one: from a step of it, or from its beginning."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hermes.agents.code import drifts
from hermes.core import ids
from hermes.core.budget import Limits
from hermes.core.clock import Clock
from hermes.core.effects import may_repeat
from hermes.core.events import (
    ArtifactSaved,
    ContextCompacted,
    MessageSent,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    Recorded,
    TaskCreated,
    TaskDispatched,
    TaskEvent,
    TaskResumed,
    TaskStarted,
    ToolFailed,
    ToolInDoubt,
    ToolReconciled,
    ToolReturned,
    ToolStarted,
    VariableSet,
)
from hermes.core.ids import NewUUID
from hermes.core.message import Message
from hermes.core.task import fold
from hermes.errors import InputError
from hermes.loop import RunState
from hermes.store import Store
from hermes.tools import render

from .decisions import calls_of
from .dispatch import RUN_SENDER

_PATH = re.compile(r"/?(?:turn)?(\d+)(?:/(?:tool(\d+)|model(\d+)))?")
_SUMMARY = re.compile(r"/?turn(\d{1,9})/compact\d+")
_COPIED = (
    TaskStarted,
    ModelRequested,
    ModelReplied,
    ModelFailed,
    ContextCompacted,
    ToolStarted,
    ToolReturned,
    ToolFailed,
    ToolInDoubt,
    ToolReconciled,
    VariableSet,
    ArtifactSaved,
)
_OUTCOMES = (ToolReturned, ToolFailed, ToolInDoubt, ToolReconciled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A place in a task: a turn, one of its model calls, or one of its tool calls."""

    turn: int
    tool: int | None = None
    model: int = 1

    @classmethod
    def of(cls, text: str) -> Step:
        """Read `/turn3/tool1`, `turn3/tool1`, `turn3` or `3`.

        Raises:
            InputError: It is none of these.
        """
        if summary := _SUMMARY.fullmatch(text.strip()):
            turn = summary[1]
            raise InputError(
                f"{text!r:.80} is the request for a summary, which is no step to begin at",
                hint=f"a step is a turn or a tool call: /turn{turn} comes after the summary, "
                f"/turn{max(1, int(turn) - 1)} before it; `hermes context` shows the summary",
            )
        found = _PATH.fullmatch(text.strip())
        if found is None or int(found[1]) < 1 or "0" in (found[2], found[3]):
            raise InputError(
                f"{text!r:.80} is no step path",
                hint="as `hermes trace` shows them: /turn3, /turn3/tool1, or only 3",
            )
        tool = int(found[2]) if found[2] else None
        return cls(turn=int(found[1]), tool=tool, model=int(found[3] or 1))

    def __str__(self) -> str:
        if self.tool is not None:
            return f"/turn{self.turn}/tool{self.tool}"
        return f"/turn{self.turn}" + (f"/model{self.model}" if self.model > 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What the new task has otherwise than the one it comes from.

    Attributes:
        variables: Set before it goes on.
        results: Results of earlier calls, by their paths.
        limits: Its bounds; those of the other one by default.
        launch: How its agent is found; as for the other one by default.
        code: Manifest of the program that will go on with it; what differs from the record's
            is accepted and noted.
    """

    variables: Mapping[str, object] = field(default_factory=dict[str, object])
    results: Mapping[str, object] = field(default_factory=dict[str, object])
    limits: Limits | None = None
    launch: Mapping[str, object] | None = None
    code: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """The new task.

    Attributes:
        copied: How many model and tool calls it has from the other one and never makes again.
        again: Calls of the other one, at or after the step, whose effect may come about once more.
        accepted: What differs from the program of the record.
    """

    task_id: str
    copied: int
    again: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()


async def fork(
    store: Store,
    task_id: str,
    at: Step,
    changes: Changes,
    *,
    clock: Clock,
    new_id: NewUUID,
    is_retry: bool = False,
) -> Forked:
    """Submit a task whose journal begins with that of another one before a step.

    Its calls have their recorded outcomes and are never made again, and their business keys are
    not claimed again. It is a task of no session and has no parent.

    Args:
        store: The journal.
        task_id: The other task, in any state.
        at: The first step that is made anew.
        changes: What is otherwise.
        clock: Gives the events their time.
        new_id: Gives them their ids.
        is_retry: It tries the other one again.

    Raises:
        InputError: There is no such step, or a call before it has no outcome.
    """
    records = await store.events(task_id)
    events = [record.event for record in records]
    kept, left = _cut(events, at)
    for path, value in changes.results.items():
        kept = _with_result(kept, str(Step.of(path)), value, at)
    kept += [VariableSet(name=name, value=value) for name, value in changes.variables.items()]
    _check(kept, events, at)
    accepted: tuple[str, ...] = ()
    codes = [event.code for event in kept if isinstance(event, TaskStarted | TaskResumed)]
    if codes and (found := drifts(codes[-1], changes.code) if changes.code else []):
        accepted = tuple(map(str, found))
        reason = f"forked from {task_id} at {at}"
        kept.append(
            TaskResumed(worker="", reason=reason, code=changes.code, accepted=accepted, by="fork")
        )
    spec = replace(
        _spec(events, changes),
        session_id=None,
        fork_of=f"{task_id}@{at}",
        retry_of=task_id if is_retry else None,
    )
    new = await _submit(store, spec, kept, clock=clock, new_id=new_id)
    return Forked(
        task_id=new,
        copied=sum(isinstance(event, ModelReplied | ToolReturned | ToolFailed) for event in kept),
        again=tuple(
            f"{event.path} {event.name} ({event.effect})"
            for event in left
            if isinstance(event, ToolStarted) and not may_repeat(event.effect)
        ),
        accepted=accepted,
    )


async def retry(
    store: Store, task_id: str, changes: Changes, *, clock: Clock, new_id: NewUUID
) -> Forked:
    """Submit a task with the goal, input and settings of a settled one.

    Args:
        store: The journal.
        task_id: The settled task.
        changes: Its variables, limits and launch may be others.
        clock: Gives the events their time.
        new_id: Gives them their ids.
    """
    events = [record.event for record in await store.events(task_id)]
    spec = replace(_spec(events, changes), retry_of=task_id, fork_of=None)
    return Forked(task_id=await _submit(store, spec, [], clock=clock, new_id=new_id), copied=0)


async def check_settled(store: Store, task_id: str) -> None:
    """Refuse to try a task again that is still on its way.

    Raises:
        InputError: It is not settled.
    """
    task = await store.task(task_id)
    if not task.state.is_terminal:
        raise InputError(
            f"task {task_id} is {task.state}, so it cannot be tried again",
            hint=f"`hermes resume {task_id}` goes on with it; `hermes cancel` would end it",
        )


def _cut(events: Sequence[TaskEvent], at: Step) -> tuple[list[TaskEvent], list[TaskEvent]]:
    """What comes before a step and what does not, of the events that a copy has."""
    place = _place(events, at)
    before, after = list(events[:place]), list(events[place:])
    if at.tool is not None:
        earlier = {f"/turn{at.turn}/tool{number}" for number in range(1, at.tool)}
        before += [event for event in after if getattr(event, "path", "") in earlier]
        after = [event for event in after if getattr(event, "path", "") not in earlier]
    return [event for event in before if _is_copied(event)], after


def _place(events: Sequence[TaskEvent], at: Step) -> int:
    """Index of the first event from the step on, calls beside it aside."""
    if at.tool is None:
        wanted = f"/turn{at.turn}/model{at.model}"
        for place, event in enumerate(events):
            if isinstance(event, ModelRequested) and event.path == wanted:
                return place
    else:
        for place, event in enumerate(events):
            if isinstance(event, ModelReplied) and str(at) in calls_of(event):
                return place + 1
    raise InputError(f"the task has no step {at}", hint=_steps(events))


def _steps(events: Sequence[TaskEvent]) -> str:
    turns = [
        event
        for event in events
        if isinstance(event, ModelRequested) and not event.repair and event.purpose == "turn"
    ]
    if not turns:
        return "it has none; `hermes retry` begins it anew"
    return f"its turns are 1 to {len(turns)}; `hermes trace` shows them"


def _is_copied(event: TaskEvent) -> bool:
    return isinstance(event, _COPIED) or (isinstance(event, TaskResumed) and bool(event.code))


def _with_result(kept: Sequence[TaskEvent], path: str, value: object, at: Step) -> list[TaskEvent]:
    """The events with another result of a call, which then has come to something in any case."""
    calls = {
        name: call
        for event in kept
        if isinstance(event, ModelReplied)
        for name, call in calls_of(event).items()
    }
    if path not in calls or path == str(at) or not _is_before(Step.of(path), at):
        raise InputError(
            f"the call {path} does not come before {at}, so it has no result to change",
            hint=f"calls before it: {', '.join(name for name in calls) or 'none'}",
        )
    text = render(value)
    result = ToolReturned(
        path=path,
        call_id=calls[path].id,
        name=calls[path].name,
        content=text,
        size_chars=len(text),
    )
    edited: list[TaskEvent] = []
    is_placed = False
    for event in kept:
        if isinstance(event, _OUTCOMES) and event.path == path:
            if not is_placed:
                edited.append(result)
            is_placed = True
        else:
            edited.append(event)
    return edited if is_placed else [*edited, result]


def _is_before(step: Step, at: Step) -> bool:
    return step.turn < at.turn or (at.tool is not None and (step.tool or 0) < at.tool)


def _check(kept: Sequence[TaskEvent], events: Sequence[TaskEvent], at: Step) -> None:
    """Refuse a cut that would leave open what came of a call."""
    state = RunState.of(kept)
    wanted = None if at.tool is None else str(at)
    for item in state.open_calls:
        if item.path == wanted or not _is_before(Step.of(item.path), at):
            continue
        raise InputError(
            f"{item.path} ({item.call.name}) comes before {at} and has no outcome in the record",
            hint=f"say it by --edit-result {item.path}=JSON, or fork at {item.path}",
        )
    begun = RunState.of(events).started.get(wanted or "")
    if begun is not None and not may_repeat(begun.effect):
        raise InputError(
            f"{wanted} ({begun.name}, {begun.effect}) was begun and has no outcome: "
            "made anew it might take place twice",
            hint="decide about it first: `hermes review list`, or `hermes resume TASK --in-doubt "
            "done|again`",
        )


def _spec(events: Sequence[TaskEvent], changes: Changes) -> TaskCreated:
    spec = events[0] if events else None
    if not isinstance(spec, TaskCreated):
        raise InputError("there is no such task")
    return replace(
        spec,
        parent_id=None,
        parent_path="",
        root_id=None,
        limits=changes.limits or spec.limits,
        launch=spec.launch if changes.launch is None else changes.launch,
        variables={**spec.variables, **changes.variables},
    )


async def _submit(
    store: Store,
    spec: TaskCreated,
    kept: Sequence[TaskEvent],
    *,
    clock: Clock,
    new_id: NewUUID,
) -> str:
    task_id, trace_id, now = ids.task_id(new_id), ids.trace_id(new_id), clock.now()
    message = Message(
        message_id=ids.message_id(new_id),
        sender=RUN_SENDER,
        receiver=spec.agent,
        message_type="task.dispatch",
        task_id=task_id,
        trace_id=trace_id,
        created_at=now,
        order_key=f"session:{spec.session_id}" if spec.session_id else task_id,
    )
    sent = MessageSent(message=message.to_wire())
    dispatched = TaskDispatched(receiver=spec.agent, message_id=message.message_id)
    records = [
        Recorded(
            event_id=new_id().hex,
            task_id=task_id,
            seq=seq,
            event=event,
            at=now,
            trace_id=trace_id,
        )
        for seq, event in enumerate([spec, sent, dispatched, *kept], 1)
    ]
    fold(records)
    await store.submit(records, message)
    return task_id
