"""The schema of a SQLite journal, brought up to date by numbered scripts."""

from __future__ import annotations

from pathlib import Path

from hermes.errors import StoreError
from hermes.store.driver import Connection
from hermes.store.queries import migrations

APPLICATION_ID = int.from_bytes(b"Herm")
"""Marks a SQLite file as a journal of Hermes."""


def migrate(connection: Connection, path: Path) -> None:
    """Run the scripts that a database lacks, in one transaction; another process waits for it.

    Raises:
        StoreError: It belongs to another program, or a newer Hermes has written it.
    """
    scripts = migrations()
    newest = scripts[-1][0]
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection, path)
        if version > newest:
            raise StoreError(
                f"{path} has schema version {version}, this Hermes knows up to {newest}",
                hint="upgrade Hermes, or choose another path",
            )
        for number, script in scripts:
            if number > version:
                connection.execute(script)
                connection.pragma("user_version", number)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _version(connection: Connection, path: Path) -> int:
    """The schema version, 0 for a new file; claims a new file for Hermes."""
    if connection.pragma("application_id") == APPLICATION_ID:
        return int(str(connection.pragma("user_version")))
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if tables != (0,):
        raise StoreError(
            f"{path} is a SQLite database of another program", hint="choose another path"
        )
    connection.pragma("application_id", APPLICATION_ID)
    return 0
