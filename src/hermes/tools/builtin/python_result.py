"""What goes into a sandbox, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MEMORY_BYTES = 128 * 1024 * 1024
PRINTED_CHARS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """One program.

    Attributes:
        inputs: Plain JSON, by name.
    """

    code: str
    inputs: Mapping[str, object] = field(default_factory=dict[str, object])
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a program came to.

    Attributes:
        error: Type, message, and line where there is one; None if it came to its end.
    """

    value: object = None
    printed: str = ""
    error: dict[str, object] | None = None


class Printed:
    """The beginning of what a program prints, and how much more that was."""

    def __init__(self, limit: int = PRINTED_CHARS) -> None:
        self._limit, self._kept, self._size, self._total = limit, list[str](), 0, 0

    def add(self, text: str) -> None:
        self._total += len(text)
        room = self._limit - self._size
        if room > 0:
            self._kept.append(text[:room])
            self._size += min(room, len(text))

    @property
    def text(self) -> str:
        missing = self._total - self._size
        more = f"\n[… {missing:,} more characters were printed …]" if missing else ""
        return "".join(self._kept) + more


def failed(
    kind: str, message: str, *, line: int | None = None, code: str = ""
) -> dict[str, object]:
    """An error as the model reads it, with the line of its program."""
    error: dict[str, object] = {"type": kind, "message": message[:1_000]}
    if line is None:
        return error
    lines = code.split("\n")
    source = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return {**error, "line": line, **({"source": source[:200]} if source else {})}


def too_slow(timeout_s: float) -> dict[str, object]:
    """The error of a program that was ended."""
    return failed("TimeoutError", f"it did not end within {timeout_s:g} s")
