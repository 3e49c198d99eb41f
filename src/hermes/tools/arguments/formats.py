"""Formats of text: what is one, and the one that a near miss surely means.

Only `date`, `date-time`, `time`, `duration`, `email`, `uuid` and `path` are known here; a text
of any other format is left as it is. A repair changes the spelling, never the value: `2027/1/5`
is `2027-01-05`, but `1/5/2027` could be May or January and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from urllib.parse import unquote, urlsplit
from uuid import UUID

from hermes.core.effects import Effect

from .exact import narrow

_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_LOOSE_DATE = r"(\d{4})\s*(?:[-/.]|年)\s*(\d{1,2})\s*(?:[-/.]|月)\s*(\d{1,2})\s*[日号]?"
_CLOCK = r"(\d{2}):(\d{2})(?::(\d{2})(?:[.,]\d{1,9})?)?"
_OFFSET = r"(?:[Zz]|[+-]\d{2}:?\d{2})"
_TIME = re.compile(rf"{_CLOCK}{_OFFSET}?")
_DATE_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt _](.*)", re.DOTALL)
_LOOSE_TIME = re.compile(
    r"(\d{1,2}):(\d{2})(:\d{2}(?:\.\d{1,9})?)?\s*([Zz]|UTC|GMT|[+-]\d{2}:?\d{2})?"
)
_LOOSE_DATE_ALONE = re.compile(_LOOSE_DATE)
_LOOSE_DATE_TIME = re.compile(rf"{_LOOSE_DATE}[Tt\s]*(.*)")
_DURATION = re.compile(
    r"[+-]?P(?=\d|T\d)(?:\d+(?:[.,]\d+)?W|(?:\d+Y)?(?:\d+M)?(?:\d+(?:[.,]\d+)?D)?"
    r"(?:T(?=\d)(?:\d+(?:[.,]\d+)?H)?(?:\d+(?:[.,]\d+)?M)?(?:\d+(?:[.,]\d+)?S)?)?)"
)
# As Python writes a timedelta.
_CLOCK_DURATION = re.compile(r"[+-]?(?:\d+ ?d(?:ays?)?,? ?)?\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+|周|星期|天|日|小时|时|分钟|分|秒钟|秒)[\s,，]*")
_UNITS = {
    **dict.fromkeys(("w", "week", "weeks", "周", "星期"), "W"),
    **dict.fromkeys(("d", "day", "days", "天", "日"), "D"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "小时", "时"), "H"),
    **dict.fromkeys(("min", "mins", "minute", "minutes", "分钟", "分"), "M"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "秒", "秒钟"), "S"),
}
_EMAIL = re.compile(r"[^\s@<>,;:\"()\[\]]+@[^\s@<>,;:\"()\[\]]*[^\s@<>,;:\"()\[\].]")
_NAMED_EMAIL = re.compile(r"[^<>@]*<([^<>]+)>")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PAIRS = ('""', "''", "``", "“”", "‘’", "「」", "《》", "<>")
_TRAILING = ",;，；。、. \t"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format.

    Attributes:
        is_one: Whether a text is of it.
        nearest: What a text surely means that is not; may give a text that is none either.
        named: In words, with an example.
    """

    is_one: Callable[[str], bool]
    nearest: Callable[[str, Effect], str]
    named: str


def tidy(text: str) -> str:
    """A text without the quotes that enclose it, the spaces around it and a stray end mark."""
    for _ in range(4):
        before = text
        text = text.strip().rstrip(_TRAILING)
        if len(text) > 1 and f"{text[0]}{text[-1]}" in _PAIRS:
            text = text[1:-1]
        if text == before:
            break
    return text


def _is_date(text: str) -> bool:
    parts = _DATE.fullmatch(text)
    return parts is not None and _exists(*map(int, parts.groups()))


