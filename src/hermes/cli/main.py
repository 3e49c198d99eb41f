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

from . import exits, streams

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
    from hermes.agents import Launch

    from . import run as command

    launch = Launch.of(
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
    from hermes.agents import Launch

    from . import run as command

    launch = Launch.of(
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
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty folder.")],
    json: AsJson = False,
) -> None:
    """Write a starter that runs at once: a tool, an agent file, a test."""
    from . import starter

    starter.init(folder, json=json)


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
    options = [
        option
        for command in group.commands.values()
        for option in command.params
        if isinstance(option, TyperOption) and not option.is_flag
    ]
    return {name for option in options for name in option.opts}


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
