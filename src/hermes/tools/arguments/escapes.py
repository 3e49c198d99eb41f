r"""Backslashes in the strings of a text that is no strict JSON.

A string whose escapes are all legal is read as JSON reads it; Python's `\'`, `\xe9` and
`\U0001f600` are legal too. As soon as one escape of a string is illegal, or the string is a Windows
path, nobody escaped anything: all its backslashes are literal, so `D:\Users\new\table.txt` holds
no line break. What could be read either way is refused, except for `read` tools.
"""

from __future__ import annotations

import json
import re

from hermes.core.effects import Effect

from .unreadable import Hopeless

_CODES = r"u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4}"
_LEGAL = re.compile(rf"""(?:[^\\]++|\\(?:["'\\/bfnrt]|{_CODES}))*+""")
_JSON_ONLY = re.compile(r"""(?:[^\\"]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+""")
_LETTERS = re.compile(r"(?:[^\\]++|\\[^bfnrtu])*+\\[bfnrtu]", re.DOTALL)
_OTHER_LEGAL = re.compile(r"(?:[^\\]++|\\[^\\/'])*+\\[\\/']", re.DOTALL)
_ESCAPE = re.compile(rf"\\({_CODES}|.)", re.DOTALL)
_MEANINGS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# C:\  C:/  \\server  .\  ..\  ~\  %APPDATA%\
_PATH_START = re.compile(r"\s*[\"'=(]*(?:[A-Za-z]:[\\/]|\\\\[\w$.-]+\\[\w$]|\.{1,2}\\|~\\|%\w+%\\)")
_DRIVE = re.compile(r"\s*[\"']?[A-Za-z]:\\[^\\]")
_RELATIVE = re.compile(r"[\w.()+-]+(?:\\[\w.()+-]+)+")


def unescaped(body: str, *, quote: str, effect: Effect) -> tuple[str, str]:
    """What the inside of a string literal means, and the rule that was needed; "" for JSON's own.

    Args:
        body: Between the quotes, with at least one backslash.
        quote: The character that opened it.
        effect: Of the tool; for `read` a string with two readings has literal backslashes.

    Raises:
        Hopeless: The string has two readings.
    """
    letters = _LETTERS.match(body)
    if _LEGAL.fullmatch(body) and not (letters and _DRIVE.match(body)):
        if _JSON_ONLY.fullmatch(body):
            return json.loads(f'"{body}"', strict=False), ""
        return _joined(_ESCAPE.sub(_meaning, body)), "escapes"
    unquoted = body.replace("\\" + quote, quote)
    if (letters or _OTHER_LEGAL.match(unquoted)) and effect != "read" and not _is_path(body):
        raise Hopeless(
            f"the backslashes in {body!r:.60} can be read in two ways; in JSON each backslash "
            r"that is meant is written twice: \\"
        )
    return unquoted, "backslashes"


def _meaning(match: re.Match[str]) -> str:
    item = match[1]
    return chr(int(item[1:], 16)) if len(item) > 1 else _MEANINGS.get(item, item)


def _joined(text: str) -> str:
    """Text with each pair of surrogates as the one character it stands for."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return text  # a lone one, which nobody takes


def _is_path(body: str) -> bool:
    r"""Whether each backslash belongs to a path: a whole one, or words that each begin like one."""
    if _PATH_START.match(body) or _RELATIVE.fullmatch(body):
        return True
    return all(_PATH_START.match(word) for word in body.split() if "\\" in word)
