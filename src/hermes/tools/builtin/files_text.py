"""Bytes of files as text: which encoding it is, said where it is not the one that was asked for."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Literal

from hermes.errors import ToolError

Encoding = Literal[
    "utf-8",
    "utf-8-sig",
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "gb18030",
    "gbk",
    "big5",
    "shift_jis",
    "euc-jp",
    "euc-kr",
    "latin-1",
    "windows-1252",
]
PAGE_CHARS = 12_000
_LOOKED_AT = 8_192
_SHOWN_CHARS = 40
# Strict ones alone: latin-1 reads anything, and so says nothing.
_GUESSES = ("utf-8", "gb18030", "big5", "shift_jis", "euc-kr")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SIGNATURES = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive, or an Office document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\0", "a SQLite database"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A file's text.

    Attributes:
        encoding: The one it was read by; of a byte order mark, if it has one.
    """

    text: str
    encoding: str


def marked_encoding(raw: bytes) -> str | None:
    """The encoding that a byte order mark at the beginning names."""
    return next((name for mark, name in _BOMS if raw.startswith(mark)), None)


def decoded(raw: bytes, encoding: str, *, path: str) -> Text:
    """The text of a file; a byte order mark is stronger than the encoding asked for.

    Raises:
        ToolError: It is not text, or not in that encoding; the message says where that shows,
            and the hint which encodings do read it.
    """
    encoding = marked_encoding(raw) or encoding
    if not encoding.startswith(("utf-16", "utf-32")):
        refuse_binary(raw[:_LOOKED_AT], len(raw), path=path)
    try:
        return Text(text=raw.decode(encoding), encoding=encoding)
    except UnicodeDecodeError as exc:
        line = raw.count(b"\n", 0, exc.start) + 1
        raise ToolError(
            f"{path!r} is not {encoding}: byte {exc.start} (line {line}) is 0x{raw[exc.start]:02x}",
            code="wrong_encoding",
            hint=_readers(raw),
        ) from exc


def encoded(text: str, encoding: str, *, path: str) -> bytes:
    """The bytes of a text.

    Raises:
        ToolError: The encoding has no such character.
    """
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as exc:
        line = text.count("\n", 0, exc.start) + 1
        raise ToolError(
            f"{path!r}: {encoding} cannot write {text[exc.start]!r} (line {line})",
            code="wrong_encoding",
            hint="utf-8 can, unless it is half a character",
        ) from exc


def refuse_binary(head: bytes, size: int, *, path: str) -> None:
    """Refuse what is no text.

    Raises:
        ToolError: It has a zero byte, or begins as a known binary format does.
    """
    known = next((what for mark, what in _SIGNATURES if head.startswith(mark)), "")
    if not known and b"\0" not in head:
        return
    raise ToolError(
        f"{path!r} is not text but {known or 'binary data'} ({size:,} bytes)",
        code="binary",
        hint="" if known else "if it is UTF-16 without a mark, say encoding='utf-16-le' or '-be'",
    )


def _readers(raw: bytes) -> str:
    head = raw[:65_536]
    found: list[str] = []
    for name in _GUESSES:
        try:
            # Not final: the cut may have gone through a character.
            text = codecs.getincrementaldecoder(name)().decode(head, final=len(raw) <= len(head))
        except UnicodeDecodeError:
            continue
        line = next((line for line in text.splitlines() if not line.isascii()), text[:1])
        found.append(f"{name} reads it, with a line as {line.strip()[:_SHOWN_CHARS]!r}")
    return "; ".join(found) or "it may be damaged, or latin-1, which reads any bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a text by lines.

    Attributes:
        first: Number of its first line, from 1; 0 of an empty text.
        last: Of its last one.
        lines: Of the whole text.
        more: How to read on; "" at the end.
    """

    text: str
    first: int
    last: int
    lines: int
    more: str = ""


def page(text: str, *, start_line: int, max_lines: int, start_char: int = 1) -> Page:
    """Whole lines from one on, as many as fit; a line that fits nowhere is cut.

    Raises:
        ToolError: There is no such line, or no such character in it.
    """
    lines = lines_of(text)
    if not lines:
        return Page(text="", first=0, last=0, lines=0)
    first = start_line if start_line > 0 else max(1, len(lines) + start_line + 1)
    if first > len(lines):
        raise _beyond(f"line {first}", f"the file has {len(lines)} lines")
    line = lines[first - 1]
    if start_char > len(line):
        raise _beyond(f"character {start_char} of line {first}", f"it has {len(line)}")
    head = line[start_char - 1 : start_char - 1 + PAGE_CHARS]
    end = start_char + len(head)
    if end <= len(line):
        more = f"line {first} goes on: start_line={first}, start_char={end}"
        return Page(text=head, first=first, last=first, lines=len(lines), more=more)
    last, size = first, len(head)
    while last < min(len(lines), first + max_lines - 1):
        size += len(lines[last])
        if size > PAGE_CHARS:
            break
        last += 1
    more = f"go on with start_line={last + 1}" if last < len(lines) else ""
    shown = head + "".join(lines[first:last])
    return Page(text=shown, first=first, last=last, lines=len(lines), more=more)


def lines_of(text: str) -> list[str]:
    """Lines with their ends; only a line feed ends one, as in any editor."""
    lines = text.split("\n")
    whole = [f"{line}\n" for line in lines[:-1]]
    return [*whole, lines[-1]] if lines[-1] else whole


def _beyond(what: str, there: str) -> ToolError:
    return ToolError(f"there is no {what}: {there}", code="beyond_end")
