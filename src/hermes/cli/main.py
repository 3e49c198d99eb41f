"""Commands and their options; the work is in modules that are imported on use."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from typer.core import TyperGroup, TyperOption
from typer.main import get_group

from hermes import __version__
from hermes.errors import HermesError

from . import db, exits, review, streams

if TYPE_CHECKING:
    from hermes.core.events import Fault

app = typer.Typer(
    name="hermes",
    help="Hermes carries a task to its end: a model or a playbook decides, tools act, "
    "and a journal remembers every step.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Exit codes: 0 succeeded, 1 failed, 2 bad usage or configuration, "
    "3 partial or waiting for a person, 130 interrupted.",
)

AgentFile = Annotated[
    Path | None, typer.Option("--agent", metavar="FILE", help="Agent file (TOML or YAML).")
]
ToolFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--tools",
        metavar="FILE|DIR",
        help="Python file or folder with @tool functions; repeatable.",
    ),
]
PlaybookFile = Annotated[
    Path | None,
    typer.Option("--playbook", metavar="FILE", help="Rules that decide in place of a model."),
]
ModelName = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="Model name; MODEL_NAME otherwise.")
]
MaxSteps = Annotated[
    int | None, typer.Option("--max-steps", min=1, metavar="N", help="Turns at most.")
]
Stream = Annotated[
    bool, typer.Option("--stream/--no-stream", help="Ask the model for a streamed reply.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print exactly one JSON value on stdout, the rest on stderr.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")]
TaskId = Annotated[
    str, typer.Argument(metavar="TASK", help="Task id, its first or last characters, or `last`.")
]
AcceptChanges = Annotated[
    bool,
    typer.Option(
        "--accept-changes", help="Go on although agent, tools or model are not what they were."
    ),
]
SetVariables = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="K=V", help="Set a variable before it goes on; repeatable."),
]
Detach = Annotated[
    bool, typer.Option("--detach", help="Only submit it, for a worker; prints the task id.")
]
Session = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="Tasks that belong together.")
]


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"hermes {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
    _debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Options that stand before the command; `--debug` may stand anywhere."""


