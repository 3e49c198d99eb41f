"""The standard streams when they are closed, lose their reader, or cannot show a character."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Generator
from typing import TextIO


class Forgiving:
    """A stream for people: once nobody reads it, what is written to it goes nowhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:
        return self._stream.encoding or "utf-8"

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            silence(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            silence(self._stream)

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()


def prepare() -> None:
    """Make the standard streams safe to write to.

    One that the caller had closed leads nowhere, and a character that its encoding lacks becomes
    `?`.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def flush() -> None:
    """Write out what is held back, so that the interpreter finds nothing left to fail on."""
    for stream in (sys.stdout, sys.stderr):
        Forgiving(stream).flush()


def silence(stream: TextIO) -> None:
    """Send what is and will be written to a stream nowhere."""
    with contextlib.suppress(OSError):  # there is no file behind it
        target = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, target)
        os.close(null)


@contextlib.contextmanager
def stdout_kept_clean() -> Generator[int]:
    """Send what tools and their subprocesses print to stderr: stdout is for the result.

    Yields:
        A file descriptor of the true stdout.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield kept
    finally:
        os.dup2(kept, 1)
        os.close(kept)
