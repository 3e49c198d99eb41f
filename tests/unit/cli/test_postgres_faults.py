"""What the command says where PostgreSQL refuses: one line with a way out, no password."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.postgres import ACCOUNT, SHARED, database
from tests.unit.cli.shop import RUN, Cli


@pytest.fixture
def url() -> Iterator[str]:
    with database() as found:
        yield found


@pytest.fixture
def nobody() -> Iterator[str]:
    """A user without any right."""
    name = f"hermes_nobody_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(SHARED, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN".encode())
    try:
        yield name
    finally:
        with psycopg.connect(SHARED, autocommit=True) as admin:
            admin.execute(f"DROP ROLE {name}".encode())


def run_sql(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_a_user_that_may_make_no_schema_is_told_which_right_it_lacks(
    cli: Cli, nobody: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_DATABASE_URL", url.replace(f"{ACCOUNT}@", f"{nobody}@"))
    for words in (("tasks",), ("db", "migrate"), ("worker", "--once")):
        result = cli(*words)
        assert (result.code, result.err.count("\n")) == (1, 1)
        assert "does not let this user do that: permission denied" in result.err
        assert "the right to create and use schema hermes" in result.err


def test_a_schema_that_a_user_must_not_enter_is_not_taken_for_a_missing_one(
    cli: Cli, nobody: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_DATABASE_URL", url)
    assert cli("db", "migrate").code == 0
    monkeypatch.setenv("HERMES_DATABASE_URL", url.replace(f"{ACCOUNT}@", f"{nobody}@"))
    for words in (("db", "status"), ("tasks",)):
        result = cli(*words)
        assert (result.code, result.out) == (1, "")
        assert "does not let this user into schema hermes (grant usage on it" in result.err


def test_a_worker_that_must_only_read_ends_with_one_line(
    cli: Cli, nobody: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_DATABASE_URL", url)
    assert cli("db", "migrate").code == 0
    run_sql(
        url,
        f"GRANT USAGE ON SCHEMA hermes TO {nobody}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA hermes TO {nobody}",
    )
    try:
        monkeypatch.setenv("HERMES_DATABASE_URL", url.replace(f"{ACCOUNT}@", f"{nobody}@"))
        result = cli("worker", "--once")
    finally:
        run_sql(url, f"DROP OWNED BY {nobody}")
    assert result.code == 1
    assert "permission denied for table worker" in result.err
    assert "a fault in Hermes" not in result.err


def test_a_statement_timeout_is_named_as_what_it_is(
    cli: Cli, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_DATABASE_URL", url)
    assert cli("run", "look", *RUN, "--detach", "-q").code == 0
    run_sql(
        url,
        "CREATE FUNCTION hermes.wait() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(9); RETURN NEW; END $$",
        "CREATE TRIGGER slow BEFORE INSERT ON hermes.signal"
        " FOR EACH ROW EXECUTE FUNCTION hermes.wait()",
        f"ALTER DATABASE {url.rpartition('/')[2]} SET statement_timeout = '50ms'",
    )
    result = cli("signal", "it")
    assert result.code == 1
    assert "ended a statement before it was through" in result.err
    assert "raise statement_timeout" in result.err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://me:se@cret@127.0.0.1/x", "is not of the form"),
        ("postgresql://me:secret@127.0.0.1/x?sslmod=require", "does not know: sslmod"),
        ("postgresql://me:%zzsecret@127.0.0.1/x", "is not of the form"),
        ("postgresql://me:s?cret@127.0.0.1/x?a=b", ""),
    ],
    ids=["at sign", "option", "percent", "question mark"],
)
def test_a_url_that_cannot_be_read_shows_nothing_of_its_password(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, url: str, said: str
) -> None:
    monkeypatch.setenv("HERMES_DATABASE_URL", url)
    result = cli("tasks", "--json")
    assert result.code in (1, 2)
    assert said in result.err
    assert "cret" not in result.err + result.out


BARRIER = """
import psycopg
from hermes import tool

@tool(effect="read")
def look(name: str) -> str:
    \"\"\"Make the database one that can only be read.\"\"\"
    with psycopg.connect("{url}", autocommit=True) as connection:
        connection.execute("ALTER DATABASE {name} SET default_transaction_read_only = on")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    return "seen"
"""


def test_a_run_that_loses_its_database_says_how_to_go_on(
    cli: Cli, url: str, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_DATABASE_URL", url)
    barrier = BARRIER.format(url=url, name=url.rpartition("/")[2])
    (workdir / "tools.py").write_text(barrier)
    result = cli("run", "look", *RUN)
    assert result.code == 1
    task = re.search(r"; then `hermes resume (task_\S+)` goes on at the step", result.err)
    assert task is not None, result.err
    assert cli("show", task[1], "--json").value["status"] == "processing"
