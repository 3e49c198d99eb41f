"""Commands that carry tasks; the work is in modules that are imported on use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import (
    AcceptChanges,
    AgentFile,
    AsJson,
    Deny,
    Detach,
    Events,
    MaxCost,
    MaxModelCalls,
    MaxSeconds,
    MaxSteps,
    MaxTokens,
    MaxToolCalls,
    ModelName,
    PlaybookFile,
    Quiet,
    Reasoning,
    Session,
    SetVariables,
    Stream,
    TaskId,
    ToolFiles,
    Yes,
    bounds,
    leave,
)


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty folder.")],
    json: AsJson = False,
) -> None:
    """Write a starter that runs at once: a tool, an agent file, a test."""
    from . import starter

    starter.init(folder, json=json)


def run(
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What is to be done; - reads stdin.")],
    agent: AgentFile = None,
    tools: ToolFiles = None,
    playbook: PlaybookFile = None,
    model: ModelName = None,
    session: Session = None,
    max_steps: MaxSteps = None,
    max_model_calls: MaxModelCalls = None,
    max_tool_calls: MaxToolCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    max_seconds: MaxSeconds = None,
    var: Annotated[
        list[str] | None,
        typer.Option("--var", metavar="K=V", help="Set a variable of the task; repeatable."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Only submit it, for a worker; prints the task id.")
    ] = False,
    yes: Yes = False,
    deny: Deny = False,
    stream: Stream = True,
    reasoning: Reasoning = False,
    events: Events = False,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Carry a task to its end."""
    from hermes.agents import Launch

    from . import run as command
    from .asking import decision_of
    from .lines import faults_told

    launch = Launch.of(
        agent=agent,
        tools=tools or [],
        playbook=playbook,
        model=model,
        max_steps=max_steps,
        bounds=bounds(
            model_calls=max_model_calls,
            tool_calls=max_tool_calls,
            tokens=max_tokens,
            cost=max_cost,
            seconds=max_seconds,
        ),
    )
    leave_given = decision_of(yes=yes, deny=deny, detach=detach)
    view = command.View(
        stream=stream,
        json=json,
        quiet=quiet,
        leave=leave_given,
        reasoning=reasoning,
        events=events,
    )
    with faults_told(is_on=events):
        view.check(detach=detach)
        code = command.run(goal, launch, session=session, pairs=var or [], view=view, detach=detach)
    leave(code)


def worker(
    agent: Annotated[
        list[Path] | None,
        typer.Option(
            "--agent", metavar="FILE", help="Agent file, for tasks of its name; repeatable."
        ),
    ] = None,
    tools: ToolFiles = None,
    queues: Annotated[
        str | None,
        typer.Option("--queues", metavar="A,B", help="Only tasks of these agents; any otherwise."),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Tasks at a time; HERMES_CONCURRENCY otherwise."),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when there is nothing to do, as for cron.")
    ] = False,
    only: Annotated[str | None, typer.Option("--only", hidden=True)] = None,
    worker_id: Annotated[str | None, typer.Option("--as", hidden=True)] = None,
) -> None:
    """Take submitted tasks and carry them, until told to stop."""
    from . import worker as command

    job = command.Job(
        agents=agent or [],
        tools=tools or [],
        queues=command.queues_of(queues),
        concurrency=concurrency,
        once=once,
        only=only,
        worker_id=worker_id,
    )
    leave(command.worker(job))


