"""Typed settings: defaults < `hermes.toml` < `.env` < environment < flags (weakest first)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeGuard

from dotenv.parser import parse_stream
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from hermes.core import json
from hermes.core.budget import Limits
from hermes.core.problems import did_you_mean
from hermes.core.tables import read_table
from hermes.errors import CodecError, ConfigError
from hermes.tools import GuardPolicy
from hermes.tools.builtin.options import (
    BuiltinOptions,
    Channel,
    ChannelKind,
    Database,
    PythonSandbox,
    ShellApproval,
)
from hermes.tools.plugins.options import McpServers, PluginOptions, PluginServers

if TYPE_CHECKING:
    from hermes.loop.prompts import PromptBook
    from hermes.models.chain import ChainOptions
    from hermes.models.profile_files import Profiles

TOML_FILE = "hermes.toml"
DOTENV_FILE = ".env"
PREFIX = "HERMES_"

_SECRET = (
    *("api_key", "proxy", "plugins", "mcp_servers"),
    *("notify_channels", "smtp_url", "tool_databases"),
)
_RECORDED = (
    "model_name",
    "api_base",
    "tool_groups",
    "result_limit_chars",
    "context_window",
    "compact_at",
    "shorten_chars",
    "tool_dialect",
    "thinking",
)
_NEAR = 0.9
_NEAR_MIN_CHARS = 9  # `APP_KEY` is a name of its own, not a slip in `API_KEY`


def _secrets_in(value: object) -> Iterator[str]:
    """The texts of a secret setting, at any depth; of an address its password too."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, BaseModel):
        value = dict(value)
    if isinstance(value, str):
        yield value
        password = value.rpartition("@")[0].rpartition(":")[2]
        if "://" in value and password:
            yield password
    elif (table := json.as_object(value)) is not None:
        for item in table.values():
            yield from _secrets_in(item)
    else:
        for item in json.as_list(value):
            yield from _secrets_in(item)


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _paths(value: object) -> object:
    if isinstance(value, str):
        return tuple(part for part in value.split(os.pathsep) if part.strip())
    return value


def _table(value: object) -> object:
    if isinstance(value, str):
        try:
            return json.loads(value)
        except CodecError:
            raise ValueError("this must be a JSON object, {name: …}") from None
    return value


def _thinking(value: object) -> object:
    if value in (None, "adaptive"):
        return value
    tokens = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if not isinstance(tokens, int) or tokens < 1024:
        raise ValueError("must be `adaptive` or a number of tokens, 1024 or more")
    return tokens


def _unnested(paths: Sequence[Path]) -> str:
    """How a file of profiles must look, where one is written like a part of `hermes.toml`."""
    for path in paths:
        try:
            table = read_table(path.read_bytes(), name=str(path))
        except (OSError, ConfigError):
            continue
        inner = json.as_object(table.get("model_profiles"))
        if inner is not None:
            name = next(iter(inner), "my-model")
            return (
                f'in {path} a table is named by its model alone: write ["{name}"], not '
                f'[model_profiles."{name}"], which is how it stands in {TOML_FILE}'
            )
    return ""


def _profiles(value: object) -> object:
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        return _paths(value)
    return _table(value)


