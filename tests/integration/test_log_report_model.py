"""The log report done by a model, over HTTP, in the shape of each provider."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "log_report"
LOG = EXAMPLE / "logs" / "error.log"
GOAL = "读取 2026-11-29 的 nginx 错误日志，汇总最严重的五个问题并发送到运维群"


def start(program: Path, *words: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, str(program), *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    return process


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def stop(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[str]:
    process = start(EXAMPLE / "receiver.py", "--log", str(tmp_path / "received.jsonl"))
    yield first_line(process)
    stop(process)


def script(webhook: str) -> list[Mapping[str, object]]:
    """What a model would answer, turn by turn."""
    groups = [{"kind": "磁盘满", "severity": "crit", "count": 3, "first": "a", "last": "b"}]
    usage = {"prompt_tokens": 100, "completion_tokens": 10}

    def turn(name: str, **arguments: object) -> Mapping[str, object]:
        call = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
        return {"calls": [call], "usage": usage}

    return [
        turn("summarise_errors", log_path=str(LOG), date="2026-11-29"),
        turn("write_report", path="report.md", title="报告", groups=groups, total=3, lang="zh"),
        turn("send_webhook", url=webhook, message_id="nginx-report-2026-11-29", text="磁盘满"),
        {"text": "最严重的问题：磁盘满。", "usage": usage},
    ]


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
@pytest.mark.parametrize("shape", ["openai", "deepseek", "qwen", "glm", "ollama"])
def test_three_variables_let_a_model_do_the_job(
    tmp_path: Path, webhook: str, shape: str, stream: str
) -> None:
    replies = tmp_path / "script.json"
    replies.write_text(json.dumps(script(webhook)))
    server = start(
        ROOT / "tests" / "providers" / "server.py",
        "--shape", shape, "--script", str(replies), "--log", str(tmp_path / "requests.jsonl"),
    )  # fmt: skip
    try:
        done = subprocess.run(
            [
                sys.executable, "-m", "hermes", "run", GOAL, "--json", stream,
                "--agent", str(EXAMPLE / "agent.toml"), "--var", f"log_path={LOG}",
            ],
            cwd=tmp_path,
            env=os.environ
            | {"MODEL_NAME": "test-model", "API_BASE": first_line(server), "API_KEY": ""},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )  # fmt: skip
    finally:
        stop(server)

    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["output"] == "最严重的问题：磁盘满。"
    assert [entry["name"] for entry in result["trace"] if entry["type"] == "tool"] == [
        "summarise_errors",
        "write_report",
        "send_webhook",
    ]
    assert all(entry["status"] == "ok" for entry in result["trace"])
    assert result["usage"]["total_tokens"] == 440
    posts = (tmp_path / "received.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in posts] == ["磁盘满"]
    assert "磁盘满" in (tmp_path / "report.md").read_text(encoding="utf-8")
    requests = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    assert len(requests) == 4
    assert str(LOG) in json.dumps(requests[0], ensure_ascii=False)
