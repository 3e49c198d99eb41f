"""What a run works with: its agent's model, tools and bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hermes.agents import AgentDefinition, Equipment
from hermes.core import json
from hermes.core.budget import Limits
from hermes.core.clock import Clock
from hermes.core.quota import Quota
from hermes.core.request import AgentRequest
from hermes.core.task import Task
from hermes.errors import InputError
from hermes.loop.purse import check_priced
from hermes.models import ClientPool, Model, open_model
from hermes.models.chain import Chains
from hermes.models.profiles import DialectChoice, profile_in
from hermes.runtime import Equip, Roster
from hermes.tools import ToolGuard, ToolRegistry, builtin_tools
from hermes.tools.plugins.brought import Brought
from hermes.tools.policy import Policy

from .agent import Agent, RunOptions

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from hermes.config import Settings
    from hermes.tools.builtin.options import BuiltinOptions
    from hermes.tools.plugins.host import PluginHost


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A model and all that its task may have recorded of how it is asked."""

    spec: str
    api_base: str | None
    window: int | None
    thinking: str | int | None
    dialect: DialectChoice


@dataclass(frozen=True, slots=True)
class _Known:
    """An agent's tools, and what they were made from."""

    definition: AgentDefinition
    settings: Settings
    brought: Brought
    registry: ToolRegistry
    policy: Policy

    def holds(self, definition: AgentDefinition, settings: Settings, brought: Brought) -> bool:
        """Whether the tools made from these are the same."""
        return (
            self.definition is definition and self.settings is settings and self.brought == brought
        )