def resume(
    task: TaskId,
    agent: AgentFile = None,
    tools: ToolFiles = None,
    playbook: PlaybookFile = None,
    model: ModelName = None,
    max_steps: MaxSteps = None,
    max_model_calls: MaxModelCalls = None,
    max_tool_calls: MaxToolCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    max_seconds: MaxSeconds = None,
    in_doubt: Annotated[
        str | None,
        typer.Option(
            "--in-doubt",
            metavar="done|again",
            help="For calls whose outcome is unknown: they took place, or are to be made again.",
        ),
    ] = None,
    accept_changes: AcceptChanges = False,
    yes: Yes = False,
    deny: Deny = False,
    stream: Stream = True,
    reasoning: Reasoning = False,
    events: Events = False,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a task at the step where it broke."""
    from hermes.agents import Launch

    from . import run as command
    from .asking import decision_of
    from .lines import faults_told

    launch = Launch.of(
        agent=agent,
        tools=tools or [],
        playbook=playbook,
        model=model,
        max_steps=max_steps,
        bounds=bounds(
            model_calls=max_model_calls,
            tool_calls=max_tool_calls,
            tokens=max_tokens,
            cost=max_cost,
            seconds=max_seconds,
        ),
    )
    leave_given = decision_of(yes=yes, deny=deny)
    view = command.View(
        stream=stream,
        json=json,
        quiet=quiet,
        leave=leave_given,
        reasoning=reasoning,
        events=events,
    )
    with faults_told(is_on=events):
        view.check()
        code = command.resume(
            task, launch, in_doubt=in_doubt, accept_changes=accept_changes, view=view
        )
    leave(code)


def retry(
    task: TaskId,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="PATH", help="Keep the steps before this one."),
    ] = None,
    agent: AgentFile = None,
    tools: ToolFiles = None,
    playbook: PlaybookFile = None,
    model: ModelName = None,
    max_steps: MaxSteps = None,
    max_model_calls: MaxModelCalls = None,
    max_tool_calls: MaxToolCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    max_seconds: MaxSeconds = None,
    sets: SetVariables = None,
    detach: Detach = False,
    yes: Yes = False,
    deny: Deny = False,
    stream: Stream = True,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Try a settled task again, as a new task with the same goal, input and settings."""
    from hermes.agents import Launch

    from . import fork as command
    from .asking import decision_of
    from .run import View

    launch = Launch.of(
        agent=agent,
        tools=tools or [],
        playbook=playbook,
        model=model,
        max_steps=max_steps,
        bounds=bounds(
            model_calls=max_model_calls,
            tool_calls=max_tool_calls,
            tokens=max_tokens,
            cost=max_cost,
            seconds=max_seconds,
        ),
    )
    wish = command.Wish(at=from_, variables=sets or [], detach=detach, is_retry=True)
    leave_given = decision_of(yes=yes, deny=deny, detach=detach)
    view = View(stream=stream, json=json, quiet=quiet, leave=leave_given)
    leave(command.fork(task, launch, wish, view))


def cancel(task: TaskId, json: AsJson = False) -> None:
    """End a task and all below it; exit 3 if somebody still works on it after 5 s."""
    from . import cancel as command

    leave(command.cancel(task, json=json))


def signal(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As the tasks call the event.")],
    payload: Annotated[
        str | None, typer.Option("--payload", metavar="JSON", help="What waiting calls return.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Let an event happen that tasks wait for, now or later."""
    from . import cancel as command

    leave(command.signal(name, payload, json=json))


def fork(
    task: TaskId,
    at: Annotated[
        str,
        typer.Option("--at", metavar="PATH", help="First step made anew: /turn3, /turn3/tool1, 3."),
    ],
    agent: AgentFile = None,
    tools: ToolFiles = None,
    playbook: PlaybookFile = None,
    model: ModelName = None,
    max_steps: MaxSteps = None,
    max_model_calls: MaxModelCalls = None,
    max_tool_calls: MaxToolCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    max_seconds: MaxSeconds = None,
    sets: SetVariables = None,
    edit_result: Annotated[
        list[str] | None,
        typer.Option(
            "--edit-result",
            metavar="PATH=JSON|@FILE",
            help="Another result for an earlier call; repeatable.",
        ),
    ] = None,
    detach: Detach = False,
    yes: Yes = False,
    deny: Deny = False,
    stream: Stream = True,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Start a new task at a step of another one; what came before is not done again."""
    from hermes.agents import Launch

    from . import fork as command
    from .asking import decision_of
    from .run import View

    launch = Launch.of(
        agent=agent,
        tools=tools or [],
        playbook=playbook,
        model=model,
        max_steps=max_steps,
        bounds=bounds(
            model_calls=max_model_calls,
            tool_calls=max_tool_calls,
            tokens=max_tokens,
            cost=max_cost,
            seconds=max_seconds,
        ),
    )
    wish = command.Wish(at=at, variables=sets or [], results=edit_result or [], detach=detach)
    leave_given = decision_of(yes=yes, deny=deny, detach=detach)
    view = View(stream=stream, json=json, quiet=quiet, leave=leave_given)
    leave(command.fork(task, launch, wish, view))


def crashtest(
    agent: Annotated[
        Path, typer.Argument(metavar="AGENT", help="Agent file, or a Python file with tools.")
    ],
    playbook: PlaybookFile = None,
    script: Annotated[
        Path | None,
        typer.Option("--script", metavar="FILE", help="Replies in place of a model: YAML or JSON."),
    ] = None,
    goal: Annotated[str | None, typer.Option("--goal", metavar="TEXT", help="The task.")] = None,
    var: Annotated[
        list[str] | None,
        typer.Option("--var", metavar="K=V", help="Set a variable of the task; repeatable."),
    ] = None,
    points: Annotated[
        str, typer.Option("--points", metavar="all|N", help="At how many points, chosen by --seed.")
    ] = "all",
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the choice.")] = 1,
    effects: Annotated[
        list[Path] | None,
        typer.Option(
            "--effects",
            metavar="FILE",
            help="File outside of this folder to which the tools append; repeatable.",
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Kill an agent of yours at every point, resume it, and compare what its tools did.

    Each run works in a copy of the present folder, offline: the model's part is played by a
    playbook or a script. Exit 1 if a promise was broken, such as an `idempotent` tool whose repeat
    changed a file.
    """
    from . import crashtest as command

    order = command.Order(
        agent=agent,
        playbook=playbook,
        script=script,
        goal=goal,
        pairs=var or [],
        points=points,
        seed=seed,
        effects=effects or [],
    )
    leave(command.crashtest(order, json=json))


COMMANDS = (init, run, worker, resume, retry, cancel, signal, fork, crashtest)
