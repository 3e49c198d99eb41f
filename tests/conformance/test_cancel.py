"""Wishes to end a task, and leases that are passed on, on every store."""

from datetime import timedelta

import pytest

from hermes.errors import NotFoundError
from hermes.store import Also, Store
from hermes.testing.clock import START, FakeClock
from tests.journal import (
    WORKER,
    child,
    claim_one,
    enroll,
    progress,
    settle,
    settled,
    start,
    states,
    submit,
    suspend,
    wait,
    waiting,
)

HOUR = timedelta(hours=1)


async def ready(store: Store) -> list[tuple[str, str]]:
    """Task and type of each message that can be claimed."""
    leases = await store.claim(WORKER, limit=99)
    return sorted((lease.message.task_id, lease.message.message_type) for lease in leases)


async def test_the_holder_of_a_task_learns_that_it_is_to_be_cancelled(store: Store) -> None:
    await start(store, "task_1")
    await start(store, "task_2")
    assert await store.cancels(WORKER) == []

    assert await store.request_cancel("task_1") == ["task_1"]

    assert await store.cancels(WORKER) == ["task_1"]
    assert await store.cancels("worker-2") == []
    assert await states(store) == {"msg_task_1": "leased", "msg_task_2": "leased"}


async def test_a_cancelled_task_is_no_longer_to_be_cancelled(store: Store) -> None:
    lease = await start(store)
    await store.request_cancel("task_1")

    await store.append(lease, [settled("task_1", 4, "cancelled")])

    assert await store.cancels(WORKER) == []
    assert await store.request_cancel("task_1") == []


async def test_an_unknown_task_cannot_be_cancelled(store: Store) -> None:
    with pytest.raises(NotFoundError, match="task_9"):
        await store.request_cancel("task_9")


async def test_all_below_a_task_is_to_be_cancelled_and_nothing_beside_it(store: Store) -> None:
    lease = await start(store)
    children = [
        child("task_2"),
        child("task_3", parent_id="task_2"),
        child("task_4", parent_id="task_3"),
        child("task_5"),
    ]
    await store.append(lease, [progress("task_1", 4)], also=Also(children=children))
    await settle(store, "task_3")

    assert await store.request_cancel("task_2") == ["task_2", "task_4"]

    await store.claim(WORKER, limit=9)
    assert await store.cancels(WORKER) == ["task_2", "task_4"]
    assert await store.request_cancel("task_1") == ["task_1", "task_2", "task_4", "task_5"]


async def test_a_child_of_a_task_that_is_to_be_cancelled_is_so_too(store: Store) -> None:
    lease = await start(store)
    await store.request_cancel("task_1")

    await store.append(lease, [progress("task_1", 4)], also=Also(children=[child("task_2")]))

    await claim_one(store, "task_2")
    assert await store.cancels(WORKER) == ["task_1", "task_2"]


async def test_a_queued_task_is_claimed_as_it_is(store: Store) -> None:
    await enroll(store)
    await submit(store)

    await store.request_cancel("task_1")

    assert await ready(store) == [("task_1", "task.dispatch")]
    assert await store.cancels(WORKER) == ["task_1"]


async def test_a_task_behind_another_of_its_session_can_be_settled_at_once(store: Store) -> None:
    await enroll(store)
    await submit(store, "task_1", session_id="s")
    await submit(store, "task_2", session_id="s")
    await claim_one(store, "task_1")

    await store.request_cancel("task_2")

    lease = await claim_one(store, "task_2")
    assert lease.message.message_type == "task.cancel"
    assert lease.message.dedupe_key == "cancel:task_2"
    await store.finish(lease, [settled("task_2", 3, "cancelled")])


async def test_a_waiting_task_is_woken_to_be_settled(store: Store) -> None:
    await suspend(store, Also(waits=[wait()]))

    await store.request_cancel("task_1")
    await store.request_cancel("task_1")

    lease = await claim_one(store)
    assert lease.message.message_type == "task.cancel"
    assert await store.cancels(WORKER) == ["task_1"]
    await store.finish(lease, [settled("task_1", 5, "cancelled")])
    assert await store.messages() == []
    assert await store.waits("task_1") == []


async def test_a_delayed_message_of_a_task_to_be_cancelled_comes_now(store: Store) -> None:
    lease = await start(store)
    await store.fail(lease, [], retry_at=START + HOUR, reason="busy")

    await store.request_cancel("task_1")

    assert await ready(store) == [("task_1", "task.dispatch")]


async def test_a_task_that_waits_for_a_time_is_settled_before_it(
    store: Store, clock: FakeClock
) -> None:
    await suspend(store, Also(waits=[wait(kind="time", key="", due_at=START + HOUR)]))

    await store.request_cancel("task_1")

    lease = await claim_one(store)
    await store.finish(lease, [settled("task_1", 5, "cancelled")])
    clock.advance(7200)
    assert await store.messages() == []


async def test_a_task_whose_message_is_dead_is_woken_and_the_dead_one_goes(store: Store) -> None:
    lease = await start(store)
    await store.fail(lease, [waiting("task_1", 4)], retry_at=None, reason="boom")

    await store.request_cancel("task_1")

    (state,) = (await states(store)).values()
    assert state == "ready"
    assert await ready(store) == [("task_1", "task.cancel")]


async def test_a_holder_that_lets_go_without_settling_leaves_it_to_somebody_else(
    store: Store,
) -> None:
    lease = await start(store)
    await store.request_cancel("task_1")

    await store.finish(lease, [waiting("task_1", 4)], also=Also(waits=[wait()]))

    assert await ready(store) == [("task_1", "task.cancel")]


async def test_a_retry_of_a_task_to_be_cancelled_is_not_put_off(store: Store) -> None:
    lease = await start(store)
    await store.request_cancel("task_1")

    await store.fail(lease, [], retry_at=START + HOUR, reason="busy")

    assert await ready(store) == [("task_1", "task.dispatch")]


async def test_a_cancel_that_came_to_nothing_can_be_asked_for_again(store: Store) -> None:
    await suspend(store, Also(waits=[wait()]))
    await store.request_cancel("task_1")
    lease = await claim_one(store)
    await store.fail(lease, [], retry_at=None, reason="boom")
    assert list((await states(store)).values()) == ["dead"]  # not woken again by itself

    await store.request_cancel("task_1")

    assert await ready(store) == [("task_1", "task.cancel")]


async def test_the_parent_learns_of_a_cancelled_child(store: Store) -> None:
    also = Also(children=[child("task_2")], waits=[wait(kind="children", key="/turn1/tool1#1")])
    await suspend(store, also)
    await store.request_cancel("task_2")

    lease = await claim_one(store, "task_2")
    await store.finish(lease, [settled("task_2", 3, "cancelled")])

    assert await ready(store) == [("task_1", "task.wake")]


async def test_an_id_that_no_store_can_hold_is_not_found(store: Store) -> None:
    with pytest.raises(NotFoundError):
        await store.request_cancel("task_\udcff")
