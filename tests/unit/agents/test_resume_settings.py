"""What a resume finds in the record, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes import Agent, Hermes, Limits, tool
from hermes.config import Settings
from hermes.core.task import Task
from hermes.errors import InputError
from hermes.store import TaskQuery
from hermes.testing import ScriptedModel
from tests.providers.server import ProviderServer

NOTHING_SET = Settings.model_validate({})


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


async def break_off(path: Path, agent: Agent, settings: Settings) -> Task:
    async with Hermes(f"sqlite:///{path}", settings=settings) as app:
        with pytest.raises(RuntimeError):
            await app.run(agent, "go")
        [task] = await app.store.tasks(TaskQuery())
        return task


def dying(**options: object) -> Agent:
    model = ScriptedModel([RuntimeError("dead")], name="m-1")
    return Agent(model=model, **options)  # pyright: ignore[reportArgumentType]  # named by each test


async def test_model_and_bounds_of_the_start_hold_for_the_resume(tmp_path: Path) -> None:
    async with ProviderServer("openai", [{"text": "done"}]) as server:
        started = Settings.model_validate(
            {"model_name": "m-1", "api_base": server.url, "max_steps": 30}
        )
        task = await break_off(tmp_path / "j.db", dying(), started)
        async with Hermes(f"sqlite:///{tmp_path}/j.db", settings=NOTHING_SET) as app:
            response = await app.resume(task.task_id, Agent())
            assert (await app.store.task(task.task_id)).spec.limits == Limits(max_steps=30)
    assert response.output == "done"
    assert server.requests[0]["model"] == "m-1"


async def test_what_is_set_now_is_stronger_than_the_record(tmp_path: Path) -> None:
    async with ProviderServer("openai", [{"text": "done"}]) as server:
        started = Settings.model_validate({"model_name": "m-1", "api_base": "http://127.0.0.1:9"})
        task = await break_off(tmp_path / "j.db", dying(), started)
        present = Settings.model_validate({"api_base": server.url})
        async with Hermes(f"sqlite:///{tmp_path}/j.db", settings=present) as app:
            response = await app.resume(task.task_id, Agent())
    assert response.output == "done"


async def test_an_address_with_a_password_is_not_recorded(tmp_path: Path) -> None:
    settings = Settings.model_validate({"model_name": "m", "api_base": "http://u:secret@host/v1"})
    task = await break_off(tmp_path / "j.db", dying(), settings)
    assert "secret" not in str(task.spec.launch)


async def test_the_task_of_another_agent_is_not_carried_on(tmp_path: Path) -> None:
    task = await break_off(tmp_path / "j.db", dying(name="payroll"), NOTHING_SET)
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        with pytest.raises(InputError, match="payroll"):
            await app.resume(task.task_id, Agent(model=ScriptedModel(["wrong"])))


def test_what_decides_how_much_a_model_is_sent_is_recorded() -> None:
    started = Settings.model_validate(
        {"context_window": 8192, "compact_at": 0.5, "shorten_chars": 300}
    )
    later = NOTHING_SET.as_recorded(started.recordable())
    assert (later.context_window, later.compact_at, later.shorten_chars) == (8192, 0.5, 300)
    present = Settings.model_validate({"context_window": 4096})
    assert present.as_recorded(started.recordable()).context_window == 4096


async def test_dialect_and_thinking_of_the_start_hold_for_the_resume(tmp_path: Path) -> None:
    started = Settings.model_validate(
        {"model_name": "m-1", "tool_dialect": "react", "thinking": 2048}
    )
    later = NOTHING_SET.as_recorded(started.recordable())
    assert (later.tool_dialect, later.thinking) == ("react", 2048)
    present = Settings.model_validate({"tool_dialect": "native", "thinking": "adaptive"})
    kept = present.as_recorded(started.recordable())
    assert (kept.tool_dialect, kept.thinking) == ("native", "adaptive")
    async with ProviderServer("openai", [{"text": '{"answer": "done"}'}] * 2) as server:
        here = Settings.model_validate({"api_base": server.url})
        task = await break_off(tmp_path / "j.db", dying(tools=[look]), started)
        async with Hermes(f"sqlite:///{tmp_path}/j.db", settings=here) as app:
            await app.run(Agent(model="m-1", tools=[look]), "go")  # asked in another way before
            await app.resume(task.task_id, Agent(tools=[look]))
    assert ["tools" in request for request in server.requests[:2]] == [True, False]
