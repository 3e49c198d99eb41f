"""Records by kind: the same message, whatever its numbers, names and addresses are."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from .logs_lines import LEVELS, Record

Order = Literal["count", "time"]

MAX_SAMPLE_CHARS = 320
_MAX_TEMPLATE_CHARS = 160
_MAX_RUNS = 5_000
_MAX_GROUPS = 500
_UNNAMED = "anything else"
_DIGITS = bytes.maketrans(b"0123456789", b"0000000000")

# A quote within the quoted text, as in "/a"b", is not followed by what follows a closing one;
# a quote that a cut line never closes reaches to the end.
_QUOTED = r'"(?:[^"]|"(?![\s,:)]|$))*(?:"|$)'
_MASKS = (
    (re.compile(_QUOTED), '"…"'),
    (re.compile(r"unix:\S*[^\s:,)]"), "unix:…"),
    (re.compile(r"(?<![\w.…])/[^\s:,()]+"), "/…"),
    # An IPv6 address, in brackets or bare; clock times look alike and are masked alike.
    (re.compile(r"\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\](?::\d+)?", re.ASCII), "N"),
    (re.compile(r"(?<![\w:])(?:[0-9A-Fa-f]*:){2,}[0-9A-Fa-f.]*(?!\w)", re.ASCII), "N"),
    (re.compile(r"[\w-]*\d(?:[\w.:-]*\w)?", re.ASCII), "N"),
    (re.compile(r"\b[0-9A-Fa-f]{8,}\b", re.ASCII), "N"),
)


def template_of(message: str) -> str:
    """The message with quoted text, paths, addresses, numbers and words with digits masked."""
    text = message[:1_000]
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text[:_MAX_TEMPLATE_CHARS]


@dataclass(slots=True, kw_only=True)
class Group:
    """All records of one template.

    Attributes:
        sample: The last line, cut at 320 characters.
    """

    template: str
    severity: str
    count: int = 0
    first: str = ""
    last: str = ""
    sample: str = ""

    def add(self, run: _Run) -> None:
        """Count a run of records."""
        self.count += run.count
        self.severity = min(self.severity, run.first_record.level, key=LEVELS.index)
        self.first = min(filter(None, (self.first, run.first)), default="")
        if run.last >= self.last:
            self.last, self.sample = run.last, run.sample[:MAX_SAMPLE_CHARS]

    def shown(self) -> dict[str, object]:
        """As a result has it."""
        return {
            "template": self.template,
            "severity": self.severity,
            "count": self.count,
            "first": self.first,
            "last": self.last,
            "sample": self.sample,
        }


@dataclass(slots=True, kw_only=True)
class _Run:
    """Records whose messages differ in digits alone."""

    first_record: Record
    count: int = 0
    first: str = ""
    last: str = ""
    sample: str = ""


@dataclass(slots=True)
class Groups:
    """Sorts records into groups; memory stays bounded, whatever comes."""

    _runs: dict[tuple[bytes, str, str], _Run] = field(
        default_factory=dict[tuple[bytes, str, str], _Run]
    )
    _groups: dict[str, Group] = field(default_factory=dict[str, Group])

    def add(self, record: Record, line: str) -> None:
        """Count one record."""
        plain = record.message[:300].encode("utf-8", "replace").translate(_DIGITS)
        key = plain, record.level, record.status
        run = self._runs.get(key)
        if run is None:
            if len(self._runs) == _MAX_RUNS:
                self._settle()
            run = self._runs[key] = _Run(first_record=record)
        run.count += 1
        time = record.time
        if time and (not run.first or time < run.first):
            run.first = time
        if time >= run.last:
            run.last, run.sample = time, line

    def sorted(self, order: Order) -> list[Group]:
        """All groups, severe ones first, then by count or by first time."""
        self._settle()
        return sorted(self._groups.values(), key=_by_count if order == "count" else _by_time)

    def _settle(self) -> None:
        for run in self._runs.values():
            begun = run.first_record
            template = template_of(begun.message) or _UNNAMED
            if begun.status:
                template = f"{template} -> {begun.status}"
            if template not in self._groups and len(self._groups) >= _MAX_GROUPS:
                template = _UNNAMED
            group = self._groups.setdefault(
                template, Group(template=template, severity=begun.level)
            )
            group.add(run)
        self._runs.clear()


def _by_count(group: Group) -> tuple[int, int, str]:
    return LEVELS.index(group.severity), -group.count, group.first


def _by_time(group: Group) -> tuple[int, str, int]:
    return LEVELS.index(group.severity), group.first, -group.count
