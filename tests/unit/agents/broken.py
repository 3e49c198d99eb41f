"""Tasks that were broken off, to be resumed by another program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest

from hermes import Agent, Hermes, Tool, tool
from hermes.app import RunOptions
from hermes.core.effects import Effect
from hermes.core.events import Recorded, TaskEvent
from hermes.models import Model
from hermes.store import TaskQuery
from hermes.testing import Scripted, ScriptedModel


class Crash(BaseException):
    """Stands for the death of the process."""


class Bomb:
    """Goes off when an event of a type, or any one (""), is durable for the n-th time."""

    def __init__(self, type_: str, nth: int = 1) -> None:
        self.type, self.left = type_, nth

    def recorded(self, record: Recorded) -> None:
        self.left -= self.type in ("", record.event.type)
        if self.left == 0:
            self.left = -1
            raise Crash

    def delta(self, text: str, *, reasoning: bool = False) -> None:
        pass

    def progress(self, path: str, text: str) -> None:
        pass


async def break_off(
    path: Path, agent: Agent, *, at: str, nth: int = 1, goal: str = "go", **variables: object
) -> str:
    """Run until an event of the type `at` is durable; returns the task's id."""
    options = RunOptions(observers=[Bomb(at, nth)])
    with pytest.raises((Crash, BaseExceptionGroup)):
        async with Hermes(f"sqlite:///{path}") as app:
            await app.run(agent, goal, variables=variables, options=options)
    async with Hermes(f"sqlite:///{path}") as app:
        [task] = await app.store.tasks(TaskQuery())
    return task.task_id


async def events(path: Path, task_id: str) -> list[TaskEvent]:
    async with Hermes(f"sqlite:///{path}") as app:
        return [record.event for record in await app.store.events(task_id)]


def scripted(*replies: Scripted) -> Model:
    return ScriptedModel(replies)


def named(name: str, done: list[str], *, effect: Effect = "read") -> Tool:
    """A tool that notes each call."""

    @tool(name=name, effect=effect)
    async def run(what: str = "") -> str:
        """Do it."""
        done.append(f"{name} {what}".strip())
        return f"{name} done"

    return run


def playbook(folder: Path, steps: str, answer: str = "ok", *, name: str = "book") -> str:
    """A playbook with one rule that always fits, as an agent's model."""
    path = folder / "book.yaml"
    path.write_text(
        dedent(f"""
            playbook: 1
            name: {name}
            rules:
              - name: only
                steps: {steps}
                answer: "{answer}"
        """)
    )
    return f"playbook:{path}"


def types(found: Sequence[TaskEvent]) -> list[str]:
    return [event.type for event in found]
