"""Appends that wait together share a commit; what befalls one of them is not the others' affair."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

import psycopg
import pytest

from hermes.core.events import Recorded
from hermes.core.failpoints import set_hook
from hermes.core.task import TaskState, TaskStatus
from hermes.errors import CodecError, ConcurrencyError, ConflictError, StaleLeaseError
from hermes.store import Lease, Store
from hermes.store.postgres import PostgresStore
from hermes.store.postgres_connection import read_address
from hermes.store.postgres_group import GroupCommit
from hermes.store.postgres_pool import Pool
from hermes.store.postgres_quick import NextAppend, Written
from hermes.testing.clock import START, FakeClock
from tests.journal import TRACE, progress, start
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


async def started(store: Store, count: int) -> list[Lease]:
    return [await start(store, f"task_{number}") for number in range(count)]


def following(lease: Lease, count: int = 1, *, salt: str = "") -> list[Recorded]:
    """The next events of a task that stands at event 3."""
    return [progress(lease.message.task_id, 4 + number, salt=salt) for number in range(count)]


async def together(
    store: Store, appends: Sequence[tuple[Lease, Sequence[Recorded]]]
) -> list[BaseException | None]:
    """Begin all before any of them is done; the errors that they met."""
    told = [store.append(lease, events) for lease, events in appends]
    return await asyncio.gather(*told, return_exceptions=True)


async def seqs(store: Store, leases: Sequence[Lease]) -> list[int]:
    return [(await store.task(lease.message.task_id)).status.seq for lease in leases]


def transactions(url: str) -> int:
    """How many have written the fourth events and what came after them."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            b"SELECT count(DISTINCT xmin::text) FROM hermes.event WHERE seq > 3"
        ).fetchone()
    return 0 if row is None else int(row[0])


async def test_appends_that_wait_at_the_same_time_share_a_commit(store: Store, url: str) -> None:
    leases = await started(store, 5)
    counts = [1, 2, 1, 3, 1]
    batches = [following(lease, count) for lease, count in zip(leases, counts, strict=True)]
    passed: list[str] = []
    set_hook(passed.append)
    try:
        errors = await together(store, list(zip(leases, batches, strict=True)))
    finally:
        set_hook(None)

    assert errors == [None] * 5
    assert transactions(url) == 1
    moments = ("begin.before", "commit.before", "commit.sent", "commit.after")
    assert passed == [f"store.{moment}" for moment in moments]
    assert await seqs(store, leases) == [3 + count for count in counts]
    for lease, batch in zip(leases, batches, strict=True):
        stored = await store.events(lease.message.task_id)
        assert stored[3:] == [replace(event, position=kept.position, token=kept.token)
                              for event, kept in zip(batch, stored[3:], strict=True)]  # fmt: skip
        assert {kept.token for kept in stored[3:]} == {lease.token}


async def test_more_than_fit_into_a_statement_are_all_written(store: Store, url: str) -> None:
    leases = await started(store, 40)
    assert await together(store, [(each, following(each)) for each in leases]) == [None] * 40
    assert await seqs(store, leases) == [4] * 40
    assert transactions(url) == 2


async def test_one_that_is_refused_does_not_hold_up_the_others(store: Store, url: str) -> None:
    leases = await started(store, 6)
    _, _, ahead, foreign, taken, garbled = leases
    with psycopg.connect(url) as connection:
        connection.execute(b"UPDATE hermes.message SET token = 9 WHERE task_id = 'task_1'")
    async with PostgresStore(url, clock=FakeClock()) as other:
        await other.append(ahead, following(ahead, salt="other"))
        await other.append(taken, following(taken))
    appends = [(each, following(each)) for each in leases]
    appends[3] = (replace(foreign, worker_id="other"), appends[3][1])
    appends[4] = (taken, following(taken, salt="new"))
    appends[5] = (replace(garbled, worker_id="\ud800"), appends[5][1])

    errors = await together(store, appends)

    kinds = [None, StaleLeaseError, ConcurrencyError, StaleLeaseError, ConcurrencyError, CodecError]
    assert [type(each) if each else None for each in errors] == kinds
    assert await seqs(store, leases) == [4, 3, 4, 3, 4, 3]


async def test_an_event_id_that_is_in_use_fails_its_own_append_alone(store: Store) -> None:
    leases = await started(store, 3)
    first = (await store.events("task_0"))[0]
    appends = [(each, following(each)) for each in leases]
    appends[1] = (leases[1], [replace(appends[1][1][0], event_id=first.event_id)])

    errors = await together(store, appends)

    assert [type(each) if each else None for each in errors] == [None, ConflictError, None]
    assert await seqs(store, leases) == [4, 3, 4]


