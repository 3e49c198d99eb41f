"""Watches two days of a shop's returns, with no key and no network.

Makes the orders, starts a mail server on a free loopback port, and lets the `hermes` command look
at a quiet day and at a bad one by the rules of playbook.yaml. Everything it writes lies in a fresh
folder under `.hermes/returns/` of the checkout. Exits with 0 if both runs succeeded.
"""

from __future__ import annotations

import email
import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from email.policy import default
from pathlib import Path

from orders import make

_HERE = Path(__file__).resolve().parent
_RUNS = _HERE.parent.parent / ".hermes/returns"
_DAYS = ("2026-11-28", "2026-11-29")
_STOP_S = 5
# What the developer has set for other runs must not change this one.
_SETTINGS = ("HERMES_", "OPENAI_", "TOOL_", "MODEL_NAME", "API_BASE", "API_KEY", "AGENT_")


def main() -> int:
    """Run the demo; returns the worst exit code of both runs."""
    folder = _fresh_folder()
    make(folder / "shop.db")
    inbox = folder / "inbox"
    codes: list[int] = []
    with _mailbox(inbox) as address:
        for day in _DAYS:
            print(f"\n== hermes run: the return rate of {day}\n", flush=True)
            codes.append(_run(folder, address, day))
    print(f"\n== The daily report ({folder / 'daily-report.md'})\n")
    report = folder / "daily-report.md"
    print(report.read_text(encoding="utf-8") if report.exists() else "nothing")
    print(f"== What the mail server received ({inbox})")
    for path in sorted(inbox.iterdir()):
        message = email.message_from_bytes(path.read_bytes(), policy=default)
        body = message.get_body()
        text = body.get_content() if body is not None else ""
        print(f"\nTo: {message['to']}\nSubject: {message['subject']}\n\n{text.strip()}")
    return max(codes)


def _fresh_folder() -> Path:
    _RUNS.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        folder = _RUNS / str(number)
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder


@contextmanager
def _mailbox(folder: Path) -> Generator[str]:
    command = [sys.executable, str(_HERE / "mailbox.py"), "--folder", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait(_STOP_S)


def _run(folder: Path, address: str, day: str) -> int:
    """Exit code of one run, in the demo's folder, where it finds no settings of others."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)
    }
    environment |= {
        "HERMES_TOOL_DATABASES": json.dumps({"shop": f"sqlite:///{folder / 'shop.db'}"}),
        "HERMES_SMTP_URL": address,
        "HERMES_SMTP_FROM": "Returns watch <watch@shop.example>",
        "HERMES_SMTP_ALLOWED": "@shop.example",
    }
    done = subprocess.run(
        [
            *(sys.executable, "-m", "hermes", "run", f"Check the return rate of {day}"),
            *("--agent", str(_HERE / "agent.toml"), "--playbook", str(_HERE / "playbook.yaml")),
        ],
        cwd=folder,
        env=environment,
        check=False,
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
