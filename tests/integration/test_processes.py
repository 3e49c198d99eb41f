"""What a tool started is gone when the run is cancelled, and when Hermes itself is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from subprocess import DEVNULL

import anyio
import pytest

from hermes import Agent, Hermes, tool
from hermes.config import load_settings
from hermes.core.events import TaskSettled, ToolInDoubt
from hermes.store import TaskQuery
from hermes.testing import ScriptedModel, call
from hermes.tools import run_process
from hermes.tools.process_guard import descendants
from tests.unit.tools import in_process

# A child, its own child, and one that left group and session; `up` says that all are there.
FAMILY = """
touch pids
sh -c 'sleep 600 & echo $! >> pids; wait' &
setsid sh -c 'trap "" TERM; echo $$ >> pids; sleep 600' &
while [ "$(wc -l < pids)" -lt 2 ]; do sleep 0.05; done
touch up
wait
"""

TOOLS = f'''
from hermes import tool
from hermes.tools import run_process

@tool
async def build() -> str:
    """Build; takes long."""
    return (await run_process({FAMILY!r}, timeout_s=None)).stdout

@tool
async def tidy() -> str:
    """Tidy up when told to end."""
    script = "trap 'touch tidied; exit' TERM; echo $$ > pids; touch up; while :; do sleep 1; done"
    return (await run_process(script, timeout_s=None)).stdout

@tool(effect="read", run_in="process")
def think() -> str:
    """Think; takes long, and holds the interpreter lock."""
    import pathlib, os, subprocess
    child = subprocess.Popen(["setsid", "sleep", "600"])
    pathlib.Path("pids").write_text(f"{{os.getpid()}}\\n{{child.pid}}\\n")
    pathlib.Path("up").touch()
    while True:
        pass
'''
PLAYBOOK = """
playbook: 1
name: p
rules:
  - {name: b, when: {all: [build]}, steps: [{call: build, as: x}], answer: "{{ x }}"}
  - {name: d, when: {all: [tidy]}, steps: [{call: tidy, as: x}], answer: "{{ x }}"}
  - {name: t, when: {all: [think]}, steps: [{call: think, as: x}], answer: "{{ x }}"}
"""


@tool(timeout_s=None)
async def build() -> str:
    """Build; takes long."""
    return (await run_process(FAMILY, timeout_s=None)).stdout


async def up(folder: Path) -> None:
    with anyio.fail_after(20):
        while not (folder / "up").exists():  # noqa: ASYNC110  # other processes make it
            await anyio.sleep(0.01)


def living(folder: Path) -> list[int]:
    pids = [int(word) for word in (folder / "pids").read_text().split()]
    return [pid for pid in pids if is_alive(pid)]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_cancelled_run_ends_its_shell_tool_and_all_below_it(workdir: Path) -> None:
    agent = Agent(model=ScriptedModel([call("build")]), tools=[build])
    async with Hermes("sqlite:///j.db") as app:
        began = 0.0
        async with anyio.create_task_group() as group:
            group.start_soon(app.run, agent, "build")
            await up(workdir)
            began = time.monotonic()
            group.cancel_scope.cancel()
        assert time.monotonic() - began < 3
        assert descendants(os.getpid()) == []
        [task] = await app.store.tasks(TaskQuery())
        events = [record.event for record in await app.store.events(task.task_id)]
    assert task.state == "cancelled"
    assert {TaskSettled, ToolInDoubt} <= {type(event) for event in events}


async def test_a_tool_that_holds_the_lock_lets_other_runs_go_on(workdir: Path) -> None:
    think = tool(effect="read", run_in="process", timeout_s=None)(in_process.hold_the_lock)
    thinker = Agent(name="t", model=ScriptedModel([call("hold_the_lock")]), tools=[think])

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen"

    async with Hermes("sqlite:///j.db") as app, anyio.create_task_group() as group:
        group.start_soon(app.run, thinker, "think")
        with anyio.fail_after(20):
            while not descendants(os.getpid()):  # noqa: ASYNC110  # the kernel's
                await anyio.sleep(0.01)
        began = time.monotonic()
        for _ in range(3):
            model = ScriptedModel([call("look"), "done"])
            response = await app.run(Agent(name="l", model=model, tools=[look]), "look")
            assert response.status == "succeeded"
        assert time.monotonic() - began < 5
        group.cancel_scope.cancel()


SCRIPT = """
import os
from dataclasses import dataclass
from hermes import Agent, tool
from hermes.testing import ScriptedModel, call

