"""`hermes run` and `hermes resume`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import anyio

from hermes.agents import response_of
from hermes.app import Hermes, RunOptions
from hermes.config import Settings, load_settings
from hermes.core import json
from hermes.core.request import AgentResponse
from hermes.errors import ConfigError, InputError
from hermes.telemetry import logs

from . import exits, output
from .find import find_task
from .launch import Launch
from .live import PlainScreen, Progress, Screen, Silent, TerminalScreen

__all__ = ["Launch", "View", "resume", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the command shows."""

    stream: bool
    json: bool
    quiet: bool


def run(
    goal: str, launch: Launch, *, session: str | None, pairs: Sequence[str], view: View
) -> exits.Exit:
    """Submit a task and carry it; returns the exit code."""
    variables = _variables(pairs)
    text = sys.stdin.read() if goal == "-" else goal
    settings = _settings()
    agent = launch.open(default_steps=settings.max_steps)
    progress = Progress(_screen(view))

    async def work() -> AgentResponse:
        async with Hermes(settings=settings) as app:
            return await app.run(
                agent,
                text,
                session_id=session,
                variables=variables,
                options=RunOptions(
                    stream=view.stream, observers=(progress,), launch=launch.as_record()
                ),
            )

    return _carry(work, progress, settings, view)


def resume(task: str, flags: Launch, *, in_doubt: str | None, view: View) -> exits.Exit:
    """Go on with a task; returns the exit code."""
    if in_doubt not in (None, "done", "again"):
        raise InputError(f"--in-doubt must be `done` or `again`, got {in_doubt!r}")
    settings = _settings()
    progress = Progress(_screen(view))

    async def work() -> AgentResponse:
        async with Hermes(settings=settings) as app:
            found = await find_task(app.store, task)
            progress.task_id = found.task_id
            if found.state.is_terminal:
                return response_of(await app.store.events(found.task_id))
            launch = Launch.recorded(found.spec.launch).overridden_by(flags)
            return await app.resume(
                found.task_id,
                launch.open(default_steps=settings.max_steps),
                decision=in_doubt,
                options=RunOptions(stream=view.stream, observers=(progress,)),
            )

    return _carry(work, progress, settings, view)


def _carry(
    work: Callable[[], Awaitable[AgentResponse]],
    progress: Progress,
    settings: Settings,
    view: View,
) -> exits.Exit:
    try:
        response = anyio.run(work)
    except KeyboardInterrupt:
        progress.close()
        if progress.task_id is None:
            raise
        response = anyio.run(_recorded, progress.task_id, settings)
    finally:
        progress.close()
    _print(response, progress.seconds, view)
    return exits.of_status(response.status)


async def _recorded(task_id: str, settings: Settings) -> AgentResponse:
    async with Hermes(settings=settings) as app:
        return response_of(await app.store.events(task_id))


def _print(response: AgentResponse, seconds: float, view: View) -> None:
    if view.json:
        output.print_json(output.response_object(response))
    elif response.output is not None:
        output.print_text(output.output_text(response.output))
    if view.quiet and response.status == "succeeded":
        return
    if not view.quiet:
        exits.tell(output.summary(response, seconds))
    for line in output.explanation(response):
        exits.tell(line)
    if not view.quiet:
        exits.tell(f"hermes show {response.task_id}")


def _screen(view: View) -> Screen:
    if view.quiet:
        return Silent()
    if sys.stderr.isatty():
        return TerminalScreen(sys.stderr)
    return PlainScreen(sys.stderr)


def _settings() -> Settings:
    settings = load_settings().settings
    logs.configure(level=settings.log_level, style=settings.log_format)
    return settings


def _variables(pairs: Sequence[str]) -> Mapping[str, object]:
    variables: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--var takes K=V, got {pair!r}")
        variables[name.strip()] = _value(value)
    return variables


def _value(text: str) -> object:
    """A JSON object, array, number, true, false or null as such; everything else is text."""
    try:
        return json.loads(text)
    except json.CodecError:
        return text
