"""Text that is nearly JSON, as strict JSON: one reading, nothing lost, nothing evaluated.

Understood beside JSON: single quotes, triple quotes, Python's `True`, `False`, `None`, tuples and
`r"…"`, keys without quotes, one comma too many, comments, line breaks inside strings, the quotes
and punctuation of Chinese keyboards, invisible characters between tokens, and backslashes that
nobody escaped (`escapes`). Everything else is refused: names, calls, sums, what has no end.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from hermes.core.effects import Effect

from .escapes import is_drive_path, unescaped
from .exact import Repair
from .unreadable import Hopeless, Unreadable, cut_after

_MAX_WORK = 4_000
"""In tokens; some 5 µs each. What needs no repair costs one for each stretch of it."""
_BACKSLASH_WORK = 3
_MAX_DEPTH = 64
_NEAR_CHARS = 20
_MAX_REPAIRS = 16

_NUMBER = r"-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d++)?"
_STRING = r'"(?:[^"\\\x00-\x1f]++|\\["\\/])*+"'
_SIMPLE = r"""'[^'"\\\x00-\x1f]*+'|"[^'"\\\x00-\x1f]*+\""""
_TOKEN = re.compile(
    rf"""
    [ \t\r\n]*+(?:
      (?P<strict>(?:
        [ \t\r\n]*+(?:(?:{_STRING})[ \t\r\n]*+[,:]|(?:{_NUMBER}|true|false|null)[ \t\r\n]*+,)
        (?=[ \t\r\n]*+["\d{{\[tfn-]))++)
    | (?P<quotes>(?:
        [ \t\r\n]*+(?:(?:{_SIMPLE})[ \t\r\n]*+[,:]|{_NUMBER}[ \t\r\n]*+,)
        (?=[ \t\r\n]*+['"\d{{\[-]))++)
    | (?P<space>[\s\u200b-\u200d\u2060\ufeff]++)
    | (?P<mark>[{{}}\[\](),:｛｝［］（），：])
    | (?P<number>{_NUMBER}(?![\w.]))
    | [rR](?:"(?P<raw>[^"\n]*+)"|'(?P<raw1>[^'\n]*+)')
    | (?P<comment>//[^\n]*+|\#[^\n]*+|/\*.*?\*/)
    | "(?P<folder>[A-Za-z]:(?:\\[^"\\/:*?<>|\r\n]++)*+\\)"(?=\s*[,}}\]])
    | '(?P<folder1>[A-Za-z]:(?:\\[^'"\\/:*?<>|\r\n]++)*+\\)'(?=\s*[,}}\]])
    | (?P<triple>["'])(?P=triple){{2}}(?P<block>.*?)(?<!\\)(?P=triple){{3}}
    | "(?P<double>[^"\\]*+(?:\\.[^"\\]*+)*+)"
    | '(?P<single>[^'\\]*+(?:\\.[^'\\]*+)*+)'
    | [“”„‟＂](?P<curly>[^"“”„‟＂\\]*+(?:\\[^"“”„‟＂][^"“”„‟＂\\]*+)*+)[“”„‟＂]
    | [‘’‚‛＇](?P<curly1>[^'‘’‚‛＇\\]*+(?:\\[^'‘’‚‛＇][^'‘’‚‛＇\\]*+)*+)[‘’‚‛＇]
    | (?P<name>[^\W\d][\w$-]*+|\$\w++)
    | (?P<end>$)
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_OPENS_TEXT = re.compile(r"[\"'“”„‟＂‘’‚‛＇]|/\*")
_GAP = r"[\s\u200b-\u200d\u2060\ufeff]*+"
_COLON_NEXT = re.compile(_GAP + "[:：]")
_END_NEXT = re.compile(_GAP + r"\Z")
_CALL_NEXT = re.compile(_GAP + r"[(（]")
_BARE_TEXT = re.compile(
    r"[^\W\d][^\s,:{}\[\]()\"'“”‘’，：｛｝［］]*+(?: [^\s,:{}\[\]()\"'“”‘’，：｛｝［］]++)*+"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_UNUSUAL = re.compile(r'[\x00-\x1f"\\]')
_quoted = json.JSONEncoder(ensure_ascii=False).encode
_WIDE = str.maketrans("｛｝［］（），：", "{}[](),:")
_CLOSER = {"{": "}", "[": "]", "(": ")"}
_LITERALS = {
    "true": "true",
    "True": "true",
    "TRUE": "true",
    "false": "false",
    "False": "false",
    "FALSE": "false",
    "null": "null",
    "Null": "null",
    "NULL": "null",
    "None": "null",
}
_NO_NUMBERS = frozenset({"NaN", "nan", "Infinity", "inf", "Inf"})
_NOTHING = frozenset({"undefined", "NaT", "nil", "none", "Ellipsis"})
_OPERATORS = frozenset("+*/%=<>&|^~@!-")
_WORKING_WORDS = frozenset("lambda not await yield if else and or".split())
_QUOTES = {
    "double": '"',
    "single": "'",
    "curly": '"',
    "curly1": "'",
    "block": '"',
}
_RULES = {
    "single": "single_quotes",
    "curly": "wide_quotes",
    "curly1": "wide_quotes",
    "block": "triple_quotes",
    "raw": "raw_text",
    "raw1": "raw_text",
    "folder1": "single_quotes",
}
_PYTHON_KINDS = frozenset({"single", "block"})
_LITERAL_KINDS = frozenset({"raw", "raw1", "folder", "folder1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Strict:
    """Strict JSON that says what a text says.

    Attributes:
        text: One JSON value, if the text was one at all; a JSON parser has the last word.
        end: Where the value ends in the text.
        repairs: How it differs from what was written.
    """

    text: str
    end: int
    repairs: tuple[Repair, ...]


def as_strict(text: str, start: int, *, effect: Effect) -> Strict:
    """Translate the object or array that begins at `start`.

    Args:
        text: What a model wrote.
        start: Where a bracket stands.
        effect: For `read` tools a word without quotes is text; others need the quotes.

    Raises:
        Hopeless: It has no end, computes something, or has two readings.
        Unreadable: It is something else than the forms above.
    """
    translation = _Translation(text, start, effect)
    strict = translation.run()
    if translation.has_drive_path and translation.has_literal:
        translation = _Translation(text, start, effect, are_paths_literal=True)
        strict = translation.run()
    return strict


@dataclass(slots=True)
class _Open:
    """A bracket that is not closed yet; `place` is where it stands in the output."""

    bracket: str
    place: int
    has_comma: bool = False


@dataclass(slots=True)
class _Translation:
    source: str
    position: int
    effect: Effect
    are_paths_literal: bool = False
    out: list[str] = field(default_factory=list[str])
    stack: list[_Open] = field(default_factory=list[_Open])
    repairs: list[Repair] = field(default_factory=list[Repair])
    noted: set[str] = field(default_factory=set[str])
    work: int = 0
    has_drive_path: bool = False
    """Some string of legal escapes may be a path that nobody escaped."""
    has_literal: bool = False
    """The backslashes of some string are literal."""
    last: str = ""
    """The last mark, or "v" after a value."""

    def run(self) -> Strict:
        source, match = self.source, _TOKEN.match
        while self.work < _MAX_WORK:
            self.work += 1
            token = match(source, self.position)
            if token is None or token.lastgroup == "end":
                raise self._stuck()
            kind = token.lastgroup or ""
            written = token[0].lstrip(" \t\r\n")
            self.position = token.end()
            if kind in ("strict", "quotes"):
                if kind == "quotes":
                    self._note("single_quotes", written, written.replace("'", '"'))
                self.out.append(written.replace("'", '"') if kind == "quotes" else written)
                self.last = written[-1]
                self.stack[-1].has_comma |= self.last == ","
            elif kind == "mark":
                self._mark(written.translate(_WIDE), written)
                if not self.stack:
                    return Strict(
                        text="".join(self.out), end=self.position, repairs=tuple(self.repairs)
                    )
            elif kind == "number":
                self._value(written)
            elif kind == "name":
                self._name(written)
            elif kind == "comment":
                self._note("comment", written, "")
            elif kind != "space":
                self._text(kind, written, token[kind])
            elif not written.isascii():
                self._note("invisible", written, " ")
        raise Hopeless("they need too many repairs; send strict JSON")

    def _mark(self, mark: str, written: str) -> None:
        if mark in "{[(":
            self._open(mark)
        elif mark in "}])":
            self._close(mark)
        else:
            self.stack[-1].has_comma |= mark == ","
            self.last = mark
            self.out.append(mark)
        if mark != written:
            self._note("wide_punctuation", written, mark)

    def _open(self, mark: str) -> None:
        if mark == "(" and self.last == "v":
            raise Hopeless(f"a call is not evaluated, near {self._near()}; write the value itself")
        if len(self.stack) >= _MAX_DEPTH:
            raise Hopeless(f"they are nested deeper than {_MAX_DEPTH} levels")
        self.stack.append(_Open(bracket=mark, place=len(self.out)))
        self.out.append("[" if mark == "(" else mark)
        self.last = mark

    def _close(self, mark: str) -> None:
        opened = self.stack.pop()
        if _CLOSER[opened.bracket] != mark:
            raise Unreadable(f"`{opened.bracket}` is closed by `{mark}`, near {self._near()}")
        if self.last == "," and len(self.out) - 1 > opened.place + 1:
            self._drop_comma()
        if mark == ")":
            if not opened.has_comma and len(self.out) > opened.place + 1:
                raise Hopeless(f"parentheses without a comma hold no list, near {self._near()}")
            self._note("tuple", "(…)", "[…]")
            mark = "]"
        self.out.append(mark)
        self.last = "v"

    def _drop_comma(self) -> None:
        written = self.out[-1]
        self.out[-1] = written.rstrip()[:-1]
        self._note("trailing_comma", ",", "")

    def _value(self, strict: str) -> None:
        self.out.append(strict)
        self.last = "v"

    def _name(self, name: str) -> None:
        if self._at_key() and _COLON_NEXT.match(self.source, self.position):
            self._note("bare_key", name, name)
            self._value(_quoted(name))
        elif _END_NEXT.match(self.source, self.position):
            raise cut_after(len(self.source))
        elif name in _NO_NUMBERS:
            raise Hopeless(f"{name} is not a JSON number that can be used")
        elif _CALL_NEXT.match(self.source, self.position) or name in _WORKING_WORDS:
            raise Hopeless(
                f"{name!r:.40} is an expression and nothing is evaluated; write the value itself"
            )
        elif name in _LITERALS:
            if name != _LITERALS[name]:
                self._note("python_literal", name, _LITERALS[name])
            self._value(_LITERALS[name])
        else:
            self._bare_text(self.position - len(name))

    def _bare_text(self, start: int) -> None:
        word = _BARE_TEXT.match(self.source, start)
        if word is not None and word[0] in _NOTHING:
            raise Hopeless(f"{word[0]} is no JSON value; write null if that is meant")
        if self.effect != "read" or word is None or self.last == "v" or self._at_key():
            raise Unreadable(f"text stands without quotes, near {self._near()}")
        self.position = word.end()
        self._note("bare_text", word[0], word[0])
        self._value(_quoted(word[0]))

    def _at_key(self) -> bool:
        return bool(self.stack) and self.stack[-1].bracket == "{" and self.last in "{,"

    def _text(self, kind: str, written: str, body: str) -> None:
        if self.last == "v":
            raise Unreadable(f"two values stand beside each other, near {self._near()}")
        if kind in _RULES:
            self._note(_RULES[kind], written, body)
        if not _UNUSUAL.search(body):
            self._value(f'"{body}"')
        else:
            self._value(_quoted(self._meaning(kind, written, body)))

    def _meaning(self, kind: str, written: str, body: str) -> str:
        if _CONTROL.search(body):
            raise Unreadable(f"a control character stands in a string, near {self._near()}")
        if kind in _LITERAL_KINDS or "\\" not in body:
            value, rule = body, "backslashes" if "\\" in body else ""
        else:
            self.work += _BACKSLASH_WORK
            value, rule = unescaped(
                body,
                quote=_QUOTES[kind],
                effect=self.effect,
                is_python=kind in _PYTHON_KINDS,
                are_paths_literal=self.are_paths_literal,
            )
            self.has_literal |= rule == "backslashes"
            self.has_drive_path |= is_drive_path(body)
        if rule and len(self.repairs) < _MAX_REPAIRS:
            self.repairs.append(Repair(path="", before=written, after=value, rule=rule))
        if "\n" in body or "\r" in body or "\t" in body:
            self._note("line_break", body, value)
        return value

    def _note(self, rule: str, before: str, after: str) -> None:
        """The first change of a kind stands for all of its kind."""
        if rule not in self.noted:
            self.noted.add(rule)
            self.repairs.append(Repair(path="", before=before, after=after, rule=rule))

    def _stuck(self) -> Unreadable:
        rest = self.source[self.position :].lstrip()[:2]
        if not rest or _OPENS_TEXT.match(rest):
            return cut_after(len(self.source))
        if rest[0] in _OPERATORS:
            return Hopeless(f"nothing is evaluated, near {self._near()}; write the value itself")
        return Unreadable(f"not JSON, near {self._near()}")

    def _near(self) -> str:
        begin = max(0, self.position - _NEAR_CHARS)
        return repr(self.source[begin : self.position + _NEAR_CHARS])
