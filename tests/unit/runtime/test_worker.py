"""Tasks that a program submits, hands on, works on and cancels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from hermes import Agent, Hermes, tool
from hermes.core.clock import SystemClock
from hermes.core.task import Task
from hermes.errors import DriftError, NotFoundError
from hermes.models import Model
from hermes.runtime import when_idle
from hermes.runtime.dead import RETRIES
from hermes.store import Lease, TaskQuery
from hermes.testing import FakeClock, ScriptedModel, call, calls
from hermes.testing.model import Scripted
from hermes.tools.waiting import Child, Children, Event, Question, Until
from tests.workers import until


@tool(effect="read")
def split(agents: list[str]) -> object:
    """A child for each agent."""
    return Children(tasks=[Child(goal=f"for {name}", agent=name) for name in agents])


@tool(effect="read")
def ask() -> object:
    """Ask a person."""
    return Question(text="which one?")


@tool(effect="read")
def listen() -> object:
    """Wait for the bell."""
    return Event(name="bell")


@tool(effect="read")
def nap(seconds: float) -> object:
    """Wait for a moment."""
    return Until(at=SystemClock().now() + timedelta(seconds=seconds))


def agent(name: str, *replies: Scripted) -> Agent:
    tools = [split, ask, listen, nap]
    return Agent(name=name, model=ScriptedModel(replies), tools=tools)


async def tasks(app: Hermes) -> dict[str, str]:
    """Each agent's task and where it stands."""
    return {task.spec.agent: task.state.value for task in await app.store.tasks(TaskQuery())}


async def test_a_run_carries_its_children_each_with_its_own_agent() -> None:
    others = [agent("b", "from b"), agent("c", "from c")]
    boss = agent("a", call("split", agents=["b", "c"]), "all done")
    async with Hermes("memory://", agents=others) as app:
        response = await app.run(boss, "go")
        assert (response.status, response.output) == ("succeeded", "all done")
        assert await tasks(app) == dict.fromkeys("abc", "succeeded")
        assert await app.store.messages() == []


async def test_children_of_one_parent_are_worked_on_beside_each_other() -> None:
    inside, both = 0, anyio.Event()

    @tool(effect="read")
    async def meet() -> str:
        """Wait for the other one."""
        nonlocal inside
        inside += 1
        if inside == 2:
            both.set()
        await both.wait()
        return "met"

    def worker(name: str) -> Agent:
        return Agent(name=name, model=ScriptedModel([call("meet"), "ok"]), tools=[meet])

    boss = agent("a", call("split", agents=["b", "c"]), "all done")
    async with Hermes("memory://", agents=[worker("b"), worker("c")]) as app:
        with anyio.fail_after(10):
            assert (await app.run(boss, "go")).status == "succeeded"


async def test_a_child_whose_agent_is_unknown_here_is_left_to_a_worker_that_knows_it() -> None:
    boss = agent("a", call("split", agents=["b", "nobody"]), "all done")
    async with Hermes("memory://", agents=[agent("b", "from b")]) as app:
        with anyio.fail_after(10):
            response = await app.run(boss, "go")
        assert response.status == "waiting"
        assert await tasks(app) == {"a": "waiting", "b": "succeeded", "nobody": "dispatched"}
        [row] = await app.store.messages()
        assert (row.state, row.attempts) == ("ready", 0)


async def test_a_moment_that_comes_soon_is_waited_for_and_a_late_one_is_not() -> None:
    async with Hermes("memory://") as app:
        soon = await app.run(agent("a", call("nap", seconds=0.2), "awake"), "go")
        assert soon.status == "succeeded"
        with anyio.fail_after(5):
            late = await app.run(agent("a", call("nap", seconds=7200)), "go")
        assert late.status == "waiting"


async def test_a_worker_in_a_program_carries_what_is_submitted() -> None:
    known = agent("a", "one", "two")
    async with Hermes("memory://", agents=[known]) as app:
        ids = [await app.submit(known, goal) for goal in ("first", "second")]
        assert await tasks(app) == {"a": "dispatched"}
        await app.worker().run(when_idle)
        for task_id in ids:
            assert (await app.store.task(task_id)).state.value == "succeeded"