@app.command()
def run(
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What is to be done; - reads stdin.")],
    agent: AgentFile = None,
    tools: ToolFiles = None,
    playbook: PlaybookFile = None,
    model: ModelName = None,
    session: Session = None,
    max_steps: MaxSteps = None,
    var: Annotated[
        list[str] | None,
        typer.Option("--var", metavar="K=V", help="Set a variable of the task; repeatable."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Only submit it, for a worker; prints the task id.")
    ] = False,
    stream: Stream = True,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Carry a task to its end."""
    from hermes.agents import Launch

    from . import run as command

    launch = Launch.of(
        agent=agent, tools=tools or [], playbook=playbook, model=model, max_steps=max_steps
    )
    view = command.View(stream=stream, json=json, quiet=quiet)
    _leave(command.run(goal, launch, session=session, pairs=var or [], view=view, detach=detach))


@app.command()
def resume(
    task: TaskId,
    agent: AgentFile = None,
    tools: ToolFiles = None,
    playbook: PlaybookFile = None,
    model: ModelName = None,
    max_steps: MaxSteps = None,
    in_doubt: Annotated[
        str | None,
        typer.Option(
            "--in-doubt",
            metavar="done|again",
            help="For calls whose outcome is unknown: they took place, or are to be made again.",
        ),
    ] = None,
    accept_changes: AcceptChanges = False,
    stream: Stream = True,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a task at the step where it broke."""
    from hermes.agents import Launch

    from . import run as command

    launch = Launch.of(
        agent=agent, tools=tools or [], playbook=playbook, model=model, max_steps=max_steps
    )
    view = command.View(stream=stream, json=json, quiet=quiet)
    _leave(
        command.resume(task, launch, in_doubt=in_doubt, accept_changes=accept_changes, view=view)
    )


@app.command()
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
        queues=[name.strip() for name in (queues or "").split(",") if name.strip()],
        concurrency=concurrency,
        once=once,
        only=only,
        worker_id=worker_id,
    )
    _leave(command.worker(job))


@app.command()
def cancel(task: TaskId, json: AsJson = False) -> None:
    """End a task and all below it; exit 3 if somebody still works on it after 5 s."""
    from . import cancel as command

    _leave(command.cancel(task, json=json))


@app.command()
def signal(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As the tasks call the event.")],
    payload: Annotated[
        str | None, typer.Option("--payload", metavar="JSON", help="What waiting calls return.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Let an event happen that tasks wait for, now or later."""
    from . import cancel as command

    _leave(command.signal(name, payload, json=json))


@app.command()
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
    sets: SetVariables = None,
    detach: Detach = False,
    stream: Stream = True,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Try a settled task again, as a new task with the same goal, input and settings."""
    from hermes.agents import Launch

    from . import fork as command
    from .run import View

    launch = Launch.of(
        agent=agent, tools=tools or [], playbook=playbook, model=model, max_steps=max_steps
    )
    wish = command.Wish(at=from_, variables=sets or [], detach=detach, is_retry=True)
    _leave(command.fork(task, launch, wish, View(stream=stream, json=json, quiet=quiet)))


@app.command()
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
    stream: Stream = True,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Start a new task at a step of another one; what came before is not done again."""
    from hermes.agents import Launch

    from . import fork as command
    from .run import View

    launch = Launch.of(
        agent=agent, tools=tools or [], playbook=playbook, model=model, max_steps=max_steps
    )
    wish = command.Wish(at=at, variables=sets or [], results=edit_result or [], detach=detach)
    _leave(command.fork(task, launch, wish, View(stream=stream, json=json, quiet=quiet)))


@app.command()
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
    _leave(command.replay(task, launch, json=json))


@app.command()
def diff(
    task: TaskId,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The task to compare it with.")],
    json: AsJson = False,
) -> None:
    """Compare two tasks step by step."""
    from . import diff as command

    command.diff(task, other, json=json)


@app.command()
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


@app.command()
def show(task: TaskId, json: AsJson = False) -> None:
    """Explain one task: what it was, how it ended, what to do next."""
    from . import show as command

    command.show(task, json=json)


@app.command()
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


@app.command()
def tools(agent: AgentFile = None, tools: ToolFiles = None, json: AsJson = False) -> None:
    """List the tools there are, with group and effect."""
    from . import inspect

    inspect.tools(agent, tools or [], json=json)


@app.command()
def doctor(agent: AgentFile = None, tools: ToolFiles = None, json: AsJson = False) -> None:
    """Check settings, database, model and tools; exit 1 names the fault."""
    from . import inspect

    _leave(inspect.doctor(agent, tools or [], json=json))


@app.command()
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
    _leave(command.crashtest(order, json=json))


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty folder.")],
    json: AsJson = False,
) -> None:
    """Write a starter that runs at once: a tool, an agent file, a test."""
    from . import starter

    starter.init(folder, json=json)


app.add_typer(review.app, name="review")
app.add_typer(db.app, name="db")


def main() -> NoReturn:
    """The command: run what the command line says and leave with its exit code."""
    streams.prepare()
    code = invoke(sys.argv[1:])
    streams.flush()
    raise SystemExit(code)


def invoke(words: Sequence[str]) -> int:
    """Run one command line; every fault ends in one line and the right exit code."""
    group = get_group(app)
    words, flags = _split(words, _options_with_value(group))
    json, debug = "--json" in flags, "--debug" in flags
    try:
        # Not `app()`: that turns an interrupt and a closed pipe into exit codes of its own.
        with group.make_context("hermes", words) as context:
            group.invoke(context)
    except typer.Exit as exc:
        return exc.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted(json=json)
    except Exception as exc:
        if isinstance(exc, BrokenPipeError) and "--help" in flags:
            streams.silence(sys.stdout)
            return exits.Exit.SUCCEEDED
        if debug:
            traceback.print_exception(exc, file=streams.Forgiving(sys.stderr))
        return _fault(exc, json=json)
    return exits.Exit.SUCCEEDED


def _options_with_value(group: TyperGroup) -> set[str]:
    found: set[str] = set()
    for command in group.commands.values():
        if isinstance(command, TyperGroup):
            found |= _options_with_value(command)
        for option in command.params:
            if isinstance(option, TyperOption) and not option.is_flag:
                found.update(option.opts)
    return found


def _split(words: Iterable[str], with_value: set[str]) -> tuple[list[str], set[str]]:
    """The words without `--debug`, and which of our flags stand among the options.

    The value of an option, and everything after `--`, is no option whatever it looks like.
    """
    kept: list[str] = []
    flags: set[str] = set()
    rest = iter(words)
    for word in rest:
        name = word.partition("=")[0]
        if name in ("--debug", "--help", "--json"):
            flags.add(name)
        if word != "--debug":
            kept.append(word)
        kept.extend(islice(rest, None if word == "--" else int(word in with_value)))
    return kept, flags


def _interrupted(*, json: bool) -> int:
    from hermes.core.events import Fault

    exits.tell("interrupted")
    fault = Fault(code="interrupted", message="interrupted before there was a result")
    return _end(exits.Exit.INTERRUPTED, fault, json=json, status="cancelled")


def _fault(exc: Exception, *, json: bool) -> int:
    """Tell of a fault: one that is raised on purpose, a usage error, or one of Hermes itself."""
    from hermes.core.events import Fault  # loaded on use: a third of a start's time

    show: Callable[[], None] | None = getattr(exc, "show", None)
    if isinstance(exc, HermesError):
        exits.tell(f"error: {exc}")
        fault = Fault(
            code=exits.code_of(exc),
            message=exc.message,
            retryable=bool(getattr(exc, "retryable", False)),
            hint=exc.hint,
        )
        return _end(exits.of_error(exc), fault, json=json)
    if show is not None:  # the option parser's
        with contextlib.suppress(OSError):
            show()
        say: Callable[[], str] = getattr(exc, "format_message", exc.__str__)
        fault = Fault(code="usage", message=say(), hint="--help shows the options")
        return _end(exits.Exit.USAGE, fault, json=json)
    hint = "a fault in Hermes; --debug shows where"
    fault = Fault(code="internal", message=f"{type(exc).__name__}: {exc}", hint=hint)
    exits.tell(f"error: {fault.message} ({hint})")
    return _end(exits.Exit.FAILED, fault, json=json)


def _end(code: exits.Exit, fault: Fault, *, json: bool, status: str = "failed") -> int:
    if json:
        from . import output

        with contextlib.suppress(output.OutputError):  # the exit code remains
            output.print_json(output.fault_result(fault, status=status))
    return code


def _leave(code: int) -> NoReturn:
    raise typer.Exit(code)
