"""Commands that look at tasks and tools, and change nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import (
    AgentFile,
    AsJson,
    ModelName,
    PlaybookFile,
    Session,
    TaskId,
    ToolFiles,
    leave,
)


def tasks(
    status: Annotated[
        list[str] | None,
        typer.Option("--status", metavar="STATUS", help="Only tasks in this state; repeatable."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="Only tasks of this agent.")
    ] = None,
    session: Session = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="At most so many.")] = 20,
    json: AsJson = False,
) -> None:
    """List tasks, newest first."""
    from . import show

    show.tasks(status or [], agent=agent, session=session, limit=limit, json=json)


def show(task: TaskId, json: AsJson = False) -> None:
    """Explain one task: what it was, how it ended, what to do next."""
    from . import show as command

    command.show(task, json=json)


def trace(
    task: Annotated[str | None, typer.Argument(metavar="TASK")] = None,
    session: Session = None,
    format: Annotated[
        str | None,
        typer.Option("--format", metavar="timeline|json|jsonl", help="How; timeline by default."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show every model and tool call of a task or session."""
    from . import show

    show.trace(task, session=session, format=format, json=json)


def usage(
    by: Annotated[
        str, typer.Option("--by", metavar="WHAT", help="agent, model, tool or day.")
    ] = "agent",
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="As 7d, 12h, 2026-11-30; all otherwise."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show what models and tools took: calls, tokens, money, failures."""
    from . import usage as command

    command.usage(by=by, since=since, json=json)


def replay(
    task: TaskId,
    agent: AgentFile = None,
    tools: ToolFiles = None,
    playbook: PlaybookFile = None,
    model: ModelName = None,
    json: AsJson = False,
) -> None:
    """Decide a task again from its record, without any effect; exit 1 shows what differs."""
    from hermes.agents import Launch

    from . import replay as command

    launch = Launch.of(
        agent=agent, tools=tools or [], playbook=playbook, model=model, max_steps=None
    )
    leave(command.replay(task, launch, json=json))


def context(
    task: TaskId,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="PATH", help="Which model call: /turn3, or 3; else the last."),
    ] = None,
    agent: AgentFile = None,
    tools: ToolFiles = None,
    playbook: PlaybookFile = None,
    model: ModelName = None,
    json: AsJson = False,
) -> None:
    """Show exactly what the model was sent, with the tokens of each part."""
    from hermes.agents import Launch

    from . import context as command

    launch = Launch.of(
        agent=agent, tools=tools or [], playbook=playbook, model=model, max_steps=None
    )
    command.context(task, launch, at=at, json=json)


def diff(
    task: TaskId,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The task to compare it with.")],
    json: AsJson = False,
) -> None:
    """Compare two tasks step by step."""
    from . import diff as command

    command.diff(task, other, json=json)


def doctor(agent: AgentFile = None, tools: ToolFiles = None, json: AsJson = False) -> None:
    """Check settings, database, model and tools; exit 1 names the fault."""
    from . import inspect

    leave(inspect.doctor(agent, tools or [], json=json))


COMMANDS = (tasks, show, trace, context, usage, replay, diff, doctor)
