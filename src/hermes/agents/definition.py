"""What an agent is: in Python, or in a TOML or YAML file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hermes.core import json
from hermes.core.budget import Limits
from hermes.core.problems import did_you_mean, problems
from hermes.core.request import AgentRequest
from hermes.core.tables import read_table
from hermes.errors import ConfigError, InputError
from hermes.tools import (
    BUILTIN_GROUPS,
    DEFAULT_OPTIONS,
    ArgumentError,
    BuiltinOptions,
    Tool,
    ToolRegistry,
    builtin_tools,
    is_builtin,
    load_tools,
    read_arguments,
)
from hermes.tools.plugins.brought import NOTHING, Brought
from hermes.tools.policy import Policy

from .migrations import Migration, check_migrations
from .permissions import ALLOW_SETTING, DENY_SETTING, offered, policy_of

_PLUGIN = "plugin:"
_NAME = re.compile(r"[\w.-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """An agent, ready to be given work.

    Attributes:
        name: Also the receiver name of its queue.
        role: Who it is, in a few words.
        instructions: What it is to do and how.
        tools: All tools it may have; groups decide which are on.
        plugin_tools: Names of tools that plugins have to bring.
        groups: Tool groups that are on; None for the settings' choice.
        model: Model name or `playbook:FILE`; None for the settings' choice.
        limits: Bounds of a task and of what it hands on; None for the settings' choice.
        input_schema: JSON Schema of structured input.
        output_schema: JSON Schema that the answer has to fit.
        required_tools: Tools that must have succeeded before the end.
        allow: Calls that need no leave once content from outside was read: `NAME`, or
            `NAME:ARGUMENT=PATTERN`.
        deny: Tools that are never offered.
        version: The author's own word for this state of it; "" for none.
        migrations: How tasks of older versions go on with this one.
        source: The file it was read from.
    """

    name: str = "agent"
    role: str = ""
    instructions: str = ""
    tools: tuple[Tool, ...] = ()
    plugin_tools: tuple[str, ...] = ()
    groups: tuple[str, ...] | None = None
    model: str | None = None
    limits: Limits | None = None
    input_schema: Mapping[str, object] | None = None
    output_schema: Mapping[str, object] | None = None
    required_tools: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    version: str = ""
    migrations: tuple[Migration, ...] = ()
    source: Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"agent name {self.name!r:.80} cannot name a queue",
                hint="use 1 to 64 letters, digits, `.`, `_` or `-`",
            )
        for label in ("input_schema", "output_schema"):
            schema = getattr(self, label)
            if schema is not None and (fault := _fault_of(schema)):
                raise ConfigError(f"agent {self.name!r}: {label} is no JSON Schema: {fault}")
        check_migrations(self.name, self.migrations)

    @property
    def digest(self) -> str:
        """Changes with its words, tools and schemas: the journal's `code_version`."""
        return json.digest(
            [
                self.name,
                self.role,
                self.instructions,
                [[tool.fingerprint, tool.description] for tool in self.tools],
                self.groups,
                self.output_schema,
                self.required_tools,
                self.version,
            ]
        )

    def registry(
        self,
        groups: Sequence[str],
        *,
        builtin: BuiltinOptions = DEFAULT_OPTIONS,
        deny: Sequence[str] = (),
        brought: Brought = NOTHING,
    ) -> ToolRegistry:
        """The tools that are on.

        Args:
            groups: Tool groups that are on where the agent does not say so itself.
            builtin: What the built-in tools are set up with.
            deny: Tools that the settings never offer.
            brought: What plugins bring.

        Raises:
            ConfigError: A group or a tool does not exist, or a required tool is missing or off.
            ToolDefinitionError: Two tools share a name.
        """
        wanted = groups if self.groups is None else self.groups
        given = _by_name(builtin_tools(wanted, options=builtin))
        # One that is only named in an agent file stands there with the default options.
        own = [given.pop(item.name, item) if is_builtin(item) else item for item in self.tools]
        named = {item.name for item in own}
        more = [item for item in given.values() if item.name not in named]
        more += _not_among(own, brought.tools)
        # A plugin that is not there could have had the tools of a group that nobody knows.
        known_groups = {*BUILTIN_GROUPS, *brought.groups, *(() if brought.is_whole else wanted)}
        registry = ToolRegistry((*more, *own)).enabled(wanted, known=known_groups)
        self._check_brought(brought)
        denied = ((f"agent {self.name!r}: deny", self.deny), (DENY_SETTING, deny))
        registry = offered(
            registry,
            denied,
            own=(*self.tools, *brought.tools),
            builtin=builtin,
            is_whole=brought.is_whole,
        )
        for name in self.required_tools:
            if name not in registry:
                known = f"tools that are on: {', '.join(registry.names) or 'none'}"
                raise ConfigError(
                    f"agent {self.name!r} requires {name!r}, which is no tool of it or is off",
                    hint=did_you_mean(name, registry.names) or known,
                )
        return registry

    def policy(
        self,
        registry: ToolRegistry,
        *,
        builtin: BuiltinOptions = DEFAULT_OPTIONS,
        allow: Sequence[str] = (),
        brought: Brought = NOTHING,
    ) -> Policy:
        """What its calls may do without a person once content from outside was read.

        Args:
            registry: Its tools that are on.
            builtin: What the built-in tools are set up with.
            allow: What the settings allow besides.
            brought: What plugins bring.

        Raises:
            ConfigError: An entry has another form, or fits no call of any tool here.
        """
        allowed = ((f"agent {self.name!r}: allow", self.allow), (ALLOW_SETTING, allow))
        return policy_of(
            registry,
            allowed,
            own=(*self.tools, *brought.tools),
            builtin=builtin,
            is_whole=brought.is_whole,
        )

    def _check_brought(self, brought: Brought) -> None:
        names = [item.name for item in brought.tools]
        for name in self.plugin_tools:
            if name not in names:
                there = "; ".join(brought.problems) or f"they bring: {', '.join(names) or 'none'}"
                raise ConfigError(
                    f"agent {self.name!r} names the plugin tool {name!r}, which no plugin brings",
                    hint=did_you_mean(name, names) or there,
                )

    def check_input(self, request: AgentRequest) -> None:
        """Refuse input that does not fit the input schema.

        Raises:
            InputError: It does not; the message says where.
        """
        if self.input_schema is None:
            return
        given = request.input
        text = given if isinstance(given, str) else json.dumps(dict(given))
        read = read_arguments(self.input_schema, text)
        if isinstance(read, ArgumentError):
            raise InputError(f"input of agent {self.name!r}: {read.message}")


