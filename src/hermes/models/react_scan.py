"""The members of a JSON object as they stand in a text, however much of it is there.

Values are given as raw text, so that a number or a long argument goes on to the letter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass

_SPACE = re.compile(r"\s*")
_GAP = re.compile(r"[\s,]*")
# Possessive, and an end without a quote is a match too: linear for whatever a model writes.
_DOUBLE = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_SINGLE = re.compile(r"'(?:[^'\\]|\\.)*+(?:'|\\?\Z)", re.DOTALL)
_NESTED = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_SCALAR = re.compile(r"[^\s,{}\[\]\"']+")
_HALF_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_CLOSING = {"{": "}", "[": "]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """What was found of an object.

    Attributes:
        items: Name without case and without what is no letter, the raw value, and whether that is
            whole; in order.
        end: Where the text goes on after it.
        is_whole: Its closing brace was there.
        problem: Where it stops being JSON.
    """

    items: tuple[tuple[str, str, bool], ...]
    end: int
    is_whole: bool
    problem: str = ""

    def first(self, names: Collection[str]) -> str | None:
        """The raw value of the first member of one of these names."""
        return next((raw for key, raw, _ in self.items if key in names), None)


def members(text: str, start: int) -> Members | None:
    """Read the object whose brace stands at `start`; None where no member follows it."""
    items: list[tuple[str, str, bool]] = []
    at = _skip(_GAP, text, start + 1)
    while at < len(text):
        if text[at] == "}":
            return Members(items=tuple(items), end=at + 1, is_whole=True)
        key_end = _string_end(text, at)
        colon = _skip(_SPACE, text, key_end) if key_end else 0
        if not key_end or (colon < len(text) and text[colon] != ":"):
            return _broken(items, text, at) if items else None
        if colon >= len(text):
            break
        key = decoded(text[at:key_end])
        value = _skip(_SPACE, text, colon + 1)
        end, is_whole = _value_end(text, value)
        if end == value and value < len(text):
            return _broken(items, text, value)
        if end > value:
            items.append((_letters(key), text[value:end], is_whole))
        at = _skip(_GAP, text, end)
    return Members(items=tuple(items), end=len(text), is_whole=False) if items else None


def decoded(raw: str) -> str:
    """A raw string value as text, a cut one as far as it is there; other values stay as they are.

    Line breaks and tabs may stand in it as they are, which models like and JSON does not.
    """
    if raw[:1] not in ('"', "'"):
        return raw
    quote = raw[0]
    body = raw[1:]
    is_closed = len(raw) > 1 and _string_end(raw, 0) == len(raw) and raw.endswith(quote)
    body = body[:-1] if is_closed else _HALF_ESCAPE.sub("", body)
    if quote == "'":
        body = re.sub(r"\\'", "'", body).replace('"', '\\"')
    try:
        return json.loads(f'"{body}"', strict=False)
    except ValueError:  # an escape that JSON does not know, as in a path or a pattern
        body = re.sub(r'\\(?!["\\/bfnrtu])', r"\\\\", body)
    try:
        return json.loads(f'"{body}"', strict=False)
    except ValueError:
        return body


def _broken(items: list[tuple[str, str, bool]], text: str, at: int) -> Members:
    shown = text[at : at + 30]
    problem = f"character {at + 1} is {shown!r} where a field or a closing brace should be"
    return Members(items=tuple(items), end=at + 1, is_whole=False, problem=problem)


def _value_end(text: str, at: int) -> tuple[int, bool]:
    if at >= len(text):
        return at, False
    if text[at] in "{[":
        return _nested_end(text, at)
    if text[at] in "\"'":
        end = _string_end(text, at)
        return end, end - at > 1 and text[end - 1] == text[at] and not _is_open(text[at:end])
    scalar = _SCALAR.match(text, at)
    return (scalar.end(), scalar.end() < len(text)) if scalar else (at, False)


def _is_open(string: str) -> bool:
    """Whether the quote at the end of a string is an escaped one."""
    slashes = len(string) - 1 - len(string[:-1].rstrip("\\"))
    return slashes % 2 == 1


def _nested_end(text: str, at: int) -> tuple[int, bool]:
    closing: list[str] = []
    for token in _NESTED.finditer(text, at):
        mark = token[0]
        if mark in _CLOSING:
            closing.append(_CLOSING[mark])
        elif mark in "}]":
            if closing.pop() != mark:
                return token.start(), False
            if not closing:
                return token.end(), True
    return len(text), False


def _string_end(text: str, at: int) -> int:
    """Where a string that begins here ends, or 0 if none does."""
    pattern = _DOUBLE if text[at] == '"' else _SINGLE
    found = pattern.match(text, at)
    return found.end() if found else 0


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _letters(key: str) -> str:
    return re.sub(r"[^a-z]", "", key.lower())
