"""What is left behind by those who stop, and how the next one deals with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import anyio
import pytest

from hermes import NOT_DONE, Agent, Child, Children, Hermes, Question, tool
from hermes.core.clock import SystemClock
from hermes.core.ids import uuid7
from hermes.errors import ConflictError, NotDone, StoreBrokenError, StoreUnavailableError
from hermes.runtime import when_idle
from hermes.runtime.dead import RETRIES, bury
from hermes.store import Lease, TaskQuery
from hermes.testing import ScriptedModel, call, calls
from hermes.tools import Tool
from hermes.tools.threads import call_in_thread, is_at_work
from tests.workers import until


@tool(effect="read")
def ask() -> object:
    """Ask a person."""
    return Question(text="which one?")


class Blocked:
    """Tools whose threads go on until they are told to end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.go_on = threading.Event()

    def pay(self) -> str:
        """Pay."""
        self.begun.append("pay")
        self.go_on.wait(20)
        return "paid"

    def reconciled(self) -> Tool:
        return tool(reconcile=lambda key, arguments: NOT_DONE, timeout_s=20)(self.pay)

    def unsafe(self) -> Tool:
        return tool(timeout_s=0.05)(self.pay)


@asynccontextmanager
async def blocked() -> AsyncGenerator[Blocked]:
    it = Blocked()
    try:
        yield it
    finally:
        it.go_on.set()


async def interrupted(app: Hermes, agent: Agent, it: Blocked) -> str:
    """A task that was given back while its call goes on in a thread."""
    task_id = await app.submit(agent, "go")
    loop = app.worker()
    async with anyio.create_task_group() as group:
        group.start_soon(loop.run)
        await until(lambda: bool(it.begun))
        loop.interrupt()
    return task_id


async def test_a_call_is_not_made_again_while_its_thread_is_at_work_in_this_process() -> None:
    async with blocked() as it:
        model = ScriptedModel([call("pay"), "done"])
        agent = Agent(name="a", model=model, tools=[it.reconciled()])
        async with Hermes("memory://", agents=[agent]) as app:
            task_id = await interrupted(app, agent, it)
            await app.worker().run(when_idle)
            task = await app.store.task(task_id)
            assert [pending.kind for pending in task.status.pending] == ["time"]
            assert it.begun == ["pay"]


async def test_another_worker_waits_for_one_that_gave_back_and_lives(workdir: Path) -> None:
    async with blocked() as it:
        model = ScriptedModel([call("pay"), "done"])
        agent = Agent(name="a", model=model, tools=[it.reconciled()])
        async with Hermes("sqlite:///j.db", agents=[agent]) as app:
            task_id = await interrupted(app, agent, it)
            it.go_on.set()
            await until(lambda: not is_at_work(f"{task_id}/turn1/tool1"))  # known here alone
            async with Hermes("sqlite:///j.db", agents=[agent]) as other:
                await other.worker().run(when_idle)
            task = await app.store.task(task_id)
            assert [pending.kind for pending in task.status.pending] == ["time"]
            assert it.begun == ["pay"]


async def test_a_person_s_retry_waits_for_the_thread_of_the_call() -> None:
    async with blocked() as it:
        model = ScriptedModel([call("pay"), "done"])
        agent = Agent(name="a", model=model, tools=[it.unsafe()])
        async with Hermes("memory://", agents=[agent]) as app:
            response = await app.run(agent, "go")
            [review] = await app.store.reviews()
            await app.store.decide(review.review_id, "retry", by="ann")
            await app.worker().run(when_idle)
            task = await app.store.task(response.task_id)
            assert [pending.kind for pending in task.status.pending] == ["time"]
            assert it.begun == ["pay"]


async def test_a_thread_is_at_work_until_it_ends_whoever_waits() -> None:
    go_on = threading.Event()
    with anyio.move_on_after(0.01):
        await call_in_thread(lambda: go_on.wait(20), name="a")
    assert is_at_work("a")
    assert not is_at_work("b")
    go_on.set()
    await until(lambda: not is_at_work("a"))


