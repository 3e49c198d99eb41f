"""Taking a task over into the present program, once its differences are accepted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from hermes.core.chat import AssistantMessage, ChatMessage, ToolMessage
from hermes.core.effects import may_repeat
from hermes.core.events import (
    Fault,
    Recorded,
    TaskResumed,
    ToolFailed,
    ToolInDoubt,
    ToolStarted,
    VariableSet,
)
from hermes.loop import Journal
from hermes.loop.state import OpenCall
from hermes.loop.suspend import Held
from hermes.models import Model, ModelReply, ModelRequest, StreamPart
from hermes.tools import Prepared, ToolRegistry, failed_result, prepare

from .code import recorded_codes
from .definition import AgentDefinition
from .migrations import lineage


@runtime_checkable
class Changeable(Protocol):
    """A model that is a program itself and can go on with a task that began under another."""

    def after_change(self) -> Model:
        """The model for such a task."""
        ...


def present_tools(
    agent: AgentDefinition, registry: ToolRegistry, records: Sequence[Recorded]
) -> ToolRegistry:
    """The tools, those that a migration renamed also under their old names.

    Args:
        agent: As it is now.
        registry: Its tools that are on.
        records: The task's stream so far.
    """
    return registry.also_as(_renames(agent, records))


def present_model(
    agent: AgentDefinition, model: Model, records: Sequence[Recorded], *, is_changed: bool
) -> Model:
    """The model, which finds the earlier calls of a changed program under their present names."""
    if is_changed or any(
        isinstance(item.event, TaskResumed) and item.event.accepted for item in records
    ):
        model = model.after_change() if isinstance(model, Changeable) else model
    renames = _renames(agent, records)
    return _Renamed(model, renames) if renames else model


def _renames(agent: AgentDefinition, records: Sequence[Recorded]) -> Mapping[str, str]:
    codes = recorded_codes(records)
    began = codes[0].get("version", "") if codes else agent.version
    way = lineage(agent.migrations, began, agent.version)
    return {} if way is None else way.renames


def take_over(
    journal: Journal,
    agent: AgentDefinition,
    records: Sequence[Recorded],
    variables: Mapping[str, object],
) -> None:
    """Note what a changed program means for a task that goes on, its open calls aside.

    Args:
        journal: At work, its resume noted.
        agent: As it is now.
        records: The stream before the resume.
        variables: Set where the task does not have them.
    """
    state = journal.state
    state.renames.update(_renames(agent, records))
    state.succeeded |= {new for old, new in state.renames.items() if old in state.succeeded}
    for name, value in variables.items():
        if name not in state.variables:
            journal.note(VariableSet(name=name, value=value))


def refuse_changed(
    journal: Journal, registry: ToolRegistry, records: Sequence[Recorded]
) -> list[Held]:
    """Refuse open calls that cannot be made any more, their tool being gone or another one.

    Args:
        journal: At work, with the answers to what it waited for.
        registry: The present tools, under former names too.
        records: The stream before the resume; one without manifests is left to the loop.

    Returns:
        What a person has to say: whether a call took place that was begun and may not simply be
        made again does not depend on the present program.
    """
    state, held = journal.state, list[Held]()
    known = {name for code in recorded_codes(records) for name in code}
    for item in state.open_calls if known else ():
        begun = state.started.get(item.path)
        if item.path in state.held or (begun is None and not _was_removed(item, known, registry)):
            continue
        reason = _why_not(item, begun, registry)
        if not reason:
            continue
        if begun is None or may_repeat(begun.effect) or item.path in state.cleared:
            journal.note(_refusal(item, reason))
        else:
            held.append(_doubt(journal, item, begun, reason))
    return held


def _was_removed(item: OpenCall, known: Collection[str], registry: ToolRegistry) -> bool:
    return item.call.name not in registry and f"tool:{item.call.name}" in known


def _why_not(item: OpenCall, begun: ToolStarted | None, registry: ToolRegistry) -> str:
    """Why a call cannot be made as it was begun, or "" if it can."""
    if item.call.name not in registry:
        return f"the tool {item.call.name!r} was removed before it ended"
    prepared = prepare(registry, item.call)
    if not isinstance(prepared, Prepared):
        text = prepared.error.message if prepared.error else prepared.content
        return f"the tool {item.call.name!r} was changed before it ended: {text}"
    if begun is not None and begun.fingerprint != prepared.fingerprint:
        return f"the tool {item.call.name!r} was changed and reads these arguments otherwise"
    return ""


def _refusal(item: OpenCall, reason: str) -> ToolFailed:
    fault = Fault(code="removed", message=f"not made again: {reason}", hint="use another tool")
    content = failed_result("refused", fault).content
    return ToolFailed(
        path=item.path,
        call_id=item.call.id,
        name=item.call.name,
        status="refused",
        error=fault,
        content=content,
    )


def _doubt(journal: Journal, item: OpenCall, begun: ToolStarted, reason: str) -> Held:
    name = item.call.name
    why = f"the process ended while the call was running, and {reason}"
    journal.note(ToolInDoubt(path=item.path, call_id=item.call.id, name=name, reason=why))
    return Held(
        path=item.path,
        kind="in_doubt",
        name=name,
        text=f"{name} was begun and its outcome is unknown: {why}",
        data={
            "arguments": item.call.arguments if begun.arguments is None else begun.arguments,
            "effect": begun.effect,
            "idempotency_key": f"{journal.task.task_id}{item.path}",
            "reason": why,
        },
    )


class _Renamed:
    """A model that is shown earlier calls under the present names of their tools."""

    def __init__(self, model: Model, renames: Mapping[str, str]) -> None:
        self._model, self._renames = model, renames

    @property
    def name(self) -> str:
        return self._model.name

    async def reply(self, request: ModelRequest) -> ModelReply:
        return await self._model.reply(self._shown(request))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        async for part in self._model.stream(self._shown(request)):
            yield part

    async def aclose(self) -> None:
        await self._model.aclose()

    def _shown(self, request: ModelRequest) -> ModelRequest:
        return replace(request, messages=list(map(self._message, request.messages)))

    def _message(self, message: ChatMessage) -> ChatMessage:
        match message:
            case AssistantMessage(calls=calls) if any(call.name in self._renames for call in calls):
                named = tuple(
                    replace(call, name=self._renames.get(call.name, call.name)) for call in calls
                )
                return AssistantMessage(text=message.text, calls=named, reasoning=message.reasoning)
            case ToolMessage(name=name) if name in self._renames:
                return ToolMessage(
                    call_id=message.call_id,
                    name=self._renames[name],
                    text=message.text,
                    is_error=message.is_error,
                    origin=message.origin,
                )
            case _:
                return message
