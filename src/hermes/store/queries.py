"""Named queries out of the `.sql` files beside this module."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


def sql(name: str) -> str:
    """The query that stands under `-- name: <name>`.

    Raises:
        KeyError: No file has such a query.
    """
    return _queries()[name]


def migrations() -> list[tuple[int, str]]:
    """The numbered scripts that build the schema, in order, as (version, text)."""
    folder = _folder().joinpath("migrations")
    return sorted(
        (int(file.name.partition("_")[0]), file.read_text("utf-8")) for file in _in(folder)
    )


@cache
def _queries() -> dict[str, str]:
    queries: dict[str, str] = {}
    for file in _in(_folder()):
        _, *parts = _NAME.split(file.read_text("utf-8"))
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in queries:
                raise ValueError(f"{file.name} has a second query named `{name}`")
            queries[name] = _COMMENT.sub("", text).strip()
    return queries


def _folder() -> Traversable:
    return files("hermes.store") / "sql"


def _in(folder: Traversable) -> Iterator[Traversable]:
    return (entry for entry in folder.iterdir() if entry.name.endswith(".sql"))
