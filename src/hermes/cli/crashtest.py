"""`hermes crashtest`: an agent of one's own, broken off at every point."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hermes.agents import AgentDefinition, load_agent
from hermes.app import Agent
from hermes.config import load_settings
from hermes.errors import ConfigError, InputError
from hermes.models import Model, load_playbook
from hermes.testing.crash import CrashTest, Outcome
from hermes.testing.faults import Point
from hermes.testing.replies import RepliesModel, Reply, read_replies
from hermes.testing.scenario import Scenario
from hermes.testing.world import ScratchGround
from hermes.tools import load_tools

from . import exits, output
from .run import variables_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be tested, and how.

    Attributes:
        agent: Agent file, or a Python file with tools.
        points: `all`, or how many of them.
        effects: Files outside of the folder to which tools append.
    """

    agent: Path
    playbook: Path | None
    script: Path | None
    goal: str | None
    pairs: Sequence[str]
    points: str
    seed: int
    effects: Sequence[Path]


def crashtest(order: Order, *, json: bool) -> exits.Exit:
    """Run the agent with a crash at each point; returns the exit code."""
    count = _count(order.points)
    agent = _FoundAgent.of(order)
    settings = load_settings(flags={"sqlite_synchronous": "NORMAL"}).settings
    with tempfile.TemporaryDirectory(prefix="hermes-crashtest-") as folder:
        ground = ScratchGround(
            Path.cwd(), Path(folder), effects=[p.absolute() for p in order.effects]
        )
        scenario = Scenario(
            name="crashtest",
            goal=agent.goal,
            agents=agent.make,
            variables=variables_of(order.pairs),
            measure=ground.measure,
        )
        first, second = (CrashTest(scenario, ground, settings=settings).clean() for _ in range(2))
        unsteady = ground.compare(first.history.measured, second.history.measured)
        test = CrashTest(scenario, ground, settings=settings)
        clean = test.clean()
        if clean.broken:
            raise InputError(
                f"the agent does not get to its end even without a crash ({clean.status}): "
                f"{clean.broken[0]}",
                hint="see with `hermes run` what is missing",
            )
        points = _chosen(test.points, count, seed=order.seed)
        exits.tell(f"{len(points)} of {len(test.points)} points, seed {order.seed}")
        outcomes = [clean, *(test.crash(point) for point in points)]
    _print(outcomes, unsteady, order, json=json)
    return exits.Exit.FAILED if any(item.broken for item in outcomes) else exits.Exit.SUCCEEDED


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoundAgent:
    """An agent that is read anew in each process, from the copy of the folder that it works in."""

    path: Path
    playbook: Path | None
    replies: Sequence[Reply] | Mapping[str, Sequence[Reply]] | None
    goal: str

    @classmethod
    def of(cls, order: Order) -> _FoundAgent:
        if order.playbook is not None and order.script is not None:
            raise ConfigError("--playbook and --script exclude each other", hint="give one of them")
        replies = read_replies(order.script) if order.script is not None else None
        definition = _definition(order.agent, order.playbook, Path.cwd())
        if order.playbook is not None:
            load_playbook(order.playbook)  # told here, and not from a process in a copy
        goal = order.goal
        if goal is None and isinstance(replies, Mapping):
            goal = next(iter(replies))
        if goal is None and replies is None:
            raise InputError("a playbook decides by the goal", hint="give --goal TEXT")
        is_offline = (definition.model or "").startswith("playbook:")
        if replies is None and not is_offline:
            raise ConfigError(
                f"agent {definition.name!r} has no model that works offline",
                hint="give --playbook FILE, or --script FILE with the replies",
            )
        return cls(path=order.agent, playbook=order.playbook, replies=replies, goal=goal or "go")

    def make(self, folder: Path) -> list[Agent]:
        """The agent, in its folder; called in a process of its own."""
        os.chdir(folder)
        model: Model | None = None if self.replies is None else RepliesModel(self.replies)
        return [Agent.of(_definition(self.path, self.playbook, folder), model=model)]


def _definition(agent: Path, playbook: Path | None, folder: Path) -> AgentDefinition:
    """The agent as it is read in a folder."""
    path = _within(agent, folder)
    if path.suffix == ".py":
        definition = AgentDefinition(tools=tuple(load_tools(path)))
    else:
        definition = load_agent(path)
    if playbook is None:
        return definition
    return replace(definition, model=f"playbook:{_within(playbook, folder)}")


def _within(path: Path, folder: Path) -> Path:
    """The same file in the copy of the present folder; itself, if it lies elsewhere."""
    return folder / path if not path.is_absolute() else path


def _count(points: str) -> int | None:
    if points == "all":
        return None
    if not points.isdecimal() or int(points) < 1:
        raise InputError(f"--points is `all` or a number from 1, got {points!r}")
    return int(points)


def _chosen(points: Sequence[Point], count: int | None, *, seed: int) -> list[Point]:
    if count is None or count >= len(points):
        return list(points)
    places = sorted(random.Random(seed).sample(range(len(points)), count))
    return [points[place] for place in places]


def _print(
    outcomes: Sequence[Outcome], unsteady: Sequence[str], order: Order, *, json: bool
) -> None:
    broken = sum(bool(item.broken) for item in outcomes)
    if json:
        output.print_json(
            {
                "points": len(outcomes) - 1,
                "broken": broken,
                "seed": order.seed,
                "unsteady_files": list(unsteady),
                "notes": _doubts(outcomes[0]),
                "runs": [_object(item) for item in outcomes],
            }
        )
        return
    header = ("point", "outcome", "effects", "in doubt", "promises")
    lines = output.table([header, *map(_row, outcomes)])
    lines += [f"{item}: {fault}" for item in outcomes for fault in item.broken]
    others = sorted({name for item in outcomes for name in item.history.other_results})
    lines += [
        f"note: a repeat of {name} gave another result than its first call" for name in others
    ]
    lines += [
        f"note: {name} differs without a crash too; its lines were counted" for name in unsteady
    ]
    lines += [f"note: {doubt}" for doubt in _doubts(outcomes[0])]
    told = "every promise was kept" if not broken else f"promises were broken in {broken}"
    crashes = len(outcomes) - 1
    lines.append(f"{crashes:,} {'crash' if crashes == 1 else 'crashes'}: {told}")
    output.print_text("\n".join(lines))


def _doubts(clean: Outcome) -> list[str]:
    """Why kept promises may say little about this agent."""
    doubts: list[str] = []
    if clean.status != "succeeded":
        doubts.append(f"the task ends as {clean.status} without a crash too")
    if not clean.history.effects:
        doubts.append("no tool was called, so only Hermes itself was tried")
    return doubts


def _row(item: Outcome) -> tuple[str, str, str, str, str]:
    effects = ", ".join(f"{name} {count}" for name, count in sorted(item.history.effects.items()))
    doubt = ", ".join(item.history.in_doubt)
    reached = "" if item.was_struck else " (not reached)"
    verdict = "broken" if item.broken else "kept"
    return f"{item}{reached}", item.status, effects or "-", doubt or "-", verdict


def _object(item: Outcome) -> dict[str, object]:
    return {
        "point": str(item) if item.points else None,
        "reached": item.was_struck,
        "outcome": item.status,
        "effects": item.history.effects,
        "in_doubt": item.history.in_doubt,
        "repeated": item.history.repeated,
        "other_results": item.history.other_results,
        "broken": list(item.broken),
    }
