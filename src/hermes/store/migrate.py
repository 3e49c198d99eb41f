"""The schema of a SQLite journal, brought up to date by numbered scripts."""

from __future__ import annotations

from pathlib import Path

from hermes.errors import StoreError
from hermes.store.driver import Connection
from hermes.store.queries import migrations, migrations_after

APPLICATION_ID = int.from_bytes(b"Herm")
"""Marks a SQLite file as a journal of Hermes."""


def check(connection: Connection, path: Path) -> None:
    """Refuse a database that scripts would have to be run on first.

    Raises:
        StoreError: It lacks some, belongs to another program, or is of a newer Hermes.
    """
    version = schema_version(connection, path)
    missing = migrations_after(version)
    if missing:
        raise StoreError(
            f"{path} has schema version {version}, this Hermes needs {missing[-1].number}",
            hint="run `hermes db migrate`",
        )


def schema_version(connection: Connection, path: Path) -> int:
    """The schema version of a database, 0 for an empty one; changes nothing.

    Raises:
        StoreError: It belongs to another program, or is of a newer Hermes.
    """
    if connection.pragma("application_id") != APPLICATION_ID:
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if tables != (0,):
            raise StoreError(
                f"{path} is a SQLite database of another program", hint="choose another path"
            )
        return 0
    version, newest = int(str(connection.pragma("user_version"))), migrations()[-1][0]
    if version > newest:
        raise StoreError(
            f"{path} has schema version {version}, this Hermes knows up to {newest}",
            hint="upgrade Hermes, or choose another path",
        )
    return version


def migrate(connection: Connection, path: Path) -> None:
    """Run the scripts that a database lacks, in one transaction; another process waits for it.

    Raises:
        StoreError: It belongs to another program, or a newer Hermes has written it.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = schema_version(connection, path)
        if version == 0:
            connection.pragma("application_id", APPLICATION_ID)
        for number, script in migrations():
            if number > version:
                connection.execute(script)
                connection.pragma("user_version", number)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
