"""How a task is started, and how `resume` finds the same things again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, cast

from hermes.agents import AgentDefinition, load_agent
from hermes.app import Agent
from hermes.core.budget import Limits
from hermes.errors import ConfigError
from hermes.tools import Tool, load_tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Agent, tools and settings of a run, as absolute paths so that any folder will do."""

    agent: Path | None = None
    tools: tuple[Path, ...] = ()
    playbook: Path | None = None
    model: str | None = None
    max_steps: int | None = None

    @classmethod
    def of(
        cls,
        *,
        agent: Path | None,
        tools: Sequence[Path],
        playbook: Path | None,
        model: str | None,
        max_steps: int | None,
    ) -> Self:
        """From the command line's flags."""
        if playbook is not None and model is not None:
            raise ConfigError("--playbook and --model exclude each other", hint="give one of them")
        return cls(
            agent=agent.resolve() if agent else None,
            tools=tuple(path.resolve() for path in tools),
            playbook=playbook.resolve() if playbook else None,
            model=model,
            max_steps=max_steps,
        )

    @classmethod
    def recorded(cls, record: Mapping[str, object]) -> Self:
        """From a task's record."""
        return cls(
            agent=_path(record.get("agent")),
            tools=tuple(Path(item) for item in cast("Sequence[str]", record.get("tools", ()))),
            playbook=_path(record.get("playbook")),
            model=cast("str | None", record.get("model")),
            max_steps=cast("int | None", record.get("max_steps")),
        )

    def as_record(self) -> dict[str, object]:
        """What is kept with the task."""
        known: dict[str, object] = {
            "agent": str(self.agent) if self.agent else None,
            "tools": [str(path) for path in self.tools] or None,
            "playbook": str(self.playbook) if self.playbook else None,
            "model": self.model,
            "max_steps": self.max_steps,
        }
        return {name: value for name, value in known.items() if value is not None}

    def overridden_by(self, flags: Launch) -> Launch:
        """The record with the command line's flags on top."""
        chosen = replace(
            self,
            agent=flags.agent or self.agent,
            tools=flags.tools or self.tools,
            max_steps=flags.max_steps or self.max_steps,
        )
        if flags.playbook or flags.model:
            return replace(chosen, playbook=flags.playbook, model=flags.model)
        return chosen

    def open(self, *, default_steps: int) -> Agent:
        """The agent that this describes.

        Args:
            default_steps: Bound where neither flag nor agent file gives one.

        Raises:
            ConfigError: A file is missing or wrong.
        """
        more = [tool for path in self.tools for tool in load_tools(path)]
        base = load_agent(self.agent, more_tools=more) if self.agent else AgentDefinition()
        definition = replace(base, tools=_joined(base.tools, more))
        if self.playbook is not None:
            definition = replace(definition, model=f"playbook:{self.playbook}")
        elif self.model is not None:
            definition = replace(definition, model=self.model)
        limits = definition.limits or Limits(max_steps=default_steps)
        if self.max_steps is not None:
            limits = replace(limits, max_steps=self.max_steps)
        return Agent.of(replace(definition, limits=limits))


def _joined(first: Sequence[Tool], second: Sequence[Tool]) -> tuple[Tool, ...]:
    names = {tool.name for tool in first}
    return (*first, *(tool for tool in second if tool.name not in names))


def _path(value: object) -> Path | None:
    return Path(value) if isinstance(value, str) else None
