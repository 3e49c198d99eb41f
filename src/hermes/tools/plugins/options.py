"""What is said of plugins and MCP servers in the settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_serializer,
    model_validator,
)

from hermes.core.effects import Effect
from hermes.core.json import as_object
from hermes.core.problems import did_you_mean

_NAME = re.compile(r"(?!.*__)[a-zA-Z0-9_-]{1,32}")
_DECLARABLE = Literal["read", "idempotent", "unsafe"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    env: dict[str, SecretStr] = {}
    cwd: Path | None = None
    start_timeout_s: float = Field(20.0, gt=0)
    concurrency: int = Field(8, ge=1, le=64)

    @model_validator(mode="before")
    @classmethod
    def _names_what_was_meant(cls, given: object) -> object:
        for key in as_object(given) or ():
            if key not in cls.model_fields:
                hint = did_you_mean(key, cls.model_fields)
                raise ValueError(
                    f"unknown key `{key}`; {hint or 'known keys: ' + ', '.join(cls.model_fields)}"
                )
        return given


class PluginServer(_Section):
    """A plugin that runs in an environment of its own: `[plugins.NAME]`.

    Attributes:
        python: Its interpreter; that of Hermes by default.
        file: The plugin's file; either this or `module`.
        module: The plugin's module, importable there.
        group: The group of all its tools; what they say themselves by default.
        env: Its environment, beside a few harmless variables; `${NAME}` stands for ours.
        cwd: Its folder.
        start_timeout_s: Seconds until it has to have loaded.
        concurrency: How many of its calls run at a time.
    """

    python: str | None = None
    file: Path | None = None
    module: str | None = None
    group: str | None = None

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        if (self.file is None) == (self.module is None):
            raise ValueError("give either `file` or `module`")
        return self


class McpServer(_Section):
    """A server of the Model Context Protocol: `[mcp_servers.NAME]`.

    Attributes:
        command: Starts one that talks on stdin and stdout; either this or `url`.
        args: Of the command.
        url: Where one is that talks streamable HTTP.
        headers: Sent with each request; `${NAME}` stands for a variable of our environment.
        tools: Only these, by the server's names; all by default.
        group: The group of its tools.
        effect: What its tools do to the world where nothing else is said.
        effects: The same for single tools, by the server's names.
        trust_hints: Believe the server's `readOnlyHint` and `idempotentHint`.
        outbound: Whether its reading tools may carry data out; by default those behind a `url`.
        timeout_s: Seconds that a call may take.
        env: As in `PluginServer`, and so are the others.
        cwd: As in `PluginServer`.
        start_timeout_s: As in `PluginServer`.
        concurrency: As in `PluginServer`.
    """

    command: str | None = None
    args: tuple[str, ...] = ()
    url: str | None = Field(None, pattern=r"^https?://", repr=False)
    headers: dict[str, SecretStr] = {}
    tools: tuple[str, ...] | None = None
    group: str = "mcp"
    effect: _DECLARABLE = "unsafe"
    effects: dict[str, _DECLARABLE] = {}
    trust_hints: bool = False
    outbound: bool | None = None
    timeout_s: float = Field(60.0, gt=0)

    @field_serializer("url")
    def _without_secrets(self, url: str | None) -> str | None:
        return None if url is None else shown_url(url)

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either `command` or `url`")
        idle = {"command": ("headers",), "url": ("args", "env", "cwd")}
        kind = "command" if self.url is None else "url"
        for name in idle[kind]:
            if getattr(self, name):
                raise ValueError(f"`{name}` does not go with `{kind}`")
        return self

    def effect_of(self, tool: str, *, reads: bool, repeats: bool) -> Effect:
        """What a tool does to the world.

        Args:
            tool: Its name at the server.
            reads: The server says that it only reads.
            repeats: The server says that a repeat changes nothing.
        """
        if tool in self.effects:
            return self.effects[tool]
        if self.trust_hints and reads:
            return "read"
        return "idempotent" if self.trust_hints and repeats else self.effect


def shown_url(url: str) -> str:
    """An address without what may be secret in it: a user, a query."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"


def _named(servers: dict[str, _Section]) -> dict[str, _Section]:
    for name in servers:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"`{name}` is no name: 1 to 32 ASCII letters, digits, `-` or `_`, without `__`"
            )
    return servers


PluginServers = Annotated[dict[str, PluginServer], AfterValidator(_named)]
McpServers = Annotated[dict[str, McpServer], AfterValidator(_named)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginOptions:
    """Which plugins there are.

    Attributes:
        paths: Folders whose Python files are plugins.
        off: Names of plugins and servers that are left alone.
        servers: Those that run in an environment of their own.
        mcp: MCP servers.
    """

    paths: tuple[Path, ...] = ()
    off: frozenset[str] = frozenset()
    servers: Mapping[str, PluginServer] = field(default_factory=dict[str, PluginServer])
    mcp: Mapping[str, McpServer] = field(default_factory=dict[str, McpServer])
