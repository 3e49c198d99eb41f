"""A tree of agents with one budget of 50 000 tokens, whose process is killed on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from hermes import Agent, Child, Children, Hermes, Limits, tool
from hermes.core.chat import Usage
from hermes.core.events import BudgetExceeded, ToolFailed
from hermes.core.task import Task
from hermes.models import ModelReply, ModelRequest
from hermes.store import TaskQuery
from hermes.testing import ScriptedModel, call, calls
from hermes.testing.outside import goal_of, replies_so_far
from tests.postgres import database

E = TypeVar("E")

ALLOWED = 50_000
CALL = Usage(prompt_tokens=900, completion_tokens=100)
LIMITS = Limits(max_steps=None, max_tokens=ALLOWED)
AT_ONCE = 4
"""Tasks that may have a call under way."""
KILLED_AT = (7, 9, 11)
"""In which model call of its life each process dies."""


class Counting(ScriptedModel):
    """Never ends by itself; each call leaves a line in a file, and the last one kills the process.

    Args:
        log: Outlives the process.
        dies_at: The call that it dies in, after its provider has counted it; 0 for none.
    """

    def __init__(self, log: Path, dies_at: int = 0) -> None:
        super().__init__([])
        self.log, self.dies_at, self.made = log, dies_at, 0

    async def reply(self, request: ModelRequest) -> ModelReply:
        self.made += 1
        with self.log.open("a") as file:
            file.write(f"{CALL.total_tokens}\n")
        if self.made == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        asked = _asked(goal_of(request.messages), replies_so_far(request.messages))
        return ModelReply(calls=asked.calls, usage=CALL, finish_reason="tool_calls")


def _asked(goal: str, place: int) -> ModelReply:
    if goal == "go" and place == 0:
        return calls(call("split"))
    if goal == "for the other" and place < 2:
        return calls(call("hand_back"))
    return calls(call("look"))


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "nothing yet"


@tool(effect="idempotent")
async def split() -> Children:
    """Split."""
    parts = [Child(goal=f"part {number}") for number in range(3)]
    return Children(tasks=[Child(goal="for the other", agent="other"), *parts])


@tool(effect="idempotent")
async def hand_back() -> Children:
    """Hand the work back to who gave it."""
    return Children(tasks=[Child(goal="for the first", agent="first")])


async def live(url: str, log: Path, dies_at: int) -> None:
    """One life of the process: the task is begun, or gone on with."""
    model = Counting(log, dies_at)
    first = Agent(name="first", model=model, tools=[split, look], limits=LIMITS)
    other = Agent(name="other", model=model, tools=[hand_back, look], limits=LIMITS)
    async with Hermes(url, agents=[first, other]) as app:
        roots = [task for task in await app.store.tasks(TaskQuery()) if not task.spec.parent_id]
        if roots:
            await app.resume(roots[0].task_id, first)
        else:
            await app.run(first, "go")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(workdir: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{workdir / 'hermes.db'}"
    else:
        with database() as found:
            yield found


def live_and_die(url: str, log: Path, dies_at: int) -> int:
    """One life in a process of its own; its exit code."""
    words = [sys.executable, "-m", __name__, url, str(log), str(dies_at)]
    home = Path(__file__).parents[2]
    done = subprocess.run(words, cwd=home, capture_output=True, timeout=120, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode


async def test_the_tree_stops_at_its_budget_however_often_it_is_killed(
    url: str, workdir: Path
) -> None:
    log = workdir / "calls"
    for dies_at in KILLED_AT:
        assert live_and_die(url, log, dies_at) == -signal.SIGKILL
    assert live_and_die(url, log, 0) == 0

    async with Hermes(url) as app:
        tasks = await app.store.tasks(TaskQuery(limit=100))
        budget = await app.store.budget(tasks[-1].root_id)
        refused = await _events(app, tasks, ToolFailed)
        reached = await _events(app, tasks, BudgetExceeded)
    one = CALL.total_tokens
    recorded = sum(task.status.spent.usage.total_tokens for task in tasks)
    asked = sum(map(int, log.read_text().split()))
    assert ALLOWED - 2 * one <= recorded <= ALLOWED + one
    assert recorded == budget.spent.tokens
    # What a killed process had asked for and not written down: one call of each task at most.
    assert recorded <= asked <= recorded + len(KILLED_AT) * one * AT_ONCE
    assert {event.limit for event in reached} == {"max_tokens"}
    circles = [event for event in refused if event.error.code == "circle"]
    assert circles
    assert {task.spec.agent for task in tasks} == {"first", "other"}
    assert len(tasks) == 5


async def _events(app: Hermes, tasks: list[Task], kind: type[E]) -> list[E]:
    return [
        record.event
        for task in tasks
        for record in await app.store.events(task.task_id)
        if isinstance(record.event, kind)
    ]


if __name__ == "__main__":
    anyio.run(live, sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