async def test_a_machine_without_a_further_thread_has_not_begun_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(_: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        for _ in range(300):
            with pytest.raises(NotDone, match="can't start"):
                await call_in_thread(lambda: None, name="a")
    assert not is_at_work("a")
    assert await call_in_thread(lambda: 7) == 7


@pytest.mark.parametrize("is_known", [True, False], ids=["changed", "unknown"])
async def test_a_person_s_cancel_needs_neither_the_agent_nor_its_program(is_known: bool) -> None:
    model = ScriptedModel([call("ask"), "done"])
    before = Agent(name="a", model=model, tools=[ask], instructions="old")
    after = Agent(name="a", model=model, tools=[ask], instructions="new")
    async with Hermes("memory://", agents=[after] if is_known else []) as app:
        first = await app.run(before, "go")
        [review] = await app.store.reviews()
        await app.store.decide(review.review_id, "cancel", by="ann")
        await app.worker().run(when_idle)
        task = await app.store.task(first.task_id)
        assert task.state.value == "cancelled"
        assert task.status.error is not None
        assert task.status.error.message == "the run was cancelled by ann"
        assert await app.store.messages() == []


async def test_a_person_s_cancel_reaches_the_tasks_below() -> None:
    @tool(effect="read")
    def split() -> object:
        """One child."""
        return Children(tasks=[Child(goal="x", agent="nobody")])

    model = ScriptedModel([calls(call("split"), call("ask"))])
    boss = Agent(name="a", model=model, tools=[split, ask])
    async with Hermes("memory://") as app:
        await app.run(boss, "go")
        [review] = await app.store.reviews()
        await app.store.decide(review.review_id, "cancel", by="ann")
        await app.worker().run(when_idle)
        found = {task.spec.agent: task.state.value for task in await app.store.tasks(TaskQuery())}
        assert found == {"a": "cancelled", "nobody": "cancelled"}


async def test_a_person_s_cancel_of_a_dead_message_ends_its_task() -> None:
    async with Hermes("memory://") as app:
        task_id = await app.submit(Agent(name="nobody", model=ScriptedModel([])), "go")
        await bury(
            app.store, await leased(app, task_id), reason="x", clock=SystemClock(), new_id=uuid7
        )
        [review] = await app.store.reviews()
        await app.store.decide(review.review_id, "cancel", by="ann")
        await app.worker().run(when_idle)
        assert (await app.store.task(task_id)).state.value == "cancelled"


async def leased(app: Hermes, task_id: str) -> Lease:
    """The task's message, in the hands of this process."""
    worker_id = await app.worker().worker_id()
    [lease] = await app.store.claim(worker_id, task_id=task_id)
    return lease


async def test_what_is_left_to_others_is_not_claimed_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @tool(effect="read")
    def split() -> object:
        """One child for us, one for others."""
        return Children(tasks=[Child(goal="x", agent="b"), Child(goal="y", agent="nobody")])

    @tool(effect="read")
    async def slow() -> str:
        """Take a while."""
        await anyio.sleep(0.4)
        return "done"

    boss = Agent(name="a", model=ScriptedModel([call("split")]), tools=[split])
    child = Agent(name="b", model=ScriptedModel([call("slow"), "done"]), tools=[slow])
    async with Hermes("memory://", agents=[child]) as app:
        claims, claim = list[str | None](), app.store.claim

        async def counted(
            worker_id: str, *, limit: int = 1, root_id: str | None = None, **more: object
        ) -> list[Lease]:
            claims.append(root_id)
            return await claim(worker_id, limit=limit, root_id=root_id)

        monkeypatch.setattr(app.store, "claim", counted)
        await app.run(boss, "go")
        assert len(claims) < 10


@pytest.mark.parametrize("at", ["events", "cancels"])
async def test_a_caller_that_is_cancelled_before_the_work_begins_holds_no_lease(
    monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    async with Hermes("memory://") as app:
        agent = Agent(name="a", model=ScriptedModel([call("ask"), "done"]), tools=[ask])
        first = await app.run(agent, "go")
        task_id = await app.submit(agent, "again")
        read = getattr(app.store, at)
        running: list[asyncio.Task[object]] = []

        async def read_and_cancel(of: str) -> object:
            if any(row.state == "leased" for row in await app.store.messages()):
                monkeypatch.undo()
                running[0].cancel()
                await asyncio.sleep(0)
            return await read(of)

        monkeypatch.setattr(app.store, at, read_and_cancel)
        running.append(asyncio.ensure_future(app.resume(task_id, agent)))
        with pytest.raises(asyncio.CancelledError):
            await running[0]
        assert (await app.store.task(task_id)).state.value == "cancelled"
        assert (await app.store.task(first.task_id)).state.value == "waiting"
        assert await app.store.messages() == []


async def test_a_worker_whose_database_broke_for_good_ends_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = StoreBrokenError("this process writes no more", hint="start it again")

    async def claim(*_: object, **__: object) -> NoReturn:
        raise broken

    async with Hermes("memory://") as app:
        loop = app.worker()
        monkeypatch.setattr(app.store, "claim", claim)
        with anyio.fail_after(5):
            await loop.run()
        assert loop.fault is broken


@pytest.mark.parametrize(
    ("fault", "attempts"),
    [(StoreUnavailableError("it is away"), 0), (ConflictError("it is taken"), 1)],
    ids=["an outage", "a conflict"],
)
async def test_only_an_outage_of_the_store_is_nobody_s_attempt(
    monkeypatch: pytest.MonkeyPatch, fault: Exception, attempts: int
) -> None:
    agent = Agent(name="a", model=ScriptedModel(["done"]))
    async with Hermes("memory://", agents=[agent]) as app:
        task_id = await app.submit(agent, "go")
        loop = app.worker()

        async def task(_: str) -> NoReturn:
            monkeypatch.undo()
            loop.drain()
            raise fault

        monkeypatch.setattr(app.store, "task", task)
        await loop.run()
        [row] = await app.store.messages(task_id=task_id)
        assert row.attempts == attempts
        assert RETRIES.attempts > 1
        if row.not_before is not None:
            assert row.not_before < SystemClock().now() + timedelta(minutes=2)