async def test_a_worker_takes_only_what_its_queues_bring() -> None:
    known = [agent("a", "one"), agent("b", "two")]
    async with Hermes("memory://", agents=known) as app:
        for each in known:
            await app.submit(each, "go")
        await app.worker(queues=["b"]).run(when_idle)
        assert await tasks(app) == {"a": "dispatched", "b": "succeeded"}


async def test_no_more_tasks_run_at_a_time_than_the_concurrency_says() -> None:
    inside = most = 0

    @tool(effect="read")
    async def work() -> str:
        """Work."""
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await anyio.sleep(0.01)
        inside -= 1
        return "ok"

    script: Iterable[Scripted] = [call("work")] * 6 + ["done"] * 6
    busy = Agent(name="a", model=ScriptedModel(script), tools=[work])
    async with Hermes("memory://", agents=[busy]) as app:
        for _ in range(6):
            await app.submit(busy, "go")
        await app.worker(concurrency=2).run(when_idle)
        assert await tasks(app) == {"a": "succeeded"}
    assert most == 2


async def test_a_task_whose_agent_nobody_knows_comes_back_and_then_asks_a_person() -> None:
    clock = FakeClock()
    async with Hermes("memory://", clock=clock) as app:
        task_id = await app.submit(agent("a"), "go")
        for attempt in range(1, RETRIES.attempts):
            await app.worker().run(when_idle)
            [row] = await app.store.messages()
            assert (row.state, row.attempts) == ("delayed", attempt)
            clock.advance(61)
        await app.worker().run(when_idle)
        [review] = await app.store.reviews(task_id=task_id)
        assert review.reason == "dead_letter"
        assert "no worker here knows agent 'a'" in review.text
        task = await app.store.task(task_id)
        assert task.state.value == "waiting"
        assert [item.review_id for item in task.status.pending] == [review.review_id]


async def test_a_dead_task_is_gone_on_with_by_a_resume() -> None:
    clock = FakeClock()
    async with Hermes("memory://", clock=clock) as app:
        task_id = await app.submit(agent("a"), "go")
        for _ in range(RETRIES.attempts):
            await app.worker().run(when_idle)
            clock.advance(61)
        response = await app.resume(task_id, agent("a", "at last"))
        assert (response.status, response.output) == ("succeeded", "at last")
        assert await app.store.messages() == []


async def test_a_worker_puts_a_changed_program_before_a_person_at_once() -> None:
    model: Model = ScriptedModel([call("ask"), "done"])
    before = Agent(name="a", model=model, tools=[ask], instructions="old")
    after = Agent(name="a", model=model, tools=[ask], instructions="new")
    async with Hermes("memory://", agents=[after]) as app:
        first = await app.run(before, "go")
        [review] = await app.store.reviews()
        await app.store.decide(review.review_id, "answer", answer="x", by="test")
        await app.worker().run(when_idle)
        [review] = await app.store.reviews()
        assert review.reason == "dead_letter"
        assert "--accept-changes" in review.text
        with pytest.raises(DriftError):
            await app.resume(first.task_id, after)
        done = await app.resume(first.task_id, after, accept_changes=True)
        assert done.status == "succeeded"


async def test_a_signal_before_and_after_the_wait_both_arrive() -> None:
    async with Hermes("memory://") as app:
        listener = agent("a", call("listen"), "heard", call("listen"), "heard again")
        first = await app.run(listener, "go")
        assert first.status == "waiting"
        assert await app.signal("bell", {"by": "test"})
        assert not await app.signal("bell")
        assert (await app.resume(first.task_id, listener)).output == "heard"
        assert (await app.run(listener, "go")).output == "heard again"


async def test_a_cancel_settles_a_waiting_tree_that_nobody_holds() -> None:
    boss = agent("a", call("split", agents=["nobody"]))
    async with Hermes("memory://") as app:
        response = await app.run(boss, "go")
        with anyio.fail_after(5):
            assert await app.cancel(response.task_id) == []
        assert await tasks(app) == {"a": "cancelled", "nobody": "cancelled"}
        assert await app.store.messages() == []
        assert await app.cancel(response.task_id) == []


async def test_a_cancel_names_what_others_still_work_on() -> None:
    async with Hermes("memory://") as app:
        task_id = await app.submit(agent("a"), "go")
        response = await app.run(agent("b", "hi"), "go")  # registers this process
        [worker] = await app.store.workers()
        assert response.status == "succeeded"
        await app.store.claim(worker.worker_id, task_id=task_id)
        left = await app.cancel(task_id, wait_s=0.2)
        assert [task.task_id for task in left] == [task_id]
        with pytest.raises(NotFoundError):
            await app.cancel("task_none")


