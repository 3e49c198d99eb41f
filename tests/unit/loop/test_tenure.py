"""The holder of the lease may stop a run at a border, or end it in the middle of a step."""

from __future__ import annotations

import anyio
import pytest

from hermes import tool
from hermes.agents import Holding
from hermes.core.task import TaskState
from hermes.errors import StaleLeaseError
from hermes.testing import call, calls
from hermes.tools import Tool
from tests.unit.loop.stage import Stage


def noting(stage: Stage) -> Tool:
    @tool
    async def note(text: str) -> str:
        """Note."""
        stage.ran.append(text)
        return f"noted {text}"

    return note


async def test_a_run_that_is_to_stop_ends_its_step_and_leaves_the_task_at_work(
    stage: Stage,
) -> None:
    stage.play([call("note", text="1"), call("note", text="2"), "Done."], noting(stage))
    task_id = await stage.submit()
    lease = await stage.lease(task_id)

    response = await stage.work(lease, Holding(should_stop=lambda: len(stage.ran) == 1))

    assert (response.status, stage.ran) == ("processing", ["1"])
    assert (await stage.types(task_id))[-1] == "tool.returned"
    await stage.store.release(lease)
    assert (await stage.carry()).output == "Done."
    assert stage.ran == ["1", "2"]


async def test_calls_in_order_are_steps_of_their_own(stage: Stage) -> None:
    three = calls(*(call("note", text=text) for text in "123"))
    stage.play([three, "Done."], noting(stage))
    lease = await stage.lease(await stage.submit())

    await stage.work(lease, Holding(should_stop=lambda: len(stage.ran) == 2))
    assert stage.ran == ["1", "2"]

    await stage.store.release(lease)
    assert (await stage.carry()).output == "Done."
    assert stage.ran == ["1", "2", "3"]


async def test_one_that_is_to_stop_before_it_begins_asks_no_model(stage: Stage) -> None:
    stage.play(["Done."])
    lease = await stage.lease(await stage.submit())
    response = await stage.work(lease, Holding(should_stop=lambda: True))
    assert (response.status, stage.model.requests) == ("processing", [])


async def hang_and_cancel(stage: Stage, holding: Holding) -> str:
    begun = anyio.Event()

    @tool(effect="read")
    async def hang() -> str:
        """Hang."""
        begun.set()
        await anyio.sleep_forever()
        return ""

    stage.play([call("hang"), "Done."], hang)
    task_id = await stage.submit()
    async with anyio.create_task_group() as group:
        group.start_soon(stage.carry, task_id, holding)
        await begun.wait()
        group.cancel_scope.cancel()
    return task_id


async def test_an_interrupted_run_writes_nothing_more(stage: Stage) -> None:
    task_id = await hang_and_cancel(stage, Holding(interrupted=lambda: True))
    task = await stage.store.task(task_id)
    assert task.state is TaskState.PROCESSING
    assert (await stage.types(task_id))[-1] == "tool.started"


async def test_a_cancelled_run_is_settled(stage: Stage) -> None:
    task_id = await hang_and_cancel(stage, Holding())
    assert (await stage.store.task(task_id)).state is TaskState.CANCELLED


@pytest.mark.parametrize(("allowed", "asked", "ran"), [(0, 0, 0), (1, 1, 0), (2, 1, 1)])
async def test_the_lease_is_checked_before_each_model_and_tool_call(
    stage: Stage, allowed: int, asked: int, ran: int
) -> None:
    stage.play([call("note", text="1"), "Done."], noting(stage))
    lease = await stage.lease(await stage.submit())
    left = allowed

    def check() -> None:
        nonlocal left
        if left == 0:
            raise StaleLeaseError(lease.message.message_id, token=lease.token)
        left -= 1

    with pytest.raises(StaleLeaseError):
        await stage.work(lease, Holding(check_lease=check))

    assert (len(stage.model.requests), len(stage.ran)) == (asked, ran)


async def test_a_dead_letter_that_comes_back_goes_on(stage: Stage) -> None:
    """A message that died before the work began is retried as a first start."""
    stage.play(["Done."])
    task_id = await stage.submit()
    await stage.bury(await stage.lease(task_id))
    waiting = await stage.store.task(task_id)
    assert waiting.state is TaskState.WAITING

    await stage.store.decide((await stage.review()).review_id, "retry", by="ann")
    assert (await stage.carry()).output == "Done."
    types = await stage.types(task_id)
    assert types.count("task.started") == 1
