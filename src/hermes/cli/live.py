"""What a run is doing, as it does it: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import IO, Protocol, TextIO, cast

from hermes.core.events import (
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    Recorded,
    TaskResumed,
    TaskSettled,
    ToolFailed,
    ToolInDoubt,
    ToolReturned,
    ToolStarted,
)

from .output import count, plain, short
from .spoken import Spoken
from .streams import Forgiving

_TAIL_CHARS = 400
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class Screen(Protocol):
    """Where progress goes."""

    def line(self, text: str) -> None:
        """A line that stays."""
        ...

    def status(self, text: str) -> None:
        """What is going on right now; replaced by the next."""
        ...

    def text(self, text: str, *, dim: bool = False) -> None:
        """Text as it comes, after what came before; where such a thing can be shown."""
        ...

    def end_text(self) -> None:
        """The text is at its end, or something else has the next line."""
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

    def text(self, text: str, *, dim: bool = False) -> None:
        pass

    def end_text(self) -> None:
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

    def text(self, text: str, *, dim: bool = False) -> None:
        pass

    def end_text(self) -> None:
        pass

    def close(self) -> None:
        pass

    def open(self) -> None:
        pass


class TerminalScreen:
    """Lines that stay above one live status that is redrawn four times a second.

    A terminal that cannot move its cursor (`TERM=dumb`) gets the lines alone. While text comes,
    there is no status.
    """

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console  # loaded on use: only terminals need it
        from rich.status import Status

        self._stream = Forgiving(stream)
        self._is_mid_line = self._has_status = False
        file = cast("IO[str]", self._stream)  # all of it that a console uses
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

    def text(self, text: str, *, dim: bool = False) -> None:
        self._stop()
        if dim and not self._console.is_dumb_terminal and not self._console.no_color:
            text = f"{_DIM}{text}{_PLAIN}"
        self._stream.write(text)
        self._stream.flush()
        self._is_mid_line = not text.removesuffix(_PLAIN).endswith("\n")

    def end_text(self) -> None:
        if self._is_mid_line:
            self._stream.write("\n")
            self._stream.flush()
        self._is_mid_line = False
        self.open()

    def close(self) -> None:
        self.end_text()
        self._stop()

    def open(self) -> None:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._status.start()
            self._has_status = True

    def _stop(self) -> None:
        if self._has_status:
            self._status.stop()
            self._has_status = False


class Progress:
    """Watches a run and tells a screen about it.

    Args:
        screen: Where it is shown.
        text: Show the replies' text as it comes, all of it.
        reasoning: And the reasoning.

    Attributes:
        task_id: The task, as soon as its first event of this run is durable.
        spoken: What was shown of the replies.
    """

    def __init__(self, screen: Screen, *, text: bool = False, reasoning: bool = False) -> None:
        self._screen = screen
        self.spoken = Spoken(screen, is_on=text, with_reasoning=reasoning)
        self._began = time.perf_counter()
        self._tokens = 0
        self._now = self._path = ""
        self._text = ""
        self.task_id: str | None = None

    def recorded(self, record: Recorded) -> None:
        self.task_id = record.task_id
        match record.event:
            case ModelRequested(path=path, model=model):
                self._text = ""
                self.spoken.begin()
                self._path = path
                self._show(f"{_turn(path)}: asking {model}")
            case ModelReplied() as event:
                self._replied(event)
            case ModelRetried() as event:
                self._retried(event)
            case ModelFailed(path=path, error=error):
                self.spoken.pause()
                part = "; the text above is only a part" if self.spoken.is_begun else ""
                self._screen.line(f"{_turn(path)}: the model failed: {plain(error.message)}{part}")
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
        if self.spoken.feed(text, reasoning=reasoning):
            return
        if reasoning:
            self._show(f"{_turn(self._path)}: thinking" if self._path else "thinking")
        else:
            self._text = (self._text + text)[-_TAIL_CHARS:]
            self._show(self._now)

    def call_begun(self, name: str) -> None:
        self.spoken.pause()
        self._show(f"{_turn(self._path)}: calling {short(name, 60)}" if self._path else "calling")

    def progress(self, path: str, text: str) -> None:
        self._screen.line(f"  … {short(text, 160)}")

    def close(self) -> None:
        self.spoken.pause()
        self._screen.close()

    def open(self) -> None:
        self._screen.open()

    @property
    def seconds(self) -> float:
        """Since the run began in this process."""
        return time.perf_counter() - self._began

    def _retried(self, event: ModelRetried) -> None:
        self.spoken.pause()
        what = f"{_turn(event.path)}: {event.model} failed: {short(event.error.message, 160)}"
        if event.next_model and event.next_model != event.model:
            then = f"asking {event.next_model}"
        else:
            then = f"trying again in {event.delay_s:.1f} s" if event.delay_s else "trying again"
        if self.spoken.is_begun:
            then += "; the answer begins anew"
        self._screen.line(f"{what}; {then}")
        self.spoken.begin()
        self._text = ""

    def _replied(self, event: ModelReplied) -> None:
        self.spoken.pause()
        self._tokens += event.usage.total_tokens
        names = ", ".join(call.name for call in event.calls)
        what = f"calls {names}" if names else "answers"
        tokens = f", {event.usage.total_tokens:,} tokens" if event.usage.total_tokens else ""
        is_new = bool(event.calls and event.text.strip()) and not self.spoken.is_begun
        said = f" — {short(event.text, 100)}" if is_new else ""
        self._screen.line(f"{_turn(event.path)}: {what}{tokens}, {event.duration_s:.2f} s{said}")

    def _show(self, now: str) -> None:
        self._now = now
        tail = f"\n{short(self._text, 160)}" if self._text else ""
        tokens = count(self._tokens, "token")
        self._screen.status(f"{now} · {tokens} · {self.seconds:.1f} s{tail}")


def _turn(path: str) -> str:
    return path.split("/")[1].replace("turn", "turn ")
