"""`kill -9` at random moments of the log report, then `hermes resume`."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes.cli import invoke

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "log_report"
GOAL = "Read the nginx error log of 2026-11-29, report the five worst problems and send it"


def hermes(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hermes", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer_of(process: subprocess.Popen[str]) -> dict[str, object]:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return json.loads(out)


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[str]:
    receiver = subprocess.Popen(
        [sys.executable, EXAMPLE / "receiver.py", "--log", tmp_path / "received.jsonl"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert receiver.stdout is not None
    yield receiver.stdout.readline().strip()
    receiver.kill()
    receiver.communicate()


def run_words(webhook: str) -> list[str]:
    return [
        "run", GOAL, "--json",
        "--agent", str(EXAMPLE / "agent.toml"),
        "--playbook", str(EXAMPLE / "playbook.yaml"),
        "--var", f"log_path={EXAMPLE / 'logs' / 'error.log'}",
        "--var", "report_path=report.md",
        "--var", f"webhook_url={webhook}",
    ]  # fmt: skip


def received(folder: Path) -> list[dict[str, object]]:
    path = folder / "received.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def look(workdir: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a command prints that only looks: it needs no process of its own."""

    def run(*words: str) -> str:
        code = invoke(words)
        said = capsys.readouterr()
        assert code == 0, said.err
        return said.out

    return run


def journal(look: Callable[..., str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in look("trace", "last", "--format", "jsonl").splitlines()]


@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(10, 60))]
)
def test_a_killed_report_is_resumed_and_the_message_arrives_once(
    tmp_path: Path, webhook: str, seed: int, look: Callable[..., str]
) -> None:
    chance = random.Random(seed)
    process = hermes(tmp_path, *run_words(webhook))
    # Moments are counted from the first sign of a task, so that machines of any speed are hit.
    database = tmp_path / ".hermes" / "hermes.db"
    while not database.exists() and process.poll() is None:
        time.sleep(0.001)
    time.sleep(chance.uniform(0.0, 0.4))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    tasks = json.loads(look("tasks", "--json"))["tasks"]
    assert isinstance(tasks, list)
    finished_before: set[str] = set()
    if tasks:
        finished_before = {
            str(line["data"]["name"])  # pyright: ignore[reportIndexIssue, reportUnknownArgumentType]  # JSON
            for line in journal(look)
            if line["type"] == "tool.returned"
        }
        result = answer_of(hermes(tmp_path, "resume", "last", "--json"))
    else:
        result = answer_of(hermes(tmp_path, *run_words(webhook)))

    assert result["status"] == "succeeded"
    assert result["output"] == (tmp_path / "report.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\d\. ", str(result["output"]), re.MULTILINE)) == 5
    posts = received(tmp_path)
    assert [post["message_id"] for post in posts if not post["duplicate"]] == [
        "nginx-report-2026-11-29"
    ]
    if "send_webhook" in finished_before:
        assert len(posts) == 1, "a finished call ran again"
    types = [line["type"] for line in journal(look)]
    assert types.count("task.settled") == 1
    assert types.count("tool.returned") == 3
