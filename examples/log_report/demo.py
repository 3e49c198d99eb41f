"""The log report from one command, with no key and no network.

Starts a webhook on a free loopback port, lets the `hermes` command carry out one sentence by the
rules of playbook.yaml, and shows what came of it. Everything it writes lies in a fresh folder
under `.hermes/demo/` of the checkout. Exits with the exit code of the run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

_HERE = Path(__file__).resolve().parent
_DEMOS = _HERE.parent.parent / ".hermes/demo"
_GOAL = (
    "Read the nginx error log of 2026-11-29, report the five worst problems "
    "and send it to the ops webhook"
)
_STOP_S = 5
# What the developer has set for other runs must not change this one.
_SETTINGS = ("HERMES_", "OPENAI_", "TOOL_", "MODEL_NAME", "API_BASE", "API_KEY", "AGENT_")


def main() -> int:
    """Run the demo; returns the exit code of `hermes run`."""
    folder = _fresh_folder()
    received = folder / "received.jsonl"
    with _receiver(received) as address:
        _title("hermes run: live progress")
        code, task_id = _run(folder, address)
    _title(f"The report ({folder / 'report.md'})")
    _show(folder / "report.md")
    _title(f"What the webhook received ({received})")
    _show_messages(received)
    if task_id:
        _title(f"hermes trace {task_id}")
        _hermes(folder, "trace", task_id)
    return code


def _fresh_folder() -> Path:
    _DEMOS.mkdir(parents=True, exist_ok=True)
    taken = (int(path.name) for path in _DEMOS.iterdir() if path.name.isdecimal())
    number = max(taken, default=0) + 1
    while True:
        folder = _DEMOS / str(number)
        try:
            folder.mkdir()
        except FileExistsError:  # another demo began at the same time
            number += 1
        else:
            return folder


@contextmanager
def _receiver(log: Path) -> Generator[str]:
    command = [sys.executable, str(_HERE / "receiver.py"), "--port", "0", "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait(_STOP_S)


def _run(folder: Path, address: str) -> tuple[int, str]:
    """Exit code and task id of the run; its progress goes straight to the terminal."""
    variables = {
        "log_path": _HERE / "logs/error.log",
        "report_path": folder / "report.md",
        "webhook_url": address,
    }
    options = [part for name, value in variables.items() for part in ("--var", f"{name}={value}")]
    done = _hermes(
        folder,
        *("run", _GOAL, "--agent", str(_HERE / "agent.toml")),
        *("--playbook", str(_HERE / "playbook.yaml"), *options, "--json"),
        capture=True,
    )
    try:
        result: object = json.loads(done.stdout)
    except ValueError:
        print(done.stdout)
        return done.returncode or 1, ""
    task_id = cast("dict[str, object]", result).get("task_id") if isinstance(result, dict) else ""
    return done.returncode, str(task_id or "")


def _hermes(
    folder: Path, *arguments: str, capture: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run the command in the demo's folder, where it finds no settings and keeps its journal."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)
    }
    # A proxy must not stand between the run and the webhook on this machine.
    environment |= {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
    return subprocess.run(
        [sys.executable, "-m", "hermes", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE if capture else None,
        text=True,
        check=False,
    )


def _show(path: Path) -> None:
    print(path.read_text(encoding="utf-8") if path.exists() else "nothing", flush=True)


def _show_messages(path: Path) -> None:
    """One line a message: its id, how often it came, its size."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    messages = [cast("dict[str, str]", json.loads(line)) for line in lines]
    times = Counter(message["message_id"] for message in messages)
    texts = {message["message_id"]: message["text"] for message in messages}
    for message_id, count in times.items():
        often = "once" if count == 1 else f"{count} times"
        print(f"{message_id}, {often}, {len(texts[message_id]):,} characters", flush=True)
    if not messages:
        print("nothing", flush=True)


def _title(text: str) -> None:
    print(f"\n== {text}\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
