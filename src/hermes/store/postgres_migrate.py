"""The schema of a PostgreSQL journal, brought up to date by numbered scripts."""

from __future__ import annotations

from typing import cast

from psycopg import errors

from hermes.errors import StoreError, StoreUnavailableError
from hermes.store.postgres_connection import SCHEMA, Address, Connection
from hermes.store.queries import migrations, migrations_after

_LOCK = int.from_bytes(b"Hermes\0\0")
"""Key of the advisory lock that whoever migrates holds."""


def newest_version() -> int:
    """The schema version that this program writes."""
    return migrations("postgres")[-1][0]


async def read_version(connection: Connection) -> int:
    """The schema version of a database; 0 where there is none yet."""
    cursor = await connection.execute(b"SELECT to_regclass('hermes_schema') IS NOT NULL")
    if await cursor.fetchone() != (True,):
        return 0
    cursor = await connection.execute(b"SELECT coalesce(max(version), 0) FROM hermes_schema")
    return cast("tuple[int]", await cursor.fetchone())[0]


async def _is_shut_out(connection: Connection) -> bool:
    """Whether our schema is there and this user has no right to use it."""
    cursor = await connection.execute(
        b"SELECT FROM pg_namespace WHERE nspname = %s AND NOT has_schema_privilege(oid, 'USAGE')",
        (SCHEMA,),
    )
    return cursor.rowcount > 0


async def schema_version(connection: Connection, address: Address) -> int:
    """The schema version of a database, 0 for an empty one; changes nothing.

    Raises:
        StoreError: It is of a newer Hermes, or this user must not look.
    """
    version, newest = await read_version(connection), newest_version()
    if not version and address.own_schema and await _is_shut_out(connection):
        raise StoreUnavailableError(
            f"PostgreSQL at {address.label} does not let this user into schema {SCHEMA}",
            hint=f"grant usage on it and on its tables, or ownership of schema {SCHEMA}",
        )
    if version > newest:
        raise StoreError(
            f"PostgreSQL at {address.label} has schema version {version}, "
            f"this Hermes knows up to {newest}",
            hint="upgrade Hermes, or choose another database",
        )
    return version


async def check(connection: Connection, address: Address) -> None:
    """Refuse a database that scripts would have to be run on first.

    Raises:
        StoreError: It lacks some, or is of a newer Hermes.
    """
    version = await schema_version(connection, address)
    missing = migrations_after(version, "postgres")
    if missing:
        raise StoreError(
            f"PostgreSQL at {address.label} has schema version {version}, "
            f"this Hermes needs {missing[-1].number}",
            hint="run `hermes db migrate`",
        )


async def migrate(connection: Connection, address: Address) -> None:
    """Run the scripts that a database lacks, in one transaction; another process waits for it.

    Raises:
        StoreError: A newer Hermes has written it, or its tables are another program's.
    """
    if await schema_version(connection, address) == newest_version():
        return
    async with connection.transaction():
        await connection.execute(b"SET LOCAL lock_timeout = 0")  # however long the other one takes
        await connection.execute(b"SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        if address.own_schema:
            # Looked up first, since making a schema takes a right that using one does not.
            cursor = await connection.execute(b"SELECT current_schema()")
            if await cursor.fetchone() == (None,):
                await connection.execute(f"CREATE SCHEMA {SCHEMA}".encode())
        version = await schema_version(connection, address)
        try:
            await _run(connection, version)
        except errors.DuplicateTable as exc:
            raise StoreError(
                f"PostgreSQL at {address.label} has tables of another program: {exc}",
                hint="choose another database, or another search_path",
            ) from exc


async def _run(connection: Connection, version: int) -> None:
    await connection.execute(
        b"CREATE TABLE IF NOT EXISTS hermes_schema ("
        b"version BIGINT PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now())"
    )
    for number, script in migrations("postgres"):
        if number > version:
            await connection.execute(script.encode())
            await connection.execute(b"INSERT INTO hermes_schema (version) VALUES (%s)", (number,))
