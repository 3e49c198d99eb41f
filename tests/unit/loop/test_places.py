"""A tool's calls are so many at a time over all runs of a process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from hermes import tool
from hermes.core.budget import Limits
from hermes.core.events import ToolFailed, ToolReturned, ToolStarted
from hermes.core.request import AgentResponse
from hermes.testing import ScriptedModel, call, calls
from hermes.tools import Tool
from tests.unit.loop.resilient import Shift
from tests.unit.loop.stage import Stage, staged


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """Without a thread of its own, so that whoever is not blocked is at work."""
    async with staged("memory://") as opened:
        yield opened


class Counter:
    """Counts how many calls are at work at a time; they end when they are let."""

    def __init__(self) -> None:
        self.now = self.most = self.made = 0
        self.go_on = anyio.Event()
        self.began = anyio.Event()

    async def work(self) -> str:
        self.now, self.made = self.now + 1, self.made + 1
        self.most = max(self.most, self.now)
        self.began.set()
        try:
            await self.go_on.wait()
        finally:
            self.now -= 1
        return "done"


def limited(counter: Counter, *, effect: str, concurrency: int, timeout_s: float = 5) -> Tool:
    @tool(effect=effect, concurrency=concurrency, timeout_s=timeout_s)  # pyright: ignore[reportArgumentType]  # named by each test
    async def work() -> str:
        """Work."""
        return await counter.work()

    return work


@pytest.mark.parametrize("effect", ["read", "unsafe"])
async def test_runs_share_the_places_of_a_tool(stage: Stage, effect: str) -> None:
    shift, counter = Shift(stage), Counter()
    ended: list[str] = []

    async def one() -> None:
        own = limited(counter, effect=effect, concurrency=2)  # of the same name and fingerprint
        response, _ = await shift.run([call("work"), "Done."], own)
        ended.append(response.status)

    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(one)
        await counter.began.wait()
        await anyio.wait_all_tasks_blocked()
        assert counter.now == 2
        counter.go_on.set()
    assert (counter.most, counter.made, ended) == (2, 6, ["succeeded"] * 6)


async def test_calls_beside_each_other_in_one_turn_share_them_too(stage: Stage) -> None:
    shift, counter = Shift(stage), Counter()
    counter.go_on.set()
    tool = limited(counter, effect="read", concurrency=1)
    response, _ = await shift.run([calls(*[call("work")] * 5), "Done."], tool)
    assert (response.status, counter.most, counter.made) == ("succeeded", 1, 5)


async def test_waiting_for_a_place_is_no_part_of_the_timeout(stage: Stage) -> None:
    shift, first = Shift(stage), Counter()
    stage.ran = []

    @tool(effect="read", concurrency=1, timeout_s=0.2)
    async def work() -> str:
        """Work."""
        stage.ran.append("work")
        if len(stage.ran) == 1:
            await first.work()  # until its time is over
        return "done"

    response, _ = await shift.run([calls(call("work"), call("work")), "Done."], work)
    outcomes = {event.path for event in await stage.events(response.task_id, ToolReturned)}
    assert outcomes == {"/turn1/tool2"}
    [late] = await stage.events(response.task_id, ToolFailed)
    assert (late.path, late.status) == ("/turn1/tool1", "timeout")


async def test_an_unsafe_call_writes_its_intent_only_when_it_has_its_place(stage: Stage) -> None:
    shift, counter = Shift(stage), Counter()
    pay = limited(counter, effect="unsafe", concurrency=1)

    @tool(effect="unsafe")
    async def note() -> str:
        """Note."""
        return "noted"

    second = await stage.submit()
    async with anyio.create_task_group() as group:
        group.start_soon(shift.run, [call("work"), "Done."], pay)
        await counter.began.wait()
        model = ScriptedModel([calls(call("note"), call("work")), "Done."])
        group.start_soon(shift.carry, second, model, note, pay)
        await anyio.wait_all_tasks_blocked()
        # What came before is written; what waits is not begun.
        assert [e.name for e in await stage.events(second, ToolReturned)] == ["note"]
        assert [e.name for e in await stage.events(second, ToolStarted)] == ["note"]
        counter.go_on.set()
    assert [e.name for e in await stage.events(second, ToolReturned)] == ["note", "work"]


async def test_a_call_that_is_cancelled_while_it_waits_is_not_in_doubt(stage: Stage) -> None:
    shift, counter = Shift(stage), Counter()
    pay = limited(counter, effect="unsafe", concurrency=1)
    second = await stage.submit()
    async with anyio.create_task_group() as group:
        group.start_soon(shift.run, [call("work"), "Done."], pay)
        await counter.began.wait()
        async with anyio.create_task_group() as inner:
            inner.start_soon(shift.carry, second, ScriptedModel([call("work")]), pay)
            await anyio.wait_all_tasks_blocked()
            inner.cancel_scope.cancel()
        counter.go_on.set()
    task = await stage.store.task(second)
    assert (task.state.value, counter.made) == ("cancelled", 1)
    assert "tool.in_doubt" not in await stage.types(second)
    # Its place was never taken: the next one gets it.
    response, _ = await shift.run([call("work"), "Done."], pay)
    assert response.status == "succeeded"


async def test_a_call_that_broke_off_is_put_before_a_person_however_long_it_waits(
    stage: Stage,
) -> None:
    shift, counter = Shift(stage), Counter()
    pay = limited(counter, effect="unsafe", concurrency=1)
    task_id = await stage.submit()
    counter.go_on.set()
    stage.play([call("work")], pay)
    await stage.break_off(task_id)
    again = Shift(stage)
    counter.go_on, counter.began = anyio.Event(), anyio.Event()
    found: list[AgentResponse] = []

    async def resume() -> None:
        limits = Limits(max_seconds=0.05)
        found.append(await again.carry(task_id, ScriptedModel([]), pay, limits=limits))

    async def let_go() -> None:
        await anyio.sleep(0.1)  # longer than the task's time
        counter.go_on.set()

    async with anyio.create_task_group() as group:
        group.start_soon(again.run, [call("work"), "Done."], pay)
        await counter.began.wait()
        group.start_soon(resume)
        group.start_soon(let_go)
    assert found[0].status == "waiting"
    assert found[0].pending[0].kind == "in_doubt"
    assert shift.slept == []


@pytest.mark.parametrize("effect", ["read", "unsafe"])
async def test_waiting_ends_with_the_time_of_the_task(stage: Stage, effect: str) -> None:
    shift, counter = Shift(stage), Counter()
    pay = limited(counter, effect=effect, concurrency=1)
    found: list[AgentResponse] = []

    async def late() -> None:
        response, _ = await shift.run(
            [calls(call("work"), call("work"))], pay, limits=Limits(max_seconds=0.05)
        )
        found.append(response)
        counter.go_on.set()

    async with anyio.create_task_group() as group:
        group.start_soon(shift.run, [call("work"), "Done."], pay)
        await counter.began.wait()
        group.start_soon(late)
    [response] = found
    assert response.status == "partial"
    assert response.error is not None and "max_seconds" in response.error.message
    refused = await stage.events(response.task_id, ToolFailed)
    assert [event.error.code for event in refused] == ["budget", "budget"]
    assert (await stage.types(response.task_id)).count("budget.exceeded") == 1
    assert counter.made == 1
