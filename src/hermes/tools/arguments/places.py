"""Where in a text the one object stands, and whether what is around it is only prose."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .unreadable import Unreadable

_FENCE = re.compile(r"`{3,}|~{3,}")
_LANGUAGE = re.compile(r"[ \t]*(?:[A-Za-z][\w+-]*)?[\s\ufeff\u200b]*")
_BRACKET = re.compile(r"[{\[｛［]")
_BRACE = re.compile(r"[{｛]")
_ANY_BRACKET = re.compile(r"[{}\[\]｛｝［］]")
# A key, or another item, of an object or array whose beginning is missing.
_INSIDE_ANOTHER = re.compile(r"(?:[\"'“”‘’＂]\s*[:：]|[,，])\s*$")
_GOES_ON = re.compile(r"\s*[,:，：]\s*[^\s,;.。]")
_ONE_TOO_MANY = re.compile(r"[\s;,.]*[}\])｝］）][\s;,.。；，\ufeff\u200b]*")
_CLOSING = re.compile(r"[}\]]")
BLANK = " \t\r\n\ufeff\u200b\u2060"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an object or array begins, and in what it stands.

    Attributes:
        before: The text before it, without white space and invisible characters.
    """

    start: int
    before: str
    is_fenced: bool


def find_place(text: str) -> Place | None:
    """The place of the one object; None if there is no bracket at all.

    Raises:
        Unreadable: The text before it is more than prose.
    """
    fence, brace = _FENCE.search(text), _BRACE.search(text)
    if fence is not None and (brace is None or fence.start() < brace.start()):
        return _in_fence(text, fence)
    bracket = _BRACKET.search(text)
    if bracket is None:
        return None
    before = text[: bracket.start()].strip(BLANK)
    if _ANY_BRACKET.search(before) or _INSIDE_ANOTHER.search(before):
        raise Unreadable("the object begins in the midst of another one; send exactly one")
    return Place(start=bracket.start(), before=before, is_fenced=False)


def _in_fence(text: str, fence: re.Match[str]) -> Place | None:
    language = _LANGUAGE.match(text, fence.end())
    start = language.end() if language else fence.end()
    if not _BRACKET.match(text, start):
        return None
    return Place(start=start, before=text[:start], is_fenced=True)


def check_after(found: str, rest: str, *, is_fenced: bool) -> None:
    """See to it that what follows the object is prose, or one bracket too many.

    A bracket too many may stand anywhere: only if no other closes before the end, it is the last.

    Args:
        found: The object, as strict JSON.
        rest: All that follows.
        is_fenced: The object stands in a fenced block.

    Raises:
        Unreadable: There is a second object or block, or the object goes on after its end.
    """
    after = rest.lstrip()
    closing = _FENCE.match(after)
    prose = after[closing.end() :] if closing else after
    if _BRACE.search(prose) or _FENCE.search(prose):
        raise Unreadable("there is more than one block or object; send exactly one")
    if closing is None and _GOES_ON.match(rest):
        raise Unreadable("the object ends before its last argument; send exactly one object")
    if closing is None and _ANY_BRACKET.search(prose):
        closed_before = _CLOSING.search(found.rstrip("}] \t\r\n"))
        if _ONE_TOO_MANY.fullmatch(prose) and not closed_before:
            return
        if not is_fenced or _ONE_TOO_MANY.match(prose):
            raise Unreadable("there is a bracket too many; send exactly one object")
