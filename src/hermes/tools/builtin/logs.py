"""Log files of any size, read line by line; group `logs`."""

from __future__ import annotations

import gzip
import os
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Annotated, cast

from pydantic import Field

from hermes.errors import ToolError
from hermes.tools.base import Tool, ToolContext
from hermes.tools.function import tool

from .files_workspace import Workspace
from .logs_groups import Groups, Order
from .logs_lines import Filter, Record, read_line
from .options import BuiltinOptions

MAX_LINES = 1_000
MAX_GROUPS = 100
MAX_HITS = 200
MAX_LINE_CHARS = 2_000

_TIMEOUT_S = 300.0
_LINE_BYTES = 1 << 16
_LOOK_EVERY = 10_000
_GZIP = b"\x1f\x8b"


class Logs:
    """Tools over the log files of one workspace."""

    def __init__(self, options: BuiltinOptions) -> None:
        self._workspace = Workspace(options.workspace)

    def read_error_logs(
        self,
        log_path: str,
        ctx: ToolContext,
        date: str = "",
        level: str = "error",
        max_lines: Annotated[int, Field(ge=1, le=MAX_LINES)] = 200,
    ) -> dict[str, object]:
        """Read the lines of a log of one day, of one level and everything more severe.

        Use it to see the lines themselves. Not to count or to find the worst: use summarise_errors,
        which looks at every line; not to find a word: use search_logs. Knows nginx error and access
        logs (5xx is error, 4xx is warn), syslog, lines that begin with an ISO date, and JSON
        lines, also compressed by gzip.

        Example: read_error_logs(log_path="logs/error.log", date="2026-11-29", level="crit").

        Args:
            log_path: The file, relative to the workspace.
            date: The day as it stands in the log, 2026-11-29 or 2026/11/29; every day if left
                out.
            level: emerg, alert, crit (or critical), error, warn (or warning), notice, info or
                debug.
            max_lines: At most so many records come back, 1 to 1000.
            ctx: Says when to stop.

        Returns:
            {"date", "level", "total": records in the whole file, "returned", "unparsed": lines
            that are no record, "lines": the first records in file order, each with its
            continuation lines}.
        """
        wanted = Filter.of(date, level)
        scan = Scan(filter=wanted)
        kept: list[str] = []

        def on_record(_: Record, line: str) -> None:
            if len(kept) < max_lines:
                kept.append(line[:MAX_LINE_CHARS])

        def on_more(line: str) -> None:
            if scan.total <= max_lines and len(kept[-1]) < MAX_LINE_CHARS:
                kept[-1] = f"{kept[-1]}\n{line}"[:MAX_LINE_CHARS]

        with self._opened(log_path) as file:
            scan.run(file, on_record, on_more, ctx)
        return {
            "date": wanted.day,
            "level": wanted.level,
            "total": scan.total,
            "returned": len(kept),
            "unparsed": scan.unparsed,
            "lines": kept,
        }

    def summarise_errors(
        self,
        log_path: str,
        ctx: ToolContext,
        date: str = "",
        level: str = "error",
        order: Order = "count",
        top: Annotated[int, Field(ge=1, le=MAX_GROUPS)] = 20,
    ) -> dict[str, object]:
        """Count what a log says by kind, over the whole file: the same message is one kind.

        Use it to find the worst or the most frequent trouble of a day. Not for the lines
        themselves: use read_error_logs. Knows the same formats.

        Example: summarise_errors(log_path="logs/error.log", date="2026-11-29", top=5).

        Args:
            log_path: The file, relative to the workspace.
            date: The day as it stands in the log, 2026-11-29 or 2026/11/29; every day if left
                out.
            level: The least severe level that counts, as in read_error_logs.
            order: Within a severity by count (most first) or by time (earliest first).
            top: At most so many kinds come back, 1 to 100.
            ctx: Says when to stop.

        Returns:
            {"date", "level", "total", "unparsed", "kinds": how many there are, "groups": the
            first of them, severe ones first, each {"template", "severity", "count", "first",
            "last", "sample"}}; in a template N stands for what differs.
        """
        wanted = Filter.of(date, level)
        scan, groups = Scan(filter=wanted), Groups()
        with self._opened(log_path) as file:
            scan.run(file, groups.add, _ignore, ctx)
        found = groups.sorted(order)
        return {
            "date": wanted.day,
            "level": wanted.level,
            "total": scan.total,
            "unparsed": scan.unparsed,
            "kinds": len(found),
            "groups": [group.shown() for group in found[:top]],
        }

    def search_logs(
        self,
        file_path: str,
        keyword: Annotated[str, Field(min_length=1, max_length=500)],
        ctx: ToolContext,
        limit: Annotated[int, Field(ge=1, le=MAX_HITS)] = 20,
        latest: bool = False,
    ) -> dict[str, object]:
        """Find the lines of one log file that hold a text; upper and lower case are the same.

        Use it for a word, an address or a request id. Not for many files: use search_files; not
        to count kinds of errors: use summarise_errors.

        Example: search_logs(file_path="logs/app.log", keyword="order 4711", latest=true).

        Args:
            file_path: The file, relative to the workspace.
            keyword: What to look for, to the letter; no pattern.
            limit: At most so many lines come back, 1 to 200.
            latest: The last ones rather than the first.
            ctx: Says when to stop.

        Returns:
            {"total": lines that hold it, "hits": [{"line": number from 1, "text"}]}.
        """
        word = keyword.casefold()
        hits: deque[dict[str, object]] = deque(maxlen=limit if latest else None)
        total = 0
        with self._opened(file_path) as file:
            for number, raw in _lines(file, ctx):
                text = _text(raw)
                if word not in text.casefold():
                    continue
                total += 1
                if latest or total <= limit:
                    hits.append({"line": number, "text": _around(text, word)})
        return {"total": total, "hits": list(hits)}

    @contextmanager
    def _opened(self, path: str) -> Generator[IO[bytes]]:
        with self._workspace.file(path) as (fd, spot):
            try:
                with os.fdopen(os.dup(fd), "rb") as file:
                    is_packed = file.read(2) == _GZIP
                    file.seek(0)
                    if not is_packed:
                        yield file
                        return
                    with gzip.GzipFile(fileobj=file) as unpacked:
                        yield cast("IO[bytes]", unpacked)
            except (EOFError, zlib.error, OSError) as exc:
                raise ToolError(
                    f"{spot.path!r} cannot be read to its end: {exc}", code="unreadable"
                ) from exc


