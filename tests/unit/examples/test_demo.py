import json
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from examples.log_report.receiver import Inbox, Receiver

from .test_webhook import serving

CHINESE_GOAL = "读取 2026-11-29 的 nginx 错误日志，汇总最严重的五个问题并发送到运维群"


def hermes(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hermes", *arguments],
        cwd=cwd,
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_demo_ends_in_the_report_the_message_and_the_timeline(example: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(example / "demo.py")], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "1. **broken configuration** (emerg): 2×" in done.stdout
    assert "nginx-report-2026-11-29, once" in done.stdout
    assert "send_webhook" in done.stdout.rpartition("hermes trace")[2]


@pytest.mark.parametrize(
    ("goal", "title", "worst"),
    [
        (CHINESE_GOAL, "# 2026-11-29 nginx 错误日志报告", "**配置错误**（紧急 emerg）：2 次"),
        (
            "Which problems does the nginx log of 2026/11/29 show?",
            "# nginx errors on 2026-11-29",
            "**broken configuration** (emerg): 2×",
        ),
    ],
    ids=["Chinese", "English"],
)
def test_the_report_is_in_the_language_of_the_goal(
    tmp_path: Path, example: Path, real_log: Path, goal: str, title: str, worst: str
) -> None:
    received = tmp_path / "received.jsonl"
    server = Receiver(0, Inbox(received))
    with serving(server):
        done = hermes(
            *("run", goal, "--agent", str(example / "agent.toml")),
            *("--playbook", str(example / "playbook.yaml"), "--json"),
            *("--var", f"log_path={real_log}", "--var", f"webhook_url={server.address}"),
            cwd=tmp_path,
        )
    report = (tmp_path / "nginx-report-2026-11-29.md").read_text(encoding="utf-8")
    message = cast("dict[str, object]", json.loads(received.read_text(encoding="utf-8")))

    assert done.returncode == 0, done.stderr
    assert report.startswith(title + "\n")
    assert worst in report
    assert message == {
        "message_id": "nginx-report-2026-11-29",
        "text": report,
        "duplicate": False,
    }


def test_a_goal_without_a_day_is_told_what_is_missing(tmp_path: Path, example: Path) -> None:
    done = hermes(
        *("run", "What is wrong with nginx?", "--agent", str(example / "agent.toml")),
        *("--playbook", str(example / "playbook.yaml"), "--json"),
        cwd=tmp_path,
    )

    assert "Name the day" in done.stdout
