"""Puts error groups into a short Markdown report, in English or Chinese."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kinds import KINDS
from nginx_log import ErrorGroup, message_of

Language = Literal["en", "zh"]

_SAMPLE_CHARS = 200
_BY_NAME = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Phrases:
    """The sentences of one language; `levels` may rename nginx's own words."""

    nothing: str
    summary: str
    heading: str
    line: str
    moment: str
    span: str
    others: str
    other: str
    separator: str
    end: str
    levels: dict[str, str]


_ENGLISH = _Phrases(
    nothing="No such errors.",
    summary="{total:,} lines in all.",
    heading="The {shown} worst kinds, severe ones first:",
    line="{number}. **{kind}** ({level}): {count:,}×, {span}",
    moment="at {first}",
    span="{first} to {last}",
    others="Also: ",
    other="{kind} {count:,}×",
    separator=", ",
    end=".",
    levels={},
)
_CHINESE = _Phrases(
    nothing="没有此类错误。",
    summary="共 {total:,} 行。",
    heading="最严重的 {shown} 类，按严重程度排列：",
    line="{number}. **{kind}**（{level}）：{count:,} 次，{span}",
    moment="{first}",
    span="{first} 至 {last}",
    others="其他：",
    other="{kind} {count:,} 次",
    separator="，",
    end="。",
    levels={
        "emerg": "紧急 emerg",
        "alert": "警报 alert",
        "crit": "严重 crit",
        "error": "错误 error",
        "warn": "警告 warn",
        "notice": "注意 notice",
        "info": "信息 info",
        "debug": "调试 debug",
    },
)


def render(
    groups: Sequence[ErrorGroup], *, title: str, total: int, language: Language, top: int
) -> str:
    """The report: a line on the whole, the first `top` groups in detail, the others in a line.

    Groups appear in the order given. A sample shows the message only: what a request carried may
    be nobody else's business.
    """
    phrases = _CHINESE if language == "zh" else _ENGLISH
    heading = f"# {_plain(title)}\n"
    if not groups:
        return f"{heading}\n{phrases.nothing}\n"
    shown, others = groups[:top], groups[top:]
    parts = [heading, phrases.summary.format(total=total)]
    parts.append(phrases.heading.format(shown=len(shown)) + "\n")
    parts += [_entry(number, group, phrases) for number, group in enumerate(shown, start=1)]
    if others:
        listed = (
            phrases.other.format(kind=_kind_name(group, phrases), count=group.count)
            for group in others
        )
        parts.append(f"\n{phrases.others}{phrases.separator.join(listed)}{phrases.end}")
    return "\n".join(parts) + "\n"


def _entry(number: int, group: ErrorGroup, phrases: _Phrases) -> str:
    first, last = _clock(group.first), _clock(group.last)
    span = (phrases.moment if first == last else phrases.span).format(first=first, last=last)
    lines = [
        phrases.line.format(
            number=number,
            kind=_kind_name(group, phrases),
            level=phrases.levels.get(group.severity, group.severity),
            count=group.count,
            span=span,
        )
    ]
    sample = _plain(message_of(group.sample.partition("\n")[0]) or group.template)
    if sample:
        cut = sample if len(sample) <= _SAMPLE_CHARS else sample[:_SAMPLE_CHARS] + "…"
        lines.append(f"   `{cut}`")
    kind = _BY_NAME.get(group.kind)
    if kind:
        lines.append("   " + (kind.chinese_advice if phrases is _CHINESE else kind.advice))
    return "\n".join(lines)


def _kind_name(group: ErrorGroup, phrases: _Phrases) -> str:
    kind = _BY_NAME.get(group.kind)
    if kind is None:  # a masked message of the log: its text is nobody's Markdown
        return f"`{_plain(group.kind)}`"
    return kind.chinese if phrases is _CHINESE else kind.name


def _clock(moment: str) -> str:
    """The time of day of `2026-11-29 20:14:03`; anything else as it is, nothing as `?`."""
    day, _, clock = moment.partition(" ")
    return _plain(clock or day) or "?"


def _plain(text: str) -> str:
    """One line of text that cannot break out of the Markdown around it."""
    return " ".join(text.replace("`", "'").split())
