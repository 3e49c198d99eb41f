"""`hermes run` and `hermes resume`."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import anyio

from hermes.agents import Launch, response_of
from hermes.app import Agent, Hermes, RunOptions
from hermes.config import Settings, absolute, load_settings
from hermes.core import json
from hermes.core.request import AgentResponse
from hermes.errors import ConfigError, InputError, LeaseHeldError, StoreUnavailableError
from hermes.loop import Decision as LoopDecision
from hermes.loop import Observer
from hermes.telemetry import logs

from . import exits, output
from .asking import Asker, Decision
from .family import HoldUp, holding_up, reasons
from .find import find_task, require_journal
from .lines import Lines, print_response
from .live import PlainScreen, Progress, Screen, Silent, TerminalScreen
from .streams import stdout_kept_clean


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the command shows, and whom it asks.

    Attributes:
        leave: What becomes of calls that need leave; None asks at the terminal, where there is one.
        reasoning: Show the model's reasoning too, where its text is shown as it comes.
        events: Print all that happens as JSON Lines on stdout.
    """

    stream: bool
    json: bool
    quiet: bool
    leave: Decision | None = None
    reasoning: bool = False
    events: bool = False

    def check(self, *, detach: bool = False) -> None:
        """Refuse options that contradict each other.

        Raises:
            ConfigError: They do.
        """
        other = "--json" if self.json else "--detach" if detach else ""
        if self.events and other:
            raise ConfigError(
                f"--events and {other} exclude each other",
                hint="--events prints the response too, as its last line; leave the other out",
            )

    @property
    def shows_text(self) -> bool:
        """Whether the answer is shown as it comes: to a person, and not to a pipe."""
        is_seen = sys.stdout.isatty() and sys.stderr.isatty()
        return is_seen and self.stream and not (self.json or self.quiet or self.events)


def run(
    goal: str,
    launch: Launch,
    *,
    session: str | None,
    pairs: Sequence[str],
    view: View,
    detach: bool = False,
) -> exits.Exit:
    """Submit a task and, unless it is for a worker, carry it; returns the exit code."""
    variables = variables_of(pairs)
    text = _read_stdin() if goal == "-" else goal
    settings = settings_in_force()
    definition = launch.definition()
    limits = launch.limits(definition.limits or settings.limits)
    agent = Agent.of(replace(definition, limits=limits))
    progress, lines = progress_of(view), Lines() if view.events else None
    observers = _observers(progress, lines)
    options = RunOptions(stream=view.stream, observers=observers, launch=launch.as_record())

    async def work() -> AgentResponse:
        async with Hermes(settings=settings) as app:
            return await app.run(
                agent, text, session_id=session, variables=variables, options=options
            )

    async def hand_over() -> AgentResponse:
        async with Hermes(settings=settings) as app:
            task_id = await app.submit(
                agent, text, session_id=session, variables=variables, options=options
            )
            return response_of(await app.store.events(task_id))

    async def go_on(task_id: str) -> AgentResponse:
        async with Hermes(settings=settings) as app:
            again = RunOptions(stream=view.stream, observers=observers)
            return await app.resume(task_id, agent, options=again)

    if detach:
        print_submitted(anyio.run(hand_over), view)
        return exits.Exit.SUCCEEDED
    return carry(work, progress, settings, view, go_on=go_on, lines=lines)


def resume(
    task: str, flags: Launch, *, in_doubt: str | None, accept_changes: bool, view: View
) -> exits.Exit:
    """Go on with a task; returns the exit code."""
    if in_doubt not in (None, "done", "again"):
        raise InputError(f"--in-doubt must be `done` or `again`, got {in_doubt!r}")
    settings = settings_in_force()
    require_journal(settings)
    progress, lines = progress_of(view), Lines() if view.events else None

    async def work(wanted: str = task, decision: LoopDecision | None = in_doubt) -> AgentResponse:
        async with Hermes(settings=settings) as app:
            found = await find_task(app.store, wanted)
            progress.task_id = found.task_id
            if found.state.is_terminal:
                if not view.quiet:
                    exits.tell(f"task {found.task_id} is settled; `hermes run` starts a new one")
                return response_of(await app.store.events(found.task_id))
            launch = Launch.recorded(found.spec.launch).overridden_by(flags)
            return await app.resume(
                found.task_id,
                Agent.of(launch.definition()),
                decision=decision,
                limits=flags.limits(found.spec.limits),
                accept_changes=accept_changes,
                options=RunOptions(
                    stream=view.stream,
                    observers=_observers(progress, lines),
                    model_chosen=flags.chooses_model,
                ),
            )

    async def go_on(task_id: str) -> AgentResponse:
        return await work(task_id, None)

    return carry(work, progress, settings, view, go_on=go_on, lines=lines)


def carry(
    work: Callable[[], Awaitable[AgentResponse]],
    progress: Progress,
    settings: Settings,
    view: View,
    *,
    go_on: Callable[[str], Awaitable[AgentResponse]],
    lines: Lines | None = None,
) -> exits.Exit:
    """Do the work of a task in this process and show what it comes to; returns the exit code.

    Args:
        work: Carries the task until it rests.
        progress: Watches it.
        settings: Say where the journal is.
        view: What is shown.
        go_on: Carries it further, once calls that need leave were decided here.
        lines: Watch it too, and print what happens.
    """
    response, code = _leg(work, progress, settings, lines)
    asker = Asker(settings, view.leave)
    while code is exits.Exit.UNFINISHED and asker.decide(response.task_id):
        progress.open()
        again = partial(_with_leave, go_on, response, settings)
        response, code = _leg(again, progress, settings, lines)
    held_up_by: Sequence[HoldUp] = ()
    if any(item.kind == "children" for item in response.pending):
        held_up_by = anyio.run(_holding_up, response.task_id, settings)
    _print(response, progress, view, held_up_by)
    return code