def _exists(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _is_time(text: str) -> bool:
    parts = _TIME.fullmatch(text)
    if parts is None:
        return False
    hour, minute, second = (int(part or 0) for part in parts.groups())
    return hour < 24 and minute < 60 and second < 60


def _is_date_time(text: str) -> bool:
    parts = _DATE_TIME.fullmatch(text)
    return parts is not None and _is_date(parts[1]) and _is_time(parts[2])


def _is_duration(text: str) -> bool:
    return bool(_DURATION.fullmatch(text) or _CLOCK_DURATION.fullmatch(text))


def _is_email(text: str) -> bool:
    return len(text) <= 320 and _EMAIL.fullmatch(text) is not None


def _is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


def _is_path(text: str) -> bool:
    enclosed = len(text) > 1 and f"{text[0]}{text[-1]}" in _PAIRS
    has_controls = any(character < " " for character in text)
    is_url = text.startswith("file:")
    return bool(text) and not (has_controls or enclosed or is_url) and text == text.strip()


def _plain(text: str) -> str:
    """Full-width digits and marks as ASCII has them."""
    return narrow(tidy(text))


def _near_date(text: str, _: Effect) -> str:
    parts = _LOOSE_DATE_ALONE.fullmatch(_plain(text))
    return _written(parts) if parts else tidy(text)


def _written(parts: re.Match[str]) -> str:
    return f"{parts[1]}-{int(parts[2]):02}-{int(parts[3]):02}"


def _near_time(text: str, _: Effect) -> str:
    parts = _LOOSE_TIME.fullmatch(_plain(text))
    if parts is None:
        return tidy(text)
    zone = "Z" if parts[4] in ("UTC", "GMT", "z") else parts[4] or ""
    return f"{int(parts[1]):02}:{parts[2]}{parts[3] or ''}{zone}"


def _near_date_time(text: str, effect: Effect) -> str:
    parts = _LOOSE_DATE_TIME.fullmatch(_plain(text))
    if parts is None:
        return tidy(text)
    clock = f"T{_near_time(parts[4], effect)}" if parts[4] else ""
    return _written(parts) + clock


def _near_duration(text: str, _: Effect) -> str:
    plain = _plain(text)
    amounts: dict[str, str] = {}
    position = 0
    while match := _AMOUNT.match(plain, position):
        unit = _UNITS.get(match[2].lower())
        # A lone "m" is a month to some and a minute to others; after hours it is a minute.
        if match[2] == "m" and "H" in amounts:
            unit = "M"
        if unit is None or unit in amounts:
            return plain
        amounts[unit] = match[1]
        position = match.end()
    if not amounts or position < len(plain) or list(amounts) != sorted(amounts, key="WDHMS".index):
        return plain
    if "W" in amounts:
        return f"P{amounts['W']}W" if len(amounts) == 1 else plain
    days = f"{amounts['D']}D" if "D" in amounts else ""
    clock = "".join(f"{amounts[unit]}{unit}" for unit in "HMS" if unit in amounts)
    return f"P{days}{'T' if clock else ''}{clock}"


def _near_email(text: str, effect: Effect) -> str:
    plain = _plain(text)
    if plain.lower().startswith("mailto:"):
        plain = plain[7:]
    named = _NAMED_EMAIL.fullmatch(plain)
    return named[1].strip() if named and effect == "read" else plain


def _near_uuid(text: str, _: Effect) -> str:
    try:
        return str(UUID(tidy(text)))
    except ValueError:
        return text


def _near_path(text: str, _: Effect) -> str:
    text = text.strip()
    if len(text) > 2 and f"{text[0]}{text[-1]}" in _PAIRS:
        text = text[1:-1].strip()
    url = urlsplit(text) if text.startswith("file:///") else None
    return unquote(url.path) if url and not url.query and not url.fragment else text


FORMATS = {
    "date": Format(is_one=_is_date, nearest=_near_date, named="a date such as 2026-11-29"),
    "date-time": Format(
        is_one=_is_date_time,
        nearest=_near_date_time,
        named="a time such as 2026-11-29T08:00:00Z",
    ),
    "time": Format(is_one=_is_time, nearest=_near_time, named="a time of day such as 08:15:00"),
    "duration": Format(
        is_one=_is_duration, nearest=_near_duration, named="a duration such as PT1H30M"
    ),
    "email": Format(
        is_one=_is_email, nearest=_near_email, named="an e-mail address such as anna@example.org"
    ),
    "uuid": Format(
        is_one=_is_uuid,
        nearest=_near_uuid,
        named="a UUID such as 0191e2a4-7c3b-7f00-8000-5d2f6a1b9c3e",
    ),
    "path": Format(
        is_one=_is_path,
        nearest=_near_path,
        named=r"a path such as reports/may.csv; JSON writes each backslash twice, \\",
    ),
}
