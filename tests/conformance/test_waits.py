"""How waits begin, end and wake their task, on every store."""

from dataclasses import replace
from datetime import timedelta

import pytest

from hermes.core import ids as make
from hermes.core.events import TaskResumed
from hermes.core.task import TaskState
from hermes.errors import CodecError, ConcurrencyError, InputError, NotFoundError, StaleLeaseError
from hermes.store import Also, Store, Wait
from hermes.testing.clock import START, FakeClock
from tests.journal import (
    WORKER,
    child,
    claim_one,
    dispatch,
    ids,
    message,
    progress,
    record,
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
WAKE = make.wake_id("wait_1")


def in_hours(hours: float) -> Wait:
    """A wait for nothing but time."""
    return wait(f"wait_{hours}", kind="time", key="", due_at=START + hours * HOUR)


# Beginning


async def test_a_waiting_task_holds_no_message_and_no_lease(store: Store) -> None:
    begun = wait()
    await suspend(store, Also(waits=[begun]))

    assert (await store.task("task_1")).state == TaskState.WAITING
    assert await store.waits("task_1") == [begun]
    assert await store.messages() == []


async def test_a_wait_comes_back_as_it_was_written(store: Store) -> None:
    due = wait("wait_2", key="付款/到账", due_at=START + HOUR)
    await suspend(store, Also(waits=[wait(), due]))

    assert await store.waits("task_1") == [wait(), due]
    assert await store.waits("task_9") == []


async def test_waits_are_listed_in_the_order_in_which_they_began(store: Store) -> None:
    lease = await start(store)
    await store.append(lease, [], also=Also(waits=[wait("wait_9"), wait("wait_2", key="b")]))
    await store.append(lease, [], also=Also(waits=[wait("wait_5", key="c")]))

    assert [each.wait_id for each in await store.waits("task_1")] == ["wait_9", "wait_2", "wait_5"]


async def test_a_refused_commit_begins_no_wait(store: Store) -> None:
    lease = await start(store)

    with pytest.raises(ConcurrencyError):
        await store.finish(lease, [waiting("task_1", 9)], also=Also(waits=[wait()]))
    with pytest.raises(StaleLeaseError):
        stale = replace(lease, token=lease.token + 1)
        await store.append(stale, [progress("task_1", 4)], also=Also(waits=[wait()]))

    assert await store.waits("task_1") == []


async def test_a_wait_of_another_task_is_refused(store: Store) -> None:
    lease = await start(store)
    await submit(store, "task_2")

    with pytest.raises(InputError, match="task_2"):
        await store.append(lease, [], also=Also(waits=[wait(task_id="task_2")]))

    assert await store.waits("task_2") == []


async def test_only_a_stored_task_can_wait(store: Store) -> None:
    await start(store)
    await store.send(message("msg_x", task_id="task_x"))
    (lease,) = await store.claim(WORKER, task_id="task_x")

    with pytest.raises(NotFoundError, match="task_x"):
        await store.finish(lease, [], also=Also(waits=[wait(task_id="task_x")]))


async def test_a_repeated_commit_begins_its_waits_once(store: Store) -> None:
    lease = await start(store)
    also = Also(waits=[wait()], children=[child("task_2")])
    await store.append(lease, [progress("task_1", 4)], also=also)
    await store.signal("paid", 5)

    await store.append(lease, [progress("task_1", 4)], also=also)
    await store.append(lease, [], also=also)

    (one,) = await store.waits("task_1")
    assert (one.ended, one.answer) == (True, 5)
    assert [row.message.message_id for row in await store.messages(task_id="task_1")] == [
        "msg_task_1",
        WAKE,
    ]


async def test_a_repeated_finish_with_waits_succeeds_and_changes_nothing(store: Store) -> None:
    lease = await start(store)
    also = Also(waits=[wait()])
    await store.finish(lease, [waiting("task_1", 4)], also=also)

    await store.finish(lease, [waiting("task_1", 4)], also=also)

    assert await store.waits("task_1") == [wait()]
    assert (await store.task("task_1")).status.seq == 4


# Signals


async def test_a_signal_ends_every_wait_for_it_and_wakes_each_task_once(store: Store) -> None:
    await suspend(store, Also(waits=[wait("wait_1")]), "task_1")
    await suspend(store, Also(waits=[wait("wait_2", task_id="task_2")]), "task_2")
    await suspend(store, Also(waits=[wait("wait_3", task_id="task_3", key="other")]), "task_3")

    assert await store.signal("paid", {"amount": 5})

    (first,) = await store.waits("task_1")
    assert (first.ended, first.answer) == (True, {"amount": 5})
    assert [each.ended for each in await store.waits("task_3")] == [False]
    leases = await store.claim(WORKER, limit=9)
    assert {lease.message.task_id for lease in leases} == {"task_1", "task_2"}


async def test_the_wake_message_says_which_wait_has_ended(store: Store) -> None:
    await suspend(store, Also(waits=[wait()]))
    await store.signal("paid")

    woken = (await claim_one(store)).message

    assert woken.message_id == WAKE
    assert (woken.message_type, woken.task_id, woken.receiver) == ("task.wake", "task_1", "a")
    assert (woken.payload, woken.dedupe_key) == ({"wait_id": "wait_1"}, "wake:wait_1")
    assert (woken.lane, woken.trace_id) == ("task_1", (await store.task("task_1")).trace_id)


async def test_an_event_happens_once(store: Store) -> None:
    await suspend(store, Also(waits=[wait()]))

    assert await store.signal("paid", 1)
    assert not await store.signal("paid", 2)

    assert [each.answer for each in await store.waits("task_1")] == [1]
    assert len(await store.messages()) == 1


async def test_a_wait_for_an_event_that_has_happened_wakes_at_once(store: Store) -> None:
    await store.signal("paid", [1, "二"])

    await suspend(store, Also(waits=[wait()]))

    assert [(each.ended, each.answer) for each in await store.waits("task_1")] == [
        (True, [1, "二"])
    ]
    assert await states(store) == {WAKE: "ready"}


@pytest.mark.parametrize("payload", [object(), {"x": float("nan")}, "\ud800", {1, 2}])
async def test_a_payload_is_plain_json(store: Store, payload: object) -> None:
    with pytest.raises(CodecError):
        await store.signal("paid", payload)

    assert await store.signal("paid")


async def test_who_wakes_never_changes_the_task(store: Store) -> None:
    await suspend(store, Also(waits=[wait()]))
    before = await store.task("task_1"), await store.events("task_1")

    await store.signal("paid")

    assert (await store.task("task_1"), await store.events("task_1")) == before


# Time


async def test_a_wait_for_time_is_over_when_its_time_has_come(
    store: Store, clock: FakeClock
) -> None:
    await suspend(store, Also(waits=[in_hours(1)]))
    clock.advance(3599)
    assert await store.claim(WORKER) == []
    assert [each.ended for each in await store.waits("task_1")] == [False]

    clock.advance(1)

    assert [each.ended for each in await store.waits("task_1")] == [True]
    assert ids(await store.claim(WORKER)) == [make.wake_id("wait_1")]


async def test_a_wait_whose_time_has_passed_wakes_at_once(store: Store) -> None:
    await suspend(store, Also(waits=[in_hours(-1)]))

    assert [each.ended for each in await store.waits("task_1")] == [True]
    assert ids(await store.claim(WORKER)) == [make.wake_id("wait_-1")]


async def test_an_event_before_its_time_wakes_at_once_and_once(
    store: Store, clock: FakeClock
) -> None:
    await suspend(store, Also(waits=[wait(due_at=START + HOUR)]))
    assert await states(store) == {WAKE: "delayed"}

    await store.signal("paid", "yes")

    assert await states(store) == {WAKE: "ready"}
    lease = await claim_one(store)
    await store.finish(lease, [], also=Also(ended_waits=["wait_1"]))
    clock.advance(7200)
    assert await store.claim(WORKER) == []


async def test_an_event_after_its_time_brings_no_answer(store: Store, clock: FakeClock) -> None:
    await suspend(store, Also(waits=[wait(due_at=START + HOUR)]))
    clock.advance(3600)

    await store.signal("paid", "too late")

    assert [(each.ended, each.answer) for each in await store.waits("task_1")] == [(True, None)]
    assert ids(await store.claim(WORKER)) == [WAKE]


async def test_a_wait_for_a_person_has_no_end_by_time(store: Store, clock: FakeClock) -> None:
    await suspend(store, Also(waits=[wait(kind="person", key="review_1", due_at=START + HOUR)]))
    clock.advance(7200)

    assert [each.ended for each in await store.waits("task_1")] == [False]
    assert await store.claim(WORKER) == []


@pytest.mark.parametrize("order", [[1, 2, 3], [3, 2, 1], [2, 3, 1], [3, 1, 2]])
async def test_of_several_times_each_comes_at_its_own(
    store: Store, clock: FakeClock, order: list[int]
) -> None:
    await suspend(store, Also(waits=[in_hours(hours) for hours in order]))

    for hours in (1, 2, 3):
        clock.advance(3599)
        assert await store.claim(WORKER) == []
        clock.advance(1)
        lease = await claim_one(store)
        assert lease.message.payload == {"wait_id": f"wait_{hours}"}
        await store.finish(lease, [], also=Also(ended_waits=[f"wait_{hours}"]))


async def test_what_ends_early_is_not_held_up_by_what_is_still_to_come(store: Store) -> None:
    await suspend(store, Also(waits=[in_hours(1), wait("wait_event"), in_hours(2)]))

    await store.signal("paid")

    lease = await claim_one(store)
    assert lease.message.payload == {"wait_id": "wait_event"}
    assert await store.claim(WORKER) == []
    await store.finish(lease, [], also=Also(ended_waits=["wait_event"]))
    assert await states(store) == {
        make.wake_id("wait_1"): "delayed",
        make.wake_id("wait_2"): "held",
    }


# Several waits


async def test_two_waits_of_one_task_wake_it_one_after_the_other(store: Store) -> None:
    await suspend(store, Also(waits=[wait("wait_1", key="a"), wait("wait_2", key="b")]))
    await store.signal("b", 2)
    await store.signal("a", 1)

    first = await claim_one(store)
    assert first.message.payload == {"wait_id": "wait_2"}
    assert await store.claim(WORKER) == []
    await store.finish(first, [], also=Also(ended_waits=["wait_2"]))

    second = await claim_one(store)
    assert second.message.payload == {"wait_id": "wait_1"}
    assert [(each.wait_id, each.answer) for each in await store.waits("task_1")] == [("wait_1", 1)]


async def test_a_wait_that_was_taken_in_is_gone_with_its_wake_message(store: Store) -> None:
    await suspend(store, Also(waits=[wait("wait_1", key="a"), wait("wait_2", key="b")]))
    await store.signal("a")
    await store.signal("b")
    lease = await claim_one(store)

    taken = Also(ended_waits=["wait_1", "wait_2"])
    await store.append(lease, [record("task_1", 5, TaskResumed(worker=WORKER, reason="woken"))])
    await store.finish(lease, [settled("task_1", 6)], also=taken)

    assert await store.waits("task_1") == []
    assert await store.messages() == []


async def test_an_open_wait_that_is_given_up_wakes_nobody(store: Store, clock: FakeClock) -> None:
    await suspend(store, Also(waits=[in_hours(1), wait("wait_event")]))
    await store.signal("paid")
    lease = await claim_one(store)

    await store.finish(lease, [], also=Also(ended_waits=["wait_1", "wait_event", "wait_unknown"]))

    clock.advance(7200)
    assert await store.claim(WORKER) == []
    assert await store.messages() == []


async def test_a_wait_that_ends_while_its_task_is_held_wakes_it_afterwards(store: Store) -> None:
    lease = await start(store)
    await store.append(lease, [progress("task_1", 4)], also=Also(waits=[wait()]))

    await store.signal("paid")

    assert await store.claim(WORKER) == []
    await store.finish(lease, [waiting("task_1", 5)])
    assert ids(await store.claim(WORKER)) == [WAKE]


async def test_a_settled_task_waits_no_more(store: Store, clock: FakeClock) -> None:
    lease = await start(store)
    also = Also(waits=[wait("wait_1", key="a"), wait("wait_2", key="b", due_at=START + HOUR)])
    await store.append(lease, [progress("task_1", 4)], also=also)
    await store.signal("a")

    await store.finish(lease, [settled("task_1", 5)])

    assert await store.waits("task_1") == []
    assert await store.messages() == []
    await store.signal("b")
    clock.advance(7200)
    assert await store.claim(WORKER) == []


# Children


async def test_children_are_created_with_what_their_parent_writes(store: Store) -> None:
    lease = await start(store)
    two, three = child("task_2"), child("task_3")

    await store.append(lease, [progress("task_1", 4)], also=Also(children=[two, three]))

    made = await store.task("task_2")
    assert (made.state, made.spec.parent_id, made.root_id) == (
        TaskState.DISPATCHED,
        "task_1",
        "task_1",
    )
    assert [item.event for item in await store.events("task_3")] == [
        item.event for item in three.records
    ]
    assert ids(await store.claim(WORKER, limit=9)) == ["msg_task_2", "msg_task_3"]


async def test_a_refused_commit_creates_no_child(store: Store) -> None:
    lease = await start(store)

    with pytest.raises(ConcurrencyError):
        await store.append(lease, [progress("task_1", 9)], also=Also(children=[child("task_2")]))

    with pytest.raises(NotFoundError):
        await store.task("task_2")
    assert await states(store) == {"msg_task_1": "leased"}


async def test_a_child_that_exists_is_left_alone(store: Store) -> None:
    lease = await start(store)
    await store.append(lease, [], also=Also(children=[child("task_2")]))
    await settle(store, "task_2")

    await store.append(lease, [], also=Also(children=[child("task_2")]))

    assert (await store.task("task_2")).state == TaskState.SUCCEEDED
    assert await store.messages(task_id="task_2") == []


async def test_the_last_child_that_settles_ends_the_wait_for_all(store: Store) -> None:
    children = [child("task_2"), child("task_3")]
    begun = wait(kind="children", key="/turn1/tool1#1")
    await suspend(store, Also(children=children, waits=[begun]))

    await settle(store, "task_2")
    assert await store.waits("task_1") == [begun]
    assert await store.messages(task_id="task_1") == []

    await settle(store, "task_3")
    assert [(each.ended, each.answer) for each in await store.waits("task_1")] == [(True, None)]
    assert ids(await store.claim(WORKER)) == [WAKE]


async def test_children_of_another_round_do_not_count(store: Store) -> None:
    again = wait(kind="children", key="/turn1/tool1#2")
    children = [child("task_2"), child("task_3", path="/turn1/tool1#2")]
    await suspend(store, Also(children=children, waits=[again]))

    await settle(store, "task_2")
    assert [each.ended for each in await store.waits("task_1")] == [False]

    await settle(store, "task_3")
    assert [each.ended for each in await store.waits("task_1")] == [True]


async def test_a_wait_for_children_that_are_all_settled_wakes_at_once(store: Store) -> None:
    lease = await start(store)
    await store.append(lease, [progress("task_1", 4)], also=Also(children=[child("task_2")]))
    await settle(store, "task_2")

    also = Also(waits=[wait(kind="children", key="/turn1/tool1#1")])
    await store.finish(lease, [waiting("task_1", 5)], also=also)

    assert [each.ended for each in await store.waits("task_1")] == [True]
    assert ids(await store.claim(WORKER)) == [WAKE]


async def test_a_child_may_settle_by_an_append_or_by_a_failure_as_well(store: Store) -> None:
    children = [child("task_2"), child("task_3")]
    also = Also(children=children, waits=[wait(kind="children", key="/turn1/tool1#1")])
    await suspend(store, also)
    by_append, by_failure = await store.claim(WORKER, limit=2)

    await store.append(by_append, [settled("task_2", 3, "cancelled")])
    await store.finish(by_append, [])
    assert [each.ended for each in await store.waits("task_1")] == [False]
    await store.fail(by_failure, [settled("task_3", 3, "failed")], retry_at=None, reason="broken")

    assert [each.ended for each in await store.waits("task_1")] == [True]


async def test_a_child_may_settle_while_its_parent_does_not_wait(store: Store) -> None:
    lease = await start(store)
    await store.append(lease, [progress("task_1", 4)], also=Also(children=[child("task_2")]))

    await settle(store, "task_2")

    assert await states(store) == {"msg_task_1": "leased"}
    await store.finish(lease, [settled("task_1", 5)])


async def test_a_submitted_task_may_be_a_child(store: Store) -> None:
    begun = wait(kind="children", key="/turn1/tool1#1")
    lease = await start(store)
    new = child("task_2")
    await store.submit(new.records, new.message)
    await store.finish(lease, [waiting("task_1", 4)], also=Also(waits=[begun]))
    assert await store.waits("task_1") == [begun]

    await settle(store, "task_2")

    assert ids(await store.claim(WORKER)) == [WAKE]


async def test_a_claim_can_be_narrowed_to_a_tree(store: Store) -> None:
    lease = await start(store)
    deep = child("task_3", parent_id="task_2", root_id="task_1")
    await store.append(lease, [], also=Also(children=[child("task_2"), deep]))
    await submit(store, "task_9")

    leases = await store.claim(WORKER, root_id="task_1", limit=9)

    assert ids(leases) == ["msg_task_2", "msg_task_3"]
    assert ids(await store.claim(WORKER, root_id="task_9", limit=9)) == ["msg_task_9"]


async def test_a_claim_can_be_narrowed_to_a_part_of_a_tree(store: Store) -> None:
    lease = await start(store)
    deep = child("task_3", parent_id="task_2", root_id="task_1")
    children = [child("task_2"), child("task_4"), deep]
    await store.append(lease, [], also=Also(children=children))

    leases = await store.claim(WORKER, root_id="task_2", limit=9)

    assert ids(leases) == ["msg_task_2", "msg_task_3"]


# Dead messages


async def test_a_dead_message_goes_when_its_task_is_woken(store: Store) -> None:
    lease = await start(store)
    also = Also(waits=[wait()])
    await store.fail(lease, [waiting("task_1", 4)], retry_at=None, reason="boom", also=also)
    assert await states(store) == {"msg_task_1": "dead"}

    await store.signal("paid")

    assert await states(store) == {WAKE: "ready"}


async def test_a_failure_begins_its_waits_with_its_events(store: Store) -> None:
    lease = await start(store)
    later = START + HOUR

    await store.fail(lease, [], retry_at=later, reason="busy", also=Also(waits=[wait()]))

    assert await store.waits("task_1") == [wait()]
    assert await states(store) == {"msg_task_1": "delayed"}


async def test_messages_can_be_listed_by_lane(store: Store) -> None:
    await store.send(message("msg_a", lane="one"))
    await store.send(message("msg_b", lane="two"))
    await store.send(replace(dispatch("task_2"), message_id="msg_c", order_key="one"))

    rows = await store.messages(lane="one")

    assert [row.message.message_id for row in rows] == ["msg_a", "msg_c"]
    assert [
        row.message.message_id for row in await store.messages(lane="one", task_id="task_2")
    ] == ["msg_c"]
    assert await store.messages(lane="none") == []
