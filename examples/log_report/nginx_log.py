"""Reads nginx error logs of any size: picks lines, and counts them by kind."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from io import BytesIO
from typing import IO, Literal

from kinds import QUOTED, kind_of, template_of

Order = Literal["count", "time"]

# Most severe first, as nginx spells them.
LEVELS = ("emerg", "alert", "crit", "error", "warn", "notice", "info", "debug")
_ALIASES = {
    "emergency": "emerg",
    "critical": "crit",
    "err": "error",
    "errors": "error",
    "warning": "warn",
    "warnings": "warn",
    "紧急": "emerg",
    "警报": "alert",
    "严重": "crit",
    "错误": "error",
    "警告": "warn",
    "信息": "info",
}
_DATE = re.compile(r"(\d{4})\s*[-/.年]\s*(\d{1,2})\s*[-/.月]\s*(\d{1,2})\s*日?")

# A record begins `2026/11/29 20:14:03 [error] 1189#1189: *4711 `; seven bytes tell its level.
_LEVEL = slice(20, 27)
_MARKS = {f"[{level}] "[:7].encode(): level for level in LEVELS}
_HEAD = re.compile(r".{20}\[\w*\]? ?(?:\d+#\d+: )?(?:\*\d+ )?", re.DOTALL)
_QUOTED = re.compile(QUOTED.encode())
_DIGITS = bytes.maketrans(b"0123456789", b"0000000000")

_CHUNK_BYTES = 1 << 17
# Some 30 MB at the very most, since nginx cuts its lines at 2 KiB.
_MAX_RUNS = 5_000
_MAX_GROUPS = 500
_MAX_RECORD_CHARS = 4_000
# A summary of twenty kinds stays under the 16,000 characters that a model gets of a result.
_MAX_SAMPLE_CHARS = 320
_MAX_TEMPLATE_CHARS = 160
_UNNAMED = "anything else"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """One day, and the levels from the most severe down to `level`.

    Attributes:
        day: ISO date, `2026-11-29`.
        level: As nginx spells it.
    """

    day: str
    level: str

    @classmethod
    def of(cls, day: str, level: str) -> Filter:
        """Read what people write: `2026/11/29` and `2026-11-29`, `crit` and `critical`.

        Raises:
            ValueError: It is no date, or no level; the message says what is allowed.
        """
        return cls(day=_read_date(day), level=_read_level(level))

    @property
    def beginning(self) -> bytes:
        """How every line of the day begins."""
        return self.day.replace("-", "/").encode() + b" "

    @property
    def marks(self) -> frozenset[bytes]:
        """The first bytes of the level's field in the lines that count."""
        wanted = LEVELS[: LEVELS.index(self.level) + 1]
        return frozenset(mark for mark, level in _MARKS.items() if level in wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroup:
    """All lines of one kind.

    Attributes:
        kind: What happened, in a few words, such as `upstream refused`.
        severity: The most severe level among its lines, as nginx spells it.
        count: How many lines.
        first: Time of the first one, `2026-11-29 20:14:03`.
        last: Time of the last one.
        template: Its commonest message, with numbers, names and addresses masked.
        sample: The last line with that message, cut at 320 characters.
    """

    kind: str
    severity: str
    count: int
    first: str = ""
    last: str = ""
    template: str = ""
    sample: str = ""


@dataclass(slots=True)
class Scan:
    """One pass over a log, from the beginning of a binary file to its end.

    Attributes:
        total: Records that passed the filter.
        unparsed: Lines that are no record, before the first record or within the day:
            continuations of a record, cut off, or of another format.
    """

    filter: Filter
    total: int = 0
    unparsed: int = 0

    def first_records(self, file: IO[bytes], limit: int) -> list[str]:
        """The first `limit` records that pass, each with its continuation lines; counts all."""
        kept: list[str] = []

        def append(line: bytes) -> None:
            if self.total <= limit and len(kept[-1]) < _MAX_RECORD_CHARS:
                kept[-1] = f"{kept[-1]}\n{_text(line)}"[:_MAX_RECORD_CHARS]

        for line in self._passing(file, append):
            self.total += 1
            if self.total <= limit:
                kept.append(_text(line))
        return kept

    def groups(self, file: IO[bytes], order: Order = "count") -> list[ErrorGroup]:
        """Everything that passes, by kind; severe kinds first, then by count or by first time."""
        runs = _Runs()
        known = runs.known
        for line in self._passing(file, _ignore):
            # Lines that differ in digits only share a run, so that few need a closer look.
            key = line.partition(b", client: ")[0].translate(_DIGITS)
            run = known.get(key) or runs.add(key, line)
            run.count += 1
            if line > run.last:
                run.last = line
            elif line < run.first:
                run.first = line
        tallies = runs.settle()
        self.total = sum(tally.count for tally in tallies.values())
        groups = [tally.group(kind) for kind, tally in tallies.items()]
        return sorted(groups, key=_by_count if order == "count" else _by_time)

    def _passing(
        self, file: IO[bytes], on_continuation: Callable[[bytes], None]
    ) -> Iterator[bytes]:
        """Each first line of a record that passes.

        A gigabyte has millions of lines. So what most of them fail is tested first, on slices,
        and a chunk of which no line can count is left out whole.
        """
        beginning, marks = self.filter.beginning, self.filter.marks
        in_day, passes = True, False  # of the last record; unknown at first, so nothing is left out
        for chunk in _chunks(file):
            if not in_day and beginning not in chunk:
                continue
            for line in BytesIO(chunk):
                if line[:11] == beginning:
                    level = line[_LEVEL]
                    in_day, passes = True, level in marks
                    if passes:
                        yield line
                    elif level not in _MARKS:
                        self.unparsed += 1
                elif line[4:5] == b"/":
                    in_day = passes = False
                elif in_day:
                    self.unparsed += 1
                    if passes:
                        on_continuation(line)


class _Run:
    """Records that are alike but for their digits and quoted text."""

    __slots__ = ("count", "first", "last")

    def __init__(self, line: bytes) -> None:
        self.count = 0
        self.first = self.last = line


class _Runs:
    """Sorts records into runs, and at the end, or when there are many, runs into kinds.

    Attributes:
        known: The run of each beginning seen lately, digits replaced by zeros.
    """

    def __init__(self) -> None:
        self.known: dict[bytes, _Run] = {}
        self._by_shape: dict[bytes, _Run] = {}
        self._tallies: dict[str, _Tally] = {}

    def add(self, key: bytes, line: bytes) -> _Run:
        """The run of a beginning that is not `known`."""
        if len(self.known) == _MAX_RUNS:
            self.settle()
        shape = _QUOTED.sub(b'"', key)
        run = self._by_shape.get(shape)
        if run is None:
            run = self._by_shape[shape] = _Run(line)
        self.known[key] = run
        return run

    def settle(self) -> dict[str, _Tally]:
        """Count the runs under their kinds and forget them; returns the count by kind."""
        for run in self._by_shape.values():
            message = message_of(run.last.decode(errors="replace"))
            template = template_of(message)[:_MAX_TEMPLATE_CHARS]
            kind = kind_of(template)
            name = kind.name if kind else template or _UNNAMED
            if name not in self._tallies and len(self._tallies) >= _MAX_GROUPS:
                name = _UNNAMED
            self._tallies.setdefault(name, _Tally()).add(run, template)
        self._by_shape.clear()
        self.known.clear()
        return self._tallies


@dataclass(slots=True)
class _Tally:
    """What is known of one kind so far; `runs` has the commonest message's count and line."""

    count: int = 0
    first: bytes = b"~"  # after every digit
    last: bytes = b""
    severity: str = LEVELS[-1]
    templates: dict[str, tuple[int, bytes]] = field(default_factory=dict[str, tuple[int, bytes]])

    def add(self, run: _Run, template: str) -> None:
        self.count += run.count
        self.first = min(self.first, run.first)
        self.last = max(self.last, run.last)
        self.severity = min(self.severity, _MARKS[run.last[_LEVEL]], key=LEVELS.index)
        count, line = self.templates.get(template, (0, b""))
        if count or len(self.templates) < _MAX_GROUPS:
            self.templates[template] = (count + run.count, max(line, run.last))

    def group(self, kind: str) -> ErrorGroup:
        template, (_, line) = max(self.templates.items(), key=lambda item: item[1])
        return ErrorGroup(
            kind=kind,
            severity=self.severity,
            count=self.count,
            first=_time(self.first),
            last=_time(self.last),
            template=template,
            sample=_text(line)[:_MAX_SAMPLE_CHARS],
        )


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    """Pieces that end with a line, so that memory stays bounded.

    A line over 128 KiB, which nginx never writes, comes in several.
    """
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk + file.readline(_CHUNK_BYTES)


def _ignore(_: bytes) -> None:
    """For whom continuation lines do not matter."""


def message_of(record: str) -> str:
    """What a record says, without its head and without the details of the request."""
    head = _HEAD.match(record)
    return record[head.end() if head else 0 :].partition(", client: ")[0].rstrip()


def _read_date(text: str) -> str:
    match = _DATE.fullmatch(unicodedata.normalize("NFKC", text).strip())
    try:
        if match is None:
            raise ValueError("it has another form")
        return date(*(int(part) for part in match.groups())).isoformat()
    except ValueError as exc:
        raise ValueError(f"no date: {text!r} ({exc}); write 2026-11-29 or 2026/11/29") from exc


def _read_level(text: str) -> str:
    word = unicodedata.normalize("NFKC", text).strip().strip("[]").lower()
    level = _ALIASES.get(word, word)
    if level not in LEVELS:
        raise ValueError(f"unknown level: {text!r}; one of {', '.join(LEVELS)} (or critical, …)")
    return level


def _by_count(group: ErrorGroup) -> tuple[int, int, str, str]:
    return LEVELS.index(group.severity), -group.count, group.first, group.kind


def _by_time(group: ErrorGroup) -> tuple[int, str, int, str]:
    return LEVELS.index(group.severity), group.first, -group.count, group.kind


def _time(line: bytes) -> str:
    return line[:19].decode(errors="replace").replace("/", "-")


def _text(line: bytes) -> str:
    return line.rstrip(b"\r\n").decode(errors="replace")[:_MAX_RECORD_CHARS]
