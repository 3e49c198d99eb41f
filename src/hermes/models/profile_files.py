"""Profiles as people write them: TOML tables by the names of models."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hermes.core.problems import problems
from hermes.core.tables import read_table
from hermes.errors import ConfigError
from hermes.models.profiles import CapField, JsonMode, Prices, Profile, ReasoningBack

KNOWN = "hermes"
"""The source of what comes along with Hermes."""

WINDOW = "HERMES_CONTEXT_WINDOW"

_log = logging.getLogger("hermes.models")
_told: set[str] = set()
_MAX_TOLD = 1000


class _PriceRow(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    prompt: float = Field(ge=0, allow_inf_nan=False)
    completion: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(None, ge=0, allow_inf_nan=False)
    cache_write: float | None = Field(None, ge=0, allow_inf_nan=False)


class _Row(BaseModel):
    """One table: only what it says is taken."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    window: int = Field(0, ge=256)
    max_output: int | None = Field(None, ge=1)
    cap_field: CapField = "max_tokens"
    native_tools: bool = True
    dialect: Literal["native", "react"] = "native"
    parallel_calls: bool = True
    parallel_field: bool = False
    tool_choice: bool = False
    json_mode: JsonMode = "none"
    json_with_tools: bool = False
    strict_schema: bool = False
    images: bool = False
    alternates: bool = False
    reasoning_back: ReasoningBack = "never"
    prices: _PriceRow | None = None
    priced_at: str = Field("", pattern=r"^(\d{4}-(0[1-9]|1[0-2]))?$")

    def said(self) -> dict[str, object]:
        """The fields of a profile that it names."""
        found: dict[str, object] = {name: getattr(self, name) for name in self.model_fields_set}
        if found.pop("dialect", None) is not None:
            found["native_tools"] = self.dialect == "native"
        if isinstance(self.prices, _PriceRow):
            found["prices"] = Prices(**self.prices.model_dump())
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileTable:
    """Profiles from one place.

    Attributes:
        source: The file, as messages and lists call it.
        rows: What is said of each name: a glob, perhaps with `@` and a glob of servers.
    """

    source: str
    rows: Mapping[str, Mapping[str, object]]

    def fitting(self, name: str, host: str) -> Iterator[tuple[str, Mapping[str, object]]]:
        """What holds for a model, the more general first."""
        best: dict[bool, tuple[int, bool, str]] = {}
        for key in self.rows:
            pattern, _, server = key.partition("@")
            is_for = any(fnmatchcase(each, pattern) for each in _names(name))
            if not is_for or (server and not _is_host(host, server)):
                continue
            hosted = bool(server)
            best[hosted] = max(best.get(hosted, (-1, False, "")), (len(pattern), hosted, key))
        for _, _, key in sorted(best.values()):
            yield key, self.rows[key]


Profiles = Sequence[ProfileTable]


def read_profiles(table: Mapping[str, object], *, source: str) -> ProfileTable:
    """Profiles out of a table of tables.

    Raises:
        ConfigError: A key is unknown or a value is wrong; every fault is named with its path.
    """
    rows: dict[str, Mapping[str, object]] = {}
    faults: list[str] = []
    for name, value in table.items():
        where = f'{source}: ["{name}"]'
        if not isinstance(value, Mapping):
            faults.append(f'{where}: must be a table, such as ["{name}"] with `window = 32768`')
            continue
        try:
            row = _Row.model_validate(dict(cast("Mapping[str, object]", value)))
        except ValidationError as exc:
            faults += problems(exc, _Row, where=where)
        else:
            rows[name.casefold().strip()] = row.said()
    if faults:
        raise ConfigError("; ".join(faults))
    return ProfileTable(source=source, rows=rows)


def load_profiles(paths: Sequence[Path]) -> list[ProfileTable]:
    """Profiles out of TOML files.

    Raises:
        ConfigError: A file cannot be read, or as `read_profiles`.
    """
    tables: list[ProfileTable] = []
    for path in paths:
        try:
            raw = path.read_bytes()
        except OSError as exc:
            raise ConfigError(
                f"{path}: cannot be read: {exc.strerror}", hint="see HERMES_MODEL_PROFILES"
            ) from exc
        tables.append(read_profiles(read_table(raw, name=str(path)), source=str(path)))
    return tables


@cache
def known_profiles() -> ProfileTable:
    """What comes along with Hermes."""
    raw = files("hermes.models").joinpath("profiles.toml").read_bytes()
    return read_profiles(read_table(raw, name="profiles.toml"), source=KNOWN)


def find(name: str, *, host: str, more: Profiles, window: int | None) -> Profile:
    """As `hermes.models.profiles.find_profile`."""
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    is_known = False
    for table in (known_profiles(), *more):
        for key, row in table.fitting(name.casefold(), host.casefold()):
            is_known = is_known or key.partition("@")[0].strip("*") != ""
            values |= row
            if "prices" in row and "priced_at" not in row:
                values.pop("priced_at", None)
            sources |= dict.fromkeys(row, f"{table.source} [{key}]")
    if window is not None:
        values["window"], sources["window"] = window, WINDOW
    known = Profile(name=name, is_known=is_known, sources=sources)
    profile = replace(known, **values)
    if not is_known:
        _tell(profile)
    return profile


def _tell(profile: Profile) -> None:
    if profile.name in _told or len(_told) >= _MAX_TOLD:
        return
    _told.add(profile.name)
    _log.info(
        "model %r is not known: taken to have a window of %d tokens; HERMES_CONTEXT_WINDOW or a "
        "profile says otherwise, `hermes models list` shows what is assumed",
        profile.name,
        profile.window,
    )


def _names(name: str) -> list[str]:
    """The name whole, and without what stands before its last `/`."""
    return [name, name.rpartition("/")[2]] if "/" in name else [name]


def _is_host(host: str, pattern: str) -> bool:
    return fnmatchcase(host, pattern) or fnmatchcase(host.rpartition(":")[0] or host, pattern)
