"""Who may take over whose work."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from hermes import Agent, Hermes, tool
from hermes.core.task import TaskState
from hermes.errors import InputError, LeaseHeldError
from hermes.runtime import free_task
from hermes.store import MemoryStore, MessageRow, TaskQuery, Worker
from hermes.testing import ScriptedModel, call
from hermes.testing.clock import FakeClock
from tests.journal import enroll, states, submit

HOLDER = """
import anyio, sys
from hermes import Agent, Hermes, tool
from hermes.testing import ScriptedModel, call

@tool(effect="read")
async def hang() -> str:
    "Hang."
    print("hanging", flush=True)
    await anyio.sleep_forever()

async def main():
    async with Hermes("sqlite:///j.db") as app:
        agent = Agent(name="a", model=ScriptedModel([call("hang")]), tools=[hang])
        await app.run(agent, "hang", session_id="s")

anyio.run(main)
"""


@pytest.fixture
def holder(workdir: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that is in the middle of a task."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "hanging\n"
    yield process
    process.kill()
    process.communicate()


def successor() -> Agent:
    @tool(effect="read")
    async def hang() -> str:
        """Answer at once."""
        return "no more"

    return Agent(name="a", model=ScriptedModel(["done"]), tools=[hang])


class CrowdedStore(MemoryStore):
    """Another process registers and claims right after the first read."""

    arrived = False

    async def workers(self) -> list[Worker]:
        found = await super().workers()
        await self._arrive()
        return found

    async def messages(
        self, *, task_id: str | None = None, lane: str | None = None
    ) -> list[MessageRow]:
        found = await super().messages(task_id=task_id, lane=lane)
        await self._arrive()
        return found

    async def _arrive(self) -> None:
        if not self.arrived:
            self.arrived = True
            await enroll(self, "newcomer")
            await self.claim("newcomer")


async def test_a_process_that_has_just_come_keeps_its_task() -> None:
    clock = FakeClock()
    store = CrowdedStore(clock=clock)
    await submit(store)

    await free_task(store, "task_1", clock=clock)

    assert [worker.worker_id for worker in await store.workers()] == ["newcomer"]
    assert await states(store) == {"msg_task_1": "leased"}


async def test_a_task_in_live_hands_is_not_taken_over(holder: subprocess.Popen[str]) -> None:
    async with Hermes("sqlite:///j.db") as app:
        [task] = await app.store.tasks(TaskQuery())
        with pytest.raises(LeaseHeldError, match=str(holder.pid)):
            await app.resume(task.task_id, successor())


async def test_a_task_of_a_dead_process_is_taken_over_at_once(
    holder: subprocess.Popen[str], workdir: Path
) -> None:
    holder.kill()
    holder.wait()
    async with Hermes("sqlite:///j.db") as app:
        [task] = await app.store.tasks(TaskQuery())
        assert task.state == TaskState.PROCESSING
        with anyio.fail_after(5):
            response = await app.resume(task.task_id, successor())
        assert response.output == "done"
        assert await app.store.messages() == []
    assert list((workdir / ".hermes" / "run").iterdir()) == []


async def test_a_new_task_of_the_session_waits_for_the_live_one(
    holder: subprocess.Popen[str],
) -> None:
    async with Hermes("sqlite:///j.db") as app:
        with anyio.move_on_after(0.6) as scope:
            await app.run(successor(), "next", session_id="s")
        assert scope.cancelled_caught
        tasks = await app.store.tasks(TaskQuery(session_id="s"))
        assert [task.state for task in tasks] == [TaskState.CANCELLED, TaskState.PROCESSING]


async def test_a_new_task_after_a_broken_off_one_says_which_comes_first(
    holder: subprocess.Popen[str],
) -> None:
    holder.kill()
    holder.wait()
    async with Hermes("sqlite:///j.db") as app:
        with pytest.raises(InputError, match=r"comes first .* `hermes resume task_"):
            await app.run(successor(), "next", session_id="s")


async def test_tasks_of_one_session_run_one_after_the_other() -> None:
    inside = 0
    most = 0

    @tool(effect="read")
    async def work() -> str:
        """Work."""
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await anyio.sleep(0.02)
        inside -= 1
        return "ok"

    async with Hermes("memory://") as app, anyio.create_task_group() as group:
        for _ in range(4):
            agent = Agent(model=ScriptedModel([call("work"), "done"]), tools=[work])
            group.start_soon(lambda agent=agent: app.run(agent, "go", session_id="s"))
    assert most == 1


async def test_runs_without_a_session_run_beside_each_other() -> None:
    there = 0
    all_there = anyio.Event()

    @tool(effect="read")
    async def meet() -> str:
        """Meet."""
        nonlocal there
        there += 1
        if there == 3:
            all_there.set()
        await all_there.wait()
        return "met"

    async with Hermes("memory://") as app:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    agent = Agent(model=ScriptedModel([call("meet"), "done"]), tools=[meet])
                    group.start_soon(app.run, agent, "go")
    assert there == 3


def test_two_commands_on_one_database_do_not_disturb_each_other(workdir: Path) -> None:
    (workdir / "rules.yaml").write_text(
        "playbook: 1\nname: r\nrules: [{name: h, when: {all: [hi]}, answer: hello}]\n"
    )
    words = [sys.executable, "-m", "hermes", "run", "hi", "--playbook", "rules.yaml", "--json"]
    running = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    results = [process.communicate(timeout=60) for process in running]
    assert [json.loads(out)["output"] for out, _ in results] == ["hello"] * 4


async def test_many_runs_of_one_session_in_one_process_all_come_to_their_turn(
    workdir: Path,
) -> None:
    order: list[int] = []

    async def run(app: Hermes, number: int) -> None:
        model = ScriptedModel([f"answer {number}"])
        response = await app.run(Agent(model=model), f"goal {number}", session_id="s")
        assert response.status == "succeeded"
        order.append(number)

    with anyio.fail_after(60):
        async with Hermes("sqlite:///j.db") as app, anyio.create_task_group() as group:
            for number in range(60):
                group.start_soon(run, app, number)
    assert sorted(order) == list(range(60))


async def test_the_same_dedupe_key_at_the_same_time_is_one_run() -> None:
    results: list[str] = []

    async def run(app: Hermes) -> None:
        response = await app.run(Agent(model=ScriptedModel(["once"])), "go", dedupe_key="k")
        results.append(response.task_id)

    async with Hermes("memory://") as app, anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(run, app)
    assert len(results) == 3
    assert len(set(results)) == 1


async def test_an_application_may_be_opened_again() -> None:
    app = Hermes("memory://")
    for _ in range(2):
        async with app:
            assert (await app.run(Agent(model=ScriptedModel(["hi"])), "go")).output == "hi"
