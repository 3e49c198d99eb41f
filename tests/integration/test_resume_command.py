"""`hermes resume` in a clean shell: everything it needs stands in the record."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import anyio
import pytest

from hermes import Agent, Hermes
from hermes.testing import ScriptedModel

ROOT = Path(__file__).parents[2]
TOOLS = '''
import sys, anyio
from hermes import tool

@tool(effect="read")
async def look() -> str:
    """Look; hangs while the file `hang` is there."""
    import pathlib
    print("looking", file=sys.stderr, flush=True)
    while pathlib.Path("hang").exists():
        await anyio.sleep(0.05)
    return "seen"
'''


@pytest.fixture
def server(workdir: Path) -> Iterator[str]:
    script = [{"calls": [{"name": "look", "arguments": "{}"}]}, {"text": "All seen."}]
    (workdir / "script.json").write_text(json.dumps(script))
    process = subprocess.Popen(
        [sys.executable, ROOT / "tests/providers/server.py", "--script", "script.json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.kill()
    process.communicate()


def hermes(*words: str, **settings: str) -> subprocess.Popen[str]:
    environment: Mapping[str, str] = os.environ | settings
    return subprocess.Popen(
        [sys.executable, "-m", "hermes", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_killed_run_goes_on_in_a_shell_without_settings(workdir: Path, server: str) -> None:
    (workdir / "tools.py").write_text(TOOLS)
    (workdir / "hang").touch()
    settings = {"MODEL_NAME": "m", "API_BASE": server, "AGENT_MAX_ITERATIONS": "2"}
    process = hermes("run", "look", "--tools", "tools.py", "--quiet", **settings)
    assert process.stderr is not None
    assert process.stderr.readline() == "looking\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (workdir / "hang").unlink()

    out, err = hermes("resume", "last", "--json").communicate(timeout=60)

    result = json.loads(out)
    assert (result["status"], result["output"]) == ("succeeded", "All seen."), err


def test_a_task_of_a_program_is_not_carried_on_without_its_agent(workdir: Path) -> None:
    async def break_off() -> None:
        async with Hermes("sqlite:///.hermes/hermes.db") as app:
            with pytest.raises(RuntimeError):
                await app.run(Agent(model=ScriptedModel([RuntimeError("dead")])), "payroll")

    anyio.run(break_off)

    process = hermes("resume", "last", "--json")
    out, err = process.communicate(timeout=60)

    assert process.returncode == 2
    assert "started by a program" in json.loads(out)["error"]["message"]
    assert "--agent" in err
