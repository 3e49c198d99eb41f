"""`hermes tools show` says how often a task may call a tool."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.cli.shop import Cli

TOOLS = '''
from hermes import tool

@tool(effect="read", max_calls=2)
def look() -> str:
    """Look."""
    return "seen"

@tool(effect="read")
def other() -> str:
    """Other."""
    return "fine"
'''


def test_the_bound_is_shown_where_there_is_one(cli: Cli, workdir: Path) -> None:
    (workdir / "tools.py").write_text(TOOLS)

    assert "at most 2 in one task" in cli("tools", "show", "look", "--tools", "tools.py").out
    assert "in one task" not in cli("tools", "show", "other", "--tools", "tools.py").out


def test_the_bound_is_a_field_of_the_json(cli: Cli, workdir: Path) -> None:
    (workdir / "tools.py").write_text(TOOLS)
    shown = cli("tools", "show", "look", "--tools", "tools.py", "--json")

    assert json.loads(shown.out)["max_calls"] == 2
