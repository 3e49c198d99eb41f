"""Two tools that a model could take for each other."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from hermes.tools.base import Tool

from .names import first_paragraph, words_of

_SAME = {
    **dict.fromkeys(("fetch", "read", "lookup", "look", "query", "retrieve", "load"), "get"),
    **dict.fromkeys(("remove", "erase", "drop", "destroy"), "delete"),
    **dict.fromkeys(("find",), "search"),
    **dict.fromkeys(("make", "add", "new"), "create"),
    **dict.fromkeys(("modify", "change", "edit", "set"), "update"),
    **dict.fromkeys(("post", "submit"), "send"),
}
_FILLERS = frozenset(
    "a an the of to in on at for by with from and or it its this that is are be as into one all "
    "some any your our their".split()
)
_CJK = re.compile("[\u3400-\u9fff]+")
_MIN_WORDS, _NEAR = 4, 0.8


def overlap(tool: Tool, other: Tool) -> tuple[Literal["error", "warning"], str] | None:
    """How two tools overlap, if they do."""
    if tool.name == other.name:  # one in place of the other: never both at a time
        return None
    mine, theirs = first_paragraph(tool.description), first_paragraph(other.description)
    if mine and mine.casefold() == theirs.casefold():
        return "error", f"its description begins to the letter as that of {other.name}"
    if _name(tool.name) == _name(other.name):
        return "warning", f"its name means the same as {other.name}"
    near = _likeness(_terms(mine), _terms(theirs))
    if near >= _NEAR:
        return "warning", f"its description is nearly that of {other.name} ({near:.0%} alike)"
    return None


def _name(name: str) -> frozenset[str]:
    return frozenset(_SAME.get(word, _singular(word)) for word in words_of(name))


@lru_cache(maxsize=1024)  # each tool is compared with all others
def _terms(text: str) -> frozenset[str]:
    """What a sentence is about: its words without fillers, Chinese by pairs of characters."""
    found = {_singular(word) for word in words_of(text)} - _FILLERS
    for run in _CJK.findall(text):
        found |= {run[place : place + 2] for place in range(max(1, len(run) - 1))}
    return frozenset(found)


def _likeness(some: Iterable[str], others: Iterable[str]) -> float:
    mine, theirs = frozenset(some), frozenset(others)
    if min(len(mine), len(theirs)) < _MIN_WORDS:
        return 0.0
    return len(mine & theirs) / len(mine | theirs)


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
