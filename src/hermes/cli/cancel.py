"""`hermes cancel` and `hermes signal`: words from outside to tasks."""

from __future__ import annotations

import anyio

from hermes.app import Hermes
from hermes.config import Settings, absolute, load_settings
from hermes.core import json
from hermes.core.task import Task
from hermes.errors import CodecError, InputError
from hermes.telemetry import logs

from . import exits, output
from .find import find_task, require_journal


def cancel(task: str, *, json: bool) -> exits.Exit:
    """End a task and all below it; returns the exit code: 3 if somebody still works on it."""
    settings = _settings()
    found, left = anyio.run(_cancel, task, settings)
    if json:
        output.print_json(
            {
                "task_id": found.task_id,
                "status": found.state.value,
                "unsettled": [item.task_id for item in left],
            }
        )
    else:
        output.print_text(f"{found.task_id} {found.state.value}")
        for item in left:
            exits.tell(f"{item.task_id} is {item.state.value}; it ends when its worker sees it")
    return exits.Exit.UNFINISHED if left else exits.Exit.SUCCEEDED


def signal(name: str, payload: str | None, *, json: bool) -> exits.Exit:
    """Let an event happen; returns the exit code."""
    value = _payload(payload)
    is_new = anyio.run(_signal, name, value, _settings())
    if json:
        output.print_json({"name": name, "new": is_new})
    elif is_new:
        output.print_text(f"{name} has happened")
    else:
        output.print_text(f"{name} had happened before; nothing is changed")
    return exits.Exit.SUCCEEDED


async def _cancel(task: str, settings: Settings) -> tuple[Task, list[Task]]:
    async with Hermes(settings=settings) as app:
        found = await find_task(app.store, task)
        left = await app.cancel(found.task_id)
        return await app.store.task(found.task_id), left


async def _signal(name: str, payload: object, settings: Settings) -> bool:
    async with Hermes(settings=settings) as app:
        return await app.signal(name, payload)


def _payload(text: str | None) -> object:
    if text is None:
        return None
    try:
        return json.loads(text)
    except CodecError as exc:
        hint = "text needs quotes of its own: --payload '\"yes\"'"
        raise InputError(f"--payload is no JSON: {exc}", hint=hint) from exc


def _settings() -> Settings:
    settings = load_settings().settings
    logs.configure(level=settings.log_level, style=settings.log_format)
    require_journal(settings)
    return settings.model_copy(update={"database_url": absolute(settings.database_url)})
