"""Lines that a pattern matches; also a program of its own, since a pattern may never end.

As a program it reads JSON lines: a header `{"pattern", "limit"}`, then `{"path", "text"}` for each
file. It writes JSON lines: one for each match, and at the end the sum, or `{"error"}` alone. It
imports nothing of Hermes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator

LINE_CHARS = 10_000
_SHOWN_CHARS = 300
_BEFORE_CHARS = 100


class Search:
    """One search over many texts.

    Attributes:
        found: Matching lines, shown or not.
        cut: Lines that were longer than `LINE_CHARS` and only searched so far.
    """

    def __init__(self, pattern: str, *, limit: int) -> None:
        self._pattern = re.compile(pattern)
        self._limit = limit
        self.found = 0
        self.cut = 0

    def matches(self, path: str, text: str) -> Iterator[dict[str, object]]:
        """Matching lines of one text, as long as the limit allows."""
        for number, line in enumerate(text.split("\n"), start=1):
            if len(line) > LINE_CHARS:
                self.cut += 1
            hit = self._pattern.search(line[:LINE_CHARS])
            if hit is None:
                continue
            self.found += 1
            if self.found <= self._limit:
                yield {
                    "path": path,
                    "line": number,
                    "text": _around(line.rstrip("\r"), hit.start()),
                }

    def summary(self) -> dict[str, object]:
        return {"found": self.found, "cut": self.cut}


def _around(line: str, at: int) -> str:
    """The part of a long line where a match stands."""
    if len(line) <= _SHOWN_CHARS:
        return line
    start = max(0, min(at - _BEFORE_CHARS, len(line) - _SHOWN_CHARS))
    end = start + _SHOWN_CHARS
    return f"{'…' * (start > 0)}{line[start:end]}{'…' * (end < len(line))}"


def main() -> None:
    """What stands on stdin, searched."""
    header = json.loads(sys.stdin.readline())
    try:
        search = Search(header["pattern"], limit=header["limit"])
    except (re.error, OverflowError, RecursionError) as exc:
        _say({"error": str(exc)})
        return
    for line in sys.stdin:
        file = json.loads(line)
        for match in search.matches(file["path"], file["text"]):
            _say(match)
    _say(search.summary())


def _say(value: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


if __name__ == "__main__":
    main()
