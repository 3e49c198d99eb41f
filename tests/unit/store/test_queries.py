"""Queries are found by name, and none is left over."""

import re
from pathlib import Path

import pytest

import hermes.store
from hermes.store.driver import connect
from hermes.store.queries import migrations, sql

ROOM = Path(hermes.store.__file__).parent
# A list in order of creation walks the tasks themselves, and counts of everything walk everything.
WALKS = {
    "newest_tasks",
    "count_tasks",
    "count_messages",
    "count_workers",
    "workers",
    "messages",
    "todos",
}
MAINTENANCE = {"unused_blobs", "count_unused_blobs", "delete_old_signals", "reviews"}
NAMED = {
    name
    for file in (ROOM / "sql").glob("*.sql")
    for name in re.findall(r"^-- name: (\w+)$", file.read_text(), re.MULTILINE)
}


def test_every_query_is_used_and_every_used_one_exists() -> None:
    code = "\n".join(file.read_text() for file in ROOM.glob("*.py"))

    assert set(re.findall(r'"(\w+)"', code)) >= NAMED
    assert set(re.findall(r'\bsql\("(\w+)"\)', code)) <= NAMED


@pytest.mark.parametrize("name", sorted(NAMED))
def test_every_query_fits_the_schema_and_walks_no_whole_journal(name: str) -> None:
    database = connect(":memory:")
    for _, script in migrations():
        database.execute(script)

    planned = re.sub(r"\?\d*|:\w+", "NULL", sql(name))
    plan = database.execute("EXPLAIN QUERY PLAN " + planned).fetchall()
    scanned = [str(step[-1]) for step in plan if str(step[-1]).startswith("SCAN")]

    assert not [step for step in scanned if re.match(r"SCAN (e|event|accepted)\b", step)]
    if name not in WALKS | MAINTENANCE:
        harmless = re.compile(r"USING|VIRTUAL|CONSTANT|subquery|SCAN (tree|t)$")
        walked = [step for step in scanned if not harmless.search(step)]
        assert not walked


def test_an_unknown_query_is_a_mistake_in_the_code() -> None:
    with pytest.raises(KeyError):
        sql("no_such_query")
