"""E-mail by SMTP: one message to one server, with an outcome that is sure or said not to be."""

from __future__ import annotations

import hashlib
import mimetypes
import re
import smtplib
import ssl
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from typing import Literal
from urllib.parse import unquote, urlsplit

from hermes.errors import ConfigError, NotDone, ToolError

from .senders import LostAnswer

TIMEOUT_S = 30.0
_PORTS: dict[str, tuple[Literal["none", "starttls", "ssl"], int]] = {
    "smtp": ("none", 25),
    "smtp+starttls": ("starttls", 587),
    "smtps": ("ssl", 465),
}
_LOCAL = ("localhost", "127.0.0.1", "::1")
_MAILBOX = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@([^\s@<>,;:\"()\[\]\\]{1,253})")
_BREAKS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]")
# 7 bits go through every server; the message then needs no extension.
_POLICY = SMTP.clone(cte_type="7bit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that takes mail: `smtp+starttls://user:password@host:587`."""

    host: str
    port: int
    tls: Literal["none", "starttls", "ssl"]
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def of(cls, url: str) -> Server:
        """Read a URL.

        Raises:
            ConfigError: It is none that mail can be sent by; the message shows no part of it.
        """
        try:
            parts = urlsplit(url.strip())
            host, port = parts.hostname or "", parts.port
        except ValueError:
            host, port, parts = "", None, urlsplit("")
        known = _PORTS.get(parts.scheme)
        if known is None or not host:
            raise ConfigError(
                "HERMES_SMTP_URL is no address of a mail server",
                hint="write smtp+starttls://user:password@host:587, smtps://… or smtp://…",
            )
        tls, usual_port = known
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if not (user.isascii() and password.isascii()):
            raise ConfigError("HERMES_SMTP_URL: user and password must be ASCII")
        if user and tls == "none" and host not in _LOCAL:
            raise ConfigError(
                "HERMES_SMTP_URL would send a password without encryption",
                hint="write smtp+starttls:// or smtps://",
            )
        return cls(host=host, port=port or usual_port, tls=tls, user=user, password=password)

    @property
    def name(self) -> str:
        """Host and port, for messages."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that goes with a message."""

    name: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A message before it has the form of one.

    Attributes:
        message_id: Becomes the `Message-ID`, always the same one for the same text.
        sender: An address, with or without a name before it.
        to: Plain addresses.
    """

    message_id: str
    sender: str
    to: Sequence[str]
    subject: str
    body: str
    attachments: Sequence[Attachment] = ()

    def encoded(self, now: datetime) -> bytes:
        """The message in 7-bit ASCII.

        Raises:
            ToolError: A header would break out of its line, or an address is none.
        """
        name, address = parseaddr(self.sender)
        sender = mailbox(address)
        message = EmailMessage(policy=_POLICY)
        try:
            message["From"] = Address(display_name=one_line(name), addr_spec=sender)
            message["To"] = [Address(addr_spec=mailbox(each)) for each in self.to]
            message["Subject"] = one_line(self.subject)
        except (ValueError, MessageError) as exc:
            raise ToolError(f"no e-mail: {exc}", code="bad_arguments") from exc
        message["Date"] = format_datetime(now)
        digest = hashlib.sha256(self.message_id.encode("utf-8", "replace")).hexdigest()[:40]
        message["Message-ID"] = f"<{digest}@{sender.rpartition('@')[2]}>"
        message.set_content(self.body.encode("utf-8", "replace").decode(), charset="utf-8")
        for item in self.attachments:
            kind = mimetypes.guess_type(item.name)[0] or "application/octet-stream"
            main, _, sub = kind.partition("/")
            message.add_attachment(
                item.data,
                maintype=main,
                subtype=sub,
                filename=one_line(item.name),
                params={"charset": "utf-8"} if main == "text" and _is_utf8(item.data) else None,
            )
        return message.as_bytes()


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def one_line(text: str) -> str:
    """A header's text.

    Raises:
        ToolError: It has a line break or a control character.
    """
    if found := _BREAKS.search(text):
        raise ToolError(
            f"a line break or control character ({found.group()!r}) in a header: {text!r:.120}",
            code="bad_arguments",
            hint="write subject, names and addresses in one line",
        )
    return text.encode("utf-8", "replace").decode().strip()


def plain(address: str) -> str:
    """An address, or `@domain`, in the one form that is compared."""
    local, at, domain = address.strip().lower().rpartition("@")
    try:
        domain = domain.encode("idna").decode("ascii")
    except UnicodeError:  # no domain: equal to nothing but itself
        pass
    return f"{local}{at}{domain}"


def mailbox(address: str) -> str:
    """A plain address, its domain in ASCII.

    Raises:
        ToolError: It is none.
    """
    text = one_line(address)
    found = _MAILBOX.fullmatch(text)
    try:
        domain = found.group(1).encode("idna").decode("ascii") if found else ""
    except UnicodeError:
        domain = ""
    if not domain:
        raise ToolError(
            f"{text!r:.120} is no e-mail address",
            code="bad_arguments",
            hint="write one plain address per entry, such as ann@example.com",
        )
    return f"{text.rpartition('@')[0]}@{domain}"


def send(server: Server, *, sender: str, to: Sequence[str], data: bytes) -> str:
    """Hand a message over; either every address gets it or none. Blocks.

    Returns:
        What the server said as it took the message.

    Raises:
        NotDone: Nothing was sent.
        ToolError: The server refused the message for good; nothing was sent.
        LostAnswer: The message left, and the answer did not come.
    """
    with _connected(server) as client:
        _open_envelope(client, server, sender, to)
        try:
            code, said = client.data(data)
        except smtplib.SMTPDataError as exc:
            raise _refusal(server, "the message", exc.smtp_code, exc.smtp_error) from None
        except (OSError, smtplib.SMTPException) as exc:
            raise LostAnswer(
                f"the connection to {server.name} broke as the message was sent "
                f"({type(exc).__name__})"
            ) from None
        if code != 250:
            raise _refusal(server, "the message", code, said)
        with suppress(OSError, smtplib.SMTPException):  # it has the message
            client.quit()
        return said.decode(errors="replace")[:200]


@contextmanager
def _connected(server: Server) -> Generator[smtplib.SMTP]:
    client: smtplib.SMTP | None = None
    try:
        try:
            client = _connection(server)
        except smtplib.SMTPAuthenticationError as exc:
            raise NotDone(
                f"{server.name} refused the login ({exc.smtp_code}); nothing was sent",
                code="login",
                hint="check user and password in HERMES_SMTP_URL",
            ) from None
        except (OSError, smtplib.SMTPException) as exc:
            raise NotDone(
                f"no mail connection to {server.name}: {type(exc).__name__}; nothing was sent",
                code="unreachable",
                hint="check HERMES_SMTP_URL, and whether the server offers what it asks for",
            ) from None
        yield client
    finally:
        if client is not None:
            client.close()


def _connection(server: Server) -> smtplib.SMTP:
    """A connection, encrypted and logged in as the URL says."""
    if server.tls == "ssl":
        context = ssl.create_default_context()
        client: smtplib.SMTP = smtplib.SMTP_SSL(
            server.host, server.port, timeout=TIMEOUT_S, context=context
        )
    else:
        client = smtplib.SMTP(server.host, server.port, timeout=TIMEOUT_S)
    try:
        if server.tls == "starttls":
            client.starttls(context=ssl.create_default_context())
        client.ehlo_or_helo_if_needed()
        if server.user:
            client.login(server.user, server.password)
    except BaseException:
        client.close()
        raise
    return client


def _open_envelope(client: smtplib.SMTP, server: Server, sender: str, to: Sequence[str]) -> None:
    try:
        code, said = client.mail(sender)
        if code != 250:
            raise _refusal(server, f"the sender {sender}", code, said)
        for address in to:
            code, said = client.rcpt(address)
            if code not in (250, 251):
                raise _refusal(server, f"the address {address}", code, said)
    except (OSError, smtplib.SMTPException) as exc:
        raise NotDone(
            f"the connection to {server.name} broke ({type(exc).__name__}); nothing was sent"
        ) from None


def _refusal(server: Server, what: str, code: int, said: bytes | str) -> ToolError:
    """By the first digit: 4 is for now, 5 for good."""
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    message = f"{server.name} refused {what}: {code} {' '.join(text.split())[:200]}"
    if 400 <= code < 500:
        return NotDone(f"{message}; nothing was sent", code=f"smtp_{code}")
    return ToolError(f"{message}; nothing was sent", code=f"smtp_{code}")