class ChannelSettings(BaseModel):
    """One place that messages may go to."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: ChannelKind
    url: SecretStr
    secret: SecretStr = SecretStr("")
    idempotent: bool = False
    per_minute: int | None = Field(None, ge=1)

    def channel(self, name: str) -> Channel:
        """As the tools have it."""
        return Channel(
            name=name,
            kind=self.kind,
            url=self.url.get_secret_value(),
            secret=self.secret.get_secret_value(),
            idempotent=self.idempotent,
            per_minute=self.per_minute,
        )


class Settings(BaseSettings):
    """Every setting; the first alias of each is its environment name."""

    model_config = SettingsConfigDict(
        extra="forbid",
        case_sensitive=True,
        env_ignore_empty=True,
        populate_by_name=True,
        validate_default=False,
        frozen=True,
    )

    model_name: str | None = Field(
        None, validation_alias=AliasChoices("MODEL_NAME", "OPENAI_MODEL")
    )
    api_base: str | None = Field(None, validation_alias=AliasChoices("API_BASE", "OPENAI_BASE_URL"))
    api_key: SecretStr | None = Field(
        None, validation_alias=AliasChoices("API_KEY", "OPENAI_API_KEY")
    )
    model_timeout_s: float = Field(
        120.0, gt=0, validation_alias=AliasChoices("HERMES_MODEL_TIMEOUT_S")
    )
    model_total_s: float = Field(
        1800.0,
        gt=0,
        allow_inf_nan=False,
        validation_alias=AliasChoices("HERMES_MODEL_TOTAL_S"),
    )
    model_profiles: Annotated[
        tuple[Path, ...] | dict[str, dict[str, object]], NoDecode, BeforeValidator(_profiles)
    ] = Field((), validation_alias=AliasChoices("HERMES_MODEL_PROFILES"))
    proxy: SecretStr | None = Field(None, validation_alias=AliasChoices("HERMES_PROXY"))
    ca_file: Path | None = Field(None, validation_alias=AliasChoices("HERMES_CA_FILE"))
    context_window: int | None = Field(
        None, ge=256, validation_alias=AliasChoices("HERMES_CONTEXT_WINDOW")
    )
    compact_at: float = Field(0.6, gt=0, lt=1, validation_alias=AliasChoices("HERMES_COMPACT_AT"))
    shorten_chars: int = Field(500, ge=200, validation_alias=AliasChoices("HERMES_SHORTEN_CHARS"))
    model_rpm: float | None = Field(
        None, ge=0.001, allow_inf_nan=False, validation_alias=AliasChoices("HERMES_MODEL_RPM")
    )
    model_tpm: float | None = Field(
        None, ge=1, allow_inf_nan=False, validation_alias=AliasChoices("HERMES_MODEL_TPM")
    )
    model_concurrency: int = Field(
        32, ge=1, le=10_000, validation_alias=AliasChoices("HERMES_MODEL_CONCURRENCY")
    )
    model_attempts: int = Field(
        5, ge=1, le=100, validation_alias=AliasChoices("HERMES_MODEL_ATTEMPTS")
    )
    model_retry_s: float = Field(120.0, ge=0, validation_alias=AliasChoices("HERMES_MODEL_RETRY_S"))
    model_breaker_failures: int = Field(
        10, ge=1, validation_alias=AliasChoices("HERMES_MODEL_BREAKER_FAILURES")
    )
    model_breaker_cooldown_s: float = Field(
        15.0, gt=0, validation_alias=AliasChoices("HERMES_MODEL_BREAKER_COOLDOWN_S")
    )
    model_fallback: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (), validation_alias=AliasChoices("HERMES_MODEL_FALLBACK")
    )
    tool_dialect: Literal["auto", "native", "react"] = Field(
        "auto", validation_alias=AliasChoices("HERMES_TOOL_DIALECT")
    )
    thinking: Annotated[Literal["adaptive"] | int | None, BeforeValidator(_thinking)] = Field(
        None, validation_alias=AliasChoices("HERMES_THINKING")
    )
    prompts: Path | None = Field(None, validation_alias=AliasChoices("HERMES_PROMPTS"))
    prompt_language: Literal["auto", "en", "zh"] = Field(
        "auto", validation_alias=AliasChoices("HERMES_PROMPT_LANGUAGE")
    )
    model_cache_s: float = Field(0.0, ge=0, validation_alias=AliasChoices("HERMES_MODEL_CACHE_S"))
    model_cache: Path | None = Field(None, validation_alias=AliasChoices("HERMES_MODEL_CACHE"))
    model_cassette: Path | None = Field(
        None, validation_alias=AliasChoices("HERMES_MODEL_CASSETTE")
    )
    model_cassette_mode: Literal["record", "replay"] = Field(
        "replay", validation_alias=AliasChoices("HERMES_MODEL_CASSETTE_MODE")
    )
    max_steps: int = Field(
        10, gt=0, validation_alias=AliasChoices("AGENT_MAX_ITERATIONS", "HERMES_MAX_STEPS")
    )
    max_model_calls: int | None = Field(
        None, gt=0, le=10**15, validation_alias=AliasChoices("HERMES_MAX_MODEL_CALLS")
    )
    max_tool_calls: int | None = Field(
        None, gt=0, le=10**15, validation_alias=AliasChoices("HERMES_MAX_TOOL_CALLS")
    )
    max_tokens: int | None = Field(
        None, gt=0, le=10**15, validation_alias=AliasChoices("HERMES_MAX_TOKENS")
    )
    max_cost: float | None = Field(
        None, ge=1e-9, le=1e9, validation_alias=AliasChoices("HERMES_MAX_COST")
    )
    max_seconds: float | None = Field(
        None, ge=1e-6, le=1e12, validation_alias=AliasChoices("HERMES_MAX_SECONDS")
    )
    max_depth: int = Field(5, gt=0, validation_alias=AliasChoices("HERMES_MAX_DEPTH"))
    max_tool_failures: int = Field(
        3, gt=0, validation_alias=AliasChoices("HERMES_MAX_TOOL_FAILURES")
    )
    breaker_failures: int = Field(5, gt=0, validation_alias=AliasChoices("HERMES_BREAKER_FAILURES"))
    breaker_cooldown_s: float = Field(
        30.0, gt=0, validation_alias=AliasChoices("HERMES_BREAKER_COOLDOWN_S")
    )
    health_every_s: float = Field(
        30.0, ge=0, validation_alias=AliasChoices("HERMES_HEALTH_EVERY_S")
    )
    health_timeout_s: float = Field(
        5.0, gt=0, validation_alias=AliasChoices("HERMES_HEALTH_TIMEOUT_S")
    )
    tool_groups: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        ("core", "http"), validation_alias=AliasChoices("TOOL_ENABLED_GROUPS", "HERMES_TOOL_GROUPS")
    )
    tool_allow: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (), validation_alias=AliasChoices("HERMES_TOOL_ALLOW")
    )
    tool_deny: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (), validation_alias=AliasChoices("HERMES_TOOL_DENY")
    )
    tool_path: Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_paths)] = Field(
        (), validation_alias=AliasChoices("HERMES_TOOL_PATH")
    )
    plugins_off: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (), validation_alias=AliasChoices("HERMES_PLUGINS_OFF")
    )
    plugins: Annotated[PluginServers, NoDecode, BeforeValidator(_table)] = Field(
        {}, validation_alias=AliasChoices("HERMES_PLUGINS")
    )
    mcp_servers: Annotated[McpServers, NoDecode, BeforeValidator(_table)] = Field(
        {}, validation_alias=AliasChoices("HERMES_MCP_SERVERS")
    )
    result_limit_chars: int = Field(
        16_000, ge=200, validation_alias=AliasChoices("HERMES_RESULT_LIMIT_CHARS")
    )
    workspace: Path = Field(Path(), validation_alias=AliasChoices("HERMES_WORKSPACE"))
    files_max_bytes: int = Field(
        10_485_760, ge=1, le=1_073_741_824, validation_alias=AliasChoices("HERMES_FILES_MAX_BYTES")
    )
    files_trusted: bool = Field(True, validation_alias=AliasChoices("HERMES_FILES_TRUSTED"))
    shell_programs: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (), validation_alias=AliasChoices("HERMES_SHELL_PROGRAMS")
    )
    shell_approval: ShellApproval = Field(
        "always", validation_alias=AliasChoices("HERMES_SHELL_APPROVAL")
    )
    shell_env: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (), validation_alias=AliasChoices("HERMES_SHELL_ENV")
    )
    python_sandbox: PythonSandbox = Field(
        "auto", validation_alias=AliasChoices("HERMES_PYTHON_SANDBOX")
    )
    http_allow: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (), validation_alias=AliasChoices("HERMES_HTTP_ALLOW")
    )
    http_deny: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (), validation_alias=AliasChoices("HERMES_HTTP_DENY")
    )
    http_timeout_s: float = Field(
        20.0, gt=0, validation_alias=AliasChoices("HERMES_HTTP_TIMEOUT_S")
    )
    http_max_bytes: int = Field(
        2_000_000, ge=1000, validation_alias=AliasChoices("HERMES_HTTP_MAX_BYTES")
    )
    weather_url: str = Field("", validation_alias=AliasChoices("HERMES_WEATHER_URL"))
    notify_channels: Annotated[dict[str, ChannelSettings], NoDecode, BeforeValidator(_table)] = (
        Field({}, validation_alias=AliasChoices("HERMES_NOTIFY_CHANNELS"))
    )
    smtp_url: SecretStr = Field(SecretStr(""), validation_alias=AliasChoices("HERMES_SMTP_URL"))
    smtp_from: str = Field("", validation_alias=AliasChoices("HERMES_SMTP_FROM"))
    smtp_allowed: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (), validation_alias=AliasChoices("HERMES_SMTP_ALLOWED")
    )
    tool_databases: Annotated[dict[str, SecretStr], NoDecode, BeforeValidator(_table)] = Field(
        {}, validation_alias=AliasChoices("HERMES_TOOL_DATABASES")
    )
    database_url: str = Field(
        "sqlite:///./.hermes/hermes.db", validation_alias=AliasChoices("HERMES_DATABASE_URL")
    )
    sqlite_synchronous: Literal["FULL", "NORMAL"] = Field(
        "FULL", validation_alias=AliasChoices("HERMES_SQLITE_SYNCHRONOUS")
    )
    postgres_pool_size: int = Field(
        8, ge=1, le=1000, validation_alias=AliasChoices("HERMES_POSTGRES_POOL_SIZE")
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "warning", validation_alias=AliasChoices("HERMES_LOG_LEVEL")
    )
    log_format: Literal["json", "text"] = Field(
        "json", validation_alias=AliasChoices("HERMES_LOG_FORMAT")
    )
    env: Literal["development", "production"] = Field(
        "development", validation_alias=AliasChoices("HERMES_ENV")
    )
    lease_s: float = Field(30.0, ge=0.5, validation_alias=AliasChoices("HERMES_LEASE_S"))
    heartbeat_s: float = Field(10.0, gt=0, validation_alias=AliasChoices("HERMES_HEARTBEAT_S"))
    drain_s: float = Field(30.0, ge=0, validation_alias=AliasChoices("HERMES_DRAIN_S"))
    concurrency: int = Field(8, ge=1, le=1000, validation_alias=AliasChoices("HERMES_CONCURRENCY"))

    @model_validator(mode="after")
    def _renews_in_time(self) -> Self:
        if self.heartbeat_s * 2 >= self.lease_s:
            raise ValueError(
                f"HERMES_HEARTBEAT_S ({self.heartbeat_s:g}) must be less than half of "
                f"HERMES_LEASE_S ({self.lease_s:g}): a lease has to outlive a missed heartbeat"
            )
        return self

    @property
    def limits(self) -> Limits:
        """The bounds of a task whose agent has none of its own."""
        return Limits(
            max_steps=self.max_steps,
            max_model_calls=self.max_model_calls,
            max_tool_calls=self.max_tool_calls,
            max_tokens=self.max_tokens,
            max_cost=self.max_cost,
            max_seconds=self.max_seconds,
            max_tool_failures=self.max_tool_failures,
            max_depth=self.max_depth,
        )

    @property
    def profiles(self) -> Profiles:
        """What the user knows of models.

        Raises:
            ConfigError: A file cannot be read, or a profile is wrong.
        """
        from hermes.models.profile_files import load_profiles, read_profiles

        given = self.model_profiles
        if isinstance(given, dict):
            return [read_profiles(given, source="model_profiles")]
        try:
            return load_profiles(given)
        except ConfigError as exc:
            raise ConfigError(exc.message, hint=_unnested(given) or exc.hint) from exc

    @property
    def prompt_book(self) -> PromptBook:
        """What Hermes itself says to models.

        Raises:
            ConfigError: A file cannot be read, or a part of it is wrong.
        """
        from hermes.loop.prompts import PromptBook, read_overrides

        return PromptBook(
            choice=self.prompt_language,
            overrides=read_overrides(self.prompts) if self.prompts else {},
            source=str(self.prompts or ""),
        )

    @property
    def chain_options(self) -> ChainOptions:
        """How models are asked."""
        from hermes.core.quota import Rate
        from hermes.core.retry import RetryPolicy
        from hermes.models.chain import ChainOptions

        return ChainOptions(
            rate=Rate(requests=self.model_rpm, tokens=self.model_tpm),
            concurrency=self.model_concurrency,
            retry=RetryPolicy(attempts=self.model_attempts, cap_s=20.0, total_s=self.model_retry_s),
            breaker_failures=self.model_breaker_failures,
            breaker_cooldown_s=self.model_breaker_cooldown_s,
            fallback=self.model_fallback,
            cache_s=self.model_cache_s,
            cache_dir=self.model_cache.absolute() if self.model_cache else None,
            cassette=self.model_cassette.absolute() if self.model_cassette else None,
            is_replay=self.model_cassette_mode == "replay",
            secrets=tuple(_secrets_in([getattr(self, name) for name in _SECRET])),
        )

    @property
    def guard(self) -> GuardPolicy:
        """When a tool counts as broken."""
        return GuardPolicy(
            failures=self.breaker_failures,
            cooldown_s=self.breaker_cooldown_s,
            health_every_s=self.health_every_s,
            health_timeout_s=self.health_timeout_s,
        )

    @property
    def builtin(self) -> BuiltinOptions:
        """What the built-in tools are set up with."""
        return BuiltinOptions(
            workspace=self.workspace.absolute(),
            http_allow=self.http_allow,
            http_deny=self.http_deny,
            http_timeout_s=self.http_timeout_s,
            http_max_bytes=self.http_max_bytes,
            weather_url=self.weather_url,
            files_max_bytes=self.files_max_bytes,
            files_trusted=self.files_trusted,
            shell_programs=self.shell_programs,
            shell_approval=self.shell_approval,
            shell_env=self.shell_env,
            python_sandbox=self.python_sandbox,
            channels=tuple(each.channel(name) for name, each in self.notify_channels.items()),
            smtp_url=self.smtp_url.get_secret_value(),
            smtp_from=self.smtp_from,
            smtp_allowed=self.smtp_allowed,
            databases=tuple(
                Database(name=name, url=absolute(url.get_secret_value()))
                for name, url in self.tool_databases.items()
            ),
        )

    @property
    def plugin_options(self) -> PluginOptions:
        """Which plugins there are."""
        return PluginOptions(
            paths=tuple(path.absolute() for path in self.tool_path),
            off=frozenset(self.plugins_off),
            servers=self.plugins,
            mcp=self.mcp_servers,
        )

    def recordable(self) -> dict[str, object]:
        """What a resume needs to know; an address that holds a password is left out."""
        known = self.model_dump(mode="json", include=set(_RECORDED), exclude_none=True)
        if any(mark in str(known.get("api_base", "")) for mark in "@?"):
            del known["api_base"]
        return known

    def as_recorded(self, record: object) -> Settings:
        """What is set here, and where nothing is, what `recordable` told of another start."""
        known = {
            name: value
            for name, value in (json.as_object(record) or {}).items()
            if name in _RECORDED and name not in self.model_fields_set
        }
        if "tool_groups" in known:
            known["tool_groups"] = tuple(map(str, json.as_list(known["tool_groups"])))
        return self.model_copy(update=known)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Settings, and where each of them came from.

    Attributes:
        sources: Setting name to `default`, a file name, `environment` or `flag`.
    """

    settings: Settings
    sources: Mapping[str, str]


