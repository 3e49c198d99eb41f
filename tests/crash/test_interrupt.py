"""Ctrl-C in the middle of a run: one line, exit 130, a task that can be explained."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOOLS = '''
import time, anyio
from hermes import tool

@tool(effect="read")
async def wait() -> str:
    """Wait."""
    print("waiting", file=__import__("sys").stderr, flush=True)
    await anyio.sleep_forever()
    return ""

@tool(effect="read")
def block() -> str:
    """Block a thread."""
    print("waiting", file=__import__("sys").stderr, flush=True)
    time.sleep(600)
    return ""

@tool
async def pay() -> str:
    """Pay."""
    print("waiting", file=__import__("sys").stderr, flush=True)
    await anyio.sleep_forever()
    return ""
'''

PLAYBOOK = """
playbook: 1
name: p
rules:
  - {name: wait, when: {all: [wait]}, steps: [{call: wait, as: x}], answer: "{{ x }}"}
  - {name: block, when: {all: [block]}, steps: [{call: block, as: x}], answer: "{{ x }}"}
  - {name: pay, when: {all: [pay]}, steps: [{call: pay, as: x}], answer: "{{ x }}"}
"""


def hermes(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hermes", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background job ignores Ctrl-C, and so would what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.parametrize("tool", ["wait", "block", "pay"])
def test_ctrl_c_settles_the_task_as_cancelled(workdir: Path, tool: str) -> None:
    (workdir / "tools.py").write_text(TOOLS)
    (workdir / "p.yaml").write_text(PLAYBOOK)
    process = hermes("run", tool, "--tools", "tools.py", "--playbook", "p.yaml", "--json")
    assert process.stderr is not None
    while process.stderr.readline() != "waiting\n":
        assert process.poll() is None

    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)

    assert time.monotonic() - began < 10
    assert process.returncode == 130, err
    result = json.loads(out)
    assert result["status"] == "cancelled"
    assert "Traceback" not in err
    shown, _ = hermes("show", "last").communicate(timeout=30)
    assert "cancelled" in shown
    status = result["trace"][-1]["status"]
    assert status == ("in_doubt" if tool == "pay" else "error")
