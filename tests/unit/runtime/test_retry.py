"""Trying a task again makes a new one; what is not settled is not tried again."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes import Agent, Hermes, Limits
from hermes.errors import InputError, ModelError
from hermes.testing import call
from tests.unit.agents.broken import break_off, named, scripted

DOWN = ModelError("out of order", code="server")


async def test_a_failed_task_is_tried_again_with_the_same_goal_and_settings(
    tmp_path: Path,
) -> None:
    agent = Agent(model=scripted(DOWN), limits=Limits(max_steps=7))
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        first = await app.run(
            agent, "go", session_id="s", variables={"x": 1}, metadata={"from": "test"}
        )
        assert first.status == "failed"
        made = await app.retry(first.task_id, agent)
        old = await app.store.task(first.task_id)
        new = await app.store.task(made.task_id)
        response = await app.resume(made.task_id, Agent(model=scripted("ok")))
    assert (response.status, response.task_id) == ("succeeded", made.task_id)
    assert (new.spec.retry_of, new.spec.fork_of) == (first.task_id, None)
    for name in ("goal", "input", "session_id", "variables", "metadata", "limits", "launch"):
        assert getattr(new.spec, name) == getattr(old.spec, name), name


async def test_from_a_step_on_the_calls_before_it_are_kept(tmp_path: Path) -> None:
    done: list[str] = []
    tools = [named("pay", done, effect="unsafe")]
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        first = await app.run(Agent(model=scripted(call("pay"), DOWN), tools=tools), "go")
        now = Agent(model=scripted("ok"), tools=tools)
        made = await app.retry(first.task_id, now, at="/turn2")
        new = await app.store.task(made.task_id)
        response = await app.resume(made.task_id, now)
    assert (response.status, done) == ("succeeded", ["pay"])
    assert (new.spec.retry_of, new.spec.fork_of) == (first.task_id, f"{first.task_id}@/turn2")


async def test_a_task_that_is_at_work_is_not_tried_again(tmp_path: Path) -> None:
    agent = Agent(model=scripted(call("pay")), tools=[named("pay", [], effect="unsafe")])
    task = await break_off(tmp_path / "j.db", agent, at="tool.started")
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        with pytest.raises(InputError, match="is processing, so it cannot be tried again"):
            await app.retry(task, agent)
        waiting = await app.resume(task, agent)
        assert waiting.status == "waiting"
        with pytest.raises(InputError, match="is waiting, so it cannot be tried again"):
            await app.retry(task, agent, at="1")
