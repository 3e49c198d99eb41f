"""Statements that must change, reach and reveal nothing, each file for both databases."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypedDict, cast

import pytest

from hermes.core.chat import ToolCall
from hermes.testing import FakeClock
from hermes.tools import Prepared, ToolRegistry, prepare, run
from hermes.tools.builtin.database import make
from hermes.tools.builtin.options import BuiltinOptions, Database
from tests.hostile.shop import ROWS, Shop, SQLiteShop, postgres_shop
from tests.unit.tools.conftest import MemoryBench, context_of

CASES = sorted((Path(__file__).parent / "database").glob("*.json"))


class Case(TypedDict):
    why: str
    tool: str
    sqlite: Sequence[Mapping[str, object]]
    postgres: Sequence[Mapping[str, object]]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    if request.param == "sqlite":
        yield SQLiteShop(tmp_path_factory.mktemp("shop"))
        return
    with postgres_shop() as opened:
        yield opened


async def outcome(shop: Shop, tool: str, arguments: Mapping[str, object]) -> tuple[str, str]:
    options = BuiltinOptions(databases=(Database(name="shop", url=shop.url),))
    registry = ToolRegistry(make(options, clock=FakeClock()))
    call = ToolCall(id="1", name=tool, arguments=json.dumps(arguments))
    prepared = prepare(registry, call)
    if not isinstance(prepared, Prepared):
        return prepared.status, prepared.content
    result = await run(prepared, context_of(MemoryBench()), clock=FakeClock())
    return result.status, result.content


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
async def test_a_hostile_statement_is_refused_and_changes_nothing(
    shop: Shop, path: Path, tmp_path: Path
) -> None:
    case = cast("Case", json.loads(path.read_text(encoding="utf-8")))
    before = shop.mark()
    outside = tmp_path / "outside"
    kind = "sqlite" if isinstance(shop, SQLiteShop) else "postgres"
    for arguments in case[kind]:
        text = json.dumps(arguments).replace("{outside}", str(outside))
        status, content = await outcome(shop, case["tool"], json.loads(text))
        assert status in ("error", "refused"), (arguments, content)
        assert "unreachable" not in content
        assert "root:" not in content
        assert shop.mark() == before, arguments
        assert not outside.exists(), arguments


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 10
    assert all(json.loads(path.read_text(encoding="utf-8"))["sqlite"] for path in CASES)


async def test_a_row_set_never_grows_through_a_value(shop: Shop) -> None:
    sql = "SELECT id FROM orders WHERE city = $1"
    for value in ("x' OR 1=1 --", "%", "$1", "北京'; DELETE FROM orders; --"):
        _, content = await outcome(shop, "query_database", {"sql": sql, "parameters": [value]})
        assert json.loads(content)["rows"] == []
    for number, city, _ in ROWS:
        _, content = await outcome(shop, "query_database", {"sql": sql, "parameters": [city]})
        assert json.loads(content)["rows"] == [[number]]
