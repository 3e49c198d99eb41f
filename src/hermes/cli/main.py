"""Commands and their options; the work is in modules that are imported on use."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from hermes import __version__
from hermes.errors import HermesError

from . import exits

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
    stream: Stream = True,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Carry a task to its end."""
    from . import run as command

    launch = command.Launch.of(
        agent=agent, tools=tools or [], playbook=playbook, model=model, max_steps=max_steps
    )
    view = command.View(stream=stream, json=json, quiet=quiet)
    _leave(command.run(goal, launch, session=session, pairs=var or [], view=view))


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
    stream: Stream = True,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a task at the step where it broke."""
    from . import run as command

    launch = command.Launch.of(
        agent=agent, tools=tools or [], playbook=playbook, model=model, max_steps=max_steps
    )
    view = command.View(stream=stream, json=json, quiet=quiet)
    _leave(command.resume(task, launch, in_doubt=in_doubt, view=view))


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
        str, typer.Option("--format", metavar="timeline|json|jsonl", help="How to print it.")
    ] = "timeline",
    json: AsJson = False,
) -> None:
    """Show every model and tool call of a task or session."""
    from . import show

    show.trace(task, session=session, style="json" if json else format)


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
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty folder.")],
) -> None:
    """Write a starter that runs at once: a tool, an agent file, a test."""
    from . import starter

    starter.init(folder)


def main() -> NoReturn:
    """The command: run what the command line says and leave with its exit code."""
    code = invoke(sys.argv[1:])
    _flush()
    raise SystemExit(code)


def invoke(words: Sequence[str]) -> int:
    """Run one command line; every fault ends in one line and the right exit code."""
    debug = "--debug" in words
    return _call([word for word in words if word != "--debug"], debug=debug)


def _call(words: list[str], *, debug: bool) -> int:
    try:
        outcome: object = app(args=words, standalone_mode=False)
    except HermesError as exc:
        return _fault(exc, as_json="--json" in words, debug=debug)
    except typer.Abort:
        return exits.Exit.INTERRUPTED
    except KeyboardInterrupt:
        exits.tell("interrupted")
        return exits.Exit.INTERRUPTED
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # nobody reads on: not a fault
        return exits.Exit.SUCCEEDED
    except Exception as exc:
        return _other(exc, debug=debug)
    return outcome if isinstance(outcome, int) else exits.Exit.SUCCEEDED


def _other(exc: Exception, *, debug: bool) -> int:
    """Usage errors of the option parser, and faults of Hermes itself."""
    show: Callable[[], None] | None = getattr(exc, "show", None)
    if show is not None:
        show()
        return int(getattr(exc, "exit_code", exits.Exit.USAGE))
    if debug:
        traceback.print_exception(exc)
    else:
        name = type(exc).__name__
        exits.tell(f"error: {name}: {exc} (a fault in Hermes; --debug shows where)")
    return exits.Exit.FAILED


def _fault(exc: HermesError, *, as_json: bool, debug: bool) -> int:
    if debug:
        traceback.print_exception(exc)
    if as_json:
        from . import output

        output.print_json(exits.as_object(exc))
    exits.tell(f"error: {exc}")
    return exits.of_error(exc)


def _leave(code: int) -> NoReturn:
    raise typer.Exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            continue
