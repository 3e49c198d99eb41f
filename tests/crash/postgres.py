"""A PostgreSQL database of its own for a crash test, emptied for each run."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg.sql import SQL, Identifier

from hermes.testing.scenario import Place

ADMIN = os.environ.get("HERMES_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")

_TABLES = """
SELECT schemaname, tablename FROM pg_tables
WHERE schemaname NOT IN ('pg_catalog', 'information_schema') AND tablename <> 'hermes_schema'
"""


def is_there() -> bool:
    """Whether a server answers."""
    try:
        psycopg.connect(ADMIN, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


class PostgresGround:
    """A database that is made for the test and dropped after it.

    Args:
        folder: Where the runs' folders are made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._name = f"hermes_crash_{uuid.uuid4().hex[:12]}"
        self._url = ADMIN.rpartition("/")[0] + f"/{self._name}"

    def __enter__(self) -> Self:
        self._admin(f'CREATE DATABASE "{self._name}"')
        # A killed client loses nothing by commits that are not synced.
        self._admin(f'ALTER DATABASE "{self._name}" SET synchronous_commit = off')
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._admin(f'DROP DATABASE "{self._name}" WITH (FORCE)')

    def fresh(self) -> Place:
        """The database, empty but for its schema, and a folder."""
        with psycopg.connect(self._url) as connection:
            for names in connection.execute(_TABLES).fetchall():
                connection.execute(SQL("DELETE FROM {}").format(Identifier(*names)))
        self._count += 1
        work = self._folder / f"run{self._count}" / "work"
        work.mkdir(parents=True)
        return Place(database=self._url, folder=work)

    def clear(self, place: Place) -> None:
        """Nothing: the next run empties the database."""

    def _admin(self, statement: str) -> None:
        with psycopg.connect(ADMIN, autocommit=True) as connection:
            connection.execute(statement.encode())
