"""A plugin that breaks does not take the agent along, and one that changes is noticed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hermes import Agent, Hermes
from hermes.config import load_settings
from hermes.errors import DriftError
from hermes.runtime import when_idle
from hermes.store import TaskQuery
from hermes.testing import ScriptedModel, call
from hermes.testing.model import Scripted
from hermes.tools.plugins.brought import local_plugins
from tests.unit.agents.broken import break_off

HOSTILE = Path(__file__).parents[1] / "unit" / "tools" / "mcp_hostile.py"

SERVER = """
import os
from hermes_plugin import tool

@tool(effect="read")
def stock(article: str{more}) -> str:
    "How many there are."
    return f"{{article}}: 12"

@tool(effect="read")
def die(): os._exit(3)
"""
GOOD = '''
from hermes import tool

@tool(effect="read")
def shout(text: str) -> str:
    """Say it louder."""
    return text + "！"
'''


@pytest.fixture(autouse=True)
def plugins(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a good and a broken plugin, one in its own process, and an MCP server."""
    local_plugins.cache_clear()
    (workdir / "plugins").mkdir()
    (workdir / "plugins" / "good.py").write_text(GOOD, encoding="utf-8")
    (workdir / "plugins" / "broken.py").write_text("import no_such_library")
    (workdir / "server.py").write_text(SERVER.format(more=""))
    (workdir / "hermes.toml").write_text(
        'tool_path = "plugins"\ntool_groups = ["core", "mcp"]\n'
        '[plugins.shop]\nfile = "server.py"\n'
        f'[mcp_servers.odd]\ncommand = "{sys.executable}"\neffect = "read"\n'
        f'args = ["{HOSTILE}", "changes"]\n'
    )
    yield workdir
    local_plugins.cache_clear()


def agent(script: Sequence[Scripted]) -> Agent:
    return Agent(name="clerk", model=ScriptedModel(script))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


async def test_an_agent_works_on_while_plugins_break(caplog: pytest.LogCaptureFixture) -> None:
    script = [
        call("shout", text="库存"),
        call("die"),
        call("stock", article="茶"),
        call("odd__echo", x=7),
        "done",
    ]
    async with Hermes("memory://") as app:
        response = await app.run(agent(script), "go")
        brought = await app.plugins(agent([]))

    results = [(step.name, step.status) for step in response.trace if step.type == "tool"]
    assert response.status == "succeeded"
    assert results == [
        ("shout", "ok"),
        ("die", "error"),
        ("stock", "ok"),
        ("odd__echo", "ok"),
    ]
    told = warnings(caplog)
    assert len(told) == 2
    assert "plugin 'broken' is left out" in told[0]
    assert told[1] == "plugin 'shop' stopped: it ended with exit code 3; all else goes on"
    assert {plugin.name for plugin in brought.plugins} == {"good", "broken", "shop", "odd"}


async def test_a_worker_has_the_tools_of_plugins_too() -> None:
    work = agent([call("stock", article="茶"), call("odd__echo", x=7), "done"])
    async with Hermes("memory://", agents=[work]) as app:
        task_id = await app.submit(work, "go")
        await app.worker().run(when_idle)
        (task,) = await app.store.tasks(TaskQuery(limit=5))

    assert task.task_id == task_id
    assert task.state == "succeeded"


@pytest.mark.parametrize("changed", ["shop", "odd"])
async def test_a_plugin_that_changed_before_a_task_was_resumed_is_drift(
    plugins: Path, changed: str
) -> None:
    journal = plugins / "j.db"
    task_id = await break_off(journal, agent([call("shout", text="a")]), at="tool.returned")
    if changed == "shop":
        (plugins / "server.py").write_text(SERVER.format(more=", depot: str = ''"))
    else:
        text = (plugins / "hermes.toml").read_text().replace("changes", "mute_call")
        (plugins / "hermes.toml").write_text(text.replace('effect = "read"', 'effect = "unsafe"'))

    async with Hermes(f"sqlite:///{journal}") as app:
        with pytest.raises(DriftError, match=f"tool:{'stock' if changed == 'shop' else 'odd__'}"):
            await app.resume(task_id, agent(["on"]))


async def test_closing_the_application_is_not_held_up() -> None:
    async with Hermes("memory://") as app:
        await app.run(agent(["at once"]), "go")
        assert "stock" in app.tools(agent([]))
    async with Hermes("memory://") as app:
        assert "stock" not in app.tools(agent([]))


def test_the_tables_of_the_settings_can_come_from_the_environment(
    plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = {"web": {"url": "https://example.com/mcp", "headers": {"Authorization": "s"}}}
    monkeypatch.setenv("HERMES_MCP_SERVERS", json.dumps(servers))
    monkeypatch.setenv("HERMES_TOOL_PATH", "a:/b")
    settings = load_settings().settings

    assert settings.mcp_servers["web"].url == "https://example.com/mcp"
    assert settings.plugin_options.paths == (plugins / "a", Path("/b"))
