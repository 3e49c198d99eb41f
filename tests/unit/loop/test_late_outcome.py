"""What a worker may still say, and still begin, after its task was taken over or cancelled."""

from __future__ import annotations

import threading

import anyio
import pytest

from hermes import NOT_DONE, tool
from hermes.agents import Holding
from hermes.core.chat import ToolMessage
from hermes.core.events import ReviewDecided, ToolFailed, ToolInDoubt, ToolReconciled
from hermes.core.failpoints import set_hook
from hermes.core.task import TaskState
from hermes.errors import NotDone, StaleLeaseError
from hermes.testing import call
from hermes.tools import Tool
from tests.unit.loop.stage import WORKER, Stage
from tests.workers import until


class Frozen:
    """A payment whose worker is taken for dead in the middle, and whose task another one takes."""

    def __init__(self, stage: Stage, *, fault: Exception | None = None) -> None:
        self.stage, self.fault = stage, fault
        self.decided = ""

    @property
    def tool(self) -> Tool:
        @tool
        async def pay() -> str:
            """Pay."""
            self.stage.ran.append("pay")
            if len(self.stage.ran) == 1:
                await self.take_over()
                if self.fault is not None:
                    raise self.fault
            return "receipt 7"

        return pay

    async def take_over(self) -> None:
        await self.stage.crash()
        assert (await self.stage.carry()).status == "waiting"
        if self.decided:
            await self.stage.store.decide((await self.stage.review()).review_id, "done", by="ann")

    async def play(self) -> str:
        self.stage.play([call("pay"), "Paid."], self.tool)
        task_id = await self.stage.submit()
        with pytest.raises(StaleLeaseError):
            await self.stage.carry(task_id)
        return task_id


async def test_a_result_that_comes_too_late_to_be_written_ends_the_open_doubt(
    stage: Stage,
) -> None:
    task_id = await Frozen(stage).play()
    assert await stage.store.reviews() == []
    assert (await stage.carry()).output == "Paid."
    [word] = await stage.events(task_id, ToolReconciled)
    assert (word.decision, word.by, word.content) == ("done", WORKER, "receipt 7")
    told = [m.text for m in stage.model.requests[-1].messages if isinstance(m, ToolMessage)]
    assert told == ["receipt 7"]
    assert stage.ran == ["pay"]


async def test_a_failure_that_comes_too_late_leaves_the_doubt_to_a_person(stage: Stage) -> None:
    await Frozen(stage, fault=NotDone("no money")).play()
    assert (await stage.review()).reason == "in_doubt"


async def test_a_person_who_was_faster_is_not_overruled(stage: Stage) -> None:
    frozen = Frozen(stage)
    frozen.decided = "done"
    task_id = await frozen.play()
    await stage.carry()
    [word] = await stage.events(task_id, ReviewDecided)
    assert word.by == "ann"


async def test_a_run_cancelled_while_the_intent_is_written_begins_no_call(stage: Stage) -> None:
    @tool
    async def pay() -> str:
        """Pay."""
        stage.ran.append("pay")
        return "paid"

    stage.play([call("pay"), "Paid."], pay)
    task_id = await stage.submit()
    commits = 0

    def hook(name: str) -> None:
        nonlocal commits
        commits += name == "loop.commit.after"
        if commits == 2 and name == "loop.commit.after":
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        set_hook(hook)
        try:
            await stage.carry(task_id, Holding())
        finally:
            set_hook(None)

    assert (await stage.store.task(task_id)).state is TaskState.CANCELLED
    assert stage.ran == []
    [failed] = await stage.events(task_id, ToolFailed)
    assert failed.error.code == "cancelled"
    assert await stage.events(task_id, ToolInDoubt) == []


async def test_a_call_whose_thread_outlives_every_bound_is_put_before_a_person(
    stage: Stage,
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def look(key: str, arguments: dict[str, object]) -> object:
        return NOT_DONE

    @tool(reconcile=look, timeout_s=20)
    def pay() -> str:
        """Pay."""
        stage.ran.append("pay")
        begun.set()
        go_on.wait(20)
        return "paid"

    stage.play([call("pay"), "Paid."], pay)
    task_id = await stage.submit()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(stage.carry, task_id, Holding(interrupted=lambda: True))
            await until(begun.is_set)
            group.cancel_scope.cancel()
        await stage.crash()
        stage.clock.advance(1000)
        assert (await stage.carry()).status == "waiting"
        review = await stage.review()
    finally:
        go_on.set()
    assert review.reason == "in_doubt"
    assert "may still be at work" in review.text
    assert stage.ran == ["pay"]