class Outfitter:
    """Finds agents, and opens each model once.

    Args:
        agents: Found by name.
        roster: Where the others come from.
        settings: Those in force, read on first use.
        clock: What is known of the tools is dated by it.
    """

    def __init__(
        self,
        agents: Iterable[Agent],
        roster: Roster,
        *,
        settings: Callable[[], Settings],
        clock: Clock,
    ) -> None:
        self._agents = {agent.definition.name: agent for agent in agents}
        self._roster, self._settings = roster, settings
        self._models: dict[_Asked, Model] = {}
        self._clients: ClientPool | None = None
        self._chains: Chains | None = None
        self._quota: Quota | None = None
        self._clock = clock
        self._guard: ToolGuard | None = None
        self._host: PluginHost | None = None
        self._background: TaskGroup | None = None
        self._known: dict[str, _Known] = {}
        self._builtin: tuple[Settings, BuiltinOptions] | None = None

    def open(self, background: TaskGroup, *, quota: Quota | None = None) -> None:
        """Let plugins run programs of their own, in a group that outlives every run.

        Args:
            background: The group.
            quota: Counts requests to models for all processes; without it each counts its own.
        """
        self._host, self._background, self._quota = None, background, quota

    async def aclose(self) -> None:
        """Close the models that were opened, and end the programs of plugins."""
        if self._host is not None:
            await self._host.aclose()
        self._host = self._background = None
        for model in self._models.values():
            await model.aclose()
        if self._clients is not None:
            await self._clients.aclose()
        self._models, self._clients, self._guard = {}, None, None
        self._chains = None

    async def brought(self, agent: Agent, settings: Settings) -> Brought:
        """What plugins bring, once those that the agent needs were asked."""
        groups = agent.definition.groups
        await self._plugins.prepare(settings.tool_groups if groups is None else groups)
        return self._brought(agent, settings)

    def registry(self, agent: Agent, settings: Settings) -> ToolRegistry:
        """The tools that are on for an agent, as far as plugins were asked.

        Raises:
            ConfigError: A group or a tool does not exist, or a required tool is missing or off.
            ToolDefinitionError: Two tools share a name.
        """
        return agent.definition.registry(
            settings.tool_groups,
            builtin=self._options(settings),
            deny=settings.tool_deny,
            brought=self._brought(agent, settings),
        )

    async def equip(
        self,
        agent: Agent,
        options: RunOptions,
        settings: Settings,
        *,
        limits: Limits | None = None,
    ) -> Equipment:
        """What an agent of a program works with.

        Raises:
            ConfigError: There is no model, or a setting of it is wrong, or money is bounded and
                no price of the model is known.
        """
        definition = agent.definition
        limits = limits or definition.limits or settings.limits
        registry, policy = self._tools(definition, settings, await self.brought(agent, settings))
        model = agent.model or self._model(definition.model, settings)
        check_priced(model, limits)
        return Equipment(
            agent=definition,
            model=model,
            registry=registry,
            policy=policy,
            limits=limits,
            guard=self._guard_of(settings),
            prompts=settings.prompt_book,
            window=window_of(model, settings),
            compact_at=settings.compact_at,
            shorten_chars=settings.shorten_chars,
            stream=options.stream,
            result_limit_chars=settings.result_limit_chars,
            observers=tuple(options.observers),
            model_chosen=options.model_chosen,
        )

    async def equip_task(self, task: Task, *, caller: Agent | None = None) -> Equipment:
        """What a task is worked on with that was handed on, or that a worker claimed.

        Raises:
            ConfigError: Its agent is not known here.
        """
        name = task.spec.agent
        agent = self._agents.get(name)
        if caller is not None and caller.definition.name == name:
            agent = caller
        if agent is None:
            agent = Agent.of(self._roster.definition(task))
        settings = self._settings().as_recorded(task.spec.launch.get("settings"))
        return await self.equip(agent, RunOptions(), settings, limits=task.spec.limits)

    def equipper(self, agent: Agent, task_id: str, equipment: Equipment) -> Equip:
        """How a caller's task and those below it are equipped."""

        async def equip(task: Task) -> Equipment:
            if task.task_id == task_id:
                return equipment
            below = await self.equip_task(task, caller=agent)
            return replace(below, accept_changes=equipment.accept_changes)

        return equip

    async def offline(self, agent: Agent, task: Task) -> tuple[Model | str, ToolRegistry]:
        """What decides, by its name alone where nothing is to be asked, and the tools."""
        check_own(task, agent)
        settings = self._settings().as_recorded(task.spec.launch.get("settings"))
        await self.brought(agent, settings)
        registry = self.registry(agent, settings)
        spec = agent.definition.model or settings.model_name or ""
        if agent.model is not None:
            return agent.model, registry
        return (self._model(spec, settings) if spec.startswith("playbook:") else spec), registry

    def _tools(
        self, definition: AgentDefinition, settings: Settings, brought: Brought
    ) -> tuple[ToolRegistry, Policy]:
        """The tools that are on and what they may do; the same ones for the same agent."""
        known = self._known.get(definition.name)
        if known is not None and known.holds(definition, settings, brought):
            return known.registry, known.policy
        registry = definition.registry(
            settings.tool_groups,
            builtin=self._options(settings),
            deny=settings.tool_deny,
            brought=brought,
        )
        policy = definition.policy(
            registry, builtin=self._options(settings), allow=settings.tool_allow, brought=brought
        )
        self._known[definition.name] = _Known(definition, settings, brought, registry, policy)
        return registry, policy

    def _brought(self, agent: Agent, settings: Settings) -> Brought:
        groups = agent.definition.groups
        wanted = settings.tool_groups if groups is None else groups
        return self._plugins.brought(builtin_tools(wanted, options=self._options(settings)))

    def _options(self, settings: Settings) -> BuiltinOptions:
        """What the built-in tools are set up with; made once for the same settings."""
        if self._builtin is None or self._builtin[0] is not settings:
            self._builtin = settings, settings.builtin
        return self._builtin[1]

    @property
    def _plugins(self) -> PluginHost:
        if self._host is None:
            from hermes.tools.plugins.host import PluginHost  # with pydantic behind it

            self._host = PluginHost(self._settings().plugin_options, self._background)
        return self._host

    def _guard_of(self, settings: Settings) -> ToolGuard:
        """The one guard of this process: what one run learns of a tool holds for all."""
        if self._guard is None:
            self._guard = ToolGuard(clock=self._clock, policy=settings.guard)
        return self._guard

    def _model(self, name: str | None, settings: Settings) -> Model:
        spec = name or settings.model_name or ""
        place = _Asked(
            spec=spec,
            api_base=settings.api_base,
            window=settings.context_window,
            thinking=settings.thinking,
            dialect=settings.tool_dialect,
        )
        if place not in self._models:
            self._models[place] = self._chains_of(settings).chain(
                spec,
                partial(self._open_model, settings),
                base_url=settings.api_base,
                api_key=settings.api_key.get_secret_value() if settings.api_key else None,
                dialect=settings.tool_dialect,
            )
        return self._models[place]

    def _chains_of(self, settings: Settings) -> Chains:
        """What stands before the models of this process."""
        if self._chains is None:
            self._chains = Chains(settings.chain_options, clock=self._clock, quota=self._quota)
        return self._chains

    def _open_model(self, settings: Settings, spec: str) -> Model:
        if self._clients is None:
            self._clients = ClientPool(
                timeout_s=settings.model_timeout_s,
                proxy=settings.proxy.get_secret_value() if settings.proxy else None,
                ca_file=settings.ca_file,
            )
        return open_model(
            spec,
            base_url=settings.api_base,
            api_key=settings.api_key.get_secret_value() if settings.api_key else None,
            client=self._clients,
            timeout_s=settings.model_timeout_s,
            total_s=settings.model_total_s,
            profiles=settings.profiles,
            window=settings.context_window,
            thinking=settings.thinking,
        )


def window_of(model: Model, settings: Settings) -> int | None:
    """Tokens of a request to a model and its reply; None if nobody knows."""
    profile = profile_in(model)
    return settings.context_window or (profile.window if profile else None)


def check_own(task: Task, agent: Agent) -> None:
    """Raise InputError if the task is another agent's."""
    if task.spec.agent != agent.definition.name:
        raise InputError(
            f"task {task.task_id} is of agent {task.spec.agent!r}, not {agent.definition.name!r}",
            hint="go on with its own agent",
        )


def request_of(
    given: object, session_id: str | None, metadata: Mapping[str, object] | None
) -> AgentRequest:
    """The request out of what a caller gives: words, an object, or a request."""
    if isinstance(given, AgentRequest):
        request = given
    elif isinstance(given, str):
        request = AgentRequest(input=given)
    elif (table := json.as_object(given)) is not None:
        request = AgentRequest(input=table)
    else:
        raise InputError(f"the input of a run is text or an object, got {type(given).__name__}")
    if session_id is not None:
        request = replace(request, session_id=session_id)
    return replace(request, metadata=metadata) if metadata is not None else request
