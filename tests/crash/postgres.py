"""A PostgreSQL database of its own for a crash test, emptied for each run."""

from __future__ import annotations

import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg.sql import SQL, Identifier

from hermes.testing.scenario import Place
from tests.postgres import SHARED, connect

_TABLES = """
SELECT schemaname, tablename FROM pg_tables
WHERE schemaname NOT IN ('pg_catalog', 'information_schema') AND tablename <> 'hermes_schema'
"""


class PostgresGround:
    """A database that is made for the test and dropped after it.

    Where no server answers, entering it skips the test, or fails it under CI.

    Args:
        folder: Where the runs' folders are made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._name = f"hermes_crash_{uuid.uuid4().hex[:12]}"
        self._url = SHARED.rpartition("/")[0] + f"/{self._name}"

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
        with connect() as connection:
            connection.execute(statement.encode())
