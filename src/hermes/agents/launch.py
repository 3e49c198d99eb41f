"""How a task is started, and how `resume` finds the same things again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, cast

from hermes.core.budget import Limits
from hermes.errors import ConfigError
from hermes.tools import Tool, load_tools

from .definition import AgentDefinition, load_agent

NO_BOUNDS: Mapping[str, float | None] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Agent, tools and model of a run, as absolute paths so that any folder will do.

    Attributes:
        bounds: Of the task and all below it, by their names in `Limits`.
        by: `command`, or `program` for a run whose agent only exists in somebody's program.
    """

    by: str = "command"
    agent: Path | None = None
    tools: tuple[Path, ...] = ()
    playbook: Path | None = None
    model: str | None = None
    max_steps: int | None = None
    bounds: Mapping[str, float] = field(default_factory=dict[str, float])

    @classmethod
    def of(
        cls,
        *,
        agent: Path | None,
        tools: Sequence[Path],
        playbook: Path | None,
        model: str | None,
        max_steps: int | None,
        bounds: Mapping[str, float | None] = NO_BOUNDS,
    ) -> Self:
        """From the command line's flags."""
        if playbook is not None and model is not None:
            raise ConfigError("--playbook and --model exclude each other", hint="give one of them")
        return cls(
            agent=_resolved(agent),
            tools=tuple(_resolve(path) for path in tools),
            playbook=_resolved(playbook),
            model=model,
            max_steps=max_steps,
            bounds={name: bound for name, bound in bounds.items() if bound is not None},
        )

    @classmethod
    def recorded(cls, record: Mapping[str, object]) -> Self:
        """From a task's record."""
        return cls(
            by=str(record.get("by", "program")),
            agent=_path(record.get("agent")),
            tools=tuple(Path(item) for item in cast("Sequence[str]", record.get("tools", ()))),
            playbook=_path(record.get("playbook")),
            model=cast("str | None", record.get("model")),
            max_steps=cast("int | None", record.get("max_steps")),
            bounds=cast("Mapping[str, float]", record.get("bounds", {})),
        )

    def as_record(self) -> dict[str, object]:
        """What is kept with the task."""
        known: dict[str, object] = {
            "by": self.by,
            "agent": str(self.agent) if self.agent else None,
            "tools": [str(path) for path in self.tools] or None,
            "playbook": str(self.playbook) if self.playbook else None,
            "model": self.model,
            "max_steps": self.max_steps,
            "bounds": dict(self.bounds) or None,
        }
        return {name: value for name, value in known.items() if value is not None}

    @property
    def chooses_model(self) -> bool:
        """Whether it names a model or a playbook."""
        return bool(self.playbook or self.model)

    def overridden_by(self, flags: Launch) -> Launch:
        """The record with the command line's flags on top.

        Raises:
            ConfigError: The record belongs to a program and the flags name no agent.
        """
        if self.by != "command" and not (flags.agent or flags.tools):
            raise ConfigError(
                "this task was started by a program, which alone knows its agent",
                hint="start that program again, or give --agent FILE or --tools FILE",
            )
        chosen = replace(
            self,
            agent=flags.agent or self.agent,
            tools=flags.tools or self.tools,
            max_steps=flags.max_steps or self.max_steps,
            bounds={**self.bounds, **flags.bounds},
        )
        if flags.chooses_model:
            chosen = replace(chosen, playbook=flags.playbook, model=flags.model)
        chosen._require_files(other_than=flags)
        return chosen

    def _require_files(self, *, other_than: Launch) -> None:
        """Say which file of the record is gone; what is wrong with the flags' is told elsewhere."""
        named = {other_than.agent, *other_than.tools, other_than.playbook}
        options = [(self.agent, "agent"), (self.playbook, "playbook")]
        options += [(path, "tools") for path in self.tools]
        for path, option in options:
            if path is not None and path not in named and not path.exists():
                raise ConfigError(
                    f"{path}: is gone, and the task was started with it",
                    hint=f"put it back, or name another one with --{option} FILE",
                )

    def definition(self) -> AgentDefinition:
        """The agent that this describes, its bounds aside.

        Raises:
            ConfigError: A file is missing or wrong.
        """
        more = [tool for path in self.tools for tool in load_tools(path)]
        base = load_agent(self.agent, more_tools=more) if self.agent else AgentDefinition()
        model = f"playbook:{self.playbook}" if self.playbook is not None else self.model
        return replace(base, tools=_joined(base.tools, more), model=model or base.model)

    def limits(self, given: Limits) -> Limits:
        """The bounds with the command line's on top.

        Raises:
            ConfigError: One of them is none.
        """
        steps = {} if self.max_steps is None else {"max_steps": self.max_steps}
        try:
            found = replace(given, **steps, **self.bounds)
        except ValueError as exc:
            raise ConfigError(f"--{str(exc).replace('_', '-', 2)}") from exc
        if self.bounds and (fault := found.too_small()):
            raise ConfigError(f"--{fault.replace('_', '-', 2)}")
        return found


def _joined(first: Sequence[Tool], second: Sequence[Tool]) -> tuple[Tool, ...]:
    """All of them; one that comes twice from the same place, once."""
    return tuple({(tool.name, tool.origin): tool for tool in (*first, *second)}.values())


def _resolved(path: Path | None) -> Path | None:
    return None if path is None else _resolve(path)


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as exc:  # RuntimeError: a loop of links
        raise ConfigError(f"{path}: cannot be found: {exc}") from exc


def _path(value: object) -> Path | None:
    return Path(value) if isinstance(value, str) else None
