"""The body of an answer from anywhere: decompressed within bounds, and read as the text it is."""

from __future__ import annotations

import codecs
import re
import zlib

_ZIPPED = ("gzip", "x-gzip", "deflate")
_AUTO = zlib.MAX_WBITS | 32  # gzip or zlib, as its first bytes say
_CHARSET = re.compile(r"""charset\s*=\s*["']?\s*([^\s"';,>/]+)""", re.IGNORECASE)
_HEAD_BYTES = 4096
# Encodings that pages are written in; others that Python knows are slow or no text encodings.
_KNOWN = re.compile(
    r"utf-?8|utf-?16(-?[lb]e)?|us-ascii|ascii|latin-?1|gb2312|gbk|gb18030|hz-gb-2312|big5(-hkscs)?"
    r"|shift[_-]jis|sjis|euc-(jp|kr)|iso-2022-jp|iso-8859-\d{1,2}|windows-\d{3,4}|cp\d{3,4}"
    r"|koi8-[ru]|tis-620"
)
_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "iso-8859-1": "cp1252", "latin-1": "cp1252"}
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_GUESSES = ("utf-8", "gb18030")


class Body:
    """Takes the chunks of a body up to a number of decoded bytes.

    Args:
        max_bytes: Of the content; as much of the raw bytes.
        encoding: The header `Content-Encoding`.

    Attributes:
        cut: Why the content is not all of it; "" if it is.
    """

    def __init__(self, max_bytes: int, *, encoding: str = "") -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = self._raw = 0
        self.cut = ""
        kind = encoding.strip().casefold()
        self._zip = zlib.decompressobj(_AUTO) if kind in _ZIPPED else None
        if self._zip is None and kind not in ("", "identity"):
            self.cut = f"its compression {kind!r:.40} cannot be read here"

    @property
    def content(self) -> bytes:
        """What has come, decoded."""
        return b"".join(self._parts)

    def add(self, chunk: bytes) -> bool:
        """Take a chunk; returns whether that is the end of what is wanted."""
        if self.cut:
            return True
        self._raw += len(chunk)
        try:
            self._take(chunk)
        except zlib.error:
            self.cut = "its compression is broken"
        if not self.cut and self._raw > self._max_bytes:
            self._full()
        return bool(self.cut)

    def end(self) -> None:
        """No further chunk comes."""
        if self._zip is not None and self._raw and not self._zip.eof and not self.cut:
            self.cut = "its compressed form ends too early"

    def _take(self, chunk: bytes) -> None:
        if self._zip is None:
            self._keep(chunk)
            return
        while chunk and not self.cut:
            if self._zip.eof:  # one gzip file may follow another
                self._zip = zlib.decompressobj(_AUTO)
            self._keep(self._zip.decompress(chunk, self._max_bytes - self._size + 1))
            chunk = self._zip.unconsumed_tail or self._zip.unused_data

    def _keep(self, part: bytes) -> None:
        room = self._max_bytes - self._size
        self._parts.append(part[:room])
        self._size += min(len(part), room)
        if len(part) > room:
            self._full()

    def _full(self) -> None:
        self.cut = f"only the first {self._max_bytes} bytes were read"


def decode(raw: bytes, kind: str) -> str:
    """A body as text: by its byte order mark, its header, its `<meta>`, or else by looking.

    Args:
        raw: May end in the middle of a character.
        kind: The header `Content-Type`.
    """
    for mark, name in _BOMS:
        if raw.startswith(mark):
            return raw[len(mark) :].decode(name, "replace")
    told = _charset(kind) or _charset(raw[:_HEAD_BYTES].decode("latin-1"))
    if told:
        return raw.decode(told, "replace")
    for name in _GUESSES:
        try:
            return codecs.getincrementaldecoder(name)().decode(raw)
        except UnicodeDecodeError:
            continue
    return raw.decode("utf-8", "replace")


def is_text(kind: str, raw: bytes) -> bool:
    """Whether a body is to be shown as text, by its type, or by its bytes if it has none."""
    name = kind.partition(";")[0].strip().casefold()
    if not name or name == "application/octet-stream":
        return b"\0" not in raw[:_HEAD_BYTES]
    return name.startswith("text/") or name.endswith(("+json", "+xml")) or name in _TEXTS


_TEXTS = tuple(
    f"application/{name}"
    for name in ("json", "xml", "javascript", "yaml", "x-yaml", "toml", "sql", "x-ndjson", "ndjson")
    + ("x-www-form-urlencoded", "graphql", "problem+json")
)


def is_json(kind: str) -> bool:
    """Whether a body says that it is JSON."""
    name = kind.partition(";")[0].strip().casefold()
    return name == "application/json" or name.endswith("+json")


def _charset(text: str) -> str:
    found = _CHARSET.search(text)
    name = found[1].casefold() if found else ""
    if not _KNOWN.fullmatch(name):
        return ""
    name = _WIDER.get(name, name)
    try:
        codecs.lookup(name)
    except LookupError:
        return ""
    return name
