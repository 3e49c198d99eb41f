"""What a model was sent at a call of a recorded task, built again from the record."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hermes.agents import AgentDefinition
from hermes.agents.code import drifts, manifest, prompts_of, recorded_codes
from hermes.agents.opening import opening
from hermes.agents.passage import present_tools
from hermes.core import json
from hermes.core.chat import ChatMessage, ToolSpec, UserMessage, estimate_tokens
from hermes.core.events import ContextCompacted, ModelReplied, ModelRequested, Recorded
from hermes.core.task import fold
from hermes.errors import InputError, NotFoundError
from hermes.loop import RunState
from hermes.loop.context import Context, tokens_of
from hermes.loop.prompts import PromptBook
from hermes.loop.summary import INSTRUCTION, SummaryRequest
from hermes.models import Model
from hermes.store import Store
from hermes.tools import ToolRegistry

_MANY = 20
_TOOL = re.compile(r"/turn(\d{1,9})/tool\d+(/.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Messages of a request that belong together.

    Attributes:
        name: `system`, `session`, `goal`, `summary`, `shortened turns`, `recent turns`,
            `reminder` or, of the request for a summary, `transcript`.
        tokens: Estimated.
        pieces: Tokens of what the part is made of, where that is more than one thing.
    """

    name: str
    messages: tuple[ChatMessage, ...]
    pieces: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def tokens(self) -> int:
        return tokens_of(self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request of a recorded task, before a provider's adapter spells it.

    Attributes:
        path: Of the model call.
        model: That was asked.
        purpose: A `turn`, or a `compaction`.
        parts: The messages, in order.
        tools: What was offered.
        counted: Tokens of the request by the provider's count; None if there is no such count.
        differences: Where the present agent differs from the recorded one, and what could not be
            built again.
    """

    task_id: str
    path: str
    model: str
    purpose: str
    parts: tuple[Part, ...]
    tools: tuple[ToolSpec, ...]
    counted: int | None
    differences: tuple[str, ...]

    @property
    def tools_tokens(self) -> int:
        """Estimated."""
        plain = [[spec.name, spec.description, spec.parameters] for spec in self.tools]
        return estimate_tokens(json.dumps(plain)) if plain else 0


async def sent(
    store: Store,
    task_id: str,
    agent: AgentDefinition,
    registry: ToolRegistry,
    model: Model | str,
    *,
    at: str | None = None,
    prompts: PromptBook | None = None,
) -> Sent:
    """What a model was sent.

    Args:
        store: The journal, which is only read.
        task_id: The whole id.
        agent: As it is now; the system message is the recorded one.
        registry: Its tools that are on.
        model: As for a replay.
        at: Path of the model call, or number of the turn; the last call if None.
        prompts: What the framework itself says; the shipped texts if None.

    Raises:
        InputError: There is no such call.
    """
    records = await store.events(task_id)
    task = fold(records)
    if task is None:
        raise NotFoundError(f"no task {task_id!r}")
    place, intent = _find(records, at)
    state = RunState.of(record.event for record in records[: place + 1])
    rules, faults = await _rules(store, intent)
    bare = Sent(
        task_id=task_id,
        path=intent.path,
        model=intent.model,
        purpose=intent.purpose,
        parts=(),
        tools=(),
        counted=_counted(records[place:], intent),
        differences=(),
    )
    codes = recorded_codes(records)
    said = prompts_of(prompts or PromptBook(), agent, goal=task.spec.goal, codes=codes)
    present = present_tools(agent, registry, records)
    now = manifest(agent, registry, model, goal=task.spec.goal, prompts=said)
    found = drifts(codes[-1], now) if codes else []
    changes = [f"the program has changed: {each}" for each in found]
    if intent.purpose == "compaction":
        maker = SummaryRequest(Context(()), goal=task.spec.goal, rules=rules or INSTRUCTION)
        rule, text = maker.build(state, intent).messages
        parts = (Part(name="system", messages=(rule,)), Part(name="transcript", messages=(text,)))
        return replace(bare, parts=parts, differences=(*faults, *changes))
    first = await opening(store, task, state, agent, rules=rules, prompts=said)
    if json.digest([getattr(item, "text", "") for item in first]) != intent.prompt:
        faults.append("what stands before the conversation is not to the letter what was sent")
    if present.digest != intent.tools:
        faults.append("the tools are not those that were offered: the present ones are shown")
    parts = _parts(Context(first), state, intent, first)
    count = sum(len(part.messages) for part in parts) - bool(intent.repair)
    if count != intent.history:
        faults.append(f"{intent.history} messages were sent, and {count} are shown")
    return replace(
        bare,
        parts=parts,
        tools=tuple(spec for spec in present.specs if spec.name not in intent.hidden),
        differences=(*faults, *changes),
    )


def _find(records: Sequence[Recorded], at: str | None) -> tuple[int, ModelRequested]:
    """The intent of a model call, and its place."""
    found = [
        (place, record.event)
        for place, record in enumerate(records)
        if isinstance(record.event, ModelRequested)
    ]
    if not found:
        raise InputError("the task has not asked a model yet, so there is nothing to show")
    if at is None:
        return found[-1]
    wanted = "/" + at.strip().lstrip("/")
    if wanted[1:].isdigit():
        wanted = f"/turn{wanted[1:]}"
    for place, event in found:
        if event.path in (wanted, f"{wanted}/model1"):
            return place, event
    paths = [event.path for _, event in found]
    if tool := _TOOL.fullmatch(wanted):
        number = int(tool[1])
        near = [path for path in paths if _turn_of(path) in (number, number + 1)] or paths[-1:]
        raise InputError(
            f"{at!r:.80} is a tool call, and no model was sent anything at it",
            hint=f"only model calls can be shown, summaries included; the nearest: "
            f"{', '.join(near[:_MANY])}",
        )
    shown = ", ".join(paths if len(paths) <= _MANY else [*paths[:3], "…", *paths[-3:]])
    raise InputError(f"the task has no model call {at!r:.80}", hint=f"its model calls: {shown}")


def _turn_of(path: str) -> int:
    return int(path.split("/")[1].removeprefix("turn"))


async def _rules(store: Store, intent: ModelRequested) -> tuple[str | None, list[str]]:
    """The system message as it was sent; None if the record does not hold it."""
    if intent.system:
        try:
            return (await store.blob(intent.system)).decode(), []
        except NotFoundError:
            pass
    return None, ["the record does not hold the system message: the present one is shown"]


def _counted(records: Sequence[Recorded], intent: ModelRequested) -> int | None:
    """Tokens of the request, where the provider counted them."""
    for record in records:
        event = record.event
        if isinstance(event, ModelReplied | ContextCompacted) and event.path == intent.path:
            return None if event.usage.estimated else event.usage.prompt_tokens or None
    return None


def _parts(
    context: Context, state: RunState, intent: ModelRequested, first: Sequence[ChatMessage]
) -> tuple[Part, ...]:
    goal = next(
        place
        for place in reversed(range(len(first)))
        if isinstance(message := first[place], UserMessage) and not message.reminder
    )
    middle = context.middle(state)
    made = state.compacted
    ahead = 1 if made is not None and made.upto else 0
    pieces: dict[str, int] = {}
    if made is not None and ahead:
        texts = {"progress": made.progress, "summary": made.summary, "variables": made.variables}
        pieces = {name: estimate_tokens(text) for name, text in texts.items() if text}
    repair = (UserMessage(text=intent.repair, reminder=True),) if intent.repair else ()
    found = (
        Part(name="system", messages=tuple(first[:1])),
        Part(name="session", messages=tuple(first[1:goal])),
        Part(name="goal", messages=tuple(first[goal:])),
        Part(name="summary", messages=tuple(middle[:ahead]), pieces=pieces),
        Part(name="shortened turns", messages=tuple(middle[ahead:])),
        Part(name="recent turns", messages=tuple(context.recent(state))),
        Part(name="reminder", messages=repair),
    )
    return tuple(part for part in found if part.messages)
