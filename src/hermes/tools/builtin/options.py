"""What the built-in tools are set up with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

ShellApproval = Literal["always", "never"]
PythonSandbox = Literal["auto", "monty", "bubblewrap"]
ChannelKind = Literal["webhook", "wecom", "feishu", "dingtalk", "slack"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """Where messages go.

    Attributes:
        url: Holds the bot's key.
        secret: Signs what is sent.
        idempotent: A webhook that takes each `Idempotency-Key` once: a message whose fate is
            unknown may be sent again.
        per_minute: Messages a minute; what the service allows if None.
    """

    name: str
    kind: ChannelKind
    url: str = field(repr=False)
    secret: str = field(default="", repr=False)
    idempotent: bool = False
    per_minute: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database that tools may look into; its URL may hold a password."""

    name: str
    url: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinOptions:
    """Bounds and addresses of the built-in tools, the same for every agent of a process.

    Attributes:
        workspace: The folder that file tools are bound to.
        files_max_bytes: Largest file that is read as a whole, or grows by adding.
        files_trusted: The workspace's files are the user's own; if not, what they say is treated
            as coming from outside.
        shell_programs: Names or absolute paths of programs that may be run.
        shell_approval: Whether a person is asked before each command.
        shell_env: Names of variables that programs get besides the harmless ones.
        python_sandbox: Where code of models runs.
        http_allow: Hosts, `host:port`, `*.domain`, addresses and networks that requests may go to
            although they are internal.
        http_deny: The same forms: what they may not go to; `*` is all that is not allowed.
        http_timeout_s: For one request as a whole.
        http_max_bytes: Of a body, after decompression.
        weather_url: A service with the interface of Open-Meteo; "" is Open-Meteo itself.
        channels: Where `send_message` and `send_webhook_notification` may send to.
        smtp_url: The server that `send_email` hands its messages to; "" for none.
        smtp_from: The sender's address, with or without a name.
        databases: What the database tools may reach.
        smtp_allowed: Addresses, or `@domain`, that may get mail; `*` is everybody.
    """

    workspace: Path = Path()
    files_max_bytes: int = 10_485_760
    files_trusted: bool = True
    shell_programs: tuple[str, ...] = ()
    shell_approval: ShellApproval = "always"
    shell_env: tuple[str, ...] = ()
    python_sandbox: PythonSandbox = "auto"
    http_allow: tuple[str, ...] = ()
    http_deny: tuple[str, ...] = ()
    http_timeout_s: float = 20.0
    http_max_bytes: int = 2_000_000
    weather_url: str = field(default="", repr=False)
    channels: tuple[Channel, ...] = ()
    smtp_url: str = field(default="", repr=False)
    smtp_from: str = ""
    smtp_allowed: tuple[str, ...] = ()
    databases: tuple[Database, ...] = ()
