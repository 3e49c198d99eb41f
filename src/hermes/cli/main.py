"""The `hermes` command: which commands there are, and how one ends."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, NoReturn, cast

import typer
from typer.core import TyperGroup, TyperOption
from typer.main import get_group

from hermes import __version__
from hermes.errors import HermesError

from . import commands_look, commands_work, db, exits, models, prompts, review, streams, tools

if TYPE_CHECKING:
    from hermes.core.events import Fault

# As in the README.
ORDER = (
    *("init", "run", "worker", "resume", "retry", "cancel", "signal"),
    "review",
    *("tasks", "show", "trace", "context", "usage", "replay", "fork", "diff"),
    *("tools", "models", "prompts", "crashtest", "db", "doctor"),
)


class _InOrder(TyperGroup):
    def list_commands(self, ctx: object) -> list[str]:
        return sorted(self.commands, key=ORDER.index)


app = typer.Typer(
    name="hermes",
    cls=_InOrder,
    help="Hermes carries a task to its end: a model or a playbook decides, tools act, "
    "and a journal remembers every step.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Exit codes: 0 succeeded, 1 failed, 2 bad usage or configuration, "
    "3 partial or waiting for a person, 130 interrupted.",
)


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


for command in (*commands_work.COMMANDS, *commands_look.COMMANDS):
    app.command()(command)
app.add_typer(review.app, name="review")
app.add_typer(tools.app, name="tools")
app.add_typer(models.app, name="models")
app.add_typer(prompts.app, name="prompts")
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
        return _fault(_only(exc), json=json)
    return exits.Exit.SUCCEEDED


def _only(exc: Exception) -> Exception:
    """What a task group wraps, where that is one error."""
    inner = cast("Sequence[Exception]", getattr(exc, "exceptions", ()))
    return _only(inner[0]) if len(inner) == 1 else exc


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
