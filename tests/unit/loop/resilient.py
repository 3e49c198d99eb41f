"""Runs side by side that share what is known of the tools, with pauses that take no time."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.agents import AgentDefinition, Equipment, Executor
from hermes.core.budget import Limits
from hermes.core.chat import ToolMessage, UserMessage
from hermes.core.request import AgentResponse
from hermes.models import Model
from hermes.testing import Scripted, ScriptedModel
from hermes.tools import GuardPolicy, Tool, ToolGuard
from tests.unit.loop.stage import Stage

COOLDOWN_S = 30.0


class Shift:
    """One process' runs.

    Attributes:
        slept: How long each pause between two tries was to be.
    """

    def __init__(self, stage: Stage, *, spread: float = 1.0) -> None:
        self.stage, self.slept = stage, list[float]()
        self.guard = ToolGuard(
            clock=stage.clock, policy=GuardPolicy(), sleep=self._sleep, spread=lambda: spread
        )
        stage.guard = self.guard

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.stage.clock.advance(seconds)

    async def run(
        self,
        replies: Sequence[Scripted],
        *tools: Tool,
        limits: Limits | None = None,
        model: Model | None = None,
    ) -> tuple[AgentResponse, ScriptedModel]:
        """A new task with a model of its own, carried until it rests."""
        scripted = ScriptedModel(replies)
        response = await self.carry(
            await self.stage.submit(), model or scripted, *tools, limits=limits
        )
        return response, scripted

    async def carry(
        self, task_id: str, model: Model, *tools: Tool, limits: Limits | None = None
    ) -> AgentResponse:
        """Claim and carry a task."""
        definition = AgentDefinition(name="a", tools=tools)
        equipment = Equipment(
            agent=definition,
            model=model,
            registry=definition.registry(("core",)),
            limits=limits or Limits(),
            guard=self.guard,
        )
        executor = Executor(self.stage.store, clock=self.stage.clock)
        return await executor.carry(await self.stage.lease(task_id), equipment)


def told(model: ScriptedModel, request: int = -1) -> list[str]:
    """The tool results that a request carries."""
    return [m.text for m in model.requests[request].messages if isinstance(m, ToolMessage)]


def notices(model: ScriptedModel, request: int = -1) -> list[str]:
    """The framework's own words in a request."""
    return [
        m.text
        for m in model.requests[request].messages
        if isinstance(m, UserMessage) and m.reminder
    ]


def offered(model: ScriptedModel, request: int = -1) -> set[str]:
    """The names of the tools that a request offers, of those that the test made."""
    return {spec.name for spec in model.requests[request].tools}
