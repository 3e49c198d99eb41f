"""Servers that refuse, lie or fall silent, seen from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from hermes.cli import invoke

ROOT = Path(__file__).parents[2]
KEY = "sk-very-secret-0123456789"
Start = Callable[[Mapping[str, object]], str]


@pytest.fixture
def server(workdir: Path) -> Iterator[Start]:
    running: list[subprocess.Popen[str]] = []

    def start(reply: Mapping[str, object]) -> str:
        (workdir / "script.json").write_text(json.dumps([reply]))
        program = [sys.executable, str(ROOT / "tests/providers/server.py"), "--shape", "openai"]
        process = subprocess.Popen(
            [*program, "--script", "script.json"], stdout=subprocess.PIPE, text=True
        )
        running.append(process)
        assert process.stdout is not None
        return process.stdout.readline().strip()

    yield start
    for process in running:
        process.kill()
        process.communicate()


def hermes(url: str, *words: str) -> subprocess.CompletedProcess[str]:
    settings = {
        "MODEL_NAME": "m",
        "API_BASE": url,
        "API_KEY": KEY,
        "HERMES_MODEL_TIMEOUT_S": "1",
        "HERMES_MODEL_ATTEMPTS": "1",
    }
    return subprocess.run(
        [sys.executable, "-m", "hermes", *words],
        env=os.environ | settings | {"HERMES_LOG_LEVEL": "debug"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
@pytest.mark.parametrize(
    ("reply", "code", "says"),
    [
        ({"status": 401, "body": {"error": {"message": f"bad key {KEY}"}}}, "auth", "API_KEY"),
        ({"status": 404, "body": {"error": {"message": "no model m"}}}, "unknown_model", "'m'"),
        ({"status": 429, "headers": {"retry-after": "7"}, "body": {}}, "rate_limited", "7"),
        ({"status": 500, "body": {}}, "server", "500"),
        ({"raw": "<html>hello</html>", "kind": "text/html"}, "bad_reply", "HTML"),
        ({"wait": True}, "timeout", "127.0.0.1"),
        ({"text": "half an answer", "cut_after": 60}, None, "127.0.0.1"),
    ],
    ids=["wrong-key", "unknown-model", "rate-limit", "broken", "html", "silent", "cut"],
)
def test_each_fault_is_one_line_a_failed_task_and_never_the_key(
    workdir: Path,
    server: Start,
    reply: Mapping[str, object],
    code: str | None,
    says: str,
    stream: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = hermes(server(reply), "run", "hello", "--json", stream)

    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert result["status"] == "failed"
    if code is not None:
        assert result["error"]["code"] == code
    assert says.lower() in (result["error"]["message"] + result["error"]["hint"]).lower()
    assert "Traceback" not in done.stderr
    assert invoke(["show", "last"]) == 0
    shown = capsys.readouterr().out
    assert "failed" in shown
    stored = b"".join(path.read_bytes() for path in (workdir / ".hermes").rglob("*.db*"))
    for text in (done.stdout, done.stderr, shown, stored.decode("latin-1")):
        assert KEY not in text


def test_r084_a_local_server_needs_no_key(workdir: Path, server: Start) -> None:
    url = server({"text": "hello"})
    environment = {k: v for k, v in os.environ.items() if k != "API_KEY"}
    done = subprocess.run(
        [sys.executable, "-m", "hermes", "run", "hi", "--quiet"],
        env=environment | {"MODEL_NAME": "m", "API_BASE": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "hello\n")


def test_doctor_asks_the_model_and_names_the_fault(workdir: Path, server: Start) -> None:
    assert hermes(server({"text": "OK"}), "doctor").returncode == 0
    done = hermes(server({"status": 401, "body": {}}), "doctor", "--json")
    assert done.returncode == 1
    checks = {check["name"]: check["ok"] for check in json.loads(done.stdout)["checks"]}
    assert checks == {"database": True, "model": False, "tools": True}
    assert KEY not in done.stdout + done.stderr
