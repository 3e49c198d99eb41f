"""A connection that breaks under a transaction: it is done once, and its outcome is told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from psycopg import errors

from hermes.core.events import ReviewRequested, TaskWaiting
from hermes.store import Also, Lease, Review, Store, Wait
from hermes.store.postgres import PostgresStore
from hermes.store.postgres_connection import is_lost
from hermes.testing.clock import START, FakeClock
from tests.journal import (
    WORKER,
    dispatch,
    enroll,
    message,
    opening,
    progress,
    record,
    settled,
    start,
    states,
    submit,
)
from tests.postgres import Cut, Line, clear, database

Work = Callable[[Store, Lease], Awaitable[object]]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with database() as made:
        yield made


@pytest.fixture
async def line(url: str) -> AsyncIterator[Line]:
    async with Line(url).laid() as laid:
        yield laid


async def ask(store: Store, lease: Lease) -> None:
    """Task 1 waits for a person, and has a business key and a child."""
    wait = Wait(wait_id="wait_1", task_id="task_1", path="/a", kind="person", key="review_1")
    review = Review(
        review_id="review_1",
        wait_id="wait_1",
        task_id="task_1",
        path="/a",
        reason="question",
        name="ask",
        text="which day?",
        created_at=START,
    )
    events = [
        record("task_1", 4, ReviewRequested(
            review_id="review_1", reason="question", path="/a", name="ask", text="which day?"
        )),
        record("task_1", 5, TaskWaiting(pending=())),
    ]  # fmt: skip
    await store.finish(lease, events, also=Also(waits=[wait], reviews=[review]))


async def _submit(store: Store, _: Lease) -> object:
    done = await store.submit(opening("task_2"), dispatch("task_2"), claim_for=WORKER)
    return done.task_id, done.is_new, done.lease and done.lease.token


async def _claim(store: Store, _: Lease) -> object:
    return [lease.token for lease in await store.claim(WORKER, limit=5)]


async def _append(store: Store, lease: Lease) -> object:
    events = [progress("task_1", 4), progress("task_1", 5, "x" * 20_000)]
    return await store.append(lease, events, messages=[message("msg_new", lane="other")])


WORKS: dict[str, Work] = {
    "submit": _submit,
    "claim": _claim,
    "append": _append,
    "append nothing": lambda store, lease: store.append(lease, []),
    "finish": lambda store, lease: store.finish(lease, [settled("task_1", 4)]),
    "finish with nothing": lambda store, lease: store.finish(lease, []),
    "fail": lambda store, lease: store.fail(
        lease, [progress("task_1", 4)], retry_at=START + timedelta(seconds=9), reason="busy"
    ),
    "bury": lambda store, lease: store.fail(lease, [], retry_at=None, reason="poison"),
    "release": lambda store, lease: store.release(lease),
    "send": lambda store, _: store.send(replace(message("msg_2"), dedupe_key="k")),
    "signal": lambda store, _: store.signal("paid", {"sum": 3}),
    "cancel": lambda store, _: store.request_cancel("task_1"),
    "ask": ask,
    "renew": lambda store, _: store.renew(WORKER),
}


async def prepare(store: Store) -> Lease:
    await enroll(store, "worker-2")
    lease = await start(store)
    await store.send(message("msg_ready", lane="lane"))
    return lease


async def outcome(store: Store) -> object:
    return (
        await states(store),
        [(row.attempts, row.crashes, row.worker_id) for row in await store.messages()],
        [event.event_id for event in await store.events("task_1")],
        [event.event_id for event in await store.events("task_2")],
        await store.waits("task_1"),
        await store.reviews(is_open=None),
    )


@pytest.mark.parametrize("when", ["before the commit", "after the commit"])
@pytest.mark.parametrize("name", list(WORKS))
async def test_a_write_whose_connection_breaks_is_done_once_and_tells_its_outcome(
    url: str, line: Line, name: str, when: Cut
) -> None:
    work = WORKS[name]
    clear(url)
    async with PostgresStore(url, clock=FakeClock()) as store:
        wanted = await work(store, await prepare(store))
        expected = await outcome(store)
    clear(url)

    async with PostgresStore(line.url, clock=FakeClock()) as store:
        lease = await prepare(store)
        line.cut(when)
        told = await work(store, lease)
        assert line.cuts == 1
        assert (told, await outcome(store)) == (wanted, expected)


@pytest.mark.parametrize("when", ["before the commit", "after the commit"])
async def test_a_decision_whose_connection_breaks_is_the_first_and_only_one(
    url: str, line: Line, when: Cut
) -> None:
    clear(url)
    async with PostgresStore(line.url, clock=FakeClock()) as store:
        await ask(store, await prepare(store))
        line.cut(when)

        review = await store.decide("review_1", "answer", answer="monday", by="Ann")

        assert line.cuts == 1
        assert (review.decision, review.by) == ("answer", "Ann")
        assert [wait.ended for wait in await store.waits("task_1")] == [True]


async def test_a_cancelled_caller_waits_until_its_write_is_settled(url: str) -> None:
    clear(url)
    async with PostgresStore(url, clock=FakeClock()) as store:
        lease = await start(store)
        await submit(store, "task_3")
        writing = asyncio.ensure_future(store.append(lease, [progress("task_1", 4)]))
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing

        at = (await store.task("task_1")).status.seq
        await asyncio.sleep(0.05)
        assert (await store.task("task_1")).status.seq == at


async def test_the_last_words_of_a_server_count_though_the_end_of_a_pipeline_fails_after_them(
    url: str,
) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        with pytest.raises(errors.AdminShutdown) as shutdown:
            await connection.execute(b"SELECT pg_terminate_backend(pg_backend_pid())")
        last_words = shutdown.value
    async with await psycopg.AsyncConnection.connect(url) as connection:
        busy = errors.OperationalError("cannot exit pipeline mode while busy")
        assert not is_lost(busy, connection)
        busy.__context__ = last_words
        assert is_lost(busy, connection)
