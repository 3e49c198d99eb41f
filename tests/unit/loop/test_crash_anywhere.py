"""A run with every kind of call dies at each commit and call, and comes to the same end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from hermes import NOT_DONE, Child, Children, Question, tool
from hermes.core.chat import ToolMessage
from hermes.core.events import ToolInDoubt, ToolStarted
from hermes.core.failpoints import set_hook
from hermes.core.task import TaskState
from hermes.models import ModelReply, ModelRequest
from hermes.store import TaskQuery
from hermes.testing import ScriptedModel, call, calls
from hermes.tools import Tool
from tests.unit.loop.stage import Death, Stage, staged

TURNS = (
    calls(call("look", name="a"), call("ask"), call("look", name="b")),
    calls(call("pay", order="A1"), call("send", text="x"), call("pay", order="A1")),
    calls(call("spread")),
)


class ByHistory(ScriptedModel):
    """Says what comes next after what it is shown, so that a resumed run hears the same."""

    def __init__(self) -> None:
        super().__init__([])

    async def reply(self, request: ModelRequest) -> ModelReply:
        goal = next(m.text for m in request.messages if m.kind == "user")
        turn = sum(m.kind == "assistant" for m in request.messages)
        if goal == "go" and turn < len(TURNS):
            return TURNS[turn]
        results = [m.text for m in request.messages if isinstance(m, ToolMessage)]
        return ModelReply(text=f"done: {len(results)}")


def tools(done: Counter[str]) -> list[Tool]:
    @tool(effect="read")
    async def look(name: str) -> str:
        """Look."""
        return f"saw {name}"

    @tool(effect="read")
    async def ask() -> Question:
        """Ask."""
        return Question(text="well?")

    @tool(key="{order}")
    async def pay(order: str) -> str:
        """Pay."""
        done[f"pay {order}"] += 1
        return "paid"

    def was_sent(key: str, arguments: dict[str, object]) -> object:
        return "sent" if done["send"] else NOT_DONE

    @tool(reconcile=was_sent)
    async def send(text: str) -> str:
        """Send."""
        done["send"] += 1
        return "sent"

    @tool
    async def spread() -> Children:
        """Spread."""
        return Children(tasks=[Child(goal="left"), Child(goal="right")])

    return [look, ask, pay, send, spread]


async def answer(stage: Stage, done: Counter[str]) -> None:
    """Be the person who knows what really happened."""
    for review in await stage.store.reviews():
        if review.reason == "question":
            await stage.store.decide(review.review_id, "answer", answer="well", by="ann")
        else:
            # `spread` has no effect of its own; whether money went out, the bank's list tells.
            took_place = review.name == "pay" and done["pay A1"]
            await stage.store.decide(review.review_id, "done" if took_place else "retry", by="ann")


async def play(stage: Stage, deaths: Sequence[int]) -> tuple[str, Counter[str], int]:
    """Carry a task to its end, with deaths on the way; also how many places there were."""
    done: Counter[str] = Counter()
    places = 0

    def hook(name: str) -> None:
        nonlocal places
        if name.startswith("loop."):
            places += 1
            if places in deaths:
                raise Death

    stage.model, stage.tools = ByHistory(), tools(done)
    task_id = await stage.submit()
    set_hook(hook)
    try:
        for _ in range(50):
            await answer(stage, done)
            if not await stage.store.messages():
                return task_id, done, places
            try:
                await stage.carry()
            except (Death, BaseExceptionGroup):
                await stage.crash()
    finally:
        set_hook(None)
    raise AssertionError("it does not come to its end")


async def check(stage: Stage, task_id: str, done: Counter[str]) -> None:
    tasks = await stage.store.tasks(TaskQuery())
    assert [task.state for task in tasks] == [TaskState.SUCCEEDED] * 3
    assert done == {"pay A1": 1, "send": 1}
    assert await stage.store.messages() == []
    assert await stage.store.reviews() == []
    for task in tasks:
        assert await stage.store.waits(task.task_id) == []
        types = await stage.types(task.task_id)
        assert types.count("task.settled") == 1
    for doubt in await stage.events(task_id, ToolInDoubt):
        assert doubt.name in ("pay", "spread")
    started = await stage.events(task_id, ToolStarted)
    assert Counter(event.path for event in started)["/turn2/tool3"] == 0
    row = await stage.store.effect(task_id, "pay", "A1")
    assert row is not None
    assert row.state == "done"


async def ends_well(*deaths: int) -> int:
    async with staged("memory://") as stage:
        task_id, done, places = await play(stage, deaths)
        await check(stage, task_id, done)
    return places


async def test_it_comes_to_the_same_end_wherever_it_dies() -> None:
    places = await ends_well()
    assert places > 50
    for place in range(1, places + 1):
        await ends_well(place)


@pytest.mark.parametrize("later", [1, 3])
async def test_so_it_does_where_it_dies_again_as_it_recovers(later: int) -> None:
    for place in range(1, await ends_well() + 1):
        await ends_well(place, place + later)