@dataclass(slots=True, kw_only=True)
class Scan:
    """One pass over a log.

    Attributes:
        total: Records that passed the filter.
        unparsed: Lines that are no record of their own, within the day.
    """

    filter: Filter
    total: int = 0
    unparsed: int = 0

    def run(
        self,
        file: IO[bytes],
        on_record: Callable[[Record, str], None],
        on_more: Callable[[str], None],
        ctx: ToolContext,
    ) -> None:
        """Tell of each record that passes, and of each line that goes on with it."""
        signs = self.filter.signs
        in_day, passes = True, False  # of the last record; unknown at first
        for _, raw in _lines(file, ctx):
            if signs and not in_day and not any(sign in raw for sign in signs):
                continue
            line = _text(raw)
            record = read_line(line)
            if record is None:
                if in_day and line.strip():
                    self.unparsed += 1
                    if passes:
                        on_more(line)
                continue
            in_day = self.filter.is_of_day(record)
            passes = in_day and record.level in self.filter.levels
            if passes:
                self.total += 1
                on_record(record, line)


def _lines(file: IO[bytes], ctx: ToolContext) -> Iterator[tuple[int, bytes]]:
    """Numbered lines; of one over 64 KiB, the beginning."""
    number = 0
    while raw := file.readline(_LINE_BYTES):
        number += 1
        if number % _LOOK_EVERY == 0 and ctx.cancelled:
            raise ToolError("stopped", code="cancelled")
        if len(raw) == _LINE_BYTES:
            rest = raw
            while not rest.endswith(b"\n") and (rest := file.readline(_LINE_BYTES)):
                pass
        yield number, raw


def _text(raw: bytes) -> str:
    """A line as text: UTF-8, or else GB 18030 as programs in China write it."""
    raw = raw.rstrip(b"\r\n")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        pass
    try:
        return raw.decode("gb18030")
    except UnicodeDecodeError:
        return raw.decode(errors="replace")


def _around(text: str, word: str) -> str:
    """A line, or the part of a long one that holds the word."""
    if len(text) <= MAX_LINE_CHARS:
        return text
    at = max(text.casefold().find(word) - MAX_LINE_CHARS // 2, 0)
    return f"{'…' if at else ''}{text[at : at + MAX_LINE_CHARS]}…"


def _ignore(_: str) -> None:
    """For whom continuation lines do not matter."""


def tools(options: BuiltinOptions) -> tuple[Tool, ...]:
    """Reading logs."""
    logs = Logs(options)
    make = tool(effect="read", group="logs", timeout_s=_TIMEOUT_S, untrusted_output=True)
    return make(logs.read_error_logs), make(logs.summarise_errors), make(logs.search_logs)