def load_settings(
    folder: Path | None = None, *, flags: Mapping[str, object] | None = None
) -> Loaded:
    """Read all layers and settle them.

    Args:
        folder: Where `hermes.toml` and `.env` are looked for; the current folder if None.
        flags: The strongest layer, by setting name; None values count as not given.

    Raises:
        ConfigError: A file cannot be read, a key is unknown, or a value is wrong; every fault is
            named with its source and full path.
    """
    folder = folder or Path()
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    layers = [*_file_layers(folder), ("environment", _environment()), ("flag", given)]
    values: dict[str, object] = {}
    sources = dict.fromkeys(Settings.model_fields, "default")
    faults: list[str] = []
    for label, layer in layers:
        for name, value in layer.items():
            field = _FIELD_OF.get(name)
            if field is None:
                faults.append(_unknown(label, name, value))
            elif label == TOML_FILE and (fault := _not_a_number(field, value)):
                faults.append(fault)
            else:
                values[field], sources[field] = value, label
    settings = _validate(values, sources, faults)
    return Loaded(settings=settings, sources=sources)


def _validate(
    values: Mapping[str, object], sources: Mapping[str, str], faults: list[str]
) -> Settings:
    settings = None
    try:
        settings = Settings.model_validate(dict(values))
    except ValidationError as exc:
        for error in exc.errors(include_url=False):
            said = error["msg"].removeprefix("Value error, ")
            if not error["loc"]:  # settings that do not fit each other
                faults.append(said)
                continue
            name = _FIELD_OF[str(error["loc"][0])]
            seen = "" if name in _SECRET else f", got {error['input']!r:.80}"
            shown = ".".join([_shown(name, sources[name]), *map(str, error["loc"][1:])])
            faults.append(f"{sources[name]}: `{shown}`: {said}{seen}")
    if faults or settings is None:
        raise ConfigError("; ".join(faults))
    return settings


