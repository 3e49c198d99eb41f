"""Plugins at the command line: what they bring, in which version, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from hermes.tools.plugins.brought import local_plugins
from tests.unit.cli.shop import Cli

GOOD = """
from hermes import tool
__version__ = "0.2"
print("noise as it loads")

@tool(effect="read")
def greet(name: str) -> str:
    "Greet."
    return name
"""
SERVER = """
from hermes_plugin import tool
__version__ = "2.1"

@tool(effect="read")
def stock(article: str) -> int:
    "How many there are."
    return 12
"""


@pytest.fixture(autouse=True)
def folder(workdir: Path) -> Iterator[Path]:
    local_plugins.cache_clear()
    (workdir / "plugins").mkdir()
    (workdir / "plugins" / "good.py").write_text(GOOD)
    (workdir / "server.py").write_text(SERVER)
    (workdir / "hermes.toml").write_text(
        'tool_path = "plugins"\n[plugins.shop]\nfile = "server.py"\nenv = {TOKEN = "hush"}\n'
    )
    yield workdir / "plugins"
    local_plugins.cache_clear()


def test_each_tool_says_which_plugin_brings_it(cli: Cli) -> None:
    value = cli("tools", "--json").value

    tools = {str(item["name"]): item for item in cast("list[dict[str, object]]", value["tools"])}
    assert tools["greet"]["plugin"] == {"name": "good", "version": "0.2"}
    assert tools["stock"]["plugin"] == {"name": "shop", "version": "2.1"}
    assert tools["get_time"]["plugin"] is None
    plugins = cast("list[dict[str, object]]", value["plugins"])
    assert [(item["name"], item["kind"]) for item in plugins] == [
        ("good", "file"),
        ("shop", "process"),
    ]


def test_the_doctor_lists_plugins_and_tells_no_secret(cli: Cli) -> None:
    result = cli("doctor")

    assert result.code == 0
    assert "good 0.2 (1 tool), shop 2.1 (1 tool)" in result.out
    assert "hush" not in result.out + result.err


def test_a_plugin_that_is_broken_is_a_fault_to_the_doctor_alone(cli: Cli, folder: Path) -> None:
    (folder / "bad.py").write_text("import no_such_library")

    doctor, listed = cli("doctor"), cli("tools", "--json")

    assert doctor.code == 1
    assert "plugin 'bad': " in doctor.err
    assert "ModuleNotFoundError" in doctor.err
    assert listed.code == 0
    assert "greet" in listed.out
