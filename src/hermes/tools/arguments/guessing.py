"""The last resort for tools that only read: a repairer that guesses, and what it may not do.

`json_repair` closes what was left open, drops what it does not understand and takes prose for
nothing at all. Its guess counts only if the text has an end, each key and value of the guess
stands in the text as one piece, and the text holds nothing else.
"""

from __future__ import annotations

import json
import re
from typing import cast

from .exact import Repair
from .unreadable import Unreadable

GUESS_CHARS = 6 * 1024
_MAX_DEPTH = 16
_MAX_BRACKETS = 1_000
_STRUCTURE = re.compile(r"[\s\"'{}\[\]:,\\]+")
_WORDS = re.compile(r"\b(?:True|False|None)\b")
_AS_JSON = {"True": "true", "False": "false", "None": "null"}
_BRACKETS = re.compile(r"[{}\[\]]")
_BARE_KEY = re.compile(r"[\w-]+")
_MARK = re.compile(r"[\"'“”‘’,:，：]")
_HOLLOW = re.compile(r"[\[{(:,]\s*,|:\s*[}\]]|\\[{}\[\],:]")
_SWALLOWED = re.compile(r"[\"'}\]]\s*[:,{\[]|[,{\[]\s*[\"']")


def guessed(text: str) -> tuple[str, Repair]:
    """Strict JSON for a damaged object, as far as nothing is lost or made up.

    Args:
        text: From the object's bracket to its last one.

    Raises:
        Unreadable: There is no such reading.
    """
    if len(text) > GUESS_CHARS or not _is_whole(text):
        raise Unreadable("no repair was found")
    # Loaded on need: hardly any call is that broken.
    import json_repair

    try:
        # Trailing line breaks inside strings vanish without `stream_stable`.
        value = cast("object", json_repair.loads(text, skip_json_loads=True, stream_stable=True))
        strict = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as exc:
        raise Unreadable("no repair was found") from exc
    if not isinstance(value, dict) or not _is_faithful(cast("dict[str, object]", value), text):
        raise Unreadable("no repair was found that keeps everything as it was written")
    return strict, Repair(path="", before=text, after=strict, rule="guessed")


def _is_whole(text: str) -> bool:
    """Whether the text surely lacks no value and no end, and is flat: the repairer backtracks."""
    if not text.endswith("}") or text.count('"') % 2 or _HOLLOW.search(text):
        return False
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth += 1 if bracket in "{[" else -1
        deepest = max(deepest, depth)
        if depth < 0:
            return False
    return depth == 0 and deepest <= _MAX_DEPTH and text.count("{") < _MAX_BRACKETS


def _is_faithful(value: dict[str, object], text: str) -> bool:
    pieces: list[str] = []
    if not _stand_in(value, text, pieces):
        return False
    if pieces.count('""') != text.count('""') + text.count("''"):
        return False
    strict = json.dumps(value, ensure_ascii=False)
    if _BRACKETS.findall(strict) != _BRACKETS.findall(text):
        return False
    return _ink("".join(pieces)) == _ink(text)


def _stand_in(value: object, text: str, pieces: list[str]) -> bool:
    """Whether what has to stand in quotes does, and nothing else; notes all pieces in order."""
    if isinstance(value, list):
        return all(_stand_in(item, text, pieces) for item in cast("list[object]", value))
    if isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            pieces.append(json.dumps(key, ensure_ascii=False))
            if not _BARE_KEY.fullmatch(key) and (
                _MARK.search(key) or not _is_quoted(pieces[-1], text)
            ):
                return False
            if not _stand_in(item, text, pieces):
                return False
        return True
    pieces.append(json.dumps(value, ensure_ascii=False))
    if isinstance(value, str):
        return _is_quoted(pieces[-1], text)
    return not any(
        f"{quote}{pieces[-1]}" in text or f"{pieces[-1]}{quote}" in text for quote in "\"'"
    )


def _is_quoted(piece: str, text: str) -> bool:
    inside = piece[1:-1]
    plain = inside.replace('\\"', '"')
    if _SWALLOWED.search(plain):
        return False
    return any(f"{quote}{item}{quote}" in text for item in (inside, plain) for quote in "\"'")


def _ink(text: str) -> str:
    """The text without what only structures it."""
    return _STRUCTURE.sub("", _WORDS.sub(lambda word: _AS_JSON[word[0]], text))
