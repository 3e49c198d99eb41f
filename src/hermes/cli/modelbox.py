"""The work of `hermes models list` and `hermes models test`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, fields

import anyio

from hermes.config import Settings, load_settings
from hermes.errors import InputError
from hermes.models.base import Model
from hermes.models.checkup import Checkup, Finding
from hermes.models.clients import ClientPool
from hermes.models.openai import OPENAI_URL, host_of
from hermes.models.profile_files import ProfileTable, known_profiles
from hermes.models.profiles import Prices, Profile, find_profile, profile_in
from hermes.models.spec import open_model
from hermes.models.wrapper import profile_of

from . import exits, output

_LOCAL = "local:"
_URLS = {"anthropic": "https://api.anthropic.com"}
_APART = ("name", "is_known", "sources")
_ASSUMED = "assumed"
_UNCHANGED: Mapping[str, object] = {}


def list_(name: str | None, *, json: bool) -> None:
    """Print what is known of models, and of the one in force where each value comes from.

    Args:
        name: Of a model to show in place of the one that is set.
        json: Print one JSON value.
    """
    settings = load_settings().settings
    tables = [known_profiles(), *settings.profiles]
    shown = _profile_of(name or settings.model_name, settings)
    if json:
        output.print_json(
            {
                "model": None if shown is None else _profile_object(shown),
                "profiles": [_row_object(*row) for row in _rows(tables)],
            }
        )
        return
    lines = _no_model() if shown is None else _about(shown)
    used = () if shown is None else shown.sources.values()
    rows: list[Sequence[str]] = [
        ("", "profile", "window", "output", "tools", "JSON", "images", "price", "from")
    ]
    for table, key, row in _rows(tables):
        mark = "*" if f"{table.source} [{key}]" in used else ""
        rows.append((mark, key, *_cells(row), table.source))
    output.print_text("\n".join([*lines, "", *output.table(rows, numbers=(2, 3))]))


def test(name: str | None, *, json: bool) -> exits.Exit:
    """Ask a model in all the ways a run does; 1 if something that its profile claims fails.

    Args:
        name: Of the model; the one that is set if None.
        json: Print one JSON value.

    Raises:
        InputError: No model is set, or it is a playbook.
    """
    settings = load_settings().settings
    spec = name or settings.model_name or ""
    if spec.startswith("playbook:"):
        raise InputError(
            f"{spec} asks no model", hint="give `hermes models test` the name of a model"
        )
    findings: list[Finding] = []

    async def look() -> Profile:
        pool = pool_of(settings)
        try:
            profile = opened(spec, settings, pool)[1]
            if not json:
                output.print_text("\n".join([*_about(profile), ""]))
            checkup = Checkup(profile, lambda changes: opened(spec, settings, pool, changes)[0])
            async with aclosing(checkup.run()) as found:
                async for finding in found:
                    findings.append(finding)
                    if not json:
                        output.print_text("\n".join(_lines(finding)))
            return profile
        finally:
            await pool.aclose()

    profile = anyio.run(look)
    faults = [finding for finding in findings if finding.is_fault]
    if json:
        output.print_json(
            {
                "ok": not faults,
                "model": _profile_object(profile),
                "checks": [asdict(finding) for finding in findings],
            }
        )
    else:
        names = ", ".join(finding.name for finding in faults)
        verdict = f"does not work: {names}" if faults else "all that the profile claims works"
        output.print_text(f"\n{verdict}")
    return exits.Exit.FAILED if faults else exits.Exit.SUCCEEDED


def pool_of(settings: Settings) -> ClientPool:
    """Connections as the settings want them; the caller closes them."""
    return ClientPool(
        timeout_s=settings.model_timeout_s,
        proxy=settings.proxy.get_secret_value() if settings.proxy else None,
        ca_file=settings.ca_file,
    )


def opened(
    spec: str, settings: Settings, pool: ClientPool, changes: Mapping[str, object] = _UNCHANGED
) -> tuple[Model, Profile]:
    """The model with some fields of its profile changed, and the profile."""
    changed = [ProfileTable(source="hermes models test", rows={"*": changes})] if changes else []
    model = open_model(
        spec,
        base_url=settings.api_base,
        api_key=settings.api_key.get_secret_value() if settings.api_key else None,
        client=pool,
        timeout_s=settings.model_timeout_s,
        total_s=settings.model_total_s,
        profiles=[*settings.profiles, *changed],
        window=settings.context_window,
        thinking=settings.thinking,
    )
    return model, profile_of(model)


def _profile_of(spec: str | None, settings: Settings) -> Profile | None:
    """What is known of a model, without a server being needed."""
    if not spec or spec.startswith("playbook:"):
        return None
    if spec.startswith(_LOCAL):
        model = open_model(spec, profiles=settings.profiles, window=settings.context_window)
        return profile_in(model)
    scheme, _, rest = spec.partition(":")
    name, default = (rest, _URLS[scheme]) if scheme in _URLS else (spec, OPENAI_URL)
    url = settings.api_base or (default if settings.api_key else "")
    return find_profile(
        name.strip(),
        host=host_of(url) if url else "",
        more=settings.profiles,
        window=settings.context_window,
    )


def _profile_object(profile: Profile) -> dict[str, object]:
    values: dict[str, object] = {"name": profile.name, "is_known": profile.is_known}
    for name, value in _values(profile):
        values[name] = asdict(value) if isinstance(value, Prices) else value
    sources = {name: _source(profile, name) for name, _ in _values(profile)}
    return {**values, "dialect": profile.dialect, "sources": sources}


def _values(profile: Profile) -> list[tuple[str, object]]:
    names = [item.name for item in fields(Profile) if item.name not in _APART]
    return [(name, getattr(profile, name)) for name in names]


def _about(profile: Profile) -> list[str]:
    known = "" if profile.is_known else ": not known, so most of this is assumed"
    rows = [
        (f"  {name}", _shown(value), _source(profile, name)) for name, value in _values(profile)
    ]
    return [f"model {profile.name}{known}", *output.table(rows)]


def _source(profile: Profile, name: str) -> str:
    # A model that brings its own profile, such as a file that runs here, knows what it says.
    is_own = profile.is_known and not profile.sources
    return profile.sources.get(name, "the model itself" if is_own else _ASSUMED)


def _shown(value: object) -> str:
    match value:
        case None | "":
            return "not known"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case Prices():
            return _price(value)
        case _:
            return str(value)


def _price(prices: Prices) -> str:
    return f"{prices.prompt:g} in, {prices.completion:g} out a million"


def _no_model() -> list[str]:
    return ["no model is set (MODEL_NAME)"]


def _rows(
    tables: Sequence[ProfileTable],
) -> list[tuple[ProfileTable, str, Mapping[str, object]]]:
    return [(table, key, row) for table in tables for key, row in table.rows.items()]


def _row_object(table: ProfileTable, key: str, row: Mapping[str, object]) -> dict[str, object]:
    plain = {
        name: asdict(value) if isinstance(value, Prices) else value for name, value in row.items()
    }
    return {"match": key, "source": table.source, **plain}


def _cells(row: Mapping[str, object]) -> tuple[str, ...]:
    def cell(name: str) -> str:
        value = row.get(name)
        return "" if value is None else _shown(value)

    prices = row.get("prices")
    price = f"{prices.prompt:g} / {prices.completion:g}" if isinstance(prices, Prices) else ""
    dialect = {True: "native", False: "react"}.get(bool(row.get("native_tools")), "")
    tools = dialect if "native_tools" in row else ""
    texts = [cell(name) for name in ("window", "max_output")]
    return (*texts, tools, str(row.get("json_mode", "")), cell("images"), price)


def _lines(finding: Finding) -> list[str]:
    status = "FAILS" if finding.is_fault else finding.status
    aside = "" if finding.claimed else "  (the profile does not claim it)"
    lines = [f"{finding.name:<19} {status:<8} {finding.text}{aside}"]
    return [*lines, f"{'':<28} {finding.hint}"] if finding.hint else lines
