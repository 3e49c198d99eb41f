"""`hermes tools` and `hermes doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from hermes.app import Hermes
from hermes.config import Loaded, Settings, load_settings
from hermes.core.chat import UserMessage
from hermes.errors import HermesError
from hermes.models import ModelRequest, open_model
from hermes.store import TaskQuery
from hermes.tools import Tool, builtin_tools

from . import exits, output
from .launch import Launch

_PROBE_S = 30.0


def tools(agent: Path | None, files: Sequence[Path], *, json: bool) -> None:
    """Print the built-in tools and those of an agent file or of tool files."""
    settings = load_settings().settings
    definition = _launch(agent, files).open(default_steps=settings.max_steps).definition
    groups = settings.tool_groups if definition.groups is None else definition.groups
    found = [*builtin_tools(), *definition.tools]
    if json:
        output.print_json({"tools": [_tool_object(tool, groups) for tool in found]})
        return
    rows = [("tool", "group", "effect", "on", "description")]
    rows.extend(
        (
            tool.name,
            tool.group or "-",
            tool.effect,
            "yes" if _is_on(tool, groups) else "no",
            output.short(tool.description, 80),
        )
        for tool in found
    )
    output.print_text("\n".join(output.table(rows)))


def _tool_object(tool: Tool, groups: Sequence[str]) -> dict[str, object]:
    return {
        "name": tool.name,
        "group": tool.group,
        "effect": tool.effect,
        "enabled": _is_on(tool, groups),
        "timeout_s": tool.timeout_s,
        "description": tool.description,
        "parameters": tool.parameters,
    }


def _is_on(tool: Tool, groups: Sequence[str]) -> bool:
    return not tool.group or tool.group in groups


def _launch(agent: Path | None, files: Sequence[Path]) -> Launch:
    return Launch.of(agent=agent, tools=files, playbook=None, model=None, max_steps=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    text: str


def doctor(agent: Path | None, files: Sequence[Path], *, json: bool) -> exits.Exit:
    """Look at everything a run needs; 1 when something is at fault."""
    loaded = load_settings()
    checks = [
        anyio.run(_database, loaded.settings),
        anyio.run(_model, loaded.settings),
        _tools(agent, files, loaded.settings),
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
    return {
        name: {"value": values[name], "source": source} for name, source in loaded.sources.items()
    }


async def _database(settings: Settings) -> Check:
    try:
        async with Hermes(settings=settings) as app:
            found = await app.store.tasks(TaskQuery(limit=1))
    except HermesError as exc:
        return Check(name="database", ok=False, text=str(exc))
    text = f"{settings.database_url} opens; " + (
        f"newest task {found[0].task_id}" if found else "no tasks yet"
    )
    if settings.sqlite_synchronous == "NORMAL":
        text += "; NORMAL: the last commits may be lost when the power fails"
    return Check(name="database", ok=True, text=text)


async def _model(settings: Settings) -> Check:
    if settings.model_name is None:
        return Check(name="model", ok=True, text="none set (MODEL_NAME): playbooks only")
    key = settings.api_key.get_secret_value() if settings.api_key else None
    question = ModelRequest(messages=[UserMessage(text="Say OK.")], max_output_tokens=16)
    try:
        model = open_model(settings.model_name, base_url=settings.api_base, api_key=key)
        try:
            with anyio.fail_after(_PROBE_S):
                await model.reply(question)
        finally:
            await model.aclose()
    except HermesError as exc:
        return Check(name="model", ok=False, text=str(exc))
    except TimeoutError:
        text = f"{settings.model_name} did not answer within {_PROBE_S:.0f} s"
        return Check(name="model", ok=False, text=text)
    return Check(name="model", ok=True, text=f"{settings.model_name} answers")


def _tools(agent: Path | None, files: Sequence[Path], settings: Settings) -> Check:
    try:
        definition = _launch(agent, files).open(default_steps=settings.max_steps).definition
    except HermesError as exc:
        return Check(name="tools", ok=False, text=str(exc))
    names = [tool.name for tool in (*builtin_tools(), *definition.tools)]
    return Check(name="tools", ok=True, text=", ".join(names))
