"""E-mail; group `notify`."""

from __future__ import annotations

from email.utils import parseaddr
from pathlib import Path
from typing import Annotated

from anyio import to_thread
from pydantic import Field

from hermes.core.clock import Clock, SystemClock
from hermes.errors import ConfigError, ToolError
from hermes.tools.base import Tool
from hermes.tools.function import tool

from .files_workspace import Workspace
from .notify import MessageId
from .options import BuiltinOptions
from .smtp import Attachment, Mail, Server, mailbox, one_line, plain, send

MAX_ATTACHMENTS_BYTES = 10 * 2**20
MAX_BODY_CHARS = 200_000


def make(options: BuiltinOptions, *, clock: Clock) -> Tool:
    """`send_email`, with a clock of the caller's."""

    @tool(
        effect="unsafe",
        group="notify",
        key="{message_id}",
        key_scope="global",
        outbound=True,
        timeout_s=120,
        health=lambda: _fault(options),
    )
    async def send_email(
        message_id: MessageId,
        to: Annotated[list[str], Field(min_length=1, max_length=50)],
        subject: Annotated[str, Field(min_length=1, max_length=300)],
        body: Annotated[str, Field(max_length=MAX_BODY_CHARS)],
        attachments: Annotated[list[str], Field(max_length=10)] = [],  # noqa: B006  # copied
    ) -> dict[str, object]:
        """Send one e-mail in plain text; either every receiver gets it or none.

        Use it for reports and messages to people outside the chat, with files where needed. Not
        for short news to a group: use send_message. A message_id is sent once: a second call with
        it sends nothing and gets the first result.

        Example: send_email(message_id="returns-2026-11-29", to=["ann@example.com"],
        subject="退货率", body="12 % today", attachments=["report.csv"]).

        Args:
            message_id: Names this message, such as report-2026-11-29; take another one for other
                content or other receivers.
            to: Plain addresses; only those that the settings allow.
            subject: One line.
            body: The text; who reads it sees nothing of this conversation.
            attachments: Paths of files in the workspace, 10 MiB in all.

        Returns:
            The receivers and what the mail server said as it took the message.
        """
        if (wrong := _fault(options)) is not None:
            raise ToolError(wrong, code="not_configured")
        receivers = list(dict.fromkeys(map(mailbox, to)))
        _check_allowed(receivers, options.smtp_allowed)
        files = await to_thread.run_sync(_attached, options.workspace, attachments)
        mail = Mail(
            message_id=message_id,
            sender=options.smtp_from,
            to=receivers,
            subject=subject,
            body=body,
            attachments=files,
        )
        said = await to_thread.run_sync(_sent, Server.of(options.smtp_url), mail, clock)
        return {
            "message_id": message_id,
            "to": receivers,
            "attachments": [item.name for item in files],
            "server": said,
        }

    return send_email


def _fault(options: BuiltinOptions) -> str | None:
    """What is missing for any mail to be sent."""
    if not options.smtp_url or not options.smtp_from:
        return "no mail server is configured: set HERMES_SMTP_URL and HERMES_SMTP_FROM"
    if not options.smtp_allowed:
        return "nobody may get mail: set HERMES_SMTP_ALLOWED to addresses, @domains or *"
    try:
        Server.of(options.smtp_url)
        mailbox(parseaddr(options.smtp_from)[1])
    except ConfigError as exc:
        return str(exc)
    except ToolError as exc:
        return f"HERMES_SMTP_FROM: {exc.message}"
    return None


def _sent(server: Server, mail: Mail, clock: Clock) -> str:
    sender = mailbox(parseaddr(mail.sender)[1])
    return send(server, sender=sender, to=mail.to, data=mail.encoded(clock.now()))


def _check_allowed(receivers: list[str], allowed: tuple[str, ...]) -> None:
    known = {plain(each) for each in allowed}
    for address in receivers:
        domain = address.rpartition("@")[2]
        if known.isdisjoint({"*", plain(address), plain(f"@{domain}")}):
            raise ToolError(
                f"{address} may not get mail; allowed: {', '.join(allowed)}",
                code="not_allowed",
                hint="choose an allowed address; only HERMES_SMTP_ALLOWED can add one",
            )


def _attached(workspace: Path, paths: list[str]) -> list[Attachment]:
    found: list[Attachment] = []
    room = MAX_ATTACHMENTS_BYTES
    for path in paths:
        data = _read(workspace, path, room)
        room -= len(data)
        found.append(Attachment(name=one_line(Path(path).name), data=data))
    return found


def _read(workspace: Path, path: str, room: int) -> bytes:
    with Workspace(workspace).file(path) as (fd, spot), open(fd, "rb", closefd=False) as file:
        data = file.read(room + 1)
    if len(data) > room:
        raise ToolError(
            f"the attachments have more than {MAX_ATTACHMENTS_BYTES // 2**20} MiB with {spot.path}",
            code="too_large",
        )
    return data


def tools(options: BuiltinOptions) -> tuple[Tool, ...]:
    """E-mail."""
    return (make(options, clock=SystemClock()),)
