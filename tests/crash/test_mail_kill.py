"""`kill -9` in the moment when the mail server has the message and has not said so yet."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import anyio
from anyio.abc import Process

from tests.unit.tools.mail_server import receiving

PLAYBOOK = """
playbook: 1
name: p
rules:
  - name: mail
    when: {all: [mail]}
    steps:
      - call: send_email
        with: {message_id: report-1, to: [ann@example.com], subject: 退货率, body: 12 %}
        as: sent
    answer: "sent"
"""


async def hermes(port: int, *words: str) -> Process:
    settings = {
        "TOOL_ENABLED_GROUPS": "core,notify",
        "HERMES_SMTP_URL": f"smtp://127.0.0.1:{port}",
        "HERMES_SMTP_FROM": "bot@shop.example",
        "HERMES_SMTP_ALLOWED": "@example.com",
    }
    return await anyio.open_process(
        [sys.executable, "-m", "hermes", *words], env=os.environ | settings
    )


async def answer_of(process: Process) -> dict[str, object]:
    assert process.stdout is not None
    out = b"".join([chunk async for chunk in process.stdout])
    await process.wait()
    return json.loads(out)


async def test_a_mail_that_a_killed_run_had_sent_is_not_sent_again(workdir: Path) -> None:
    (workdir / "p.yaml").write_text(PLAYBOOK, encoding="utf-8")
    with anyio.fail_after(30):
        async with receiving() as (mailbox, port):
            first = await hermes(port, "run", "mail the report", "--playbook", "p.yaml")
            mailbox.on_message = lambda: first.send_signal(signal.SIGKILL)
            async with first:
                await first.wait()
            mailbox.on_message = lambda: None

            async with await hermes(port, "resume", "last", "--json") as process:
                resumed = await answer_of(process)

            assert first.returncode == -signal.SIGKILL
            assert resumed["status"] == "waiting"
            assert len(mailbox.messages) == 1
