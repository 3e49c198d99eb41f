"""The returns watch: its demo, and what holds when a day is looked at again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from examples.returns_watch.mailbox import Inbox
from examples.returns_watch.orders import make
from hermes.cli import invoke

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/returns_watch"


def test_the_demo_notes_a_quiet_day_and_mails_a_bad_one() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "demo.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    _, report, mail = done.stdout.rsplit("\n== ", 2)
    assert "- 2026-11-28: 退货率 4.0% (8 of 200 orders)" in report
    assert "2026-11-29" not in report
    assert mail.count("Subject:") == 1
    assert "To: ops@shop.example" in mail
    assert "退货率 14.0% on 2026-11-29, threshold 8.0%" in mail
    assert mail.rstrip().endswith("1. 电热水壶: 21\n2. 台灯: 5\n3. 保温杯: 2")


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A mail server of the example, in this process."""
    with Inbox(0, tmp_path / "inbox") as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.address, tmp_path / "inbox"
        server.shutdown()
        thread.join()


def test_a_day_that_is_looked_at_again_gets_no_second_mail(
    workdir: Path, inbox: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, folder = inbox
    make(workdir / "shop.db")
    shop = json.dumps({"shop": f"sqlite:///{workdir}/shop.db"})
    monkeypatch.setenv("HERMES_TOOL_DATABASES", shop)
    monkeypatch.setenv("HERMES_SMTP_URL", address)
    monkeypatch.setenv("HERMES_SMTP_FROM", "watch@shop.example")
    monkeypatch.setenv("HERMES_SMTP_ALLOWED", "@shop.example")
    files = ("--agent", f"{EXAMPLE}/agent.toml", "--playbook", f"{EXAMPLE}/playbook.yaml")
    for _ in range(2):
        assert invoke(("run", "看一下 2026-11-29 的退货率", *files)) == 0
    assert [path.name for path in folder.iterdir()] == ["1.eml"]