def _fault_of(schema: Mapping[str, object]) -> str:
    # Loaded on need: it takes longer than the rest of Hermes together.
    from hermes.tools.validation import faults_of_schema

    return faults_of_schema(schema)


class _LimitsSection(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    max_steps: int | None = None
    max_model_calls: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    max_tool_failures: int | None = None
    max_depth: int | None = None


class _MigrationSection(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    from_: str = Field(alias="from")
    to: str
    rename_tools: dict[str, str] = {}
    remove_tools: list[str] = []
    variables: dict[str, object] = {}


class _AgentFile(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    role: str = ""
    instructions: str = ""
    tools: list[str] = []
    groups: list[str] | None = None
    model: str | None = None
    limits: _LimitsSection | None = None
    input_schema: dict[str, object] | None = None
    output_schema: dict[str, object] | None = None
    required_tools: list[str] = []
    allow: list[str] = []
    deny: list[str] = []
    version: str = ""
    migrations: list[_MigrationSection] = []


def load_agent(path: Path, *, more_tools: Sequence[Tool] = ()) -> AgentDefinition:
    """Read an agent file.

    Args:
        path: A `.toml`, `.yaml` or `.yml` file in UTF-8.
        more_tools: Tools that the file may name besides those it loads.

    Raises:
        ConfigError: The file is missing, unreadable, or says something unknown or wrong; every
            fault is named with its full path.
    """
    try:
        body = _AgentFile.model_validate(_read(path))
    except ValidationError as exc:
        lines = "; ".join(problems(exc, _AgentFile, where=str(path)))
        raise ConfigError(lines) from exc
    plugin_tools = [it.removeprefix(_PLUGIN) for it in body.tools if it.startswith(_PLUGIN)]
    entries = [it for it in body.tools if not it.startswith(_PLUGIN)]
    tools = _tools(path, entries, more_tools)
    names = [*(tool.name for tool in tools), *plugin_tools]
    for name in body.required_tools:
        if name not in names:
            hint = did_you_mean(name, names) or f"its tools: {', '.join(sorted(names))}"
            raise ConfigError(f"{path}: required_tools names {name!r}, which it lacks; {hint}")
    return AgentDefinition(
        name=body.name,
        role=body.role,
        instructions=body.instructions,
        tools=tuple(tools),
        plugin_tools=tuple(plugin_tools),
        groups=tuple(body.groups) if body.groups is not None else None,
        model=_model(path, body.model),
        limits=_limits(path, body.limits),
        input_schema=body.input_schema,
        output_schema=body.output_schema,
        required_tools=tuple(body.required_tools),
        allow=tuple(body.allow),
        deny=tuple(body.deny),
        version=body.version,
        migrations=tuple(map(_migration, body.migrations)),
        source=path,
    )


def _migration(section: _MigrationSection) -> Migration:
    return Migration(
        from_version=section.from_,
        to_version=section.to,
        rename_tools=section.rename_tools,
        remove_tools=tuple(section.remove_tools),
        variables=section.variables,
    )


def _read(path: Path) -> dict[str, object]:
    try:
        raw = path.read_bytes()
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror}") from exc
    return read_table(raw, name=str(path))


def _tools(path: Path, entries: Sequence[str], more: Sequence[Tool]) -> list[Tool]:
    known = {tool.name: tool for tool in (*builtin_tools(), *more)}
    tools: list[Tool] = []
    for entry in entries:
        if entry.endswith((".py", "/")) or (path.parent / entry).exists():
            found = _load(path, entry)
        elif entry in known:
            found = [known[entry]]
        else:
            hint = did_you_mean(entry, known) or f"by name there are: {', '.join(sorted(known))}"
            raise ConfigError(
                f"{path}: tools names {entry!r}: no such file and no such tool; {hint}"
            )
        tools.extend(found)
    return tools


def _not_among(own: Sequence[Tool], brought: Iterable[Tool]) -> list[Tool]:
    """Tools of plugins that the agent does not have from the same file already."""
    places = {(item.name, item.origin) for item in own if item.origin}
    return [item for item in brought if (item.name, item.origin) not in places]


def _by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Built-in tools by name; two groups may have the same tool, but only one of them is on."""
    found: dict[str, Tool] = {}
    for item in tools:
        first = found.setdefault(item.name, item)
        if first is not item:
            raise ConfigError(
                f"the tool groups {first.group!r} and {item.group!r} both have a {item.name!r}",
                hint="switch one of the two groups off",
            )
    return found


def _load(path: Path, entry: str) -> list[Tool]:
    try:
        return load_tools((path.parent / entry).resolve())
    except ConfigError as exc:
        raise ConfigError(f"{path}: tools: {exc.message}", hint=exc.hint) from exc


def _model(path: Path, model: str | None) -> str | None:
    kind, colon, rest = (model or "").partition(":")
    if kind == "playbook" and colon:
        return f"playbook:{(path.parent / rest).resolve()}"
    return model


def _limits(path: Path, section: _LimitsSection | None) -> Limits | None:
    if section is None:
        return None
    given = section.model_dump(exclude_unset=True)
    try:
        found = Limits(**given)
    except ValueError as exc:
        raise ConfigError(f"{path}: limits.{exc}") from exc
    if fault := found.too_small():
        raise ConfigError(f"{path}: limits.{fault}")
    return found
