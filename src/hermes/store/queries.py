"""Named queries out of the `.sql` files beside this module.

Those for SQLite stand in `sql/`, those for PostgreSQL in `sql/postgres/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import takewhile
from typing import Literal

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


def sql(name: str) -> str:
    """The query that stands under `-- name: <name>`.

    Raises:
        KeyError: No file has such a query.
    """
    return _queries("")[name]


def postgres(name: str) -> bytes:
    """The query for PostgreSQL under `-- name: <name>`, as its driver takes it.

    Raises:
        KeyError: No file has such a query.
    """
    return _queries("postgres")[name].encode()


def migrations(backend: Literal["", "postgres"] = "") -> list[tuple[int, str]]:
    """The numbered scripts that build the schema, in order, as (version, text)."""
    folder = _folder(backend).joinpath("migrations")
    return sorted(
        (int(file.name.partition("_")[0]), file.read_text("utf-8")) for file in _in(folder)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A numbered script, for who decides when to run it.

    Attributes:
        name: Of its file, without the ending, as `0002_waits`.
        about: What it brings, and whether it is safe before or after the code upgrade.
    """

    number: int
    name: str
    about: str


def migrations_after(version: int, backend: Literal["", "postgres"] = "") -> list[Migration]:
    """The scripts that a database of this schema version lacks, in order."""
    folder = _folder(backend).joinpath("migrations")
    found = [
        Migration(
            number=int(file.name.partition("_")[0]),
            name=file.name.removesuffix(".sql"),
            about=_opening_comment(file.read_text("utf-8")),
        )
        for file in _in(folder)
    ]
    found.sort(key=lambda migration: migration.number)
    return [migration for migration in found if migration.number > version]


def _opening_comment(script: str) -> str:
    lines = takewhile(lambda line: line.startswith("--"), script.splitlines())
    return " ".join(line.removeprefix("--").strip() for line in lines)


@cache
def _queries(backend: str) -> dict[str, str]:
    queries: dict[str, str] = {}
    for file in _in(_folder(backend)):
        _, *parts = _NAME.split(file.read_text("utf-8"))
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in queries:
                raise ValueError(f"{file.name} has a second query named `{name}`")
            queries[name] = _COMMENT.sub("", text).strip()
    return queries


def _folder(backend: str) -> Traversable:
    return files("hermes.store").joinpath("sql", backend)


def _in(folder: Traversable) -> Iterator[Traversable]:
    return (entry for entry in folder.iterdir() if entry.name.endswith(".sql"))
