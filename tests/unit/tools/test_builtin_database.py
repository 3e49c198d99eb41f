"""Databases as tools see them: SQLite and PostgreSQL, the same tests."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import anyio
import pytest

from hermes.core.clock import SystemClock
from hermes.core.json import as_list, as_object
from hermes.errors import ConfigError, NotDone, ToolError
from hermes.store import open_store
from hermes.testing import FakeClock
from hermes.tools import Tool
from hermes.tools.builtin import database_rows, database_sqlite
from hermes.tools.builtin.database import make
from hermes.tools.builtin.options import BuiltinOptions, Database
from tests.hostile.shop import Shop, SQLiteShop, postgres_shop
from tests.unit.tools.calling import awaited, awaited_table


def tools_of(**urls: str) -> Mapping[str, Tool]:
    databases = tuple(Database(name=name, url=url) for name, url in urls.items())
    made = make(BuiltinOptions(databases=databases), clock=SystemClock())
    return {tool.name: tool for tool in made}


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    if request.param == "sqlite":
        yield SQLiteShop(tmp_path)
        return
    with postgres_shop() as opened:
        yield opened


@pytest.fixture
def tools(shop: Shop) -> Mapping[str, Tool]:
    return tools_of(shop=shop.url)


async def query(tools: Mapping[str, Tool], sql: str, *parameters: object) -> Sequence[object]:
    rows = await awaited_table(tools["query_database"], sql, parameters=[*parameters])
    return as_list(rows["rows"])


async def execute(
    tools: Mapping[str, Tool], sql: str, *parameters: object, **more: object
) -> object:
    done = await awaited_table(
        tools["execute_database"], sql, "shop", parameters=[*parameters], **more
    )
    return done["changed"]


def test_what_they_may_do_is_said(tools: Mapping[str, Tool]) -> None:
    effects = {name: tool.effect for name, tool in tools.items()}
    assert effects == {
        "list_tables": "read",
        "describe_database": "read",
        "query_database": "read",
        "execute_database": "unsafe",
    }
    assert tools["execute_database"].requires_approval is True
    assert tools["query_database"].untrusted


async def test_tables_and_columns_are_told(shop: Shop, tools: Mapping[str, Tool]) -> None:
    listed = await awaited_table(tools["list_tables"])
    kind = "table" if isinstance(shop, SQLiteShop) else "base table"
    assert listed["tables"] == [{"name": "orders", "kind": kind}, {"name": "paid", "kind": "view"}]
    described = await awaited_table(tools["describe_database"], "orders")
    columns = [as_object(column) or {} for column in as_list(described["columns"])]
    assert [column["name"] for column in columns] == ["id", "city", "state", "total", "photo"]
    assert [column["primary_key"] for column in columns] == [True, False, False, False, False]
    assert columns[0]["nullable"] is False


async def test_rows_come_with_names_and_values_are_bound(tools: Mapping[str, Tool]) -> None:
    sql = "SELECT id, state FROM orders WHERE city = $2 OR id = $1 ORDER BY id"
    found = await awaited_table(tools["query_database"], sql, parameters=[2, "北京"])
    assert found == {
        "columns": ["id", "state"],
        "rows": [[1, "paid"], [2, "returned"]],
        "more": False,
    }


async def test_no_rows_have_names_too(tools: Mapping[str, Tool]) -> None:
    found = await awaited_table(tools["query_database"], "SELECT id, city FROM orders WHERE id = 9")
    assert (found["columns"], found["rows"]) == (["id", "city"], [])


async def test_only_so_many_rows_leave_the_database(shop: Shop, tools: Mapping[str, Tool]) -> None:
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
    with anyio.fail_after(5):
        found = await awaited_table(tools["query_database"], endless, limit=3)
    assert (found["rows"], found["more"]) == ([[1], [2], [3]], True)


async def test_large_cells_end_a_result_early(shop: Shop, tools: Mapping[str, Tool]) -> None:
    large = "hex(zeroblob(50000))" if isinstance(shop, SQLiteShop) else "repeat('x', 100000)"
    numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5000)"
    sql = f"{numbers} SELECT x, {large} FROM n"  # noqa: S608  # ours
    found = await awaited_table(tools["query_database"], sql, limit=1_000)
    assert found["more"] is True
    assert 200 < len(as_list(found["rows"])) < 300


@pytest.mark.parametrize(
    "sql", ["SHOW server_version", "EXPLAIN SELECT 1", "TABLE orders", "VALUES (1)"]
)
async def test_what_else_only_reads_in_postgres(sql: str) -> None:
    with postgres_shop() as shop:
        assert await query(tools_of(shop=shop.url), sql)


async def test_cells_are_plain_json_of_a_bounded_size(
    shop: Shop, tools: Mapping[str, Tool]
) -> None:
    photo = "x'00ff'" if isinstance(shop, SQLiteShop) else r"'\x00ff'"
    shop.run(f"UPDATE orders SET city = '{'字' * 5_000}', photo = {photo}")  # noqa: S608  # ours
    [row] = await query(tools, "SELECT city, photo FROM orders WHERE id = 1")
    assert row == ["字" * 2_000 + "… (5000 characters)", "<2 bytes: 00ff>"]


def test_bytes_are_told_by_their_beginning() -> None:
    assert database_rows.plain(b"\x00\xff" * 40) == "<80 bytes: " + "00ff" * 8 + "…>"


async def test_numbers_and_dates_of_postgres_are_exact() -> None:
    with postgres_shop() as shop:
        sql = (
            "SELECT 12.30::numeric, date '2026-11-29', timestamptz '2026-11-29 08:00+08',"
            " interval '90 minutes', 'NaN'::float8, ARRAY[1.5::numeric], '{\"a\": 1}'::jsonb,"
            " 'infinity'::float8, 9007199254740993, true, NULL"
        )
        [row] = await query(tools_of(shop=shop.url), sql)
    assert row == [
        "12.30",
        "2026-11-29",
        "2026-11-29T00:00:00+00:00",
        "1:30:00",
        "nan",
        ["1.5"],
        {"a": 1},
        "inf",
        9007199254740993,
        True,
        None,
    ]


@pytest.mark.parametrize(
    ("sql", "parameters", "said"),
    [
        ("SELEC 1", [], "syntax error|begins with 'selec'"),
        ("SELECT nothing FROM orders", [], "nothing"),
        ("SELECT $1", [], "1"),
        ("SELECT id FROM orders WHERE city = $1", ["a", "b"], "2 values|parameter \\$2"),
    ],
)
async def test_a_fault_of_the_statement_is_told_in_the_databases_words(
    tools: Mapping[str, Tool], sql: str, parameters: list[object], said: str
) -> None:
    with pytest.raises(ToolError, match=said) as caught:
        await query(tools, sql, *parameters)
    assert caught.value.code in ("sql", "refused")


async def test_a_statement_that_takes_too_long_is_stopped(
    shop: Shop, tools: Mapping[str, Tool], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = "SELECT pg_sleep(30)"
    if isinstance(shop, SQLiteShop):
        monkeypatch.setattr(database_sqlite, "TIME_CAP_S", 0.2)
        slow = (
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
        )
    else:
        from hermes.tools.builtin import database_postgres

        monkeypatch.setattr(database_postgres, "TIME_CAP_S", 0.2)
    began = time.monotonic()
    with pytest.raises(ToolError, match="was stopped") as caught:
        await query(tools, slow)
    assert caught.value.code == "timeout"
    assert time.monotonic() - began < 4


async def test_a_cancelled_query_does_not_run_on(tmp_path: Path) -> None:
    shop = SQLiteShop(tmp_path)
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    with anyio.move_on_after(0.1) as scope:
        await query(tools_of(shop=shop.url), endless)
    assert scope.cancelled_caught
    shop.run("DELETE FROM orders")  # nobody holds the file


async def test_a_write_is_done_in_one_transaction(shop: Shop, tools: Mapping[str, Tool]) -> None:
    assert await execute(tools, "UPDATE orders SET state = $1 WHERE id < $2", "lost", 3) == 2
    assert await query(tools, "SELECT state FROM orders ORDER BY id") == [
        ["lost"],
        ["lost"],
        ["paid"],
    ]
    done = await awaited_table(
        tools["execute_database"], "DELETE FROM orders WHERE state = 'lost' RETURNING id"
    )
    assert (done["changed"], done["columns"], done["rows"]) == (2, ["id"], [[1], [2]])
    assert shop.count() == 1


async def test_another_number_of_rows_than_expected_changes_nothing(
    shop: Shop, tools: Mapping[str, Tool]
) -> None:
    with pytest.raises(ToolError, match="would change 3 rows, not 1; rolled back"):
        await execute(tools, "DELETE FROM orders", expected_rows=1)
    assert shop.count() == 3
    assert await execute(tools, "DELETE FROM orders WHERE id = 1", expected_rows=1) == 1


async def test_the_preview_says_how_many_rows_and_changes_none(
    shop: Shop, tools: Mapping[str, Tool]
) -> None:
    preview = tools["execute_database"].preview
    assert preview is not None
    said = cast(
        "Awaitable[object]",
        preview(sql="DELETE FROM orders WHERE id > $1", database="shop", parameters=[1]),
    )
    text = str(await said)
    assert text.startswith(
        "DELETE FROM orders WHERE id > $1\nwith [1]: would change 2 rows in shop"
    )
    assert shop.count() == 3


async def test_a_locked_file_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hermes.store.driver import connect
    from hermes.tools.builtin import database_driver

    monkeypatch.setattr(database_driver, "_BUSY_MS", 50)
    shop = SQLiteShop(tmp_path)
    holder = connect(str(shop.path))
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(NotDone, match="busy with another write"):
        await execute(tools_of(shop=shop.url), "DELETE FROM orders")
    holder.execute("ROLLBACK")
    holder.close()


async def test_the_journal_of_hermes_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/hermes.db"
    async with open_store(url, clock=FakeClock(), synchronous="NORMAL"):
        pass
    (tmp_path / "copy.db").hardlink_to(tmp_path / "hermes.db")
    for name in ("hermes.db", "copy.db"):
        tools = tools_of(shop=f"sqlite:///{tmp_path}/{name}")
        with pytest.raises(ToolError, match="a journal of Hermes"):
            await query(tools, "SELECT 1")
        with pytest.raises(ToolError, match="a journal of Hermes"):
            await awaited(tools["list_tables"])


async def test_the_journal_in_postgres_and_a_mighty_role_are_refused() -> None:
    with postgres_shop() as shop:
        with pytest.raises(ToolError, match="superuser") as caught:
            await query(tools_of(shop=shop.mighty), "SELECT 1")
        assert "CREATE ROLE" in caught.value.hint
        async with open_store(shop.mighty, clock=FakeClock()):
            pass
        with pytest.raises(ToolError, match="the journal of Hermes"):
            await query(tools_of(shop=shop.url), "SELECT 1")


async def test_a_role_that_may_reach_out_by_dblink_is_refused() -> None:
    with postgres_shop() as shop:
        shop.run("CREATE FUNCTION dblink_exec(text) RETURNS text LANGUAGE sql AS 'SELECT $1'")
        with pytest.raises(ToolError, match="may call dblink"):
            await query(tools_of(shop=shop.url), "SELECT 1")
        shop.run("REVOKE EXECUTE ON FUNCTION dblink_exec FROM PUBLIC")
        assert await query(tools_of(shop=shop.url), "SELECT 1") == [[1]]


async def test_a_database_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    tools = tools_of(shop=f"sqlite:///{tmp_path}/no.db")
    with pytest.raises(ToolError, match="there is no database file"):
        await query(tools, "SELECT 1")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "no.db").write_bytes(b"this is a text and no database at all" * 100)
    with pytest.raises(ToolError, match="cannot be read"):
        await query(tools, "SELECT 1")


async def test_no_password_is_shown() -> None:
    tools = tools_of(shop="postgresql://reader:p4ss-w0rd@127.0.0.1:1/shop")
    with pytest.raises(NotDone, match="cannot reach the database 127") as caught:
        await query(tools, "SELECT 1")
    assert "p4ss-w0rd" not in f"{caught.value!r} {caught.value.__context__!r}"


async def test_the_name_of_a_database_is_one_of_the_configured(tmp_path: Path) -> None:
    shop = SQLiteShop(tmp_path)
    tools = tools_of(shop=shop.url, stock=shop.url)
    with pytest.raises(ToolError, match="configured: shop, stock"):
        await query(tools, "SELECT 1")
    with pytest.raises(ConfigError, match="names none"):
        await query(tools_of(shop="mysql://x"), "SELECT 1")
    health = tools_of()["query_database"].health
    assert health is not None
    assert "HERMES_TOOL_DATABASES" in str(health())


def test_the_first_word_is_found_behind_comments() -> None:
    assert database_rows.first_word("/* a */ -- b\n ;( Select 1)") == "select"
    assert database_rows.first_word("/* /* */ */ select") == ""
    assert database_rows.first_word("/* /* */ update x */ drop") == ""
    assert database_rows.first_word("-- select") == ""


def test_many_comments_are_read_in_no_time() -> None:
    comments = "/**/" * 5_000
    assert database_rows.is_blank(comments)
    assert not database_rows.is_blank(f"{comments}x")
    assert database_rows.first_word(f"{comments} select") == "select"