def _file_layers(folder: Path) -> list[tuple[str, Mapping[str, object]]]:
    table = _read_toml(folder / TOML_FILE)
    layers: list[tuple[str, Mapping[str, object]]] = [(TOML_FILE, table)]
    base = _dotenv(folder / DOTENV_FILE)
    layers.append((DOTENV_FILE, base))
    env = os.environ.get("HERMES_ENV") or base.get("HERMES_ENV") or table.get("env")
    if env == "production":
        name = f"{DOTENV_FILE}.production"
        layers.append((name, _dotenv(folder / name)))
    return layers


def _read_toml(path: Path) -> dict[str, object]:
    if not path.exists():
        return {}
    try:
        return read_table(path.read_bytes(), name=str(path))
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror}") from exc


def _dotenv(path: Path) -> dict[str, object]:
    if not path.exists():
        return {}
    try:
        _check_dotenv(path)
        source = DotEnvSettingsSource(
            Settings, env_file=path, env_file_encoding="utf-8-sig", env_ignore_empty=False
        )
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path}: cannot be read: {exc}", hint="save it as UTF-8") from exc
    return _ours(source.env_vars)


def absolute(database_url: str) -> str:
    """The URL with its path made absolute, so that it holds in any working directory."""
    scheme, separator, path = database_url.partition(":///")
    if scheme != "sqlite" or not separator:
        return database_url
    return f"sqlite:///{Path(path).absolute()}"


