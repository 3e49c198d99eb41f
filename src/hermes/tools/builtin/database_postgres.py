"""PostgreSQL for the database tools: read-only transactions, a role without power over the host.

A read-only transaction keeps nobody from the server's files and programs, and a role's rights do:
so a role that may reach them is refused.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import anyio
from psycopg import (
    AsyncConnection,
    AsyncCursor,
    AsyncRawCursor,
    AsyncRawServerCursor,
    AsyncServerCursor,
    Error,
    OperationalError,
    errors,
)

from hermes.errors import NotDone, ToolError
from hermes.store.postgres_connection import Address, read_address

from .database_rows import (
    MAX_RESULT_CHARS,
    TIME_CAP_S,
    TOO_LONG,
    Rows,
    Scalar,
    first_word,
    plain,
    refused,
    weight,
)
from .senders import LostAnswer

Connection = AsyncConnection[tuple[object, ...]]

_READS = ("select", "with", "values", "table", "show", "explain")
_TOLD = ("show", "explain")
_WRITES = ("insert", "update", "delete", "merge", "with")
_GRACE_S = 3.0
_COMMIT_S = 10.0
_SMALL_ROW_BYTES = 10_000
_BEYOND = re.compile(
    r"dblink|set_config|lo_(?:creat|import|export|unlink|put|from_bytes|open|truncate)|lowrite"
    r"|pg_(?:try_)?advisory|pg_notify|pg_(?:cancel|terminate)_backend|pg_logical_emit"
    r"|query_to_xml|ts_stat|ts_rewrite|crosstab|\bU&",
    re.IGNORECASE,
)
"""What opens other connections, changes the bounds of this one, writes or signals in spite of a
read-only transaction, or runs or hides a text with such a word."""

_POWERS = """
SELECT bool_or(role.rolsuper OR EXISTS (
        SELECT FROM pg_catalog.pg_roles AS power
        WHERE power.rolname IN ('pg_read_server_files', 'pg_write_server_files',
                'pg_execute_server_program', 'pg_signal_backend', 'pg_checkpoint')
            AND pg_catalog.pg_has_role(role.oid, power.oid, 'MEMBER'))),
    EXISTS (SELECT FROM pg_catalog.pg_class WHERE relname = 'hermes_schema' AND relkind = 'r'),
    EXISTS (SELECT FROM pg_catalog.pg_proc
        WHERE proname LIKE 'dblink%' AND pg_catalog.has_function_privilege(oid, 'EXECUTE'))
FROM pg_catalog.pg_roles AS role WHERE role.rolname IN (session_user, current_user)
"""
_TABLES = """
SELECT table_schema, table_name, lower(table_type) FROM information_schema.tables
WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2 LIMIT 10000
"""
_COLUMNS = """
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), NOT a.attnotnull,
    pg_catalog.pg_get_expr(d.adbin, d.adrelid),
    EXISTS (SELECT FROM pg_catalog.pg_index AS i
        WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey))
FROM pg_catalog.pg_attribute AS a
LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_CONSTRAINTS = """
SELECT pg_catalog.pg_get_constraintdef(oid) FROM pg_catalog.pg_constraint
WHERE conrelid = $1::oid ORDER BY conname
"""
_OID = """
SELECT c.oid::bigint FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f') AND (n.nspname || '.' || c.relname = $1
    OR c.relname = $1 AND pg_catalog.pg_table_is_visible(c.oid))
ORDER BY pg_catalog.pg_table_is_visible(c.oid) DESC LIMIT 1
"""


class PostgresSource:
    """One database of a server.

    Args:
        url: As for the journal.

    Raises:
        ConfigError: It cannot be read.
    """

    def __init__(self, url: str) -> None:
        self._address = read_address(url)

    async def tables(self) -> list[dict[str, object]]:
        async with self._opened() as connection:
            rows = await _fetched(connection, _TABLES, (), 10_000)
        return [
            {"name": name if schema == "public" else f"{schema}.{name}", "kind": kind}
            for schema, name, kind in rows.rows
        ]

    async def describe(self, table: str) -> dict[str, object] | None:
        async with self._opened() as connection:
            found = await _fetched(connection, _OID, (table,), 1)
            if not found.rows:
                return None
            oid = cast("int", found.rows[0][0])
            columns = await _fetched(connection, _COLUMNS, (oid,), 10_000)
            constraints = await _fetched(connection, _CONSTRAINTS, (oid,), 1_000)
        names = ("name", "type", "nullable", "default", "primary_key")
        return {
            "columns": [dict(zip(names, row, strict=True)) for row in columns.rows],
            "constraints": [row[0] for row in constraints.rows],
        }

    async def query(self, sql: str, parameters: Sequence[Scalar], limit: int) -> Rows:
        _check(sql, _READS)
        async with self._opened() as connection:
            return await _fetched(connection, sql, parameters, limit)

    async def execute(
        self,
        sql: str,
        parameters: Sequence[Scalar],
        *,
        keep: bool,
        expected: int | None = None,
    ) -> Rows:
        _check(sql, _WRITES)
        async with self._opened(writes=True) as connection:
            cursor = connection.cursor()
            await cursor.execute(sql.encode(), list(parameters), prepare=True)
            changed = max(cursor.rowcount, 0)
            rows = await _taken(cursor, 100, changed=changed)
            if expected is not None and changed != expected:
                raise refused(f"it would change {changed} rows, not {expected}; rolled back")
            if keep:
                await _commit(connection)
            return rows

    @asynccontextmanager
    async def _opened(self, *, writes: bool = False) -> AsyncGenerator[Connection]:
        """A connection within a transaction, which is rolled back at the end."""
        with _translated(), anyio.fail_after(TIME_CAP_S + _GRACE_S):
            connection = await _connect(self._address, writes=writes)
            try:
                await _check_role(connection)
                await connection.execute(b"BEGIN" if writes else b"BEGIN READ ONLY")
                yield connection
            finally:
                with anyio.CancelScope(shield=True), anyio.move_on_after(_GRACE_S):
                    await connection.close()


