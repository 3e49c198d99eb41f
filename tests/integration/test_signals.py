"""A process that is told to end says how to go on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = '''
import os, sys, pathlib, anyio
from hermes import tool

@tool(effect="read")
async def look() -> str:
    """Look; hangs while the file `hang` is there, and works in another folder."""
    here = pathlib.Path.cwd()
    os.chdir("/")
    print("looking", file=sys.stderr, flush=True)
    while (here / "hang").exists():
        await anyio.sleep(0.05)
    return "seen"
'''
PLAYBOOK = """
playbook: 1
name: p
rules: [{name: look, when: {all: [look]}, steps: [{call: look, as: x}], answer: "{{ x }}"}]
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


@pytest.fixture
def running(workdir: Path) -> subprocess.Popen[str]:
    (workdir / "tools.py").write_text(TOOLS)
    (workdir / "p.yaml").write_text(PLAYBOOK)
    (workdir / "hang").touch()
    process = hermes("run", "look", "--tools", "tools.py", "--playbook", "p.yaml", "--json")
    assert process.stderr is not None
    while process.stderr.readline() != "looking\n":
        assert process.poll() is None
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_run_names_the_way_on_and_goes_it(
    workdir: Path, running: subprocess.Popen[str], number: signal.Signals
) -> None:
    running.send_signal(number)
    _, err = running.communicate(timeout=30)
    assert running.returncode == -number
    assert "hermes resume task_" in err
    (workdir / "hang").unlink()
    out, err = hermes("resume", "last", "--json").communicate(timeout=30)
    assert json.loads(out)["output"] == "seen", err


def test_ctrl_c_after_a_change_of_folder_still_finds_the_journal(
    workdir: Path, running: subprocess.Popen[str]
) -> None:
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130, err
    assert json.loads(out)["status"] == "cancelled"