def _check_dotenv(path: Path) -> None:
    """Refuse lines that would be passed over: one of them may be the key."""
    with path.open(encoding="utf-8-sig") as file:
        for binding in parse_stream(file):
            if binding.error:
                line = binding.original.line
                raise ConfigError(f"{path}: line {line} is no NAME=value", hint="quote the value")


def _environment() -> dict[str, object]:
    return _ours(EnvSettingsSource(Settings, env_ignore_empty=False).env_vars)


def _ours(found: Mapping[str, str | None]) -> dict[str, object]:
    """The variables that are ours, or were surely meant to be; empty ones count as not given."""
    ours: dict[str, object] = {
        name: value
        for name, value in found.items()
        if name not in _ENV_NAMES and (name.startswith(PREFIX) or _is_near_miss(name))
    }
    for name in reversed(_ENV_NAMES):  # the first name of a setting comes last, and holds
        if found.get(name):
            ours[name] = found[name]
    return ours


def _is_near_miss(name: str) -> bool:
    import difflib  # loaded for those who were mistaken

    return bool(difflib.get_close_matches(name, _LONG_NAMES, n=1, cutoff=_NEAR))


def _unknown(label: str, name: str, value: object) -> str:
    inner = [key for key in value if key in Settings.model_fields] if _is_table(value) else []
    if inner:
        return f"{label}: unknown key `{name}`; `{inner[0]}` stands at the top level"
    known = list(Settings.model_fields) if label in (TOML_FILE, "flag") else _ENV_NAMES
    hint = did_you_mean(name, known) or f"known keys: {', '.join(known)}"
    return f"{label}: unknown key `{name}`; {hint}"


def _is_table(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)


def _not_a_number(field: str, value: object) -> str:
    wanted = Settings.model_fields[field].annotation
    if (wanted is int or wanted is float) and isinstance(value, str):
        return f"{TOML_FILE}: `{field}` must be a number, got the text {value!r}"
    return ""


def _shown(field: str, source: str) -> str:
    return field if source in (TOML_FILE, "flag") else _aliasAliasChoices(field)[0]


def _aliasAliasChoices(field: str) -> list[str]:
    choices = Settings.model_fields[field].validation_alias
    assert isinstance(choices, AliasChoices)
    return [str(choice) for choice in choices.choices]


_ENV_NAMES = [name for field in Settings.model_fields for name in _aliasAliasChoices(field)]
_LONG_NAMES = [name for name in _ENV_NAMES if len(name) >= _NEAR_MIN_CHARS]
_FIELD_OF = {
    name: field for field in Settings.model_fields for name in (field, *_aliasAliasChoices(field))
}
