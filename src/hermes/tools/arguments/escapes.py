r"""Backslashes in the strings of a text that is no strict JSON.

A string whose escapes are all legal is read as JSON reads it, whatever is wrong elsewhere; Python's
`\'` is legal too. As soon as one escape of a string is illegal, nobody escaped anything: all its
backslashes are literal, so `D:\Users\new\table.txt` holds no line break, and neither does a drive's
path of legal escapes beside it. `\xe9` and `\U0001f600` are Python's: between JSON's quotes they
are illegal, and `bin\x64` is a path; in Python's strings they count as Python itself writes them.
What could be read either way is refused, except for `read` tools.
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
_PYTHON_CODE = re.compile(r"(?:[^\\]++|\\[^xU])*+\\[xU]", re.DOTALL)
_NEEDED = re.compile("[\x00-\x1f\x7f-\xff\U00010000-\U0010ffff]")
_MEANINGS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# C:\  C:/  \\server  .\  ..\  ~\  %APPDATA%\
_PATH_START = re.compile(r"\s*[\"'=(]*(?:[A-Za-z]:[\\/]|\\\\[\w$.-]+\\[\w$]|\.{1,2}\\|~\\|%\w+%\\)")
_DRIVE = re.compile(r"\s*[\"']?[A-Za-z]:\\[^\\]")
_RELATIVE = re.compile(r"[\w.()+-]+(?:\\[\w.()+-]+)+")


def is_drive_path(body: str) -> bool:
    """Whether a string's inside is a drive's path in which some backslashes mean something."""
    return _DRIVE.match(body) is not None and _LETTERS.match(body) is not None


def unescaped(
    body: str,
    *,
    quote: str,
    effect: Effect,
    is_python: bool = False,
    are_paths_literal: bool = False,
) -> tuple[str, str]:
    """What the inside of a string literal means, and the rule that was needed; "" for JSON's own.

    Args:
        body: Between the quotes, with at least one backslash.
        quote: The character that opened it.
        effect: Of the tool; for `read` a string with two readings has literal backslashes.
        is_python: The string is one of Python's.
        are_paths_literal: Nobody escaped the backslashes of another string beside it.

    Raises:
        Hopeless: The string has two readings.
    """
    has_codes = False
    if _LEGAL.fullmatch(body) and not (are_paths_literal and is_drive_path(body)):
        if _JSON_ONLY.fullmatch(body):
            return json.loads(f'"{body}"', strict=False), ""
        has_codes = _PYTHON_CODE.match(body) is not None
        is_python_too = is_python or (effect == "read" and not _is_path(body))
        if not has_codes or (is_python_too and _is_as_python_writes(body, effect)):
            return _joined(_ESCAPE.sub(_meaning, body)), "escapes"
    unquoted = body.replace("\\" + quote, quote)
    has_other = has_codes or _LETTERS.match(body) or _OTHER_LEGAL.match(unquoted)
    is_path = _is_path(body) and not (has_codes and is_python)
    if has_other and effect != "read" and not is_path:
        raise two_readings(body)
    return unquoted, "backslashes"


def two_readings(body: str) -> Hopeless:
    """The refusal of a string that may be escaped or not."""
    return Hopeless(
        f"the backslashes in {body!r:.60} can be read in two ways; in JSON each backslash "
        r"that is meant is written twice: \\"
    )


def _meaning(match: re.Match[str]) -> str:
    item = match[1]
    return chr(int(item[1:], 16)) if len(item) > 1 else _MEANINGS.get(item, item)


def _is_as_python_writes(body: str, effect: Effect) -> bool:
    """Whether Python itself may have written each code, which it does only where it has to."""
    for match in _ESCAPE.finditer(body):
        code = match[1]
        if code[0] in "xU" and (
            code[1:] != code[1:].lower() or not _NEEDED.search(_meaning(match))
        ):
            return False
    return effect == "read" or not _is_path(body)


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
