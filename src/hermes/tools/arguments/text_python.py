"""Calls written in Python's syntax, `f("a", n=1)`: literals only, and nothing is ever evaluated.

Python's own parser is not used: it warns of backslashes, and deep input can exhaust its stack.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .escapes import is_drive_path, two_readings, unescaped
from .unreadable import Hopeless

MAX_DEPTH = 64
MAX_VALUES = 4096
_DECODER = json.JSONDecoder()
CALL = re.compile(r"([A-Za-z_][\w.\-]{0,127})[ \t]*\(", re.ASCII)
_SPACE = re.compile(r"(?:\s|#[^\n]*(?=\n))*")
_KEYWORD = re.compile(r"([^\W\d]\w*)\s*=(?!=)\s*")
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F]{1,64}|(?:[0-9][0-9_]{0,399}(?:\.[0-9_]{0,399})?|\.[0-9]{1,399})"
    r"(?:[eE][+-]?[0-9]{1,4})?)(?![\w.])"
)
_WORD = re.compile(r"(True|true|False|false|None|null)\b")
_STRING = re.compile(r"([rRuU]?)(\"\"\"|'''|\"|')")
_BODIES = {
    '"': re.compile(r'(?:[^"\\\n]++|\\.)*+(?=")', re.DOTALL),
    "'": re.compile(r"(?:[^'\\\n]++|\\.)*+(?=')", re.DOTALL),
    '"""': re.compile(r'(?:[^"\\]++|\\.|"(?!""))*+(?=""")', re.DOTALL),
    "'''": re.compile(r"(?:[^'\\]++|\\.|'(?!''))*+(?=''')", re.DOTALL),
}
_PLAIN = {"True": "true", "true": "true", "False": "false", "false": "false"}
_SURROGATE = re.compile("[\ud800-\udfff]")


class NotLiteral(Exception):
    """What stands there is no literal.

    Attributes:
        is_cut: The text ended too early.
        is_named: It stood behind a parameter's name, as it only does in a call.
    """

    def __init__(self, message: str, *, is_cut: bool = False, is_named: bool = False) -> None:
        super().__init__(message)
        self.is_cut, self.is_named = is_cut, is_named


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonCall:
    """One call; the arguments as JSON texts, and where it ended."""

    name: str
    positional: Sequence[str]
    named: Sequence[tuple[str, str]]
    end: int


def read_call(text: str, opening: re.Match[str]) -> PythonCall:
    """Read on from a match of `CALL`.

    Raises:
        NotLiteral: An argument is not a literal, or the call does not end.
    """
    reader = _Reader(text)
    positional: list[str] = []
    named: list[tuple[str, str]] = []
    at = reader.skip(opening.end())
    while not text.startswith(")", at):
        keyword = _KEYWORD.match(text, at)
        if keyword is None and named:
            raise NotLiteral(f"an argument without a name follows `{named[-1][0]}`")
        try:
            value, at = reader.value(keyword.end() if keyword else at, MAX_DEPTH)
        except NotLiteral as exc:
            what = f"`{keyword[1]}`" if keyword else "an argument"
            raise NotLiteral(
                f"{what}: {exc}", is_cut=exc.is_cut, is_named=keyword is not None
            ) from exc
        if keyword is None:
            positional.append(value)
        else:
            named.append((keyword[1], value))
        at = reader.separator(at, ")")
    return PythonCall(name=opening[1], positional=positional, named=named, end=at + 1)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text, self._values_left = text, MAX_VALUES

    def skip(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        return at if found is None else found.end()

    def separator(self, at: int, closing: str) -> int:
        """Past a comma, or at the closing bracket."""
        at = self.skip(at)
        if self._text.startswith(",", at):
            return self.skip(at + 1)
        if not self._text.startswith(closing, at):
            raise self._problem(at, f"`,` or `{closing}` is missing")
        return at

    def value(self, at: int, depth: int) -> tuple[str, int]:
        """A literal as JSON, and where it ends."""
        if depth == 0:
            raise NotLiteral(f"nested deeper than {MAX_DEPTH} levels")
        self._count()
        begun = self._text[at : at + 1]
        if depth == MAX_DEPTH and begun in ("{", "[") and (end := self._end_of_json(at)):
            return self._text[at:end], end
        if begun == "{":
            return self._table(at + 1, depth)
        if begun == "[":
            items, end = self._items(at + 1, "]", depth)
            return f"[{', '.join(items)}]", end
        if begun == "(":
            items, end = self._items(at + 1, ")", depth)
            is_tuple = len(items) != 1 or self._text[at:end].rstrip(") \n").endswith(",")
            return f"[{', '.join(items)}]" if is_tuple else items[0], end
        if word := _WORD.match(self._text, at):
            return _PLAIN.get(word[1], "null"), word.end()
        if number := _NUMBER.match(self._text, at):
            return _number(number[0]), number.end()
        return self._strings(at)

    def _count(self) -> None:
        self._values_left -= 1
        if self._values_left < 0:
            raise NotLiteral(f"there are more than {MAX_VALUES} values")

    def _end_of_json(self, at: int) -> int | None:
        """Where a value ends that is strict JSON already."""
        try:
            return _DECODER.raw_decode(self._text, at)[1]
        except (ValueError, RecursionError):
            return None

    def _items(self, at: int, closing: str, depth: int) -> tuple[list[str], int]:
        items: list[str] = []
        at = self.skip(at)
        while not self._text.startswith(closing, at):
            item, at = self.value(at, depth - 1)
            items.append(item)
            at = self.separator(at, closing)
        return items, at + 1

    def _table(self, at: int, depth: int) -> tuple[str, int]:
        entries: list[str] = []
        at = self.skip(at)
        while not self._text.startswith("}", at):
            key, at = self._strings(at)
            at = self.skip(at)
            if not self._text.startswith(":", at):
                raise self._problem(at, "`:` is missing")
            value, at = self.value(self.skip(at + 1), depth - 1)
            entries.append(f"{key}: {value}")
            at = self.separator(at, "}")
        return f"{{{', '.join(entries)}}}", at + 1

    def _strings(self, at: int) -> tuple[str, int]:
        """A string, or several side by side, which are one."""
        parts: list[str] = []
        end = at
        while opening := _STRING.match(self._text, at):
            self._count()
            part, end = self._string(opening)
            parts.append(part)
            at = self.skip(end)
        if not parts:
            raise self._problem(at, f"{self._text[at : at + 20]!r} is no literal")
        return spelled("".join(parts)), end

    def _string(self, opening: re.Match[str]) -> tuple[str, int]:
        prefix, quote = opening[1], opening[2]
        found = _BODIES[quote].match(self._text, opening.end())
        if found is None:
            is_cut = "\n" not in self._text[opening.end() :].rstrip()
            raise NotLiteral("a string does not end", is_cut=is_cut or len(quote) == 3)
        body, end = found[0], found.end()
        if prefix in ("r", "R") or "\\" not in body:
            return body, end + len(quote)
        try:
            value, rule = unescaped(body, quote=quote, effect="unsafe", is_python=True)
        except Hopeless as exc:
            raise NotLiteral(str(exc)) from exc
        if rule != "backslashes" and is_drive_path(body):
            raise NotLiteral(str(two_readings(body)))
        return value, end + len(quote)

    def _problem(self, at: int, message: str) -> NotLiteral:
        if at >= len(self._text.rstrip()):
            return NotLiteral("the text ends too early: it was cut off", is_cut=True)
        return NotLiteral(message)


def spelled(text: str) -> str:
    """A text as JSON, readable; lone surrogates stay escaped, so that it can be stored."""
    return json.dumps(text, ensure_ascii=_SURROGATE.search(text) is not None)


def _number(text: str) -> str:
    """As JSON spells it, digit for digit where it can be."""
    body = text.removeprefix("+").replace("_", "")
    if "x" in body or "X" in body:
        return str(int(body, 16))
    sign, digits = ("-", body[1:]) if body.startswith("-") else ("", body)
    if digits.startswith("."):
        digits = "0" + digits
    whole, point, rest = digits.partition(".")
    if point and not rest[:1].isdigit():
        rest = "0" + rest
    if len(whole) > 1 and whole[0] == "0" and whole.isdigit():
        raise NotLiteral(f"{text[:20]!r} is no number")
    return f"{sign}{whole}{point}{rest}"
