"""The same commands on PostgreSQL: only the URL is another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import database
from tests.unit.cli.shop import RUN, Cli


@pytest.fixture
def postgres(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with database() as url:
        monkeypatch.setenv("HERMES_DATABASE_URL", url)
        yield url


@pytest.mark.usefixtures("postgres")
def test_an_empty_database_is_migrated_when_it_is_told_to(cli: Cli) -> None:
    assert "2  0002_waits" in cli("db", "migrate", "--dry-run").out
    assert "2  0002_waits" in cli("db", "status").out
    assert "ran 0002_waits" in cli("db", "migrate").out
    value = cli("db", "status", "--json").value
    assert (value["backend"], value["version"], value["pending"]) == ("postgresql", 5, [])


@pytest.mark.usefixtures("postgres")
def test_reviews_are_listed_decided_and_pruned(cli: Cli) -> None:
    assert cli("run", "pay", *RUN).code == 3
    assert "in_doubt" in cli("review", "list").out
    result = cli("review", "done", "last", "--result", "paid", "--resume", "--json")
    assert (result.code, result.value["output"]) == (0, "paid")
    again = cli("review", "done", "last", "--by", "bob")
    assert (again.code, "was decided before" in again.err) == (1, True)
    value = cli("db", "prune", "--older-than", "0s", "--json").value
    assert (value["tasks"], value["tasks_after"]) == (1, 0)


@pytest.mark.usefixtures("postgres")
def test_a_copy_is_written_to_a_new_file(cli: Cli) -> None:
    cli("db", "migrate")
    result = cli("db", "backup", "copy.dump")
    if "pg_dump" in result.err:
        pytest.skip("pg_dump is not installed here")
    assert result.code == 0, result.err
    assert Path("copy.dump").stat().st_size > 0
