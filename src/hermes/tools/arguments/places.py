"""Where in a text the one object stands, and whether what is around it is only prose."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text_marks import REASONING, REASONING_END, after_reasoning
from .unreadable import Hopeless, Unreadable

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
_WRAPPED = re.compile(r"<(arguments|args|parameters|params|input|json)>\s*")
_MAX_LEAD_CHARS = 200
_LEAD_ENDS = (":", "：")
# Whoever denies, supposes, shows or thinks does not call; digits and quotes may be arguments.
_DOUBT = re.compile(
    r"\b(?:no|not|never|cannot|none|nor|neither|don'?t|\w+n['’]t|wrong\w*|instead|without|unless"
    r"|except|avoid\w*|examples?|e\.g|if|would|should|could|might|may(?:be)?|perhaps|suppose\w*"
    r"|bad|incorrect\w*|invalid|stop\w*|cancel\w*|refuse\w*|forbid\w*|thoughts?|think\w*"
    r"|reason\w*|nicht|kein\w*|nie|niemals|falsch\w*|statt\w*|beispiel\w*|ohne|jamais|pas"
    r"|exemple|nunca|ejemplo|sin)\b"
    r"|[0-9\"“”„]|不|别|勿|没|非|莫|未|错|无|禁止|取消|例|示范|比如|假如|如果|思考",
    re.IGNORECASE,
)
_CLOSING_WORDS = frozenset(
    "ok okay done anything else let me know thanks thank you please is that this right fine good"
    " hope it helps can i help shall proceed go ahead ready looks does work for 好 好的 谢谢"
    " 可以吗 好吗 完成".split()
)
# Politeness that only looks like a condition.
_POLITE = re.compile(
    r"\b(?:let me know|tell me|feel free)\b[^.!?\n。！？]*"
    r"|(?:如果?|若)?(?:有|还有)(?:其他|别的|任何)?(?:问题|需要)[^。！？\n]*",
    re.IGNORECASE,
)
_GOES_ON_AS = re.compile(
    r"[\s.,;，；]*(?:and|also|plus|with|but|then|or|as well|以及|并|另外|还|再|但|然后|或)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[\w'’]+")
_CLOSING_MARKS = re.compile(r"[\s\w'’.,;!?…。，；！？\ufeff\u200b\u2060]*")
_MAX_CLOSING_CHARS = 100
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


def past_reasoning(text: str) -> str:
    """A text without the closed reasoning that it begins with, so that only the reply is read."""
    while opening := REASONING.match(text, len(text) - len(text.lstrip(BLANK))):
        end = after_reasoning(text, opening)
        if end is None:
            break
        text = text[end:]
    return text


def check_reasoning(before: str, after: str) -> None:
    """See to it that no reasoning stands around the object.

    Raises:
        Hopeless: Some does; an object in it is no argument.
    """
    for text in (before, after):
        if REASONING.search(text) or REASONING_END.search(text):
            raise Hopeless("reasoning gives no arguments; send the object alone")


def check_words(before: str, after: str, *, is_fenced: bool) -> None:
    """See to it that the words around the object surely mean nothing.

    Before it a lead may stand that ends in a colon, or at a fence; after it a pleasantry, and after
    a fence a short text that denies nothing and does not go on with the arguments.

    Args:
        before: All before the object, with its fence.
        after: All after it, with its fence.
        is_fenced: The object stands in a fenced block.

    Raises:
        Hopeless: They may say more than the object, or deny it.
    """
    lead, closing = before.strip(BLANK), after.strip(BLANK)
    if is_fenced and (opening := _FENCE.search(lead)):
        lead = lead[: opening.start()].strip(BLANK)
    if fence := _FENCE.match(closing):
        closing = closing[fence.end() :]
    elif (tag := _WRAPPED.fullmatch(lead)) and closing == f"</{tag[1]}>":
        return
    is_end = _says_nothing_after_a_fence(closing) if fence else _is_pleasant(closing)
    is_lead = not lead or (
        len(lead) <= _MAX_LEAD_CHARS
        and (is_fenced or lead.endswith(_LEAD_ENDS))
        and not _DOUBT.search(lead)
    )
    if not is_lead or not (is_end or _ONE_TOO_MANY.fullmatch(closing)):
        raise Hopeless("the words around the object may say more than it; send the object alone")


def _is_pleasant(closing: str) -> bool:
    words = map(str.lower, _WORD.findall(closing))
    return (
        len(closing) <= _MAX_CLOSING_CHARS
        and _CLOSING_MARKS.fullmatch(closing) is not None
        and all(word in _CLOSING_WORDS for word in words)
    )


def _says_nothing_after_a_fence(closing: str) -> bool:
    return (
        len(closing) <= _MAX_LEAD_CHARS
        and not _GOES_ON_AS.match(closing)
        and not _ANY_BRACKET.search(closing)
        and not _DOUBT.search(_POLITE.sub("", closing))
    )