@pytest.mark.parametrize(
    "lock",
    [b"SELECT 1 FROM hermes.message WHERE task_id = 'task_1' FOR UPDATE",
     b"SELECT 1 FROM hermes.task WHERE task_id = 'task_1' FOR UPDATE"],
    ids=["message", "task"],
)  # fmt: skip
async def test_one_whose_rows_are_locked_waits_alone(store: Store, url: str, lock: bytes) -> None:
    leases = await started(store, 3)
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute(lock)
        first, second, third = [
            asyncio.ensure_future(store.append(each, following(each))) for each in leases
        ]
        await asyncio.gather(first, third)
        while not await count_waiting(url):
            assert not second.done()
        await other.rollback()
    await second

    assert await seqs(store, leases) == [4, 4, 4]


async def test_two_appends_of_the_same_lease_at_once_are_judged_one_after_the_other(
    store: Store,
) -> None:
    (lease,) = await started(store, 1)
    rivals = [(lease, following(lease, salt=salt)) for salt in "ab"]
    errors = await together(store, rivals)

    assert sorted(type(each).__name__ for each in errors) == ["ConcurrencyError", "NoneType"]
    assert await seqs(store, [lease]) == [4]


@pytest.mark.parametrize("counts", [(1, 2), (2, 1)])
async def test_of_two_appends_that_begin_alike_none_is_taken_for_the_other(
    store: Store, counts: tuple[int, int]
) -> None:
    (lease,) = await started(store, 1)
    errors = await together(store, [(lease, following(lease, count)) for count in counts])

    (stored,) = await seqs(store, [lease])
    passed = [count for count, error in zip(counts, errors, strict=True) if error is None]
    assert 3 + max(passed) == stored


async def test_a_repeat_among_others_writes_nothing_more(store: Store) -> None:
    leases = await started(store, 3)
    same = (leases[1], following(leases[1]))
    appends = [(leases[0], following(leases[0])), same, same, (leases[2], following(leases[2]))]

    assert await together(store, appends) == [None] * 4
    assert await seqs(store, leases) == [4, 4, 4]


@pytest.mark.parametrize("when", ["before it is sent", "after the insert"])
async def test_those_whose_connection_breaks_are_done_once_each(url: str, when: Cut) -> None:
    async with Line(url).laid() as line, PostgresStore(line.url, clock=FakeClock()) as store:
        leases = await started(store, 4)
        line.cut(when)
        errors = await together(store, [(each, following(each)) for each in leases])

        assert line.cuts == 1
        assert errors == [None] * 4
        stored = [await store.events(each.message.task_id) for each in leases]
        assert [len(each) for each in stored] == [4] * 4


class OnlyConnection:
    """A pool of one connection, on which each statement does what it should at once."""

    size = 1
    rowcount = 1

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator["OnlyConnection"]:
        yield self

    async def execute(self, *_: object) -> "OnlyConnection":
        return self


async def test_an_append_that_comes_just_as_the_last_one_is_done_is_not_forgotten() -> None:
    group = GroupCommit(cast("Pool", OnlyConnection()), answer_s=9)
    status = TaskStatus(state=TaskState.PROCESSING, seq=4, updated_at=START)
    written = Written(trace_id=TRACE, status=status, encoded=b"")
    append = NextAppend({}, [(4, b"id", "progress.reported", 1, 0, b"{}", None)], written)
    later: list[asyncio.Future[Written | None]] = []

    def follow(moment: str) -> None:
        if moment == "store.commit.after" and not later:
            later.append(asyncio.ensure_future(group.write(append)))

    set_hook(follow)
    try:
        assert await group.write(append) is written
        async with asyncio.timeout(5):
            assert await later[0] is written
    finally:
        set_hook(None)


async def test_who_is_cancelled_is_held_and_the_others_are_written(store: Store) -> None:
    leases = await started(store, 3)
    writing = [asyncio.ensure_future(store.append(each, following(each))) for each in leases]
    for _ in range(2):
        await asyncio.sleep(0)
    writing[1].cancel()
    told = await asyncio.gather(*writing, return_exceptions=True)

    assert [type(each) if each else None for each in told] == [None, asyncio.CancelledError, None]
    assert await seqs(store, leases) == [4, 4, 4]


async def test_a_connection_that_is_lent_while_the_pool_is_closed_is_closed_when_it_comes_back(
    url: str,
) -> None:
    pool = Pool(read_address(url), size=2, wait_s=5.0)
    async with pool.lend() as connection:
        await pool.close()
        await connection.execute("SELECT 1")
    assert connection.closed
