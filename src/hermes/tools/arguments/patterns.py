"""Regular expressions that come with a schema: searched only where they surely come to an end.

Python's matcher backtracks, and no time limit can be set on it. A repeated group that repeats or
chooses within itself, `(a+)+`, may take time exponential in the text, so it sees short texts only.
A group whose items a separator holds apart, `(-[a-z]+)*`, has one way to match and is no such.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

_STEPS_LOG2 = 18
_FEW = 4
_SEPARATED = re.compile(
    r"\((?:\?:)?(?:(?P<before>\\[-_.:/@,;]|[-_:/@,;])(?P<items>\[(?:[^\]\\]|\\.)+\]|\\[wd])[+*]"
    r"|(?P<items1>\[(?:[^\]\\]|\\.)+\]|\\[wd])\+(?P<after>\\[-_.:/@,;]|[-_:/@,;]))\)(?=[*+{?])"
)
_PART = re.compile(
    r"\\.|\[\^?\]?(?:[^\]\\]|\\.)*\]|(?P<open>\((?:\?(?:P?<\w+>|[a-zA-Z-]*[:=!>]|<[=!]))?)"
    r"|(?P<close>\))|(?P<choice>\|)|(?P<times>(?:[*+?]|\{\d*(?:,\d*)?\})[?+]?)|.",
    re.DOTALL,
)
_COUNT = re.compile(r"\{(\d*)(,?)(\d*)\}")


def too_slow(pattern: str, text: str) -> str:
    """Why a pattern cannot be searched in a text, in words for the model; "" if it can be."""
    limit = _max_chars(pattern)
    if len(text) <= limit:
        return ""
    return (
        f"has {len(text)} characters; the pattern {pattern:.80} may take for ever on so many and "
        f"is checked on at most {limit}"
    )


@lru_cache(maxsize=256)
def _max_chars(pattern: str) -> float:
    """The longest text that a pattern surely comes to an end with."""
    ways = _ways(_SEPARATED.sub(_simpler, pattern))
    return math.inf if ways == 0 else int(_STEPS_LOG2 / math.log2(ways + 1))


def _simpler(group: re.Match[str]) -> str:
    separator = (group["before"] or group["after"])[-1]
    items = group["items"] or group["items1"]
    try:
        is_apart = re.fullmatch(items, separator) is None
    except re.error:
        is_apart = False
    return "(?:x)" if is_apart else group[0]


def _ways(pattern: str) -> int:
    """How many repetitions and choices stand in the repeated groups that hold any."""
    inside, closed, found = [0], 0, 0
    for part in _PART.finditer(pattern):
        if part["open"]:
            inside.append(0)
        elif part["close"] and len(inside) > 1:
            closed = inside.pop()
            inside[-1] += closed
            continue
        elif part["choice"]:
            inside[-1] += 1
        elif part["times"]:
            if closed and _repeats(part["times"]):
                found += closed
            inside[-1] += not _is_fixed(part["times"])
        closed = 0
    return found


def _repeats(times: str) -> bool:
    if (count := _COUNT.match(times)) is None:
        return times[0] != "?"
    most = count[3] if count[2] else count[1]
    return not most or int(most[:9]) > _FEW


def _is_fixed(times: str) -> bool:
    count = _COUNT.match(times)
    return count is not None and not count[2]