async def _connect(address: Address, *, writes: bool) -> Connection:
    bounds = (
        f"-c statement_timeout={TIME_CAP_S * 1000:.0f} -c lock_timeout=5000 "
        f"-c default_transaction_read_only={'off' if writes else 'on'} "
        f"-c idle_in_transaction_session_timeout={TIME_CAP_S * 1000:.0f}"
    )
    parameters = dict(address.parameters)
    parameters["options"] = f"{parameters.get('options', '')} {bounds}".strip()
    try:
        connection = await AsyncConnection.connect(
            autocommit=True,
            cursor_factory=AsyncRawCursor,
            **cast("dict[str, Any]", parameters),
        )
    except Error as exc:
        text = " ".join(str(exc).split())[:300]
        raise NotDone(
            f"cannot reach the database {address.label}: {text}", code="unreachable"
        ) from None
    connection.server_cursor_factory = AsyncRawServerCursor
    return cast("Connection", connection)


async def _check_role(connection: Connection) -> None:
    cursor = await connection.execute(_POWERS.encode())
    row = await cursor.fetchone()
    is_mighty, is_journal, may_link = row if row else (True, False, False)
    if is_journal:
        raise refused(
            "this database holds the journal of Hermes, which only Hermes itself reads and writes",
            hint="keep business data in another database of the server",
        )
    if may_link:
        raise refused(
            "the configured role may call dblink, which writes outside of any transaction here",
            hint="a person should REVOKE EXECUTE on its functions from PUBLIC",
        )
    if is_mighty:
        raise refused(
            "the configured role is a superuser, or may reach files and programs of the server, "
            "which no read-only transaction prevents",
            hint="a person should configure a role of its own: CREATE ROLE reader LOGIN PASSWORD "
            "'…'; GRANT pg_read_all_data TO reader",
        )


async def _fetched(
    connection: Connection, sql: str, parameters: Sequence[Scalar], limit: int
) -> Rows:
    """The first rows; what comes after them never leaves the server.

    Prepared or declared, so that the server itself takes one statement and no more.
    """
    if first_word(sql) in _TOLD:
        cursor = connection.cursor()
        await cursor.execute(sql.encode(), list(parameters), prepare=True)
        return await _taken(cursor, limit)
    async with connection.cursor("hermes_rows") as cursor:
        await cursor.execute(sql.encode(), list(parameters))
        return await _taken(cursor, limit)


async def _taken(
    cursor: AsyncCursor[tuple[object, ...]] | AsyncServerCursor[tuple[object, ...]],
    limit: int,
    *,
    changed: int = 0,
) -> Rows:
    """The first rows: few at a time at first, since nobody knows how large one is."""
    if cursor.description is None:
        return Rows(columns=[], changed=changed)
    columns = [item.name for item in cursor.description]
    rows: list[list[object]] = []
    batch, size = 1, 0
    while len(rows) <= limit and size <= MAX_RESULT_CHARS:
        found = await cursor.fetchmany(min(batch, limit + 1 - len(rows)))
        if not found:
            return Rows(columns=columns, rows=rows, changed=changed)
        batch = batch * 2 if max(map(_bytes, found)) < _SMALL_ROW_BYTES else 1
        rows += [[plain(value) for value in row] for row in found]
        size += sum(map(weight, rows[-len(found) :]))
    return Rows(columns=columns, rows=rows[:limit], more=True, changed=changed)


def _bytes(row: Sequence[object]) -> int:
    """Roughly what a row has taken, before its cells were cut."""
    sized = (value for value in row if isinstance(value, str | bytes))
    return sum(map(len, sized), len(row))


async def _commit(connection: Connection) -> None:
    """Commit; once begun, it is waited for, since nobody could tell what came of it."""
    try:
        with anyio.CancelScope(shield=True), anyio.fail_after(_COMMIT_S):
            await connection.execute(b"COMMIT")
    except (OperationalError, TimeoutError) as exc:
        if isinstance(exc, errors.QueryCanceled):
            raise
        raise LostAnswer(f"the commit was not confirmed: {_said(exc)}") from None


def _check(sql: str, allowed: Sequence[str]) -> None:
    """What the server's own bounds do not cover.

    Raises:
        ToolError: The statement is of another kind, or names what leads out of the transaction.
    """
    word = first_word(sql)
    if word not in allowed:
        raise refused(
            f"a statement that begins with {word or 'nothing'!r}; allowed: {', '.join(allowed)}"
        )
    if found := _BEYOND.search(sql):
        raise refused(f"a statement that names {found.group()!r}")


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except (errors.QueryCanceled, TimeoutError) as exc:
        raise ToolError(TOO_LONG, code="timeout", hint="ask for less") from exc
    except (errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege) as exc:
        raise refused(f"PostgreSQL says: {_said(exc)}") from exc
    except (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure) as exc:
        raise NotDone(f"the database is busy: {_said(exc)}", code="busy") from exc
    except Error as exc:
        raise ToolError(f"PostgreSQL says: {_said(exc)}", code="sql") from exc


def _said(exc: BaseException) -> str:
    text = str(exc).encode("utf-8", "replace").decode()
    return " ".join(text.split())[:500]
