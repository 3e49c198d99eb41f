"""`hermes doctor`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from hermes.agents import AgentDefinition, Launch
from hermes.app import Agent, Hermes
from hermes.config import Loaded, Settings, load_settings
from hermes.core.chat import UserMessage
from hermes.errors import HermesError
from hermes.models import ModelRequest
from hermes.store import TaskQuery
from hermes.tools.plugins.brought import Brought

from . import exits, output
from .find import missing_journal
from .modelbox import opened, pool_of
from .streams import stdout_kept_clean

_PROBE_S = 30.0
_PLAYBOOK = "playbook:"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"]+")


def _definition(agent: Path | None, files: Sequence[Path]) -> AgentDefinition:
    launch = Launch.of(agent=agent, tools=files, playbook=None, model=None, max_steps=None)
    return launch.definition()


_QUESTION = ModelRequest(messages=[UserMessage(text="Say OK.")], max_output_tokens=16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    text: str


def doctor(agent: Path | None, files: Sequence[Path], *, json: bool) -> exits.Exit:
    """Look at everything a run needs; 1 when something is at fault."""
    loaded = load_settings()
    settings = loaded.settings
    definition, tools_checks = _tools(agent, files, settings)
    model = definition.model or settings.model_name
    checks = [
        replace(check, text=_concealed(check.text, settings))
        for check in (
            anyio.run(_database, settings),
            anyio.run(_model, model, settings),
            *tools_checks,
        )
    ]
    healthy = all(check.ok for check in checks)
    if json:
        output.print_json(
            {
                "ok": healthy,
                "settings": _settings_object(loaded),
                "checks": [
                    {"name": check.name, "ok": check.ok, "text": check.text} for check in checks
                ],
            }
        )
    else:
        output.print_text("\n".join(_report(loaded, checks)))
    for check in checks:
        if not check.ok:
            exits.tell(f"error: {check.name}: {check.text}")
    return exits.Exit.SUCCEEDED if healthy else exits.Exit.FAILED


def _report(loaded: Loaded, checks: Sequence[Check]) -> list[str]:
    rows = [("setting", "value", "from")]
    rows.extend(
        (name, str(entry["value"]), str(entry["source"]))
        for name, entry in _settings_object(loaded).items()
    )
    lines = output.table(rows)
    lines.append("")
    lines.extend(output.table([("ok" if c.ok else "FAULT", c.name, c.text) for c in checks]))
    return lines


def _settings_object(loaded: Loaded) -> dict[str, dict[str, object]]:
    values = loaded.settings.model_dump(mode="json")
    for name in ("api_base", "database_url"):
        values[name] = values[name] and _masked(values[name])
    return {
        name: {"value": values[name], "source": source} for name, source in loaded.sources.items()
    }


def _masked(url: str) -> str:
    """A URL without what may be secret: who asks, and the query."""
    scheme, mark, rest = url.partition("://") if "://" in url else ("", "", url)
    if "@" in rest and not rest.startswith("/"):
        rest = f"***@{rest.rpartition('@')[2]}"
    place, question, _ = rest.partition("?")
    return f"{scheme}{mark}{place}{question}{'***' if question else ''}"


def _concealed(text: str, settings: Settings) -> str:
    """A text with every URL in it masked, above all those of the settings."""
    for url in filter(None, (settings.api_base, settings.database_url)):
        text = text.replace(url, _masked(url))
    return _URL.sub(lambda found: _masked(found[0]), text)


async def _database(settings: Settings) -> Check:
    warning = ""
    if settings.sqlite_synchronous == "NORMAL":
        warning = "; NORMAL: the last commits may be lost when the power fails"
    if path := missing_journal(settings):
        fault = _why_not_made(path)
        text = fault or f"none yet: the first run creates {path}{warning}"
        return Check(name="database", ok=not fault, text=text)
    try:
        async with Hermes(settings=settings) as app:
            found = await app.store.tasks(TaskQuery(limit=1))
    except HermesError as exc:
        return Check(name="database", ok=False, text=str(exc))
    newest = f"newest task {found[0].task_id}" if found else "no tasks yet"
    text = f"{settings.database_url} opens; {newest}{warning}"
    return Check(name="database", ok=True, text=text)


def _why_not_made(path: Path) -> str:
    """What keeps the first run from making the journal, or ""; nothing is made here."""
    folder = next(parent for parent in path.parents if os.path.lexists(parent))
    if not folder.is_dir():
        return f"{path} cannot be made: {folder} is not a folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"{path} cannot be made: the folder {folder} cannot be written"
    return ""


async def _model(spec: str | None, settings: Settings) -> Check:
    if spec is None:
        return Check(name="model", ok=True, text="none set (MODEL_NAME): playbooks only")
    pool = pool_of(settings)
    try:
        model, _ = opened(spec, settings, pool)
        if spec.startswith(_PLAYBOOK):
            return Check(name="model", ok=True, text=f"{spec} loads")
        try:
            with anyio.fail_after(_PROBE_S):
                await model.reply(_QUESTION)
        finally:
            await model.aclose()
    except HermesError as exc:
        return Check(name="model", ok=False, text=str(exc))
    except TimeoutError:
        return Check(name="model", ok=False, text=f"{spec} did not answer within {_PROBE_S:.0f} s")
    finally:
        await pool.aclose()
    return Check(name="model", ok=True, text=f"{spec} answers")


def _tools(
    agent: Path | None, files: Sequence[Path], settings: Settings
) -> tuple[AgentDefinition, list[Check]]:
    """The agent as far as it can be read, and how its tools and the plugins stand."""
    try:
        definition = _definition(agent, files)
    except HermesError as exc:
        return AgentDefinition(), [Check(name="tools", ok=False, text=str(exc))]
    with stdout_kept_clean():
        return definition, anyio.run(_tools_there, Agent.of(definition), settings)


async def _tools_there(agent: Agent, settings: Settings) -> list[Check]:
    async with Hermes("memory://", settings=settings) as app:
        brought = await app.plugins(agent)
        try:
            registry = app.tools(agent)
            agent.definition.policy(
                registry, builtin=settings.builtin, allow=settings.tool_allow, brought=brought
            )
            checks = [Check(name="tools", ok=True, text=", ".join(registry.names) or "none")]
        except HermesError as exc:
            checks = [Check(name="tools", ok=False, text=str(exc))]
    if brought.plugins:
        checks.append(_plugins(brought))
    return checks


def _plugins(brought: Brought) -> Check:
    """What each plugin brings, those with a problem first."""
    told = [
        f"{' '.join(filter(None, (plugin.name, plugin.version)))} "
        f"({output.count(len(plugin.tools), 'tool')})"
        for plugin in brought.plugins
        if not plugin.problem
    ]
    text = "; ".join((*brought.problems, ", ".join(told)) if told else brought.problems)
    return Check(name="plugins", ok=not brought.problems, text=text)
