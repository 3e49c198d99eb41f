"""What was called more than once, and what a person has to see to, is shown."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from tests.unit.cli.shop import Cli

SHAKY = '''
from hermes import tool, ToolError

made = []

@tool(effect="read", retries=1)
def look(name: str) -> str:
    """Look something up."""
    made.append(name)
    if len(made) == 1:
        raise ToolError("busy", retryable=True)
    return f"saw {name}"
'''


def test_show_and_trace_tell_how_often_a_tool_was_called(cli: Cli, workdir: Path) -> None:
    (workdir / "shaky.py").write_text(SHAKY)
    run = cli("run", "look", "--tools", "shaky.py", "--playbook", "rules.yaml", "--json")
    assert run.code == 0
    tries = [entry.get("tries") for entry in cast("list[dict[str, object]]", run.value["trace"])]
    assert tries == [None, 2, None]
    assert "again    look at /turn1/tool1 2 tries" in cli("show", "last").out
    assert "✓ ok, 2 tries" in cli("trace", "last").out
    assert '"tries":2' in cli("trace", "last", "--json").out
