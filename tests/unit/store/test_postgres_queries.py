"""Queries for PostgreSQL are found by name, fit the schema, and none is left over."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import hermes.store
from hermes.store.queries import migrations, postgres
from tests.postgres import database

ROOM = Path(hermes.store.__file__).parent
NAMED = sorted(
    name
    for file in (ROOM / "sql/postgres").glob("*.sql")
    for name in re.findall(r"^-- name: (\w+)$", file.read_text(), re.MULTILINE)
)


@pytest.fixture(scope="module")
def connection() -> Iterator[psycopg.Connection]:
    with database() as url, psycopg.connect(url, autocommit=True) as opened:
        for _, script in migrations("postgres"):
            opened.execute(script.encode())
        yield opened


def test_every_query_is_used() -> None:
    files = [file for file in ROOM.glob("*.py") if "postgres" in file.stem]
    code = "\n".join(file.read_text() for file in files)

    assert set(re.findall(r'"(\w+)"', code)) >= set(NAMED)


@pytest.mark.parametrize("name", [name for name in NAMED if not name.startswith("vacuum")])
def test_every_query_fits_the_schema(connection: psycopg.Connection, name: str) -> None:
    numbers: dict[str, int] = {}

    def numbered(match: re.Match[str]) -> str:
        key = match[1] or f"#{len(numbers)}"
        return f"${numbers.setdefault(key, len(numbers) + 1)}"

    planned = re.sub(r"%(?:\((\w+)\))?s", numbered, postgres(name).decode())
    connection.execute(f"PREPARE q AS {planned}".encode())
    connection.execute(b"DEALLOCATE q")


def test_sqlite_and_postgresql_have_the_same_tables_and_columns(
    connection: psycopg.Connection,
) -> None:
    from hermes.store.driver import connect

    sqlite = connect(":memory:")
    for _, script in migrations():
        sqlite.execute(script)
    rows = sqlite.execute(
        "SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c"
        " WHERE t.type = 'table'"
    ).fetchall()
    found = connection.execute(
        b"SELECT table_name, column_name FROM information_schema.columns"
        b" WHERE table_schema = current_schema()"
    ).fetchall()

    assert set(found) == set(rows)
