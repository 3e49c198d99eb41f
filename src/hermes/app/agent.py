"""An agent to call, and how its runs are carried out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, cast

import anyio

from hermes.agents import AgentDefinition, Feed, FeedItem, Migration, load_agent, streamed
from hermes.core.budget import Limits
from hermes.core.request import AgentRequest, AgentResponse
from hermes.loop import Observer
from hermes.models import Model
from hermes.tools import Tool, tool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run is carried out.

    Attributes:
        stream: Ask the model for a stream and pass its pieces to the observers.
        observers: Watch the run as it goes.
        launch: Kept with the task: how `hermes resume` finds agent, tools and settings again.
        model_chosen: The model of a resume was given on purpose, and may differ from the record's.
    """

    stream: bool = False
    observers: Sequence[Observer] = ()
    launch: Mapping[str, object] = field(default_factory=dict[str, object])
    model_chosen: bool = False


class Agent:
    """A model, its tools and its rules: call `run` and get an answer.

    Without an application around it a run lives in memory and writes no file.

    Args:
        name: Also the name of its queue; letters, digits, `.`, `_`, `-`.
        role: Who it is, in a few words.
        instructions: What it is to do and how.
        tools: `@tool` functions; a plain function becomes an `unsafe` tool.
        groups: Tool groups to switch on; `core` and `http` by default.
        model: A model name, `playbook:FILE`, or a `Model`; the settings' `MODEL_NAME` by default.
        limits: Bounds of one task; 10 steps by default.
        input_schema: JSON Schema of structured input.
        output_schema: JSON Schema that the answer has to fit; `output` is then an object.
        required_tools: Tools that must have succeeded before the end.
        allow: Calls that need no leave once content from outside was read: `NAME`, or
            `NAME:ARGUMENT=PATTERN` with `*` for any text.
        deny: Tools that are never offered.
        version: Your word for this state of the agent, such as `2`.
        migrations: How tasks of older versions go on with this one.
    """

    def __init__(
        self,
        *,
        name: str = "agent",
        role: str = "",
        instructions: str = "",
        tools: Iterable[Tool[..., object] | Callable[..., object]] = (),
        groups: Sequence[str] | None = None,
        model: str | Model | None = None,
        limits: Limits | None = None,
        input_schema: Mapping[str, object] | None = None,
        output_schema: Mapping[str, object] | None = None,
        required_tools: Sequence[str] = (),
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        version: str = "",
        migrations: Sequence[Migration] = (),
    ) -> None:
        self.model = None if model is None or isinstance(model, str) else model
        self.definition = AgentDefinition(
            name=name,
            role=role,
            instructions=instructions,
            tools=tuple(map(_as_tool, tools)),
            groups=tuple(groups) if groups is not None else None,
            model=model if isinstance(model, str) else None,
            limits=limits,
            input_schema=input_schema,
            output_schema=output_schema,
            required_tools=tuple(required_tools),
            allow=tuple(allow),
            deny=tuple(deny),
            version=version,
            migrations=tuple(migrations),
        )

    @classmethod
    def from_file(cls, path: str | Path, *, model: Model | None = None) -> Self:
        """Read an agent file (TOML or YAML).

        Raises:
            ConfigError: The file is missing or wrong.
        """
        return cls.of(load_agent(Path(path)), model=model)

    @classmethod
    def of(cls, definition: AgentDefinition, *, model: Model | None = None) -> Self:
        """An agent out of its definition, with its model if that is at hand."""
        agent = cls(model=model)
        agent.definition = definition
        return agent

    async def run(
        self,
        input: str | Mapping[str, object] | AgentRequest,
        *,
        variables: Mapping[str, object] | None = None,
        observers: Sequence[Observer] = (),
    ) -> AgentResponse:
        """Carry one task to its end, in memory.

        Args:
            input: The task in words, or a JSON object that fits the input schema.
            variables: The variable pool that tools start with.
            observers: Watch the run as it goes.

        Returns:
            The answer, the trace and the usage. A failed or partial run is a response as well;
            look at `status` and `error`.

        Raises:
            ConfigError: There is no model, or a setting is wrong.
            InputError: The input is empty or does not fit the input schema.
        """
        from .application import Hermes  # it runs agents, and an agent alone runs one of it

        async with Hermes("memory://") as app:
            options = RunOptions(observers=observers)
            return await app.run(self, input, variables=variables, options=options)

    async def stream(
        self,
        input: str | Mapping[str, object] | AgentRequest,
        *,
        variables: Mapping[str, object] | None = None,
        observers: Sequence[Observer] = (),
    ) -> AsyncGenerator[FeedItem | AgentResponse]:
        """What happens while one task is carried to its end, in memory; see `Hermes.stream`.

        Args:
            input: As for `run`, and so are the others.
            variables: As for `run`.
            observers: As for `run`.
        """
        feed = Feed()
        options = RunOptions(stream=True, observers=(*observers, feed))

        async def work() -> AgentResponse:
            from .application import Hermes  # as in `run`

            async with Hermes("memory://") as app:
                return await app.run(self, input, variables=variables, options=options)

        async with aclosing(streamed(feed, work)) as items:
            async for item in items:
                yield item

    def run_sync(
        self,
        input: str | Mapping[str, object] | AgentRequest,
        *,
        variables: Mapping[str, object] | None = None,
    ) -> AgentResponse:
        """`run` for scripts that have no event loop."""

        async def call() -> AgentResponse:
            return await self.run(input, variables=variables)

        return anyio.run(call)


def _as_tool(item: Tool[..., object] | Callable[..., object]) -> Tool:
    return cast("Tool", item) if isinstance(item, Tool) else tool(item)
