"""A real SMTP server on loopback that keeps what it takes."""

from __future__ import annotations

import asyncio
import email
import ssl
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from email.message import EmailMessage
from email.policy import default
from pathlib import Path

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USER, PASSWORD = "bot", "geheim-4711"


class Mailbox:
    """The handler of a server.

    Attributes:
        envelopes: Sender, receivers and message, in the order they came.
        refuse: Receivers that the server does not know.
        answer: What it says to a message; it is kept if that is the ordinary answer.
        on_message: Called before the answer.
        silent: It never answers to a message.
    """

    def __init__(self) -> None:
        self.envelopes: list[tuple[str, list[str], EmailMessage]] = []
        self.raw: list[bytes] = []
        self.logins: list[tuple[bytes, bytes]] = []
        self.refuse: dict[str, str] = {}
        self.answer = "250 OK queued"
        self.on_message: Callable[[], None] = lambda: None
        self.silent = False

    @property
    def messages(self) -> list[EmailMessage]:
        return [message for _, _, message in self.envelopes]

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refuse:
            return self.refuse[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        if self.answer.startswith("250"):
            message = email.message_from_bytes(envelope.content, EmailMessage, policy=default)
            self.raw.append(envelope.content)
            self.envelopes.append((envelope.mail_from or "", list(envelope.rcpt_tos), message))
        self.on_message()
        if self.silent:
            await asyncio.Event().wait()
        return self.answer

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object
    ) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append((data.login, data.password))
        is_right = data == LoginPassword(USER.encode(), PASSWORD.encode())
        return AuthResult(success=is_right, handled=False)


@asynccontextmanager
async def receiving(
    *, tls: ssl.SSLContext | None = None, at_once: bool = False, login: bool = False
) -> AsyncGenerator[tuple[Mailbox, int]]:
    """A mailbox and the port of its server.

    Args:
        tls: Encrypt: after STARTTLS, or from the first byte if `at_once`.
        at_once: As SMTPS.
        login: Mail only from who is logged in.
    """
    mailbox = Mailbox()
    loop = asyncio.get_running_loop()

    def protocol() -> SMTP:
        return SMTP(
            mailbox,
            loop=loop,
            hostname="mail.example",
            tls_context=None if at_once else tls,
            require_starttls=tls is not None and not at_once,
            authenticator=mailbox.authenticate if login else None,
            auth_required=login,
        )

    server = await loop.create_server(protocol, "127.0.0.1", 0, ssl=tls if at_once else None)
    try:
        yield mailbox, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


def certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's context, and the file of the authority to trust."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, cert
