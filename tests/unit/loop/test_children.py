"""A call hands work to child tasks, and its result is what they came to."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import cast

import pytest

from hermes import Child, Children, Limits, Question, tool
from hermes.agents import Executor
from hermes.core import ids
from hermes.core.chat import ToolMessage
from hermes.core.events import TaskSplit, ToolFailed
from hermes.core.task import Task, TaskState
from hermes.errors import ModelError
from hermes.models import ModelReply, ModelRequest
from hermes.store import TaskQuery
from hermes.testing import ScriptedModel, call, calls
from hermes.tools import Tool
from tests.unit.loop.stage import Stage

GOOD, BAD = "good", "bad"


def spreading(stage: Stage, children: Children) -> Tool:
    @tool
    async def spread() -> Children:
        """Spread."""
        stage.ran.append("spread")
        return children

    return spread


def family(*goals: str, accept_ratio: float = 0.5, max_rounds: int = 2) -> Children:
    return Children(
        tasks=[Child(goal=goal) for goal in goals],
        accept_ratio=accept_ratio,
        max_rounds=max_rounds,
    )


class ByGoal(ScriptedModel):
    """Parents spread, then say what they read; children do as their goal says."""

    def __init__(self, *, parents: tuple[str, ...] = ("go",)) -> None:
        super().__init__([])
        self.parents = parents
        self.heals = False
        self.read: list[str] = []

    async def reply(self, request: ModelRequest) -> ModelReply:
        goal = next(m.text for m in request.messages if m.kind == "user")
        results = [m.text for m in request.messages if isinstance(m, ToolMessage)]
        if goal in self.parents:
            if not results:
                return calls(call("spread"))
            self.read = results
            return ModelReply(text="All done.")
        if goal.startswith(BAD) and not self.heals:
            raise ModelError("it is bad", code="refused")
        return ModelReply(text=f"{goal} is done")


@pytest.fixture
def model(stage: Stage) -> ByGoal:
    stage.model = ByGoal()
    return stage.model


async def children_of(stage: Stage, task_id: str) -> list[Task]:
    return sorted(
        await stage.store.tasks(TaskQuery(parent_id=task_id)), key=lambda task: task.spec.goal
    )


def read(model: ByGoal) -> list[dict[str, object]]:
    return json.loads(model.read[0])


async def test_the_task_waits_for_children_that_are_tasks_of_their_own(
    stage: Stage, model: ByGoal
) -> None:
    stage.tools = [spreading(stage, family("good 1", "good 2"))]

    response = await stage.start()

    assert (response.status, response.pending[0].kind) == ("waiting", "children")
    first, second = await children_of(stage, response.task_id)
    assert first.task_id == ids.child_task_id(response.task_id, "/turn1/tool1#1.1")
    assert second.task_id == ids.child_task_id(response.task_id, "/turn1/tool1#1.2")
    assert (first.spec.parent_path, first.root_id) == ("/turn1/tool1#1", response.task_id)
    assert first.trace_id == (await stage.store.task(response.task_id)).trace_id
    assert (first.spec.agent, first.state) == ("a", TaskState.DISPATCHED)
    [split] = await stage.events(response.task_id, TaskSplit)
    assert (split.round, split.children) == (1, (first.task_id, second.task_id))


async def test_when_all_succeeded_the_result_is_theirs_in_order(
    stage: Stage, model: ByGoal
) -> None:
    stage.tools = [spreading(stage, family("good 1", "good 2"))]
    response = await stage.start()
    await stage.carry_all()

    task = await stage.store.task(response.task_id)
    assert task.state is TaskState.SUCCEEDED
    first, second = await children_of(stage, response.task_id)
    assert read(model) == [
        {
            "task_id": child.task_id,
            "status": "succeeded",
            "output": f"{child.spec.goal} is done",
            "error": None,
        }
        for child in (first, second)
    ]
    assert stage.ran == ["spread"]
    assert await stage.store.messages() == []
    assert await stage.store.waits(response.task_id) == []


async def test_below_the_ratio_the_unmet_parts_are_made_again(stage: Stage, model: ByGoal) -> None:
    stage.tools = [spreading(stage, family("bad 1", "good", "bad 2"))]
    response = await stage.start()
    for _ in range(3):
        await stage.carry()
    model.heals = True
    await stage.carry_all()

    assert (await stage.store.task(response.task_id)).state is TaskState.SUCCEEDED
    first, second = await stage.events(response.task_id, TaskSplit)
    assert (second.round, second.unmet) == (2, (0, 2))
    assert second.children == (
        ids.child_task_id(response.task_id, "/turn1/tool1#2.1"),
        ids.child_task_id(response.task_id, "/turn1/tool1#2.3"),
    )
    assert [part["task_id"] for part in read(model)] == [
        second.children[0],
        first.children[1],
        second.children[1],
    ]
    assert len(await children_of(stage, response.task_id)) == 5


async def test_without_time_left_a_person_is_asked_in_place_of_a_round(
    stage: Stage, model: ByGoal
) -> None:
    @tool(effect="read")
    async def spread() -> Children:
        """Spread."""
        stage.clock.advance(20)
        return family("bad 1", "bad 2")

    stage.tools, stage.limits = [spread], Limits(max_seconds=10)
    response = await stage.start()
    await stage.carry_all()
    assert len(await stage.events(response.task_id, TaskSplit)) == 1
    assert (await stage.review()).reason == "partial"


async def test_after_the_last_round_a_person_is_asked(stage: Stage, model: ByGoal) -> None:
    stage.tools = [spreading(stage, family("bad 1", "bad 2", "good", max_rounds=1))]
    response = await stage.start()
    await stage.carry_all()

    assert len(await stage.events(response.task_id, TaskSplit)) == 2
    review = await stage.review()
    assert (review.reason, review.text) == (
        "partial",
        "1 of 3 parts of spread succeeded: is that enough?",
    )
    [wait] = await stage.store.waits(response.task_id)  # those for the rounds are over
    assert wait.key == review.review_id


async def with_one_failure(stage: Stage) -> str:
    stage.tools = [spreading(stage, family("bad 1", "good 1", "good 2"))]
    response = await stage.start()
    await stage.carry_all()
    assert (await stage.store.task(response.task_id)).state is TaskState.WAITING
    return response.task_id


async def test_from_the_ratio_on_a_person_is_asked_at_once(stage: Stage, model: ByGoal) -> None:
    task_id = await with_one_failure(stage)
    assert len(await stage.events(task_id, TaskSplit)) == 1
    review = await stage.review()
    assert len(cast("list[object]", review.data["parts"])) == 3


async def test_accepted_the_result_shows_what_is_unmet(stage: Stage, model: ByGoal) -> None:
    task_id = await with_one_failure(stage)
    await stage.store.decide((await stage.review()).review_id, "accept", by="ann")
    await stage.carry_all()
    assert (await stage.store.task(task_id)).state is TaskState.SUCCEEDED
    assert [part["status"] for part in read(model)] == ["failed", "succeeded", "succeeded"]


async def test_rejected_the_model_is_told(stage: Stage, model: ByGoal) -> None:
    task_id = await with_one_failure(stage)
    review_id = (await stage.review()).review_id
    await stage.store.decide(review_id, "reject", answer="all or nothing", by="ann")
    await stage.carry_all()
    [failed] = await stage.events(task_id, ToolFailed)
    assert (failed.status, failed.error.code) == ("error", "rejected")
    assert "2 of 3 parts succeeded" in failed.error.message
    assert "all or nothing" in failed.error.message
    assert "bad 1: failed" in failed.error.message


async def test_a_part_that_a_person_cancelled_is_not_made_again(
    stage: Stage, model: ByGoal
) -> None:
    stage.tools = [spreading(stage, family("good 1"))]
    response = await stage.start()
    [child] = await children_of(stage, response.task_id)
    await stage.store.request_cancel(child.task_id)
    await Executor(stage.store, clock=stage.clock).cancel(await stage.lease(child.task_id), ())
    await stage.carry_all()
    review = await stage.review()
    assert (review.task_id, review.reason) == (response.task_id, "partial")
    assert len(await children_of(stage, response.task_id)) == 1


async def test_a_crash_between_the_children_and_the_join_makes_no_second_round(
    stage: Stage, model: ByGoal
) -> None:
    stage.tools = [spreading(stage, family("bad 1", "bad 2"))]
    response = await stage.start()
    await stage.carry()
    await stage.carry()
    await stage.lease(response.task_id)
    await stage.crash()
    model.heals = True
    await stage.carry_all()
    assert len(await stage.events(response.task_id, TaskSplit)) == 2
    assert len(await children_of(stage, response.task_id)) == 4


async def test_cancelling_the_parent_cancels_those_below(stage: Stage, model: ByGoal) -> None:
    stage.tools = [spreading(stage, family("bad 1", "good 1", "good 2"))]
    response = await stage.start()
    ids_ = await stage.store.request_cancel(response.task_id)
    assert len(ids_) == 4
    executor = Executor(stage.store, clock=stage.clock)
    while leases := await stage.store.claim("worker_1"):
        await executor.cancel(leases[0], ())
    for task in await stage.store.tasks(TaskQuery()):
        assert task.state is TaskState.CANCELLED
    assert await stage.store.messages() == []


async def test_a_person_who_cancels_the_parent_cancels_those_below(stage: Stage) -> None:
    @tool(effect="read")
    async def spread() -> Children:
        """Spread."""
        return family("good 1", "good 2")

    @tool(effect="read")
    async def ask() -> Question:
        """Ask."""
        return Question(text="go on?")

    stage.play([calls(call("spread"), call("ask"))], spread, ask)
    response = await stage.start()
    await stage.store.decide((await stage.review()).review_id, "cancel", by="ann")
    await stage.carry(response.task_id)

    assert (await stage.store.task(response.task_id)).state is TaskState.CANCELLED
    claimed = [lease.message.task_id for lease in await stage.store.claim("worker_1", limit=9)]
    assert len(claimed) == 2
    assert sorted(await stage.store.cancels("worker_1")) == sorted(claimed)


async def test_children_get_their_own_variables_and_bounds(stage: Stage, model: ByGoal) -> None:
    child = Child(goal="good 1", variables={"city": "Rome"}, max_steps=3)
    stage.limits = Limits(max_steps=7, max_tokens=50_000)
    stage.tools = [spreading(stage, Children(tasks=[child]))]
    response = await stage.start()
    [made] = await children_of(stage, response.task_id)
    assert made.spec.variables == {"city": "Rome"}
    assert made.spec.limits == Limits(max_steps=3, max_tokens=50_000)


async def test_a_child_of_another_agent_goes_to_its_queue(stage: Stage, model: ByGoal) -> None:
    stage.tools = [spreading(stage, Children(tasks=[Child(goal="good 1", agent="other")]))]
    response = await stage.start()
    [row] = await stage.store.messages()
    assert row.message.receiver == "other"
    [made] = await children_of(stage, response.task_id)
    assert made.spec.agent == "other"


async def test_the_sixth_generation_is_refused(stage: Stage) -> None:
    stage.model = ByGoal(parents=("go", "deeper"))
    stage.tools = [spreading(stage, family("deeper"))]
    await stage.start()
    await stage.carry_all()

    tasks = await stage.store.tasks(TaskQuery())
    assert len(tasks) == 6
    deepest = next(
        task for task in tasks if not [t for t in tasks if t.spec.parent_id == task.task_id]
    )
    [failed] = await stage.events(deepest.task_id, ToolFailed)
    assert failed.error.code == "too_deep"
    assert {task.state for task in tasks} == {TaskState.SUCCEEDED}
    assert {task.root_id for task in tasks} == {tasks[-1].task_id}


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "none": (lambda: Children(tasks=[]), "1 to 100 tasks"),
    "too many": (lambda: family(*("x" for _ in range(101))), "1 to 100 tasks"),
    "empty goal": (lambda: family(" "), "goal is empty"),
    "ratio": (lambda: family("x", accept_ratio=1.5), "accept_ratio is from 0 to 1"),
    "rounds": (lambda: family("x", max_rounds=-1), "max_rounds is a whole number from 0"),
}


@pytest.mark.parametrize(("make", "text"), WRONG.values(), ids=WRONG.keys())
async def test_children_that_cannot_be_made_are_an_error_of_the_tool(
    stage: Stage, make: Callable[[], Children], text: str
) -> None:
    stage.play([call("spread"), "Well."], spreading(stage, make()))
    response = await stage.start()
    [failed] = await stage.events(response.task_id, ToolFailed)
    assert failed.error.code == "bad_result"
    assert text in failed.error.message
    assert await children_of(stage, response.task_id) == []
