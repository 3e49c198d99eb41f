"""One budget for a whole tree of tasks, whoever of it makes the next call."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hermes import Child, Children, Limits, tool
from hermes.agents import AgentDefinition
from hermes.core.budget import Bounds
from hermes.core.chat import Usage
from hermes.core.events import (
    BudgetExceeded,
    ModelReplied,
    ModelRequested,
    TaskSettled,
    ToolFailed,
    ToolStarted,
)
from hermes.core.task import Task, TaskState
from hermes.errors import ConfigError
from hermes.loop.purse import check_priced
from hermes.models import ModelReply, ModelRequest
from hermes.models.fallback import FallbackModel
from hermes.models.profiles import Prices, Profile
from hermes.runtime.replay import replay
from hermes.store import TaskQuery
from hermes.testing import ScriptedModel, call, calls
from hermes.testing.outside import goal_of, replies_so_far
from hermes.tools import Tool
from tests.unit.loop.stage import Stage

CALL = Usage(prompt_tokens=900, completion_tokens=100)


class Delegating(ScriptedModel):
    """Hands everything on, and never ends by itself; each call takes 1000 tokens.

    Args:
        deep: The goals that are handed on; the others look again and again.
    """

    def __init__(self, deep: Sequence[str] = ("go",), *, usage: Usage = CALL) -> None:
        super().__init__([])
        self.deep, self.usage = deep, usage
        self.made = 0

    async def reply(self, request: ModelRequest) -> ModelReply:
        self.made += 1
        goal, place = goal_of(request.messages), replies_so_far(request.messages)
        hands_on = goal in self.deep and place == 0
        made = calls(call("spread")) if hands_on else calls(call("look"))
        return ModelReply(calls=made.calls, usage=self.usage, finish_reason="tool_calls")


class Priced(Delegating):
    """As `Delegating`, for 2 a million tokens read and 10 a million written."""

    @property
    def profile(self) -> Profile:
        return Profile(name="priced", prices=Prices(prompt=2.0, completion=10.0))


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "nothing yet"


def spreading(*goals: str, agent: str | None = None, max_steps: int | None = None) -> Tool:
    @tool
    async def spread() -> Children:
        """Spread."""
        return Children(
            tasks=[Child(goal=goal, agent=agent, max_steps=max_steps) for goal in goals]
        )

    return spread


async def whole_tree(stage: Stage) -> list[Task]:
    return await stage.store.tasks(TaskQuery(limit=500))


async def spent_tokens(stage: Stage) -> int:
    return sum(task.status.spent.usage.total_tokens for task in await whole_tree(stage))


async def limits_reached(stage: Stage) -> set[str]:
    return {
        event.limit
        for task in await whole_tree(stage)
        for event in await stage.events(task.task_id, BudgetExceeded)
    }


async def test_a_tree_stops_at_its_tokens_within_one_call(stage: Stage) -> None:
    stage.model = model = Delegating()
    stage.limits = Limits(max_steps=None, max_tokens=50_000)
    stage.tools = [spreading("a", "b", "c"), look]
    await stage.submit()
    await stage.carry_all()
    assert 50_000 - 1_300 <= await spent_tokens(stage) <= 50_000 + 1_000
    assert model.made == 1 + 49 or model.made == 1 + 48
    assert await limits_reached(stage) == {"max_tokens"}


async def test_a_chain_of_children_has_one_budget(stage: Stage) -> None:
    stage.model = Delegating(deep=("go", "deeper"))
    stage.limits = Limits(max_steps=3, max_tokens=50_000, max_depth=500)
    stage.tools = [spreading("deeper"), look]
    await stage.submit()
    await stage.carry_all()
    assert len(await whole_tree(stage)) > 20
    assert 50_000 - 1_300 <= await spent_tokens(stage) <= 50_000 + 1_000


async def test_each_other_bound_holds_for_the_tree_exactly(stage: Stage) -> None:
    stage.model = model = Delegating()
    stage.limits = Limits(max_steps=None, max_model_calls=20)
    stage.tools = [spreading("a", "b"), look]
    await stage.submit()
    await stage.carry_all()
    assert model.made == 20
    assert await limits_reached(stage) == {"max_model_calls"}


async def test_tool_calls_are_counted_over_the_tree(stage: Stage) -> None:
    stage.model = Delegating()
    stage.limits = Limits(max_steps=None, max_tool_calls=20)
    stage.tools = [spreading("a", "b"), look]
    await stage.submit()
    await stage.carry_all()
    made = [await stage.events(task.task_id, ToolStarted) for task in await whole_tree(stage)]
    assert sum(map(len, made)) == 20


async def test_money_is_bounded_by_the_prices_of_the_model(stage: Stage) -> None:
    cost = 900 * 2000 + 100 * 10_000  # nano
    stage.model = model = Priced(
        usage=Usage(prompt_tokens=900, completion_tokens=100, cost_nano=cost)
    )
    stage.limits = Limits(max_steps=None, max_cost=0.05)
    stage.tools = [spreading("a", "b"), look]
    await stage.submit()
    await stage.carry_all()
    assert 0.05 - 2 * cost / 1e9 <= model.made * cost / 1e9 <= 0.05 + cost / 1e9
    assert await limits_reached(stage) == {"max_cost"}


async def test_work_time_is_summed_and_waiting_is_not_counted(stage: Stage) -> None:
    @tool(effect="read")
    async def dig() -> str:
        """Dig."""
        stage.clock.advance(20)
        return "dug"

    class Digging(Delegating):
        async def reply(self, request: ModelRequest) -> ModelReply:
            reply = await super().reply(request)
            return reply if reply.calls[0].name == "spread" else calls(call("dig"))

    stage.model = Digging()
    stage.limits = Limits(max_steps=None, max_seconds=100)
    stage.tools = [spreading("a", "b", "c"), dig]
    await stage.submit()
    stage.clock.advance(1000)
    await stage.carry_all()
    total = sum(task.status.spent.seconds for task in await whole_tree(stage))
    assert 100 <= total <= 120
    assert await limits_reached(stage) == {"max_seconds"}


async def test_a_settled_child_says_what_it_would_take(stage: Stage) -> None:
    stage.model = Delegating()
    stage.limits = Limits(max_steps=None, max_tokens=10_000)
    stage.tools = [spreading("a"), look]
    await stage.submit()
    await stage.carry_all()
    [child] = [task for task in await whole_tree(stage) if task.spec.parent_id]
    error = child.status.error
    assert child.state is TaskState.PARTIAL
    assert error is not None
    assert error.message.startswith("task too complex for its budget: max_tokens = 10000 ")
    assert "spent" in error.message
    assert "raise max_tokens well above 10" in (error.hint or "")
    [settled] = await stage.events(child.task_id, TaskSettled)
    assert str(settled.output).startswith("look: nothing yet")


async def test_an_estimate_keeps_the_call_from_being_made(stage: Stage) -> None:
    stage.model = model = Delegating(deep=())
    stage.limits = Limits(max_steps=None, max_tokens=4_900)
    stage.tools = [look]
    response = await stage.start()
    [event] = await stage.events(response.task_id, BudgetExceeded)
    assert (model.made, event.spent) == (4, 4_000)
    assert 900 <= event.estimate <= 1_200
    assert response.error is not None
    assert "the next call is estimated at" in response.error.message


async def test_a_crash_neither_resets_nor_loses_the_budget(stage: Stage) -> None:
    stage.model = model = Delegating()
    stage.limits = Limits(max_steps=None, max_tokens=50_000)
    stage.tools = [spreading("a", "b"), look]
    await stage.submit()
    await stage.carry()
    for _ in range(5):  # each life ends right after a call of a tool
        await stage.break_off()
    await stage.carry_all()
    assert 50_000 - 1_300 <= model.made * 1_000 <= 50_000 + 1_000


async def test_a_task_without_bounds_never_asks_the_store(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def draw(*_: object) -> None:
        raise AssertionError("nobody bounded anything")

    monkeypatch.setattr(stage.store, "draw", draw)
    stage.model = Delegating()
    stage.limits = Limits(max_steps=3)
    stage.tools = [spreading("a", "b"), look]
    await stage.submit()
    await stage.carry_all()
    assert await limits_reached(stage) == {"max_steps"}


async def test_a_root_without_children_asks_the_store_once_at_its_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = 0
    inner = stage.store.draw

    async def draw(lease: object, wanted: object) -> object:
        nonlocal drawn
        drawn += 1
        return await inner(lease, wanted)  # pyright: ignore[reportArgumentType]  # as given

    monkeypatch.setattr(stage.store, "draw", draw)
    stage.model = Delegating(deep=())
    stage.limits = Limits(max_steps=None, max_tokens=50_000)
    stage.tools = [look]
    await stage.start()
    assert drawn == 1


async def test_a_child_asks_the_store_a_few_times_for_many_calls(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = 0
    inner = stage.store.draw

    async def draw(lease: object, wanted: object) -> object:
        nonlocal drawn
        drawn += 1
        return await inner(lease, wanted)  # pyright: ignore[reportArgumentType]  # as given

    monkeypatch.setattr(stage.store, "draw", draw)
    stage.model = model = Delegating()
    stage.limits = Limits(max_steps=None, max_tokens=50_000)
    stage.tools = [spreading("a"), look]
    await stage.submit()
    await stage.carry_all()
    assert model.made >= 48
    assert drawn <= 12


async def test_bounds_given_anew_hold_for_children_that_are_there_already(stage: Stage) -> None:
    stage.model = model = Delegating()
    stage.limits = Limits(max_steps=None, max_model_calls=5)
    stage.tools = [spreading("a", "b"), look]
    root_id = await stage.submit()
    await stage.carry()
    await stage.store.put_budget(root_id, Bounds.of(Limits(max_model_calls=30)))
    await stage.carry_all()
    assert model.made == 30


async def test_a_bound_that_was_raised_for_a_root_alone_is_found_at_its_end(stage: Stage) -> None:
    stage.model = model = Delegating(deep=())
    stage.limits = Limits(max_steps=None, max_model_calls=5)
    stage.tools = [look]
    root_id = await stage.submit()
    await stage.store.put_budget(root_id, Bounds.of(Limits(max_model_calls=8)))
    await stage.carry_all()
    assert model.made == 8


async def test_the_parts_are_not_made_again_when_the_budget_is_at_its_end(stage: Stage) -> None:
    stage.model = Delegating()
    stage.limits = Limits(max_steps=None, max_model_calls=6)
    stage.tools = [spreading("a", "b"), look]
    await stage.submit()
    await stage.carry_all()
    assert len(await whole_tree(stage)) == 3
    assert (await stage.review()).reason == "partial"


async def test_the_max_depth_of_the_limits_is_kept(stage: Stage) -> None:
    stage.model = Delegating(deep=("go", "deeper"))
    stage.limits = Limits(max_steps=2, max_depth=2)
    stage.tools = [spreading("deeper"), look]
    await stage.submit()
    await stage.carry_all()
    failures = [
        event.error
        for task in await whole_tree(stage)
        for event in await stage.events(task.task_id, ToolFailed)
        if event.error.code == "too_deep"
    ]
    assert failures
    assert all("2 generations deep at most (max_depth)" in error.message for error in failures)
    depths = [await depth_of(stage, task) for task in await whole_tree(stage)]
    assert max(depths) == 2


async def depth_of(stage: Stage, task: Task) -> int:
    depth = 0
    while task.spec.parent_id is not None:
        task = await stage.store.task(task.spec.parent_id)
        depth += 1
    return depth


async def test_work_that_would_go_round_in_a_circle_is_refused(stage: Stage) -> None:
    """A hands on to B, and B back to A: the model of B reads why it cannot."""
    stage.model = Delegating(deep=("go", "for b", "for a"))
    stage.limits = Limits(max_steps=2)
    stage.tools = [spreading("for b", agent="b")]
    await stage.submit()
    await stage.carry()
    stage.tools = [spreading("for a", agent="a"), look]
    await stage.carry()
    [task] = [task for task in await whole_tree(stage) if task.spec.agent == "b"]
    [failed] = await stage.events(task.task_id, ToolFailed)
    assert failed.error.code == "circle"
    assert "a itself waits for this work, which would go round in a circle: a → b → a" in (
        failed.content
    )
    assert len(await whole_tree(stage)) == 2


async def test_an_agent_may_split_its_own_work(stage: Stage) -> None:
    stage.model = Delegating(deep=("go",))
    stage.limits = Limits(max_steps=1)
    stage.tools = [spreading("part", agent="a"), look]
    await stage.submit()
    await stage.carry_all()
    assert len(await whole_tree(stage)) >= 2


async def test_a_replay_stops_where_the_tree_did_and_draws_nothing(stage: Stage) -> None:
    stage.model = Delegating()
    stage.limits = Limits(max_steps=None, max_tokens=20_000)
    stage.tools = [spreading("a", "b"), look]
    await stage.submit()
    await stage.carry_all()
    children = [task for task in await whole_tree(stage) if task.spec.parent_id]
    agent = AgentDefinition(name="a", tools=tuple(stage.tools))
    for task in children:
        before = await stage.store.budget(task.root_id)
        again = await replay(
            stage.store,
            task.task_id,
            agent,
            agent.registry(("core",)),
            stage.model.name,
            clock=stage.clock,
        )
        assert again.difference is None
        assert again.is_whole
        assert await stage.store.budget(task.root_id) == before
    assert len(await stage.events(children[0].task_id, ModelRequested)) == len(
        await stage.events(children[0].task_id, ModelReplied)
    )


def test_money_is_bounded_only_where_each_model_of_a_chain_has_a_price() -> None:
    limits = Limits(max_cost=0.5)
    check_priced(FallbackModel([Priced(), Priced()]), limits)
    with pytest.raises(ConfigError, match="no price is known of model 'scripted'"):
        check_priced(FallbackModel([Priced(), Delegating()]), limits)
