"""One line of a log as time, level and message, in the formats that servers write.

nginx error and access logs (Apache's combined format too), syslog by RFC 3164 and RFC 5424, lines
that begin with an ISO date as most programs write them, and JSON lines.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import NamedTuple, cast

from hermes.errors import ToolError

LEVELS = ("emerg", "alert", "crit", "error", "warn", "notice", "info", "debug")
"""Most severe first, as nginx and syslog spell them."""

_ALIASES = {
    "emergency": "emerg",
    "panic": "emerg",
    "critical": "crit",
    "fatal": "crit",
    "err": "error",
    "errors": "error",
    "severe": "error",
    "warning": "warn",
    "warnings": "warn",
    "information": "info",
    "trace": "debug",
    "verbose": "debug",
    "紧急": "emerg",
    "警报": "alert",
    "严重": "crit",
    "致命": "crit",
    "错误": "error",
    "警告": "warn",
    "信息": "info",
    "调试": "debug",
}
_MONTHS: tuple[str, ...] = (*"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(),)
_DATE = re.compile(r"(\d{4})\s*[-/.年]\s*(\d{1,2})\s*[-/.月]\s*(\d{1,2})\s*日?")
_MAX_CHARS = 4_000

_NGINX = re.compile(
    r"(\d{4})/(\d\d)/(\d\d) (\d\d:\d\d:\d\d) \[(\w+)\] (?:\d+#\d+: )?(?:\*\d+ )?(.*)", re.DOTALL
)
_ACCESS = re.compile(
    r"\S+ \S+ [^\[]{0,200}\[(\d\d)/(\w{3})/(\d{4}):(\d\d:\d\d:\d\d) [^\]]*\] "
    r'"((?:[^"\\]|\\.)*)" (\d{3}) '
)
_RFC5424 = re.compile(
    r"<(\d{1,3})>\d{1,2} (\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\S* \S+ (\S+) \S+ \S+ "
    r"(?:-|(?:\[(?:[^\]\\]|\\.)*\])+) ?(.*)",
    re.DOTALL,
)
_RFC3164 = re.compile(
    r"(?:<(\d{1,3})>)?([A-Z][a-z]{2}) ([ 0-3]\d) (\d\d:\d\d:\d\d) \S+ (.*)", re.DOTALL
)
_ISO = re.compile(r"\[?(\d{4})([-/])(\d\d)\2(\d\d)[T ](\d\d:\d\d:\d\d)\S* (.*)", re.DOTALL)
_LEVEL_WORD = re.compile(
    r"\b(emerg|panic|alert|crit|critical|fatal|severe|err|error|warn|warning|notice|info|debug|trace)\b",
    re.IGNORECASE,
)
_TROUBLE = re.compile(
    r"\b(?:(panic)|(critical|fatal)|(err|error|errors|failed|failure|exception)|(warn|warning))\b",
    re.IGNORECASE,
)
_TIME_KEYS = ("time", "timestamp", "@timestamp", "ts", "datetime", "date", "asctime")
_LEVEL_KEYS = ("level", "severity", "lvl", "levelname", "log.level", "loglevel")
_TEXT_KEYS = ("message", "msg", "event", "log", "text", "error")


class Record(NamedTuple):
    """The first line of a record.

    Attributes:
        day: `2026-11-29`, or `11-29` where the format has no year; "" if it has no time.
        clock: `20:14:03`.
        level: One of `LEVELS`.
        message: Without time and level, and without the details of the request.
        status: Of an access log: a number that matters, and is never masked.
    """

    day: str
    clock: str
    level: str
    message: str
    status: str = ""

    @property
    def time(self) -> str:
        """Day and clock."""
        return f"{self.day} {self.clock}".strip()


def read_line(text: str) -> Record | None:
    """A line as a record; None if it is none: a continuation, cut off, or of another format."""
    first = text[:1]
    if first == "{":
        return _json(text)
    if first == "<":
        return _rfc5424(text) or _rfc3164(text)
    if first.isdigit() or first == "[":
        return _nginx(text) or _iso(text) or _access(text)
    return _rfc3164(text) or _access(text)


def _nginx(text: str) -> Record | None:
    found = _NGINX.match(text)
    if found is None or (level := _level(found.group(5))) is None:
        return None
    year, month, day, clock, _, rest = found.groups()
    return _record(f"{year}-{month}-{day}", clock, level, rest.partition(", client: ")[0])


def _access(text: str) -> Record | None:
    found = _ACCESS.match(text)
    if found is None:
        return None
    day, month, year, clock, request, status = found.groups()
    if month not in _MONTHS:
        return None
    level = "error" if status >= "500" else "warn" if status >= "400" else "info"
    words = request.split(" ")
    shown = " ".join([words[0], *(word.partition("?")[0] for word in words[1:2])])
    number = _MONTHS.index(month) + 1
    return _record(f"{year}-{number:02}-{day}", clock, level, shown, status)


def _rfc5424(text: str) -> Record | None:
    found = _RFC5424.match(text)
    if found is None:
        return None
    priority, day, clock, app, message = found.groups()
    return _record(day, clock, LEVELS[int(priority) % 8], f"{app}: {message.lstrip(chr(0xFEFF))}")


def _rfc3164(text: str) -> Record | None:
    found = _RFC3164.match(text)
    if found is None or found.group(2) not in _MONTHS:
        return None
    priority, month, day, clock, message = found.groups()
    level = LEVELS[int(priority) % 8] if priority else _told(message)
    number = _MONTHS.index(month) + 1
    return _record(f"{number:02}-{int(day):02}", clock, level, message)


def _iso(text: str) -> Record | None:
    found = _ISO.match(text)
    if found is None:
        return None
    year, _, month, day, clock, rest = found.groups()
    word = _LEVEL_WORD.search(rest[:80])
    level = _level(word.group()) if word else None
    return _record(f"{year}-{month}-{day}", clock, level or _told(rest), rest)


def _json(text: str) -> Record | None:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    table = {str(key).lower(): each for key, each in cast("dict[object, object]", value).items()}
    message = next((table[key] for key in _TEXT_KEYS if table.get(key)), "")
    if not isinstance(message, str):
        message = json.dumps(message, ensure_ascii=False)
    day, clock = _instant(next((table[key] for key in _TIME_KEYS if key in table), None))
    named = next((table[key] for key in _LEVEL_KEYS if key in table), None)
    return _record(day, clock, _json_level(named) or _told(message), message or text)


def _instant(value: object) -> tuple[str, str]:
    """Day and clock of a text as it is written, or of a number since 1970, in UTC."""
    if isinstance(value, str) and (found := re.match(_PLAIN_TIME, value)):
        return f"{found.group(1)}-{found.group(2)}-{found.group(3)}", found.group(4)
    try:
        seconds = float(cast("float", value))
        while seconds > 1e11:  # milliseconds, microseconds, nanoseconds
            seconds /= 1000
        at = datetime.fromtimestamp(seconds, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return "", ""
    return at.date().isoformat(), at.strftime("%H:%M:%S")


_PLAIN_TIME = r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d:\d\d:\d\d)"


def _json_level(value: object) -> str | None:
    if isinstance(value, str):
        return _level(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 10:  # syslog's numbers; the others grow with severity
            return LEVELS[value] if 0 <= value < len(LEVELS) else None
        return (
            "crit" if value >= 60 else ("debug", "debug", "info", "warn", "error")[value // 10 - 1]
        )
    return None


def _told(message: str) -> str:
    """The level of a record that names none, by the words it is told in."""
    found = _TROUBLE.search(message)
    if found is None:
        return "info"
    return ("emerg", "crit", "error", "warn")[(found.lastindex or 1) - 1]


def _record(day: str, clock: str, level: str, message: str, status: str = "") -> Record:
    return Record(day, clock, level, message[:_MAX_CHARS].strip(), status)


@lru_cache(maxsize=256)
def _level(text: str) -> str | None:
    word = unicodedata.normalize("NFKC", text).strip().strip("[]").casefold()
    level = _ALIASES.get(word, word)
    return level if level in LEVELS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """One day or all of them, and the levels from the most severe down to `level`.

    Attributes:
        day: ISO date; "" for every day.
        level: The least severe that counts.
        levels: Those that count.
        signs: How the day is spelled; a line that holds none of them is of another day.
    """

    day: str
    level: str
    levels: frozenset[str]
    signs: tuple[bytes, ...]

    @classmethod
    def of(cls, day: str, level: str) -> Filter:
        """Read what people write: `2026/11/29` and `2026-11-29`, `crit` and `critical`.

        Raises:
            ToolError: It is no date, or no level; the message says what is allowed.
        """
        known = _level(level)
        if known is None:
            raise ToolError(
                f"unknown level {level!r:.40}",
                code="bad_arguments",
                hint=f"one of {', '.join(LEVELS)}",
            )
        levels = frozenset(LEVELS[: LEVELS.index(known) + 1])
        if not day.strip():
            return cls(day="", level=known, levels=levels, signs=())
        at = _read_date(day)
        month = _MONTHS[at.month - 1]
        spelled = (
            at.isoformat(),
            at.isoformat().replace("-", "/"),
            f"{at.day:02}/{month}/{at.year}",
            f"{month} {at.day:2}",
            f"{month} {at.day:02}",
            "{",  # a number of seconds shows no date
        )
        signs = tuple(map(str.encode, spelled))
        return cls(day=at.isoformat(), level=known, levels=levels, signs=signs)

    def is_of_day(self, record: Record) -> bool:
        """Whether a record is of the day; of a format without a year, by month and day."""
        return not self.day or record.day == self.day or record.day == self.day[5:]


def _read_date(text: str) -> date:
    found = _DATE.fullmatch(unicodedata.normalize("NFKC", text).strip())
    try:
        if found is None:
            raise ValueError("it has another form")
        return date(*(int(part) for part in found.groups()))
    except ValueError as exc:
        raise ToolError(
            f"no date: {text!r:.40} ({exc})",
            code="bad_arguments",
            hint="write 2026-11-29 or 2026/11/29",
        ) from exc
