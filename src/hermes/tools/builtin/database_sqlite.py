"""SQLite files for the database tools: what may be done is held by SQLite's own authorizer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import apsw
from anyio import to_thread

from hermes.core.clock import Clock
from hermes.errors import NotDone, ToolError

from .database_driver import Authorizer, Connection, Cursor, Trace, opened
from .database_rows import (
    MAX_RESULT_CHARS,
    SEVERAL,
    TIME_CAP_S,
    TOO_LONG,
    Rows,
    Scalar,
    is_blank,
    plain,
    refused,
    weight,
)
from .senders import LostAnswer

T = TypeVar("T")

_STEPS = 20_000
_READS = {"SQLITE_SELECT", "SQLITE_READ", "SQLITE_FUNCTION", "SQLITE_RECURSIVE"}
_WRITES = _READS | {"SQLITE_INSERT", "SQLITE_UPDATE", "SQLITE_DELETE"}
_TABLES = """
SELECT name, type FROM pragma_table_list
WHERE schema = 'main' AND type IN ('table', 'view', 'virtual') AND substr(name, 1, 7) <> 'sqlite_'
ORDER BY name
"""
_FUNCTIONS = ("load_extension", "fts3_tokenizer", "readfile", "writefile", "edit")


class SQLiteSource:
    """One file.

    Args:
        path: The file; it is never created.
        clock: Measures the time cap.
    """

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self._path, self._clock = path, clock

    async def tables(self) -> list[dict[str, object]]:
        found = await self._run(lambda call: call.read(_TABLES, (), 10_000))
        return [{"name": name, "kind": kind} for name, kind in found.rows]

    async def describe(self, table: str) -> dict[str, object] | None:
        def work(call: _Call) -> dict[str, object] | None:
            if table not in (name for name, _ in call.read(_TABLES, (), 10_000).rows):
                return None
            columns = call.read(
                'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_xinfo(?)'
                " WHERE hidden <> 1",
                (table,),
                10_000,
            )
            keys = call.read(
                'SELECT "from", "table", "to" FROM pragma_foreign_key_list(?)', (table,), 1_000
            )
            return {
                "columns": [
                    {
                        "name": name,
                        "type": kind,
                        "nullable": not (required or key),
                        "default": default,
                        "primary_key": bool(key),
                    }
                    for name, kind, required, default, key in columns.rows
                ],
                "constraints": [
                    f"{column} references {other}({target or 'its primary key'})"
                    for column, other, target in keys.rows
                ],
            }

        return await self._run(work)

    async def query(self, sql: str, parameters: Sequence[Scalar], limit: int) -> Rows:
        return await self._run(lambda call: call.guarded(sql, parameters, limit))

    async def execute(
        self,
        sql: str,
        parameters: Sequence[Scalar],
        *,
        keep: bool,
        expected: int | None = None,
    ) -> Rows:
        return await self._run(
            lambda call: call.written(sql, parameters, keep=keep, expected=expected), writes=True
        )

    async def _run(self, work: Callable[[_Call], T], *, writes: bool = False) -> T:
        stop = threading.Event()

        def run() -> T:
            with opened(self._path, writes=writes) as connection:
                return work(_Call(connection, self._clock, stop))

        try:
            return await to_thread.run_sync(run, abandon_on_cancel=True)
        finally:
            stop.set()  # a call that is given up ends within a few thousand steps


class _Call:
    """One connection's one piece of work, in a thread."""

    def __init__(self, connection: Connection, clock: Clock, stop: threading.Event) -> None:
        self._connection = connection
        self._denied = ""
        self._late = False
        deadline = clock.monotonic() + TIME_CAP_S

        def is_over() -> bool:
            self._late = clock.monotonic() > deadline
            return self._late or stop.is_set()

        connection.set_progress_handler(is_over, _STEPS)

    def read(self, sql: str, parameters: Sequence[Scalar], limit: int) -> Rows:
        """Our own statement."""
        with self._translated():
            return self._fetched(sql, parameters, limit)

    def guarded(self, sql: str, parameters: Sequence[Scalar], limit: int) -> Rows:
        """Somebody else's statement, which may only read."""
        self._connection.authorizer = self._authorizer(_READS)
        with self._translated():
            return self._fetched(sql, parameters, limit)

    def written(
        self, sql: str, parameters: Sequence[Scalar], *, keep: bool, expected: int | None
    ) -> Rows:
        """Somebody else's statement, which may write rows, in a transaction around it."""
        connection = self._connection
        with self._translated():
            connection.execute("BEGIN IMMEDIATE")
        try:
            connection.authorizer = self._authorizer(_WRITES)
            with self._translated():
                rows = self._fetched(sql, parameters, 100, whole=True)
            changed = connection.changes()
            if expected is not None and changed != expected:
                raise refused(f"it would change {changed} rows, not {expected}; rolled back")
            connection.authorizer = None
            if keep:
                self._commit()
        finally:
            connection.authorizer = None
            if connection.in_transaction:
                connection.set_progress_handler(None)
                connection.execute("ROLLBACK")
        return Rows(columns=rows.columns, rows=rows.rows, more=rows.more, changed=changed)

    def _commit(self) -> None:
        try:
            self._connection.set_progress_handler(None)
            self._connection.execute("COMMIT")
        except apsw.Error as exc:
            if self._connection.in_transaction:
                raise NotDone(f"not done, rolled back: {exc}", code="database") from exc
            raise LostAnswer(f"the commit failed: {exc}") from exc

    def _fetched(
        self, sql: str, parameters: Sequence[Scalar], limit: int, *, whole: bool = False
    ) -> Rows:
        """Run one statement: up to the limit, or to its end if it is to be run as a whole."""
        columns: list[str] = []
        cursor = self._connection.cursor()
        numbered = {str(number): value for number, value in enumerate(parameters, 1)}
        named = numbered if "$" in sql else {}
        cursor.exec_trace = _only_one(sql, cursor, columns, named)
        cursor.execute(sql, (named or tuple(parameters)) or None)
        rows: list[list[object]] = []
        more = False
        size = 0
        for row in cursor:
            more = len(rows) == limit or size > MAX_RESULT_CHARS
            if not more:
                rows.append([plain(value) for value in row])
                size += weight(rows[-1])
            elif not whole:
                break
        return Rows(columns=columns, rows=rows, more=more)

    def _authorizer(self, allowed: set[str]) -> Authorizer:
        def decide(operation: int, first: str | None, second: str | None, *_: str | None) -> int:
            name = str(apsw.mapping_authorizer_function[operation])
            is_fine = name in allowed and not (
                (name == "SQLITE_FUNCTION" and (second or "").lower() in _FUNCTIONS)
                or (name not in _READS and (first or "").lower().startswith("sqlite_"))
            )
            if is_fine or (name == "SQLITE_PRAGMA" and first == "data_version" and not second):
                return apsw.SQLITE_OK
            self._denied = " ".join(filter(None, (name.removeprefix("SQLITE_"), first, second)))
            return apsw.SQLITE_DENY

        return decide

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except apsw.AuthError as exc:
            raise refused(f"the database does not allow {self._denied} here") from exc
        except apsw.ReadOnlyError as exc:
            raise refused("the database is opened for reading alone") from exc
        except apsw.InterruptError as exc:
            raise ToolError(
                TOO_LONG if self._late else "stopped", code="timeout", hint="ask for less"
            ) from exc
        except (apsw.BusyError, apsw.LockedError) as exc:
            raise NotDone("the database is busy with another write", code="busy") from exc
        except (apsw.BindingsError, apsw.Error, OverflowError, TypeError) as exc:
            raise ToolError(f"SQLite says: {exc}", code="sql") from exc


def _only_one(sql: str, cursor: Cursor, columns: list[str], named: Mapping[str, object]) -> Trace:
    """What sees each statement before it runs: refuses a second one, notes the first's columns."""
    begun = False

    def trace(_: object, statement: str, __: object) -> bool:
        nonlocal begun
        if not (is_blank(statement) if begun else is_blank(sql[len(statement) :])):
            raise refused(SEVERAL)
        if not begun:
            if surplus := sorted(named.keys() - set(cursor.bindings_names)):
                raise refused(f"the statement has no ${surplus[0]}, but {len(named)} values came")
            columns.extend(str(item[0]) for item in cursor.get_description())
        begun = True
        return True

    return trace