@dataclass(frozen=True)
class Order:
    item: str

@tool(effect="read", run_in="process")
def pack(order: Order) -> str:
    return f"{type(order).__name__} {order.item} {os.getppid() != int(os.environ['SHELL_PID'])}"

if __name__ == "__main__":
    os.environ["SHELL_PID"] = str(os.getpid())
    model = ScriptedModel([call("pack", order={"item": "lamp"}), "done"])
    response = Agent(model=model, tools=[pack]).run_sync("pack")
    print(model.requests[-1].messages[-1].text)
"""


@pytest.mark.parametrize("words", [["job/script.py"], ["-m", "job.script"]], ids=["file", "-m"])
def test_a_tool_of_a_script_is_found_without_running_the_script_again(
    workdir: Path, words: list[str]
) -> None:
    (workdir / "job").mkdir()
    (workdir / "job" / "script.py").write_text(SCRIPT)
    run = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.stdout == "Order lamp True\n", run.stderr


@pytest.mark.parametrize("goal", ["build", "think"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_a_hermes_that_dies_takes_the_processes_of_its_tools_along(
    workdir: Path, goal: str, number: signal.Signals
) -> None:
    with started(workdir, goal) as run:
        await up(workdir)
        assert len(living(workdir)) == 2
        run.send_signal(number)
        await all_gone(workdir)


async def test_a_hermes_that_is_killed_leaves_its_tools_no_time_to_act(workdir: Path) -> None:
    with started(workdir, "tidy") as run:
        await up(workdir)
        run.kill()
        await all_gone(workdir)
    assert not (workdir / "tidied").exists()


@pytest.mark.parametrize("goal", ["build", "think"])
async def test_a_cancel_from_another_process_ends_run_and_tool_within_three_seconds(
    workdir: Path, goal: str
) -> None:
    with started(workdir, goal) as run:
        await up(workdir)
        async with Hermes("sqlite:///.hermes/hermes.db") as app:
            [task] = await app.store.tasks(TaskQuery())
            began = time.monotonic()
            await app.store.request_cancel(task.task_id)
            with anyio.fail_after(3):
                while not task.state.is_terminal:
                    await anyio.sleep(0.02)
                    task = await app.store.task(task.task_id)
            assert time.monotonic() - began < 3
            assert living(workdir) == []
            events = [record.event for record in await app.store.events(task.task_id)]
        run.wait(timeout=10)
    assert run.returncode == 130
    assert any(isinstance(event, TaskSettled) for event in events)
    doubtful = any(isinstance(event, ToolInDoubt) for event in events)
    assert doubtful == (goal == "build")  # the tool that only reads can be called again


async def test_a_tool_that_holds_the_lock_lets_the_heart_beat(workdir: Path) -> None:
    think = tool(effect="read", run_in="process", timeout_s=None)(in_process.hold_the_lock)
    thinker = Agent(name="t", model=ScriptedModel([call("hold_the_lock")]), tools=[think])
    beating = {"lease_s": 1.0, "heartbeat_s": 0.1}
    settings = load_settings().settings.model_copy(update=beating)
    async with (
        Hermes("sqlite:///j.db", settings=settings) as app,
        anyio.create_task_group() as group,
    ):
        group.start_soon(app.run, thinker, "think")
        with anyio.fail_after(20):
            while not descendants(os.getpid()):  # noqa: ASYNC110  # the kernel's
                await anyio.sleep(0.01)
        [worker] = await app.store.workers()
        beats: set[datetime] = set()
        with anyio.fail_after(10):
            while len(beats) < 5:
                beats |= {item.renewed_at for item in await app.store.workers()}
                await anyio.sleep(0.02)
        assert [item.worker_id for item in await app.store.workers()] == [worker.worker_id]
        assert (max(beats) - min(beats)).total_seconds() < 5
        group.cancel_scope.cancel()


@contextmanager
def started(folder: Path, goal: str) -> Generator[subprocess.Popen[bytes]]:
    (folder / "tools.py").write_text(TOOLS)
    (folder / "p.yaml").write_text(PLAYBOOK)
    words = ("run", goal, "--tools", "tools.py", "--playbook", "p.yaml", "--quiet")
    with subprocess.Popen([sys.executable, "-m", "hermes", *words], stderr=DEVNULL) as run:
        try:
            yield run
        finally:
            run.kill()


async def all_gone(folder: Path) -> None:
    with anyio.fail_after(5):
        while living(folder):  # noqa: ASYNC110  # the kernel's
            await anyio.sleep(0.01)