async def test_a_cancelled_caller_cancels_the_children_too() -> None:
    begun = anyio.Event()

    @tool(effect="read")
    async def hang() -> str:
        """Hang."""
        begun.set()
        await anyio.sleep_forever()
        return ""

    child = Agent(name="b", model=ScriptedModel([call("hang")]), tools=[hang])
    boss = agent("a", call("split", agents=["b"]))
    async with Hermes("memory://", agents=[child]) as app:
        async with anyio.create_task_group() as group:
            group.start_soon(app.run, boss, "go")
            await begun.wait()
            group.cancel_scope.cancel()
        assert await tasks(app) == {"a": "cancelled", "b": "cancelled"}
        assert await app.store.messages() == []


async def test_a_run_whose_task_a_worker_takes_first_waits_for_that_worker(workdir: Path) -> None:
    begun, go_on = anyio.Event(), anyio.Event()

    @tool(effect="read")
    async def step() -> str:
        """A step that takes a while."""
        begun.set()
        await go_on.wait()
        return "ok"

    model = ScriptedModel([call("step"), "first", call("step"), "second"])
    known = Agent(name="a", model=model, tools=[step])
    outputs: list[object] = []
    async with (
        Hermes("sqlite:///j.db", agents=[known]) as server,
        Hermes("sqlite:///j.db") as caller,
        anyio.create_task_group() as group,
    ):
        await server.submit(known, "one", session_id="s")
        worker = server.worker()
        group.start_soon(worker.run)
        await begun.wait()

        async def run() -> None:
            # It stands behind the first, and the worker, in whose process that ends, is quicker.
            outputs.append((await caller.run(agent("a"), "two", session_id="s")).output)

        group.start_soon(run)

        async def is_there() -> bool:
            return len(await server.store.tasks(TaskQuery())) == 2

        await until(is_there)
        go_on.set()
        await until(lambda: bool(outputs))
        worker.drain()
    assert outputs == ["second"]


async def test_a_drained_worker_gives_back_without_a_charge_and_another_one_goes_on() -> None:
    begun, go_on = anyio.Event(), anyio.Event()

    @tool(effect="read")
    async def step() -> str:
        """A step that takes a while."""
        begun.set()
        await go_on.wait()
        return "ok"

    model = ScriptedModel([calls(call("step")), "done"])
    known = Agent(name="a", model=model, tools=[step])
    async with Hermes("memory://", agents=[known]) as app:
        task_id = await app.submit(known, "go")
        worker = app.worker()
        async with anyio.create_task_group() as group:
            group.start_soon(worker.run)
            await begun.wait()
            worker.drain()
            go_on.set()
        [row] = await app.store.messages()
        assert (row.state, row.attempts, row.crashes) == ("ready", 0, 0)
        await app.worker().run(when_idle)
        task: Task = await app.store.task(task_id)
        assert task.state.value == "succeeded"
        assert len(model.requests) == 2


async def test_what_becomes_ready_beside_a_claim_is_seen_before_a_worker_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = agent("a", "done", "done")
    async with Hermes("memory://", agents=[mine]) as app:
        first = await app.submit(mine, "first")
        claim, late = app.store.claim, list[str]()

        async def claim_while_the_first_one_ends(
            worker_id: str,
            *,
            receivers: Sequence[str] = (),
            task_id: str | None = None,
            root_id: str | None = None,
            limit: int = 1,
        ) -> list[Lease]:
            leases = await claim(
                worker_id, receivers=receivers, task_id=task_id, root_id=root_id, limit=limit
            )
            if not leases and not late:
                while not (await app.store.task(first)).state.is_terminal:
                    await anyio.lowlevel.checkpoint()
                for _ in range(50):  # until the worker has put it away
                    await anyio.lowlevel.checkpoint()
                late.append(await app.submit(mine, "second"))
            return leases

        monkeypatch.setattr(app.store, "claim", claim_while_the_first_one_ends)
        with anyio.fail_after(5):
            await app.worker(concurrency=2).run(when_idle)
        assert (await app.store.task(late[0])).state.value == "succeeded"
