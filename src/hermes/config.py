"""Typed settings: defaults < `hermes.toml` < `.env` < environment < flags (weakest first)."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self, TypeGuard

from dotenv.parser import parse_stream
from pydantic import (
    AliasChoices,
    BeforeValidator,
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
from hermes.core.problems import did_you_mean
from hermes.core.tables import read_table
from hermes.errors import ConfigError
from hermes.tools.builtin.options import BuiltinOptions

TOML_FILE = "hermes.toml"
DOTENV_FILE = ".env"
PREFIX = "HERMES_"

_RECORDED = ("model_name", "api_base", "tool_groups", "result_limit_chars")
_NEAR = 0.9
_NEAR_MIN_CHARS = 9  # `APP_KEY` is a name of its own, not a slip in `API_KEY`


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


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
    max_steps: int = Field(
        10, gt=0, validation_alias=AliasChoices("AGENT_MAX_ITERATIONS", "HERMES_MAX_STEPS")
    )
    tool_groups: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        ("core", "http"), validation_alias=AliasChoices("TOOL_ENABLED_GROUPS", "HERMES_TOOL_GROUPS")
    )
    result_limit_chars: int = Field(
        16_000, ge=200, validation_alias=AliasChoices("HERMES_RESULT_LIMIT_CHARS")
    )
    workspace: Path = Field(Path(), validation_alias=AliasChoices("HERMES_WORKSPACE"))
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
    def builtin(self) -> BuiltinOptions:
        """What the built-in tools are set up with."""
        return BuiltinOptions(workspace=self.workspace.absolute())

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
            if not error["loc"]:  # settings that do not fit each other
                faults.append(error["msg"].removeprefix("Value error, "))
                continue
            name = _FIELD_OF[str(error["loc"][0])]
            seen = "" if name == "api_key" else f", got {error['input']!r:.80}"
            faults.append(f"{sources[name]}: `{_shown(name, sources[name])}`: {error['msg']}{seen}")
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
