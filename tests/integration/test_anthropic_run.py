"""Runs of an agent whose model is Anthropic's, from the settings to the journal and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from hermes import Agent, Hermes, tool
from hermes.app import RunOptions
from hermes.config import Settings, load_settings
from hermes.errors import ConfigError
from hermes.store import TaskQuery
from tests.providers.anthropic_server import AnthropicServer
from tests.providers.shapes import Object
from tests.unit.agents.broken import Bomb, Crash

THOUGHT: Object = {"type": "thinking", "thinking": "想", "signature": "sig+/="}
HIDDEN: Object = {"type": "redacted_thinking", "data": "ENC=="}


def use(number: int, **given: object) -> Object:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "weather", "input": given}


def say(words: str) -> Object:
    return {"type": "text", "text": words}


FIRST = [THOUGHT, say("Two at once."), use(1, city="北京"), HIDDEN, use(2, city="上海")]
SECOND = [THOUGHT, use(3, city="Nowhere")]
SCRIPT: list[Object] = [{"content": FIRST}, {"content": SECOND}, {"content": [say("北京 23。")]}]


@tool(effect="read")
def weather(city: str) -> str:
    """Tell the weather of a city."""
    if city == "Nowhere":
        raise ValueError("no such city")
    return f"{city} 23"


def settings(server: AnthropicServer, **more: object) -> Settings:
    return Settings.model_validate(
        {"model_name": "anthropic:claude-x", "api_base": server.url, "api_key": "k" * 20, **more}
    )


def blocks(turn: Object) -> list[Object]:
    return [
        {name: value for name, value in block.items() if name != "cache_control"}
        for block in cast("Sequence[Object]", turn["content"])
    ]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_run_with_tools_and_thoughts(workdir: Path, stream: bool) -> None:
    async with AnthropicServer(SCRIPT) as server:
        async with Hermes("sqlite:///a.db", settings=settings(server, thinking=1500)) as app:
            agent = Agent(instructions="Be brief.", tools=[weather])
            done = (
                await app.run(agent, "Is it warm?")
                if not stream
                else [part async for part in app.stream(agent, "Is it warm?")][-1]
            )
        requests = server.requests
    assert getattr(done, "output", "北京 23。") == "北京 23。"
    assert [request["thinking"] for request in requests] == [
        {"type": "enabled", "budget_tokens": 1500}
    ] * 3
    system = cast("Sequence[Object]", requests[0]["system"])
    assert str(system[0]["text"]).startswith("Be brief.\n\nHow you work:")
    last = cast("Sequence[Object]", requests[2]["messages"])
    assert [turn["role"] for turn in last] == ["user", "assistant"] * 2 + ["user"]
    assert (blocks(last[1]), blocks(last[3])) == (FIRST, SECOND)
    assert [block.get("is_error", False) for block in blocks(last[2]) + blocks(last[4])] == [
        *[False, False, True]
    ]


async def test_thoughts_outlive_the_process(workdir: Path) -> None:
    agent = Agent(tools=[weather])
    options = RunOptions(observers=[Bomb("tool.returned", 2)])
    async with AnthropicServer(SCRIPT) as server:
        given = settings(server)
        with pytest.raises((Crash, BaseExceptionGroup)):
            async with Hermes("sqlite:///a.db", settings=given) as app:
                await app.run(agent, "Is it warm?", options=options)
        async with Hermes("sqlite:///a.db", settings=given) as app:
            [task] = await app.store.tasks(TaskQuery())
            assert (await app.resume(task.task_id, agent)).output == "北京 23。"
        last = cast("Sequence[Object]", server.requests[-1]["messages"])
    assert blocks(last[1]) == FIRST


@pytest.mark.parametrize("value", ["5", "much", "-1", "1e4"])
def test_a_wrong_amount_of_thinking_is_told(
    workdir: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("HERMES_THINKING", value)
    with pytest.raises(ConfigError, match=r"HERMES_THINKING.*`adaptive` or a number of tokens"):
        load_settings()
