"""`hermes crashtest` finds a tool that is declared wrongly, and passes an agent that is sound."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

AGENT = 'name = "clerk"\ntools = ["tools.py"]\n'

TOOLS = '''
from pathlib import Path
from hermes import tool

@tool(effect="idempotent")
def add_line(text: str) -> str:
    """Add a line: twice, if it is called twice."""
    with open("notes.txt", "a") as file:
        file.write(text + "\\n")
    return "added"

@tool(effect="idempotent")
def count() -> int:
    """Count up a file beside this one."""
    path = Path(__file__).with_name("count.txt")
    path.write_text(str(int(path.read_text()) + 1 if path.exists() else 1))
    return int(path.read_text())

@tool(effect="idempotent")
def set_total(amount: int) -> str:
    """Set the total."""
    Path("total.txt").write_text(str(amount))
    return "set"

@tool
def pay(amount: int) -> str:
    """Pay."""
    with open("payments.txt", "a") as file:
        file.write(f"{amount}\\n")
    return "paid"
'''

PLAYBOOK = """
playbook: 1
name: p
rules:
  - name: sound
    when: {all: [sound]}
    steps:
      - {call: set_total, with: {amount: 3}, as: x}
      - {call: pay, with: {amount: 3}, as: y}
    answer: "{{ y }}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent.toml").write_text(AGENT)
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "p.yaml").write_text(PLAYBOOK)
    return tmp_path


def crashtest(folder: Path, *words: str, code: int) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "hermes", "crashtest", "agent.toml", *words, "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def script(folder: Path, name: str, **arguments: object) -> str:
    reply = {"calls": [{"name": name, "arguments": arguments}]}
    path = folder / f"{name}.json"
    path.write_text(json.dumps([reply, "Done."]))
    return path.name


@pytest.mark.parametrize(
    ("name", "arguments", "file"),
    [("add_line", {"text": "hello"}, "notes.txt"), ("count", {}, "count.txt")],
)
def test_a_tool_that_is_wrongly_declared_idempotent_is_found_out(
    folder: Path, name: str, arguments: dict[str, object], file: str
) -> None:
    result = crashtest(folder, "--script", script(folder, name, **arguments), code=1)

    broken = {run["point"]: run["broken"] for run in runs(result) if run["broken"]}
    assert "loop.tool.after#1" in broken
    assert "loop.tool.before#1" not in broken
    assert f"{file} is " in str(broken)
    assert f"{name}, declared idempotent" in str(broken)
    assert not (folder / file).exists(), "the tools work in a copy"


def test_an_agent_with_sound_tools_passes(folder: Path) -> None:
    words = ["--playbook", "p.yaml", "--goal", "sound", "--points", "20"]
    result = crashtest(folder, *words, code=0)

    assert (result["points"], result["broken"]) == (20, 0)
    assert runs(result)[0]["effects"] == {"pay": 1, "set_total": 1}
    assert all(run["outcome"] == "succeeded" for run in runs(result))


def test_a_part_of_the_points_is_chosen_by_the_seed(folder: Path) -> None:
    words = ["--script", script(folder, "set_total", amount=1), "--points", "3"]
    first = crashtest(folder, *words, "--seed", "7", code=0)
    again = crashtest(folder, *words, "--seed", "7", code=0)

    assert first["points"] == 3
    assert [run["point"] for run in runs(first)] == [run["point"] for run in runs(again)]


def test_an_agent_without_an_offline_model_is_refused(folder: Path) -> None:
    result = crashtest(folder, "--goal", "anything", code=2)

    assert "--script" in str(result["error"])


def test_a_test_that_proves_little_says_so(folder: Path) -> None:
    words = ["--playbook", "p.yaml", "--goal", "something else", "--points", "1"]
    result = crashtest(folder, *words, code=0)

    assert result["notes"] == [
        "the task ends as failed without a crash too",
        "no tool was called, so only Hermes itself was tried",
    ]


def test_a_script_that_cannot_be_read_is_told_in_one_line(folder: Path) -> None:
    (folder / "s.yaml").write_text("- text: [\n")
    error = crashtest(folder, "--script", "s.yaml", code=2)["error"]

    assert "s.yaml, line 2, column 1: is not YAML" in str(error)
    assert "\\n" not in str(error)


def test_a_playbook_that_is_not_there_is_told_before_anything_runs(folder: Path) -> None:
    error = crashtest(folder, "--playbook", "q.yaml", "--goal", "sound", code=2)["error"]

    assert "cannot read playbook 'q.yaml': No such file" in str(error)


@pytest.mark.parametrize("name", [".", "none/effects.txt"])
def test_effects_that_can_be_no_file_are_refused(folder: Path, name: str) -> None:
    words = ["--playbook", "p.yaml", "--goal", "sound", "--effects", name]
    result = crashtest(folder, *words, code=2)

    assert "give the file to which the tools append" in str(result["error"])


def test_what_cannot_be_copied_is_left_out_of_the_copies(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "broken").symlink_to("nowhere")
    words = ["--playbook", "p.yaml", "--goal", "sound", "--points", "1"]

    assert crashtest(folder, *words, code=0)["broken"] == 0


def runs(result: dict[str, object]) -> list[dict[str, object]]:
    found = result["runs"]
    assert isinstance(found, list)
    return found  # pyright: ignore[reportUnknownVariableType]  # JSON
