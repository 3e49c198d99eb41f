"""What the store uses of apsw, in types that Python 3.11 can state.

apsw's own signatures name `collections.abc.Buffer`, which came with Python 3.12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, cast

import apsw

_STATEMENTS_KEPT = 1024
"""apsw keeps the last uses, not the last statements: one that is used once a run needs room."""

Value = int | float | str | bytes | None
Bindings = Mapping[str, Value] | Sequence[Value]
Row = tuple[object, ...]


class Cursor(Protocol):
    """Runs statements, one after the other; apsw keeps them prepared by their text."""

    @property
    def connection(self) -> Connection: ...

    def execute(self, statements: str, bindings: Bindings | None = None, /) -> Cursor: ...

    def executemany(self, statements: str, bindings: Iterable[Bindings], /) -> Cursor: ...

    def fetchone(self) -> Row | None: ...

    def fetchall(self) -> list[Row]: ...


class Connection(Protocol):
    """One connection; used in one thread."""

    @property
    def in_transaction(self) -> bool: ...

    def cursor(self) -> Cursor: ...

    def execute(self, statements: str, bindings: Bindings | None = None, /) -> Cursor: ...

    def pragma(self, name: str, value: Value = None, /) -> object: ...

    def changes(self) -> int: ...

    def total_changes(self) -> int: ...

    def set_busy_handler(self, handler: Callable[[int], bool], /) -> None: ...

    def set_wal_hook(self, hook: Callable[[Connection, str, int], int], /) -> None: ...

    def wal_checkpoint(self, *, mode: int) -> tuple[int, int]: ...

    def close(self) -> None: ...


def connect(path: str) -> Connection:
    """Open a file, creating it when missing.

    Raises:
        apsw.CantOpenError: As it says; most other faults show at the first statement.
    """
    return cast("Connection", apsw.Connection(path, statementcachesize=_STATEMENTS_KEPT))
