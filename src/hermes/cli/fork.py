"""`hermes fork` and `hermes retry`: a new task out of an old one's record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from hermes.agents import Launch, response_of
from hermes.app import Agent, Hermes, RunOptions
from hermes.core.request import AgentResponse
from hermes.core.task import Task
from hermes.errors import ConfigError, InputError
from hermes.runtime.fork import Changes, Forked

from . import exits, output
from .find import find_task, require_journal
from .run import (
    View,
    carry,
    print_submitted,
    progress_of,
    settings_in_force,
    value_of,
    variables_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the command line asks for.

    Attributes:
        at: The first step that is made anew; None for the beginning.
        variables: Each `K=V`.
        results: Each `PATH=JSON` or `PATH=@FILE`.
        detach: Leave it to a worker.
        is_retry: The task has to be settled, and is tried again.
    """

    at: str | None
    variables: Sequence[str] = ()
    results: Sequence[str] = ()
    detach: bool = False
    is_retry: bool = False


def fork(wanted: str, flags: Launch, wish: Wish, view: View) -> exits.Exit:
    """Submit the new task and, unless it is for a worker, carry it; returns the exit code."""
    variables = variables_of(wish.variables, option="--set")
    results = _results(wish.results)
    settings = settings_in_force()
    require_journal(settings)
    progress = progress_of(view)
    begun: list[Agent] = []

    async def make(app: Hermes) -> tuple[Forked, Agent]:
        found = await find_task(app.store, wanted)
        launch = Launch.recorded(found.spec.launch).overridden_by(flags)
        agent = Agent.of(launch.definition())
        if not wish.detach:
            await app.check_ready(found, agent)
        changes = Changes(
            variables=variables,
            results=results,
            limits=flags.limits(found.spec.limits),
            launch=_record(found, launch, flags),
        )
        if wish.is_retry:
            made = await app.retry(found.task_id, agent, at=wish.at, changes=changes)
        else:
            made = await app.fork(found.task_id, agent, at=wish.at or "", changes=changes)
        progress.task_id = made.task_id
        if not view.quiet:
            _tell(found, made, wish)
        return made, agent

    async def hand_over() -> AgentResponse:
        async with Hermes(settings=settings) as app:
            made, _ = await make(app)
            return response_of(await app.store.events(made.task_id))

    async def work() -> AgentResponse:
        async with Hermes(settings=settings) as app:
            made, agent = await make(app)
            begun.append(agent)
            options = RunOptions(stream=view.stream, observers=(progress,))
            return await app.resume(made.task_id, agent, options=options)

    async def go_on(task_id: str) -> AgentResponse:
        async with Hermes(settings=settings) as app:
            options = RunOptions(stream=view.stream, observers=(progress,))
            return await app.resume(task_id, begun[0], options=options)

    if wish.detach:
        print_submitted(anyio.run(hand_over), view)
        return exits.Exit.SUCCEEDED
    return carry(work, progress, settings, view, go_on=go_on)


def _record(found: Task, launch: Launch, flags: Launch) -> Mapping[str, object]:
    """How the new task's agent is found."""
    if flags.agent or flags.tools:
        launch = replace(launch, by="command")
    settings = found.spec.launch.get("settings")
    return launch.as_record() | ({} if settings is None else {"settings": settings})


def _tell(found: Task, made: Forked, wish: Wish) -> None:
    if wish.at is None:
        exits.tell(f"task {made.task_id} tries {found.task_id} again")
        return
    calls = output.count(made.copied, "recorded call")
    exits.tell(f"task {made.task_id} goes on from {found.task_id} at {wish.at} with {calls}")
    for line in made.accepted:
        exits.tell(f"changed: {line}")
    for line in made.again:
        exits.tell(f"careful: the first task has made this call: {line}")


def _results(pairs: Sequence[str]) -> dict[str, object]:
    results: dict[str, object] = {}
    for pair in pairs:
        path, equals, text = pair.partition("=")
        if not equals:
            raise ConfigError(f"--edit-result takes PATH=JSON or PATH=@FILE, got {pair!r:.80}")
        results[path] = value_of(_read(text[1:]) if text.startswith("@") else text)
    return results


def _read(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as exc:
        raise InputError(f"--edit-result: {name} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise InputError(f"--edit-result: {name} is not UTF-8 (byte {exc.start})") from exc
