"""Google-style docstrings: what a tool does, and what each argument means."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_HEADER = re.compile(r"([A-Z][A-Za-z ]{2,30}):\s*")
_ARGUMENT = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_ARGUMENTS = {"args", "arguments", "parameters", "params"}
_RESULTS = {"returns", "return"}
# What a caller in Python needs and a model does not.
_DROPPED = {"raises", "yields", "attributes", "todo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Docs:
    """What a docstring says.

    Attributes:
        description: All that is meant for the model; "" without a docstring.
        arguments: Text by argument name, each on one line.
    """

    description: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])


def read_docstring(text: str | None) -> Docs:
    """Split a docstring into description and arguments.

    `Args:` becomes per-argument text, `Returns:` is kept as one line, `Raises:` and the like are
    left out; every other section stays in the description as it is written.
    """
    description: list[str] = []
    arguments: dict[str, str] = {}
    for header, lines in _sections(inspect.cleandoc(text or "").splitlines()):
        name = header.casefold()
        if name in _ARGUMENTS:
            arguments |= _arguments(lines)
        elif name in _RESULTS:
            description += ["", f"Returns: {_first_paragraph(lines)}"]
        elif name not in _DROPPED:
            description += ([f"{header}:"] if header else []) + list(lines)
    paragraphs = re.sub(r"\n{3,}", "\n\n", "\n".join(description))
    return Docs(description=paragraphs.strip(), arguments=arguments)


def _sections(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Header and lines of each section; the header of what stands outside of any is ""."""
    header, body = "", list[str]()
    for number, line in enumerate(lines):
        match = _HEADER.fullmatch(line)
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if match and following.startswith((" ", "\t")):
            yield header, body
            header, body = match[1], []
        elif header and line and not line[0].isspace():
            yield header, body
            header, body = "", ["", line]
        else:
            body.append(line)
    yield header, body


def _arguments(lines: Sequence[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] = []
    margin = min((_indent(line) for line in lines if line.strip()), default=0)
    for line in lines:
        match = _ARGUMENT.fullmatch(line.strip()) if _indent(line) == margin else None
        if match:
            current = found.setdefault(match[1], [])
            current.append(match[2])
        elif line.strip():
            current.append(line.strip())
    return {name: " ".join(filter(None, parts)) for name, parts in found.items()}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _first_paragraph(lines: Sequence[str]) -> str:
    words: list[str] = []
    for line in lines:
        if not line.strip() and words:
            break
        words.append(line.strip())
    return " ".join(filter(None, words))
