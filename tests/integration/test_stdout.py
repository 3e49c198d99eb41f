"""Whatever tools print, stdout holds the result alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TOOLS = '''
import os, subprocess
from hermes import tool

@tool(effect="read")
def chat() -> str:
    """Talk."""
    print("printed by the tool")
    os.write(1, b"written by the tool\\n")
    subprocess.run(["echo", "said by a child"], check=True)
    return "ok"
'''
PLAYBOOK = """
playbook: 1
name: p
rules: [{name: chat, when: {all: [chat]}, steps: [{call: chat, as: x}], answer: "{{ x }}"}]
"""


def test_a_tool_that_prints_does_not_spoil_the_json(workdir: Path) -> None:
    (workdir / "tools.py").write_text(TOOLS)
    (workdir / "p.yaml").write_text(PLAYBOOK)
    words = ["run", "chat", "--tools", "tools.py", "--playbook", "p.yaml", "--json"]

    done = subprocess.run(
        [sys.executable, "-m", "hermes", *words], capture_output=True, text=True, check=True
    )

    assert json.loads(done.stdout)["output"] == "ok"
    for words_said in ("printed by the tool", "written by the tool", "said by a child"):
        assert words_said in done.stderr
