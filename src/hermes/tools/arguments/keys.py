"""Keys that a tool does not know: which of its own they surely are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hermes.core.effects import Effect

from .exact import SEEN_CHARS

_INVISIBLE = re.compile(r"[\s\u200b-\u200d\u2060\ufeff]+")
_DIGITS = re.compile(r"\d+")
_WORD_MARKS = re.compile(r"[\s_.-]+")
_CLOSE = 0.8


def renamed(
    unknown: Iterable[str], known: Iterable[str], present: Mapping[str, object], *, effect: Effect
) -> dict[str, str]:
    """By unknown key, the known one that it surely is.

    Spaces and invisible characters around a key mean nothing for any tool. Another case or
    spelling is repaired for `read` tools only. A key that was written itself, or that two
    unknown ones could be, is never taken.

    Args:
        unknown: Keys that were written.
        known: Keys of the tool.
        present: All that was written.
        effect: Of the tool.
    """
    free = [name for name in known if name not in present]
    found: dict[str, str] = {}
    for name in unknown:
        if len(name) <= SEEN_CHARS and (match := _match(name, free, effect)) is not None:
            found[name] = match
    taken = list(found.values())
    return {name: match for name, match in found.items() if taken.count(match) == 1}


def _match(name: str, free: list[str], effect: Effect) -> str | None:
    if (bare := _INVISIBLE.sub("", name)) in free:
        return bare
    if effect != "read":
        return None
    folded = _folded(name)
    same = [item for item in free if _folded(item) == folded]
    if same:
        return same[0] if len(same) == 1 else None
    import difflib  # loaded for those who were mistaken

    close = difflib.get_close_matches(folded, {_folded(item) for item in free}, 2, _CLOSE)
    if len(close) != 1 or _DIGITS.findall(close[0]) != _DIGITS.findall(folded):
        return None
    candidates = [item for item in free if _folded(item) == close[0]]
    return candidates[0] if len(candidates) == 1 else None


def _folded(name: str) -> str:
    return _WORD_MARKS.sub("", name.casefold())