async def _with_leave(
    go_on: Callable[[str], Awaitable[AgentResponse]], response: AgentResponse, settings: Settings
) -> AgentResponse:
    try:
        return await go_on(response.task_id)
    except LeaseHeldError as exc:  # a worker was faster; the decision stands
        exits.tell(f"{exc.message}: it goes on there; `hermes show {response.task_id}` tells more")
        return await _recorded(response.task_id, settings)


def _leg(
    work: Callable[[], Awaitable[AgentResponse]],
    progress: Progress,
    settings: Settings,
    lines: Lines | None,
) -> tuple[AgentResponse, exits.Exit]:
    """Work until the task rests; what it came to, and the exit code."""
    try:
        with stdout_kept_clean() as out, _told_on_signals(progress):
            response = anyio.run(work if lines is None else partial(lines.follow, work, out))
        code = exits.of_status(response.status)
    except (KeyboardInterrupt, asyncio.CancelledError):
        progress.close()
        if progress.task_id is None:
            raise
        response = anyio.run(_recorded, progress.task_id, settings)
        code = exits.Exit.INTERRUPTED
    except StoreUnavailableError as exc:
        if progress.task_id is not None:
            go_on = f"`hermes resume {progress.task_id}` goes on at the step where it broke"
            exc.hint = f"{exc.hint}; then {go_on}" if exc.hint else go_on
        raise
    finally:
        progress.close()
    return response, code


@contextmanager
def _told_on_signals(progress: Progress) -> Generator[None]:
    """Say how to go on when the process is told to end: its task is left as a crash leaves it."""
    numbers = (signal.SIGTERM, signal.SIGHUP)

    def end(number: int, _: object) -> None:
        if progress.task_id is not None:
            exits.tell(f"stopped by {signal.Signals(number).name}; nothing is lost: ")
            exits.tell(f"`hermes resume {progress.task_id}` goes on at the step where it broke")
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _recorded(task_id: str, settings: Settings) -> AgentResponse:
    async with Hermes(settings=settings) as app:
        return response_of(await app.store.events(task_id))


async def _holding_up(task_id: str, settings: Settings) -> list[HoldUp]:
    async with Hermes(settings=settings) as app:
        return await holding_up(app.store, task_id)


def _print(
    response: AgentResponse, progress: Progress, view: View, held_up_by: Sequence[HoldUp]
) -> None:
    if view.events:
        print_response(response)
    elif view.json:
        output.print_json(response.as_json())
    elif response.output is not None and not progress.spoken.has_shown(response.output):
        output.print_text(output.output_text(response.output))
    if view.quiet and response.status == "succeeded":
        return
    if not view.quiet:
        exits.tell(output.summary(response, progress.seconds))
    for line in (*output.explanation(response), *reasons(held_up_by)):
        exits.tell(line)
    if not view.quiet:
        exits.tell(f"hermes show {response.task_id}")


def print_submitted(response: AgentResponse, view: View) -> None:
    """Tell of a task that is left to a worker."""
    if view.json:
        output.print_json(response.as_json())
    else:
        output.print_text(response.task_id)
    if not view.quiet:
        exits.tell("a worker will carry it (`hermes worker`); `hermes show` tells how it stands")


def progress_of(view: View) -> Progress:
    """What watches a run for whoever looks on."""
    return Progress(screen_of(view), text=view.shows_text, reasoning=view.reasoning)


def _observers(progress: Progress, lines: Lines | None) -> tuple[Observer, ...]:
    return (progress,) if lines is None else (progress, lines.feed)


def screen_of(view: View) -> Screen:
    """Where the progress of a run is shown."""
    if view.quiet:
        return Silent()
    if sys.stderr.isatty():
        return TerminalScreen(sys.stderr)
    return PlainScreen(sys.stderr)


def settings_in_force() -> Settings:
    """The settings, with logging as they say."""
    settings = load_settings().settings
    logs.configure(level=settings.log_level, style=settings.log_format)
    # A tool may change the working directory; the journal stays where it is.
    return settings.model_copy(update={"database_url": absolute(settings.database_url)})


def _read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise InputError(f"stdin is not UTF-8 (byte {exc.start})", hint="convert it") from exc


def variables_of(pairs: Sequence[str], *, option: str = "--var") -> Mapping[str, object]:
    """Variables as the command line gives them, each as `K=V`."""
    variables: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{option} takes K=V, got {pair!r}")
        variables[name.strip()] = value_of(value)
    return variables


def value_of(text: str) -> object:
    """JSON where that keeps every character (`12`, `true`, `[1]`), text otherwise (`1.10`)."""
    try:
        value = json.loads(text)
    except json.CodecError:
        if text.startswith(("{", "[", '"')):
            exits.tell(f"note: {text!r:.60} is no JSON and taken as text")
        return text
    return value if text[:1] in "{[" or json.dumps(value) == text else text
