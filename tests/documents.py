"""Runs what a document shows: files are written, commands run in order, their output compared.

- a block with `title="name"` is a file; Python is also run as it stands, and prints nothing;
- a `console` block holds commands (`$ …`), run one after the other in one shell, each with the
  lines it prints on stdout. A command fails the test unless it exits with 0. `…` stands for
  anything within a line, and alone on its line for any lines.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block.

    Attributes:
        title: Name of the file that it is, or "".
    """

    kind: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, and what the document says that it prints; None where it says nothing."""

    words: str
    printed: str


def blocks(document: Path) -> list[Block]:
    """All fenced blocks, in order."""
    found = _BLOCK.findall(document.read_text(encoding="utf-8"))
    return [Block(kind=kind, title=title, text=text) for kind, title, text in found]


def play(document: Path, folder: Path, replaced: Mapping[str, str]) -> None:
    """Write the files and run the commands of a document.

    Args:
        document: Markdown.
        folder: Where it takes place; empty.
        replaced: Addresses in the document, and what stands for them here.
    """
    environment = _environment()
    for block in blocks(document):
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
            if block.kind == "python":
                loads = Command(words=f"{sys.executable} {block.title}", printed="")
                _run(loads, folder, environment, replaced)
        elif block.kind == "console":
            for command in commands(block.text):
                _run(command, folder, environment, replaced)


def commands(text: str) -> Iterator[Command]:
    """The commands of a console block."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        words, _, printed = part.partition("\n")
        yield Command(words=words, printed=printed)


def _run(
    command: Command, folder: Path, environment: dict[str, str], replaced: Mapping[str, str]
) -> None:
    words = command.words
    for told, real in replaced.items():
        words = words.replace(told, real)
    if words.startswith("export "):
        name, _, value = words.removeprefix("export ").partition("=")
        environment[name] = value
        return
    done = subprocess.run(
        ["sh", "-c", words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"$ {words}\n{done.stdout}{done.stderr}"
    assert _pattern(command.printed).fullmatch(done.stdout), (
        f"$ {words}\nthe document says:\n{command.printed}\nit prints:\n{done.stdout}"
    )


def _pattern(printed: str) -> re.Pattern[str]:
    """What an output has to be: `…` is anything within a line, alone on a line any lines."""
    lines = [
        r"(?:[^\n]*\n)*" if line == "…" else r"[^\n]*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in printed.splitlines()
    ]
    return re.compile("".join(lines))


def _environment() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return os.environ | {"PATH": path, "LANG": "C.UTF-8", "COLUMNS": "100", "TZ": "UTC"}
