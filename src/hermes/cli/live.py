"""What a run is doing, as it does it: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import IO, Protocol, TextIO, cast

from hermes.core.events import (
    ModelFailed,
    ModelReplied,
    ModelRequested,
    Recorded,
    TaskResumed,
    TaskSettled,
    ToolFailed,
    ToolInDoubt,
    ToolReturned,
    ToolStarted,
)

from .output import count, short
from .streams import Forgiving

_TAIL_CHARS = 400


class Screen(Protocol):
    """Where progress goes."""

    def line(self, text: str) -> None:
        """A line that stays."""
        ...

    def status(self, text: str) -> None:
        """What is going on right now; replaced by the next."""
        ...

    def close(self) -> None:
        """Leave nothing half-drawn behind."""
        ...

    def open(self) -> None:
        """Go on after `close`."""
        ...


class Silent:
    """Shows nothing."""

    def line(self, text: str) -> None:
        pass

    def status(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass

    def open(self) -> None:
        pass


class PlainScreen:
    """Lines that stay, for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = Forgiving(stream)

    def line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def status(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass

    def open(self) -> None:
        pass


class TerminalScreen:
    """Lines that stay above one live status that is redrawn four times a second.

    A terminal that cannot move its cursor (`TERM=dumb`) gets the lines alone.
    """

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console  # loaded on use: only terminals need it
        from rich.status import Status

        file = cast("IO[str]", Forgiving(stream))  # all of it that a console uses
        self._console = Console(file=file, highlight=False, markup=False, soft_wrap=True)
        self._status = Status(
            "starting",
            console=self._console,
            spinner="dots" if self._console.encoding.startswith("utf") else "line",
            refresh_per_second=4,
        )
        self.open()

    def line(self, text: str) -> None:
        self._console.print(text)

    def status(self, text: str) -> None:
        from rich.text import Text

        self._status.update(Text(text))

    def close(self) -> None:
        self._status.stop()

    def open(self) -> None:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._status.start()


class Progress:
    """Watches a run and tells a screen about it.

    Attributes:
        task_id: The task, as soon as its first event of this run is durable.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._began = time.perf_counter()
        self._tokens = 0
        self._now = ""
        self._text = ""
        self.task_id: str | None = None

    def recorded(self, record: Recorded) -> None:
        self.task_id = record.task_id
        match record.event:
            case ModelRequested(path=path, model=model):
                self._text = ""
                self._show(f"{_turn(path)}: asking {model}")
            case ModelReplied() as event:
                self._replied(event)
            case ModelFailed(path=path, error=error):
                self._screen.line(f"{_turn(path)}: the model failed: {error.message}")
            case ToolStarted(path=path, name=name):
                self._show(f"{_turn(path)}: running {name}")
            case ToolReturned(name=name, size_chars=size, duration_s=duration_s):
                self._screen.line(f"  {name}: ok, {size:,} characters, {duration_s:.2f} s")
            case ToolFailed(name=name, status=status, error=error):
                self._screen.line(f"  {name}: {status}: {short(error.message, 160)}")
            case ToolInDoubt(name=name, reason=reason):
                self._screen.line(f"  {name}: outcome unknown: {reason}")
            case TaskResumed() as event:
                self._screen.line(f"going on ({event.reason})")
                for line in event.accepted:
                    self._screen.line(f"changed, accepted by {event.by}: {line}")
            case TaskSettled(outcome=outcome):
                self._show(outcome)
            case _:
                pass

    def delta(self, text: str, *, reasoning: bool = False) -> None:
        self._text = (self._text + text)[-_TAIL_CHARS:]
        self._show(self._now)

    def progress(self, path: str, text: str) -> None:
        self._screen.line(f"  … {short(text, 160)}")

    def close(self) -> None:
        self._screen.close()

    def open(self) -> None:
        self._screen.open()

    @property
    def seconds(self) -> float:
        """Since the run began in this process."""
        return time.perf_counter() - self._began

    def _replied(self, event: ModelReplied) -> None:
        self._tokens += event.usage.total_tokens
        names = ", ".join(call.name for call in event.calls)
        what = f"calls {names}" if names else "answers"
        tokens = f", {event.usage.total_tokens:,} tokens" if event.usage.total_tokens else ""
        said = f" — {short(event.text, 100)}" if event.calls and event.text.strip() else ""
        self._screen.line(f"{_turn(event.path)}: {what}{tokens}, {event.duration_s:.2f} s{said}")

    def _show(self, now: str) -> None:
        self._now = now
        tail = f"\n{short(self._text, 160)}" if self._text else ""
        tokens = count(self._tokens, "token")
        self._screen.status(f"{now} · {tokens} · {self.seconds:.1f} s{tail}")


def _turn(path: str) -> str:
    return path.split("/")[1].replace("turn", "turn ")
