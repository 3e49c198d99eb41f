"""Two at the same time, over connections of their own: one result, and nobody is forgotten."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import anyio
import psycopg
import pytest

from hermes.core import ids
from hermes.core.events import TaskCreated, TaskDispatched, TaskStarted, TaskWaiting
from hermes.errors import ConflictError, EffectTakenError
from hermes.store import Also, EffectRow, Lease, NewTask, Review, Store, Wait
from hermes.store.postgres import PostgresStore
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
from tests.postgres import clear, count_waiting, database

ROUNDS = range(8)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with database() as made:
        yield made


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    clear(url)
    async with PostgresStore(url, clock=FakeClock(), pool_size=10) as opened:
        await enroll(opened)
        yield opened


async def together(*works: Callable[[], Awaitable[object]]) -> list[object]:
    """Do all at once; what each gave, or the error of the journal that it met."""
    told: list[object] = [None] * len(works)

    async def one(place: int, work: Callable[[], Awaitable[object]]) -> None:
        try:
            told[place] = await work()
        except ConflictError as exc:
            told[place] = exc

    async with anyio.create_task_group() as group:
        for place, work in enumerate(works):
            group.start_soon(one, place, work)
    return told


def child(parent: str, number: int) -> NewTask:
    task_id = f"{parent}.{number}"
    created = TaskCreated(
        agent="a", goal="a part", parent_id=parent, parent_path="/a#1", root_id=parent
    )
    sent = TaskDispatched(receiver="executor.a", message_id=f"msg_{task_id}")
    records = [record(task_id, 1, created), record(task_id, 2, sent)]
    return NewTask(records=records, message=dispatch(task_id))


def wait(task_id: str, kind: str, key: str) -> Wait:
    made = Wait(wait_id=f"wait_{task_id}", task_id=task_id, path="/a", kind="event", key=key)
    return replace(made, kind=kind)


async def claimed(store: Store, task_ids: Sequence[str]) -> list[Lease]:
    """The tasks, each at work at event 3."""
    leases: list[Lease] = []
    for task_id in task_ids:
        (lease,) = await store.claim(WORKER, task_id=task_id)
        await store.append(lease, [record(task_id, 3, TaskStarted(worker=WORKER))])
        leases.append(lease)
    return leases


def settle(store: Store, lease: Lease) -> Callable[[], Awaitable[object]]:
    return partial(store.finish, lease, [settled(lease.message.task_id, 4)])


async def is_woken(store: Store, task_id: str) -> bool:
    """Whether its one wait has ended, and its one wake message is there."""
    rows = await store.messages(task_id=task_id)
    ended = [each.ended for each in await store.waits(task_id)]
    woken = [(row.message.message_id, row.state) for row in rows]
    return ended == [True] and woken == [(ids.wake_id(f"wait_{task_id}"), "ready")]


@pytest.mark.parametrize("round_", ROUNDS)
async def test_children_that_settle_at_once_wake_their_parent_once(
    store: Store, round_: int
) -> None:
    parent = f"task_{round_}"
    lease = await start(store, parent)
    children = [child(parent, number) for number in range(6)]
    waiting = record(parent, 4, TaskWaiting(pending=()))
    also = Also(children=children, waits=[wait(parent, "children", "/a#1")])
    await store.finish(lease, [waiting], also=also)
    leases = await claimed(store, [each.message.task_id for each in children])

    await together(*(settle(store, each) for each in leases))

    assert await is_woken(store, parent)


@pytest.mark.parametrize("round_", ROUNDS)
async def test_a_child_that_settles_while_its_parent_begins_to_wait_is_not_missed(
    store: Store, round_: int
) -> None:
    parent = f"task_{round_}"
    lease = await start(store, parent)
    await store.append(lease, [progress(parent, 4)], also=Also(children=[child(parent, 0)]))
    leases = await claimed(store, [f"{parent}.0"])
    waiting = record(parent, 5, TaskWaiting(pending=()))
    also = Also(waits=[wait(parent, "children", "/a#1")])

    await together(partial(store.finish, lease, [waiting], also=also), settle(store, leases[0]))

    assert await is_woken(store, parent)


async def test_a_wait_that_begins_amid_a_signal_for_it_is_not_missed(
    store: Store, url: str
) -> None:
    """The signal has read who waits, and is then held up by another session."""
    for task_id in ("task_1", "task_2"):
        await start(store, task_id)

    def begin(task_id: str) -> Awaitable[None]:
        waiting = record(task_id, 4, TaskWaiting(pending=()))
        lease = Lease(message=dispatch(task_id), token=1, worker_id=WORKER)
        return store.finish(lease, [waiting], also=Also(waits=[wait(task_id, "event", "paid")]))

    await begin("task_1")
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute(b"SELECT 1 FROM hermes.wait FOR UPDATE")
        signalling = asyncio.ensure_future(store.signal("paid", 1))
        while await count_waiting(url) < 1:
            assert not signalling.done()
        beginning = asyncio.ensure_future(begin("task_2"))
        while await count_waiting(url) < 2 and not beginning.done():
            pass
        await other.rollback()
    await asyncio.gather(signalling, beginning)

    assert await is_woken(store, "task_1")
    assert await is_woken(store, "task_2")


@pytest.mark.parametrize("round_", ROUNDS)
async def test_a_signal_that_comes_while_a_task_begins_to_wait_for_it_is_not_missed(
    store: Store, round_: int
) -> None:
    task_id = f"task_{round_}"
    lease = await start(store, task_id)
    waiting = record(task_id, 4, TaskWaiting(pending=()))
    also = Also(waits=[wait(task_id, "event", f"paid {round_}")])

    told = await together(
        partial(store.finish, lease, [waiting], also=also),
        partial(store.signal, f"paid {round_}", 1),
    )

    assert told == [None, True]
    assert await is_woken(store, task_id)


async def test_of_several_decisions_at_once_one_wins_and_the_others_are_told(store: Store) -> None:
    lease = await start(store)
    review = Review(
        review_id="review_1",
        wait_id="wait_task_1",
        task_id="task_1",
        path="/a",
        reason="approval",
        name="pay",
        text="pay 3?",
        created_at=START,
    )
    also = Also(waits=[wait("task_1", "person", "review_1")], reviews=[review])
    await store.finish(lease, [record("task_1", 4, TaskWaiting(pending=()))], also=also)

    told = await together(
        *(partial(store.decide, "review_1", "approve", by=name) for name in "ABCDEF")
    )

    (winner,) = [each for each in told if isinstance(each, Review)]
    assert sum(isinstance(each, ConflictError) for each in told) == 5
    assert (await store.review("review_1")).by == winner.by
    assert await is_woken(store, "task_1")


async def test_of_several_claims_of_a_business_key_at_once_one_wins(store: Store) -> None:
    names = [f"task_{number}" for number in range(6)]
    leases = [await start(store, name) for name in names]

    def claim(lease: Lease) -> Callable[[], Awaitable[object]]:
        task_id = lease.message.task_id
        deed = EffectRow(
            scope="", tool="pay", key="order 7", state="started", task_id=task_id, path="/a"
        )
        return partial(store.append, lease, [progress(task_id, 4)], also=Also(effects=[deed]))

    told = await together(*(claim(lease) for lease in leases))

    (winner,) = [name for name, each in zip(names, told, strict=True) if each is None]
    assert sum(isinstance(each, EffectTakenError) for each in told) == 5
    taken = await store.effect("", "pay", "order 7")
    assert taken is not None and taken.task_id == winner
    for name in names:
        assert (await store.task(name)).status.seq == (4 if name == winner else 3)


async def test_of_several_submits_of_one_key_at_once_one_makes_the_task(store: Store) -> None:
    def make(number: int) -> Callable[[], Awaitable[object]]:
        name = f"task_{number}"
        keyed = replace(dispatch(name), dedupe_key="order 7")
        return partial(store.submit, opening(name), keyed)

    told = await together(*(make(number) for number in range(8)))

    assert sum(getattr(each, "is_new", False) for each in told) == 1
    assert len({getattr(each, "task_id", None) for each in told}) == 1
    assert len(await store.messages()) == 1


@pytest.mark.parametrize("round_", ROUNDS)
async def test_a_child_made_while_its_tree_is_cancelled_is_cancelled_too(
    store: Store, round_: int
) -> None:
    parent = f"task_{round_}"
    lease = await start(store, parent)
    children = [child(parent, number) for number in range(3)]

    await together(
        partial(store.append, lease, [progress(parent, 4)], also=Also(children=children)),
        partial(store.request_cancel, parent),
    )

    taken = await store.claim(WORKER, root_id=parent, limit=9)
    assert len(taken) == 3
    assert len(await store.cancels(WORKER)) == 4


async def test_a_worker_that_is_retired_while_it_claims_holds_nothing(store: Store) -> None:
    for number in ROUNDS:
        worker = f"w{number}"
        await enroll(store, worker)
        await store.send(message(f"msg_{number}"))
        try:
            await together(
                partial(store.claim, worker, limit=9), partial(store.retire, worker, crashed=False)
            )
        except ExceptionGroup as exc:
            assert "not registered" in str(exc.exceptions[0])

    assert set((await states(store)).values()) == {"ready"}


async def test_a_lane_to_which_all_send_at_once_has_one_head(store: Store) -> None:
    await together(
        *(partial(store.send, message(f"msg_{number:02}", lane="lane")) for number in range(20))
    )

    found = list((await states(store)).values())
    assert found == ["ready"] + ["held"] * 19
    order = list(await states(store))
    for name in order:
        (lease,) = await store.claim(WORKER, limit=9)
        assert lease.message.message_id == name
        await store.finish(lease, [])


async def test_sends_and_ends_in_one_lane_at_once_leave_no_lane_without_a_head(
    store: Store,
) -> None:
    await submit(store, "task_lane")
    for number in ROUNDS:
        (lease,) = await store.claim(WORKER)
        await together(
            partial(store.finish, lease, []),
            partial(store.send, message(f"msg_{number}", lane="task_lane")),
        )
        assert list((await states(store)).values()) == ["ready"]
