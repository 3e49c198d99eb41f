"""What time it is, anywhere; group `core`."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cache

from hermes.core.clock import Clock, SystemClock
from hermes.core.problems import did_you_mean
from hermes.errors import ToolError
from hermes.tools.base import Tool
from hermes.tools.function import tool

from .options import BuiltinOptions

_WEEKDAYS = (
    "Monday 星期一",
    "Tuesday 星期二",
    "Wednesday 星期三",
    "Thursday 星期四",
    "Friday 星期五",
    "Saturday 星期六",
    "Sunday 星期日",
)
_CITIES = {
    "Asia/Shanghai": "北京 上海 广州 深圳 杭州 成都 中国 beijing guangzhou shenzhen china prc cst",
    "Asia/Urumqi": "乌鲁木齐 新疆",
    "Asia/Hong_Kong": "香港",
    "Asia/Macau": "澳门 macao",
    "Asia/Taipei": "台北 台湾",
    "Asia/Tokyo": "东京 日本 japan",
    "Asia/Seoul": "首尔 韩国 korea",
    "Asia/Singapore": "新加坡",
    "Asia/Bangkok": "曼谷 泰国",
    "Asia/Kolkata": "印度 孟买 新德里 india mumbai delhi",
    "Asia/Dubai": "迪拜",
    "Europe/Moscow": "莫斯科",
    "Europe/Berlin": "柏林 德国 germany",
    "Europe/Paris": "巴黎 法国 france",
    "Europe/London": "伦敦 英国 uk england",
    "America/New_York": "纽约 华盛顿 washington boston",
    "America/Los_Angeles": "洛杉矶 旧金山 san_francisco seattle",
    "Australia/Sydney": "悉尼",
    "UTC": "协调世界时 gmt z zulu",
}
_OFFSET = re.compile(r"(?:utc|gmt)?\s*([+-])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)
_SUFFIX = re.compile(r"(?:时间|市|时区)$")


def make(clock: Clock) -> Tool:
    """`get_time`, by a clock of the caller's."""

    @tool(effect="read", group="core")
    async def get_time(zone: str = "") -> dict[str, object]:
        """Tell the present date, time and weekday in a time zone.

        Use it whenever an answer depends on today or now; you do not know the date yourself. Not
        to wait, and not for the time of past events.

        Example: get_time(zone="Asia/Shanghai").

        Args:
            zone: An IANA name, a large city (Shanghai, 北京) or an offset (UTC+8); the zone of
                this machine if left out.

        Returns:
            {"zone", "date": "2026-11-29", "time": "20:14:03", "weekday", "utc_offset", "utc"}.
        """
        wanted = zone.strip()
        here = _zone(wanted) if wanted else None
        now = clock.now().astimezone(here)
        return {
            "zone": str(here) if here else f"{now.tzname()} (this machine)",
            "date": now.date().isoformat(),
            "time": now.strftime("%H:%M:%S"),
            "weekday": _WEEKDAYS[now.weekday()],
            "utc_offset": _offset(now),
            "utc": clock.now().isoformat(timespec="seconds").replace("+00:00", "Z"),
        }

    return get_time


def _offset(now: datetime) -> str:
    text = now.strftime("%z")
    return f"{text[:3]}:{text[3:5]}"


def _zone(text: str) -> tzinfo:
    """A zone by whatever people call it; never a guess between two.

    Raises:
        ToolError: None is called so, or several are.
    """
    if found := _OFFSET.fullmatch(unicodedata.normalize("NFKC", text)):
        sign, hours, minutes = found.groups()
        span = timedelta(hours=int(hours), minutes=int(minutes or 0))
        if span <= timedelta(hours=14) and int(minutes or 0) < 60:
            return timezone(-span if sign == "-" else span)
    names = _names()
    plain = _plain(text)
    candidates = names.get(plain) or names.get(_SUFFIX.sub("", plain)) or ()
    if len(candidates) == 1:
        from zoneinfo import ZoneInfo  # loaded on use, and so is the list of all

        return ZoneInfo(candidates[0])
    if candidates:
        raise ToolError(
            f"{text!r:.80} is the name of several zones: {', '.join(candidates)}",
            code="ambiguous_zone",
            hint="choose one of them",
        )
    raise ToolError(
        f"there is no time zone {text!r:.80}",
        code="unknown_zone",
        hint=did_you_mean(plain, names) or "write an IANA name, such as Asia/Shanghai",
    )


@cache
def _names() -> dict[str, tuple[str, ...]]:
    """Zones by their full names, their cities, and what else they are called."""
    from zoneinfo import available_timezones

    found: dict[str, set[str]] = {}
    for zone in available_timezones():
        if zone.startswith(("posix/", "right/")) or zone in ("Factory", "localtime"):
            continue
        found.setdefault(_plain(zone), set()).add(zone)
    # A city counts for itself only where no zone is called so as a whole.
    whole = set(found)
    for names in list(found.values()):
        for zone in names:
            area, _, city = zone.rpartition("/")
            if area.partition("/")[0] in _AREAS and _plain(city) not in whole:
                found.setdefault(_plain(city), set()).add(zone)
    for zone, words in _CITIES.items():
        for word in words.split():
            found[_plain(word)] = {zone}
    return {name: tuple(sorted(zones)) for name, zones in found.items()}


_AREAS = frozenset(
    "Africa America Antarctica Arctic Asia Atlantic Australia Europe Indian Pacific".split()
)


def _plain(text: str) -> str:
    return "_".join(unicodedata.normalize("NFKC", text).casefold().replace("_", " ").split())


def tools(_: BuiltinOptions) -> tuple[Tool, ...]:
    """What time it is."""
    return (make(SystemClock()),)
