"""SQLite files as the database tools open them, in types that Python 3.11 can state.

apsw's own signatures name `collections.abc.Buffer`, which came with Python 3.12.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, cast

import apsw

from hermes.errors import ToolError

from .database_rows import Scalar, refused

JOURNAL_ID = int.from_bytes(b"Herm")
"""The `application_id` of Hermes' own journals."""

_BUSY_MS = 5_000
_MAX_VALUE_BYTES = 16 * 2**20

Bindings = Mapping[str, Scalar] | Sequence[Scalar]
Trace = Callable[[object, str, object], bool]
Authorizer = Callable[..., int]


class Cursor(Protocol):
    """One run of statements."""

    exec_trace: Trace | None

    @property
    def bindings_names(self) -> Sequence[str | None]: ...

    def execute(self, statements: str, bindings: Bindings | None = None, /) -> Cursor: ...

    def get_description(self) -> Sequence[Sequence[object]]: ...

    def __iter__(self) -> Iterator[Sequence[object]]: ...


class Connection(Protocol):
    """One connection; used in one thread."""

    authorizer: Authorizer | None

    @property
    def in_transaction(self) -> bool: ...

    def cursor(self) -> Cursor: ...

    def execute(self, statements: str, bindings: Bindings | None = None, /) -> Cursor: ...

    def pragma(self, name: str, value: Scalar = None, /) -> object: ...

    def changes(self) -> int: ...

    def set_progress_handler(
        self, handler: Callable[[], bool] | None, nsteps: int = 100, /
    ) -> None: ...

    def set_busy_timeout(self, milliseconds: int, /) -> None: ...

    def config(self, option: int, value: int, /) -> object: ...

    def limit(self, which: int, value: int, /) -> int: ...

    def close(self) -> None: ...


@contextmanager
def opened(path: Path, *, writes: bool) -> Generator[Connection]:
    """A connection to a file that is there, for reading alone unless `writes`.

    Raises:
        ToolError: There is none, it is no database, or it is a journal of Hermes.
    """
    flags = apsw.SQLITE_OPEN_READWRITE if writes else apsw.SQLITE_OPEN_READONLY
    if not path.is_file():
        raise ToolError(f"there is no database file at {path}", code="unreachable")
    try:
        connection = cast("Connection", apsw.Connection(str(path), flags=flags))
    except apsw.Error as exc:
        raise ToolError(f"{path} cannot be opened: {exc}", code="unreachable") from exc
    try:
        _configure(connection, path, writes=writes)
        yield connection
    finally:
        connection.close()


def _configure(connection: Connection, path: Path, *, writes: bool) -> None:
    connection.set_busy_timeout(_BUSY_MS)
    try:
        owner = connection.pragma("application_id")
    except apsw.Error as exc:
        raise ToolError(f"{path} cannot be read: {exc}", code="unreachable") from exc
    if owner == JOURNAL_ID:
        raise refused(
            "this file is a journal of Hermes, which only Hermes itself reads and writes",
            hint="take it out of HERMES_TOOL_DATABASES",
        )
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0)
    connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
    connection.pragma("query_only", int(not writes))
    connection.pragma("foreign_keys", int(writes))
