"""What the world outside saw of a run: a file that outlives every crash of it."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Event
from typing import Literal, cast

from hermes.app import Agent
from hermes.core import json
from hermes.core.chat import AssistantMessage, ChatMessage, UserMessage
from hermes.errors import ConfigError
from hermes.models import Model, ModelReply, ModelRequest, StreamPart, open_model
from hermes.tools import Tool, ToolContext

Kind = Literal["point", "tool", "reconcile", "model", "decision", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One thing that was seen.

    Attributes:
        life: Which process of the run: 0 for the first, one more after each crash.
        kind: A failpoint; a tool's call or its question how a call ended; a model's call; a
            person's decision; the end of a process that was not struck.
        name: Of the failpoint, tool, model, or decision; the status at the end.
        is_over: It returned or raised; else it began.
        key: A tool's idempotency key; a decision's task and path.
        goal: Of the task.
        place: A model's call: how many replies it had in hand. A failpoint: the how-manieth.
        effect: Class of the tool.
        digest: Of a call's arguments, or of its result when it is over.
    """

    life: int
    kind: Kind
    name: str
    is_over: bool = False
    key: str = ""
    goal: str = ""
    place: int = 0
    effect: str = ""
    digest: str = ""

    @property
    def path(self) -> str:
        """The step path in a key: `/turn1/tool1`."""
        return self.key[self.key.find("/") :] if "/" in self.key else ""


class Outside:
    """Writes down, line by line in one file, what a process does to the world.

    Each line is one write to a file opened for appending: it is there whole, whatever becomes of
    the process.

    Attributes:
        is_quiet: No tool is between being written down and being over.
    """

    def __init__(self, path: Path, *, life: int = 0) -> None:
        self.path, self.life = path, life
        self.is_quiet = Event()
        self.is_quiet.set()
        self._at_work = 0

    def add(self, seen: Seen) -> None:
        """Write one thing down."""
        line = json.encode(asdict(replace(seen, life=self.life))) + b"\n"
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)

    @contextmanager
    def deed(self, seen: Seen) -> Generator[None]:
        """Write down that a tool begins; what it does follows inside the block."""
        self._at_work += 1
        self.is_quiet.clear()
        try:
            self.add(seen)
            yield
        finally:
            self._at_work -= 1
            if not self._at_work:
                self.is_quiet.set()

    def read(self) -> list[Seen]:
        """Everything so far, in order."""
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().splitlines()
        return [_seen(json.as_object(json.loads(line)) or {}) for line in lines]


def watched(agent: Agent, outside: Outside) -> Agent:
    """The same agent, with every call of its model and of its own tools written down.

    Raises:
        ConfigError: Its model would be asked over the network.
    """
    definition = agent.definition
    model = agent.model
    if model is None:
        if definition.model is None or not definition.model.startswith("playbook:"):
            raise ConfigError(
                f"agent {definition.name!r} has no model that works offline",
                hint="give it a playbook or a script of replies",
            )
        model = open_model(definition.model)
    tools = tuple(_watched_tool(tool, outside) for tool in definition.tools)
    return Agent.of(
        replace(definition, tools=tools, model=None), model=WatchedModel(model, outside)
    )


class WatchedModel:
    """A model whose calls are written down."""

    def __init__(self, inner: Model, outside: Outside) -> None:
        self._inner, self._outside = inner, outside

    @property
    def name(self) -> str:
        """Of the model inside."""
        return self._inner.name

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Ask the model inside."""
        seen = Seen(
            life=0,
            kind="model",
            name=self.name,
            goal=goal_of(request.messages),
            place=replies_so_far(request.messages),
        )
        self._outside.add(seen)
        reply = await self._inner.reply(request)
        self._outside.add(replace(seen, is_over=True))
        return reply

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """The reply in one piece."""
        yield await self.reply(request)

    async def aclose(self) -> None:
        """Close the model inside."""
        await self._inner.aclose()


def goal_of(messages: Sequence[ChatMessage]) -> str:
    """The goal in a conversation: the last thing a person said."""
    asked = messages[_goal_place(messages)] if messages else None
    return asked.text if isinstance(asked, UserMessage) else ""


def replies_so_far(messages: Sequence[ChatMessage]) -> int:
    """How many replies to the goal a conversation holds."""
    later = messages[_goal_place(messages) :]
    return sum(isinstance(message, AssistantMessage) for message in later)


def _goal_place(messages: Sequence[ChatMessage]) -> int:
    places = [
        place
        for place, message in enumerate(messages)
        if isinstance(message, UserMessage) and not message.reminder
    ]
    return places[-1] if places else 0


def _watched_tool(tool: Tool, outside: Outside) -> Tool:
    async def invoke(arguments: Mapping[str, object], context: ToolContext) -> object:
        if tool.dry_run and arguments.get("dry_run"):  # it does nothing outside
            return await tool.invoke(arguments, context)
        seen = Seen(
            life=0,
            kind="tool",
            name=tool.name,
            key=context.idempotency_key,
            goal=context.task.goal,
            effect=tool.effect,
            digest=_digest(arguments),
        )
        with outside.deed(seen):
            result = await tool.invoke(arguments, context)
        outside.add(replace(seen, is_over=True, digest=_digest(result)))
        return result

    async def reconcile(key: str, arguments: dict[str, object]) -> object:
        assert tool.reconcile is not None
        seen = Seen(life=0, kind="reconcile", name=tool.name, key=key, effect=tool.effect)
        outside.add(seen)
        found = tool.reconcile(key, arguments)
        return await found if inspect.isawaitable(found) else found

    asks = reconcile if tool.reconcile is not None else None
    return replace(tool, invoke=invoke, reconcile=asks)


def _digest(value: object) -> str:
    try:
        return json.digest(value)
    except Exception:  # not plain JSON: its text tells two of them apart as well
        return json.digest(re.sub(r" at 0x[0-9a-f]+", "", repr(value)))


def _seen(data: Mapping[str, object]) -> Seen:
    return Seen(**cast("dict[str, object]", data))  # pyright: ignore[reportArgumentType]  # own lines
