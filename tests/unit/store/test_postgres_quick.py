"""An append in one statement: it holds what the transaction promises, and gives way to it."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import psycopg
import pytest

from hermes.core.failpoints import set_hook
from hermes.errors import ConcurrencyError, HermesError, InputError, StaleLeaseError
from hermes.store import Store
from hermes.store.postgres import PostgresStore
from hermes.store.queries import postgres
from hermes.testing.clock import FakeClock
from tests.journal import WORKER, enroll, progress, start
from tests.postgres import Cut, Line, clear, count_waiting, database


@pytest.fixture(scope="module")
def shared() -> Iterator[str]:
    with database() as made:
        yield made


@pytest.fixture
def url(shared: str) -> str:
    clear(shared)
    return shared


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with PostgresStore(url, clock=FakeClock()) as opened:
        yield opened


async def ids(store: Store) -> list[str]:
    return [event.event_id for event in await store.events("task_1")]


def last_statements(url: str) -> list[str]:
    """What each of the store's connections did last."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            b"SELECT query FROM pg_stat_activity"
            b" WHERE datname = current_database() AND application_name = 'hermes'"
        ).fetchall()
    return [query for (query,) in rows]


@pytest.mark.parametrize("count", [1, 3])
async def test_what_follows_an_append_of_the_same_lease_takes_one_statement(
    store: Store, url: str, count: int
) -> None:
    lease = await start(store)
    assert "COMMIT" in last_statements(url)

    events = [progress("task_1", 4 + number) for number in range(count)]
    await store.append(lease, events)

    assert not {"BEGIN", "COMMIT"} & set(last_statements(url))
    assert (await ids(store))[3:] == [event.event_id for event in events]
    assert (await store.task("task_1")).status.seq == 3 + count


@pytest.mark.parametrize("name", ["append_next_event", "append_next"])
async def test_it_is_planned_by_ids_while_the_tables_are_unknown(
    store: Store, url: str, name: str
) -> None:
    """A plan is kept by its connection: one that reads a whole table is slow long after."""
    await start(store)
    names: list[str] = []

    def numbered(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    text = re.sub(r"%\((\w+)\)s", numbered, postgres(name).decode())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(b"SET search_path = hermes; SET plan_cache_mode = force_generic_plan")
        connection.execute(f"PREPARE q AS {text}".encode())
        values = ", ".join(["NULL"] * len(names))
        plan = connection.execute(f"EXPLAIN EXECUTE q ({values})".encode()).fetchall()

    told = "\n".join(str(line) for (line,) in plan)
    assert "using message_message_id_key" in told
    assert "using task_task_id_key" in told


async def test_it_passes_the_failpoints_of_a_transaction(store: Store) -> None:
    lease = await start(store)
    passed: list[str] = []
    set_hook(passed.append)
    try:
        await store.append(lease, [progress("task_1", 4)])
    finally:
        set_hook(None)

    moments = ("begin.before", "commit.before", "commit.sent", "commit.after")
    assert passed == [f"store.{moment}" for moment in moments]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("when", ["before it is sent", "after the insert"])
async def test_one_whose_connection_breaks_is_done_once(url: str, when: Cut, count: int) -> None:
    async with Line(url).laid() as line, PostgresStore(line.url, clock=FakeClock()) as store:
        lease = await start(store)
        events = [progress("task_1", 4 + number) for number in range(count)]
        line.cut(when)
        await store.append(lease, events)
        await store.append(lease, [progress("task_1", 4 + count)])

        assert line.cuts == 1
        assert (await ids(store))[3:-1] == [event.event_id for event in events]


async def test_a_repeat_writes_nothing_more(store: Store) -> None:
    lease = await start(store)
    for _ in range(2):
        await store.append(lease, [progress("task_1", 4)])
    await store.append(lease, [progress("task_1", 5)])

    assert (await store.task("task_1")).status.seq == 5


async def test_what_another_process_wrote_meanwhile_is_seen(store: Store, url: str) -> None:
    lease = await start(store)
    async with PostgresStore(url, clock=FakeClock()) as other:
        await other.append(lease, [progress("task_1", 4, salt="other")])

        with pytest.raises(ConcurrencyError) as caught:
            await store.append(lease, [progress("task_1", 4)])
        await store.append(lease, [progress("task_1", 5)])
        await store.append(lease, [progress("task_1", 6)])

    assert (caught.value.expected, caught.value.actual) == (3, 4)
    assert (await store.task("task_1")).status.seq == 6


async def test_a_lease_that_was_lost_writes_nothing(store: Store) -> None:
    lease = await start(store)
    await store.retire(WORKER, crashed=True)
    await enroll(store)
    (again,) = await store.claim(WORKER)

    with pytest.raises(StaleLeaseError):
        await store.append(lease, [progress("task_1", 4)])
    await store.append(again, [progress("task_1", 4)])


async def test_a_lease_of_somebody_else_with_the_same_token_writes_nothing(store: Store) -> None:
    lease = await start(store)
    with pytest.raises(StaleLeaseError):
        await store.append(replace(lease, worker_id="other"), [progress("task_1", 4)])
    assert (await store.task("task_1")).status.seq == 3


async def test_events_of_another_task_are_refused(store: Store) -> None:
    lease = await start(store)
    with pytest.raises(InputError):
        await store.append(lease, [progress("task_2", 4)])
    assert (await store.task("task_1")).status.seq == 3


@pytest.mark.parametrize(
    ("change", "error"),
    [(b"UPDATE hermes.message SET state = 'ready', worker_id = NULL, token = NULL",
      StaleLeaseError),
     (b"UPDATE hermes.task SET status = convert_to(replace("
      b"convert_from(status, 'UTF8'), '\"seq\":3', '\"seq\":4'), 'UTF8')", ConcurrencyError),
     (b"UPDATE hermes.task SET cancel_requested = 1", None)],
    ids=["the lease is taken", "the task moves on", "the task is to be cancelled"],
)  # fmt: skip
async def test_what_changes_while_it_waits_for_a_row_counts(
    store: Store, url: str, change: bytes, error: type[HermesError] | None
) -> None:
    lease = await start(store)
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute(change)
        writing = asyncio.ensure_future(store.append(lease, [progress("task_1", 4)]))
        while not await count_waiting(url):
            assert not writing.done()
        await other.commit()
    if error is None:
        await writing
    else:
        with pytest.raises(error):
            await writing

    assert len(await ids(store)) == (4 if error is None else 3)
