"""What every store promises, checked on each of them."""

from dataclasses import replace
from datetime import timedelta
from typing import Literal

import pytest

from hermes.core.codec import sha256
from hermes.core.events import Pending, TaskDispatched, TaskResumed, TaskStarted, TaskWaiting
from hermes.core.message import Message
from hermes.core.task import TaskState, fold
from hermes.errors import (
    CodecError,
    ConcurrencyError,
    ConflictError,
    InputError,
    NotFoundError,
    StaleLeaseError,
    TransitionError,
)
from hermes.store import Store, TaskQuery, Worker
from hermes.testing.clock import START, FakeClock
from tests.journal import (
    WORKER,
    dispatch,
    enroll,
    ids,
    message,
    opening,
    progress,
    record,
    settled,
    start,
    states,
    submit,
    texts,
)

Ending = Literal["finish", "fail"]


# Tasks and events


async def test_a_submitted_task_is_there_with_its_events_and_its_message(store: Store) -> None:
    submitted = await store.submit(opening("task_1", session_id="s"), dispatch("task_1"))

    task = await store.task("task_1")
    assert (submitted.task_id, submitted.is_new) == ("task_1", True)
    assert (task.state, task.status.seq, task.created_at) == (TaskState.DISPATCHED, 2, START)
    assert (task.spec.goal, task.spec.session_id) == ("count the errors", "s")
    assert [item.event for item in await store.events("task_1")] == [
        item.event for item in opening("task_1", session_id="s")
    ]
    assert [row.message for row in await store.messages()] == [dispatch("task_1")]


async def test_events_come_back_as_they_were_written_with_position_and_token(store: Store) -> None:
    lease = await start(store)
    written = progress("task_1", 4)

    await store.append(lease, [written])

    *_, last = await store.events("task_1")
    assert last == replace(written, token=lease.token, position=last.position)
    assert last.at.utcoffset() == timedelta(0)


async def test_positions_grow_over_all_tasks(store: Store) -> None:
    one = await start(store, "task_1")
    two = await start(store, "task_2")
    await store.append(one, [progress("task_1", 4)])
    await store.append(two, [progress("task_2", 4)])
    await store.append(one, [progress("task_1", 5)])

    events = [*await store.events("task_1"), *await store.events("task_2")]
    by_position = sorted(events, key=lambda item: item.position)
    assert len({item.position for item in events}) == 9
    assert [(item.task_id, item.seq) for item in by_position[-3:]] == [
        ("task_1", 4),
        ("task_2", 4),
        ("task_1", 5),
    ]


@pytest.mark.parametrize(("after", "seqs"), [(-1, [1, 2, 3]), (0, [1, 2, 3]), (2, [3]), (9, [])])
async def test_events_can_be_read_from_a_place(store: Store, after: int, seqs: list[int]) -> None:
    await start(store)

    assert [item.seq for item in await store.events("task_1", after=after)] == seqs


async def test_the_task_is_the_fold_of_its_events(store: Store) -> None:
    lease = await start(store)
    pending = Pending(kind="question", path="/turn1", name="ask", text="哪一天?")
    await store.append(lease, [record("task_1", 4, TaskWaiting(pending=(pending,)))])
    assert await store.task("task_1") == fold(await store.events("task_1"))

    await store.append(lease, [record("task_1", 5, TaskResumed(worker=WORKER, reason="answer"))])
    await store.finish(lease, [settled("task_1", 6)])

    assert await store.task("task_1") == fold(await store.events("task_1"))


@pytest.mark.parametrize(
    "task_id", ["", "task_2", "任务", "task_" + "x" * 10_000, "a\0b", "\ud800"]
)
async def test_an_unknown_task_is_not_found(store: Store, task_id: str) -> None:
    await submit(store)

    with pytest.raises(NotFoundError):
        await store.task(task_id)


async def test_an_unknown_task_has_no_events_and_no_messages(store: Store) -> None:
    assert await store.events("task_9") == []
    assert await store.messages(task_id="task_9") == []


async def test_a_submit_of_a_task_id_in_use_is_refused(store: Store) -> None:
    await submit(store)

    with pytest.raises(ConflictError, match="task_1"):
        await store.submit(opening("task_1"), message("msg_other", lane="task_1"))
    assert await states(store) == {"msg_task_1": "ready"}


async def test_a_submit_with_an_event_id_in_use_writes_nothing(store: Store) -> None:
    await submit(store)
    stolen = (await store.events("task_1"))[0].event_id
    first, second = opening("task_2")

    with pytest.raises(ConflictError):
        await store.submit([replace(first, event_id=stolen), second], dispatch("task_2"))

    assert await store.tasks(TaskQuery(session_id=None)) == [await store.task("task_1")]
    assert await states(store) == {"msg_task_1": "ready"}


async def test_a_submit_has_to_begin_with_task_created(store: Store) -> None:
    for records in ([], opening("task_1")[1:]):
        with pytest.raises(TransitionError):
            await store.submit(records, dispatch("task_1"))
    assert await store.messages() == []


async def test_a_submit_whose_message_is_about_another_task_is_refused(store: Store) -> None:
    with pytest.raises(InputError, match="task_2"):
        await store.submit(opening("task_1"), dispatch("task_2"))
    assert await store.tasks(TaskQuery()) == []


async def test_a_repeated_submit_finds_the_first_task(store: Store) -> None:
    await submit(store)

    again = await store.submit(opening("task_1"), dispatch("task_1"))

    assert (again.task_id, again.is_new) == ("task_1", False)
    assert len(await store.events("task_1")) == 2


async def test_a_dedupe_key_finds_the_first_task_even_when_that_is_done(store: Store) -> None:
    await enroll(store)
    keyed = replace(dispatch("task_1"), dedupe_key="order-17")
    await store.submit(opening("task_1"), keyed)
    (lease,) = await store.claim(WORKER)
    await store.finish(lease, [record("task_1", 3, TaskStarted(worker="w")), settled("task_1", 4)])

    again = await store.submit(
        opening("task_2"), replace(dispatch("task_2"), dedupe_key="order-17")
    )

    assert (again.task_id, again.is_new) == ("task_1", False)
    with pytest.raises(NotFoundError):
        await store.task("task_2")


async def test_a_dedupe_key_counts_for_each_receiver_apart(store: Store) -> None:
    keyed = replace(message("msg_1"), dedupe_key="k")
    assert await store.send(keyed)
    assert not await store.send(replace(keyed, message_id="msg_2"))
    assert await store.send(replace(keyed, message_id="msg_3", receiver="executor.b"))


async def test_a_message_that_created_no_task_is_no_earlier_submit(store: Store) -> None:
    await store.send(dispatch("task_1"))

    with pytest.raises(ConflictError):
        await store.submit(opening("task_1"), dispatch("task_1"))
    assert await store.tasks(TaskQuery()) == []


# Appending


async def test_an_append_at_an_old_version_writes_nothing(store: Store) -> None:
    lease = await start(store)
    await store.append(lease, [progress("task_1", 4, "first")])

    with pytest.raises(ConcurrencyError) as caught:
        await store.append(lease, [progress("task_1", 4, "second", salt="other")])

    assert (caught.value.expected, caught.value.actual) == (3, 4)
    assert await texts(store) == ["first"]


async def test_an_append_ahead_of_the_stream_writes_nothing(store: Store) -> None:
    lease = await start(store)

    with pytest.raises(ConcurrencyError) as caught:
        await store.append(lease, [progress("task_1", 6)])

    assert (caught.value.expected, caught.value.actual) == (5, 3)
    assert (await store.task("task_1")).status.seq == 3


async def test_an_append_with_a_gap_writes_nothing(store: Store) -> None:
    lease = await start(store)

    with pytest.raises(TransitionError):
        await store.append(lease, [progress("task_1", 4), progress("task_1", 6)])

    assert (await store.task("task_1")).status.seq == 3


async def test_an_event_that_does_not_fit_the_state_takes_its_batch_with_it(store: Store) -> None:
    lease = await start(store)
    waiting = record("task_1", 5, TaskWaiting(pending=()))
    unfit = record("task_1", 6, TaskDispatched(receiver="executor.a", message_id="msg_2"))

    with pytest.raises(TransitionError):
        await store.append(lease, [progress("task_1", 4), waiting, unfit])

    assert [item.seq for item in await store.events("task_1")] == [1, 2, 3]
    assert (await store.task("task_1")).state == TaskState.PROCESSING


async def test_a_repeated_append_succeeds_and_writes_nothing(store: Store) -> None:
    lease = await start(store)
    batch = [progress("task_1", 4, "a"), progress("task_1", 5, "b")]

    for _ in range(3):
        await store.append(lease, batch)
    await store.append(lease, [progress("task_1", 6, "c")])
    await store.append(lease, batch)

    assert await texts(store) == ["a", "b", "c"]


async def test_an_append_that_repeats_only_in_part_is_refused(store: Store) -> None:
    lease = await start(store)
    await store.append(lease, [progress("task_1", 4, "a")])

    with pytest.raises(ConcurrencyError):
        await store.append(lease, [progress("task_1", 4, "a"), progress("task_1", 5, "b")])
    assert await texts(store) == ["a"]


async def test_an_event_id_is_taken_once(store: Store) -> None:
    lease = await start(store)
    first = progress("task_1", 4)
    await store.append(lease, [first])

    for batch in (
        [replace(progress("task_1", 5), event_id=first.event_id)],
        [progress("task_1", 5), replace(progress("task_1", 6), event_id=first.event_id)],
        [progress("task_1", 5), replace(progress("task_1", 6), event_id="0" * 32)] * 2,
    ):
        with pytest.raises((ConflictError, TransitionError)):
            await store.append(lease, batch)
    assert (await store.task("task_1")).status.seq == 4


@pytest.mark.parametrize("event_id", ["", "e1", "G" * 32, "0" * 31, "0" * 33, "é" * 32])
async def test_an_event_id_is_32_hex_digits(store: Store, event_id: str) -> None:
    lease = await start(store)

    with pytest.raises(InputError, match="32"):
        await store.append(lease, [replace(progress("task_1", 4), event_id=event_id)])


async def test_an_append_to_another_task_than_that_of_the_lease_is_refused(store: Store) -> None:
    lease = await start(store, "task_1")
    await start(store, "task_2")

    with pytest.raises(InputError, match="task_2"):
        await store.append(lease, [progress("task_2", 4)])


async def test_an_append_under_another_trace_is_refused(store: Store) -> None:
    lease = await start(store)

    with pytest.raises(InputError, match="trace"):
        await store.append(lease, [replace(progress("task_1", 4), trace_id="f" * 32)])


async def test_an_empty_append_checks_the_lease_alone(store: Store) -> None:
    lease = await start(store)
    await store.append(lease, [])
    await store.release(lease)

    with pytest.raises(StaleLeaseError):
        await store.append(lease, [])


async def test_outgoing_messages_commit_with_the_events(store: Store) -> None:
    lease = await start(store)
    await store.append(lease, [progress("task_1", 4)], messages=[message("msg_2", lane="other")])
    await store.append(lease, [], messages=[message("msg_3", lane="other")])
    await store.append(lease, [], messages=[message("msg_4", lane=lease.message.lane)])

    assert (await store.task("task_1")).status.seq == 4
    assert await states(store) == {
        "msg_task_1": "leased",
        "msg_2": "ready",
        "msg_3": "held",
        "msg_4": "held",
    }


async def test_a_repeated_append_sends_each_message_once(store: Store) -> None:
    lease = await start(store)
    keyed = replace(message("msg_a"), dedupe_key="k")
    await store.send(message("msg_old"))
    outgoing = [message("msg_old"), keyed, keyed, replace(keyed, message_id="msg_b")]

    for _ in range(2):
        await store.append(lease, [progress("task_1", 4)], messages=outgoing)

    assert await states(store) == {"msg_task_1": "leased", "msg_old": "ready", "msg_a": "ready"}


async def test_a_refused_append_sends_nothing_and_a_refused_message_stops_it(store: Store) -> None:
    lease = await start(store)
    await store.send(message("msg_used"))
    differs = replace(message("msg_used"), payload={"n": 1})
    before = await states(store)

    with pytest.raises(ConflictError, match="msg_used"):
        await store.append(lease, [progress("task_1", 4)], messages=[message("msg_new"), differs])
    with pytest.raises(ConflictError):
        await store.append(lease, [], messages=[differs])
    with pytest.raises(ConcurrencyError):
        await store.append(lease, [progress("task_1", 9)], messages=[message("msg_new")])
    with pytest.raises(CodecError):
        await store.append(lease, [progress("task_1", 4)], messages=[message("msg_\ud800")])
    assert (await store.task("task_1")).status.seq == 3
    assert await states(store) == before

    await store.release(lease)
    with pytest.raises(StaleLeaseError):
        await store.append(lease, [progress("task_1", 4)], messages=[message("msg_new")])
    assert "msg_new" not in await states(store)


# Texts and blobs


@pytest.mark.parametrize(
    "text",
    ["", "统计错误日志", "🙂 ẞ\u0301", "null\0byte", "\ufeff\u2028", "错" * 5_000, "x" * 300_000],
    ids=["empty", "chinese", "beyond", "nul", "marks", "long chinese", "long"],
)
async def test_any_text_comes_back_to_the_letter(store: Store, text: str) -> None:
    lease = await start(store)

    await store.append(lease, [progress("task_1", 4, text)])

    assert await texts(store) == [text]


async def test_a_task_with_a_long_goal_is_listed_whole(store: Store) -> None:
    goal = "数一数" * 20_000
    await submit(store, goal=goal)

    assert (await store.task("task_1")).spec.goal == goal
    assert (await store.tasks(TaskQuery()))[0].spec.goal == goal


async def test_a_lone_surrogate_is_refused_and_nothing_is_written(store: Store) -> None:
    lease = await start(store)

    with pytest.raises(CodecError):
        await store.append(lease, [progress("task_1", 4, "ok"), progress("task_1", 5, "\ud800")])
    with pytest.raises(CodecError):
        await store.send(message("msg_\udfff"))
    with pytest.raises(CodecError):
        await store.send(replace(message("msg_2"), payload={"text": "\ud83d"}))

    assert await texts(store) == []
    assert list(await states(store)) == ["msg_task_1"]


async def test_blobs_go_with_the_events(store: Store) -> None:
    lease = await start(store)
    data = bytes(range(256)) * 8_000

    await store.append(lease, [progress("task_1", 4)], blobs={sha256(data): data})
    await store.append(lease, [], blobs={sha256(b""): b""})
    await store.finish(lease, [settled("task_1", 5)], blobs={sha256(data): data})

    assert await store.blob(sha256(data)) == data
    assert await store.blob(sha256(b"")) == b""


async def test_a_refused_append_leaves_no_blob(store: Store) -> None:
    lease = await start(store)

    with pytest.raises(ConcurrencyError):
        await store.append(lease, [progress("task_1", 9)], blobs={sha256(b"x"): b"x"})
    with pytest.raises(NotFoundError):
        await store.blob(sha256(b"x"))


async def test_a_blob_under_a_false_name_is_refused(store: Store) -> None:
    lease = await start(store)

    with pytest.raises(InputError, match="SHA-256"):
        await store.append(lease, [progress("task_1", 4)], blobs={sha256(b"x"): b"y"})
    assert await texts(store) == []


@pytest.mark.parametrize("name", ["", "zz", "0" * 64, "0" * 63, "0" * 65, "值", "\ud800"])
async def test_an_unknown_blob_is_not_found(store: Store, name: str) -> None:
    with pytest.raises(NotFoundError):
        await store.blob(name)


# The fence


@pytest.mark.parametrize("taken_by", ["nobody", "the same worker", "another worker"])
async def test_a_lease_that_ended_writes_nothing_more(store: Store, taken_by: str) -> None:
    lease = await start(store)
    await enroll(store, "worker-2")
    await store.release(lease)
    if taken_by != "nobody":
        await store.claim(WORKER if taken_by == "the same worker" else "worker-2")
    before = await store.messages()

    with pytest.raises(StaleLeaseError):
        await store.append(lease, [progress("task_1", 4)], blobs={sha256(b"x"): b"x"})
    with pytest.raises(StaleLeaseError):
        await store.finish(lease, [settled("task_1", 4)], messages=[message("msg_2")])
    with pytest.raises(StaleLeaseError):
        await store.finish(lease, [])
    with pytest.raises(StaleLeaseError):
        await store.fail(lease, [settled("task_1", 4, "failed")], retry_at=None, reason="")
    with pytest.raises(StaleLeaseError):
        await store.fail(lease, [], retry_at=START, reason="")
    with pytest.raises(StaleLeaseError):
        await store.release(lease)

    assert (await store.task("task_1")).status.seq == 3
    assert await store.messages() == before


async def test_a_lease_of_another_worker_or_token_is_no_lease(store: Store) -> None:
    lease = await start(store)

    for forged in (replace(lease, worker_id="worker-2"), replace(lease, token=lease.token + 1)):
        with pytest.raises(StaleLeaseError):
            await store.append(forged, [progress("task_1", 4)])


async def test_tokens_of_a_lane_only_grow_even_over_its_messages(store: Store) -> None:
    await enroll(store)
    tokens: list[int] = []
    for number in range(3):
        await store.send(message(f"msg_{number}", lane="lane"))
        (lease,) = await store.claim(WORKER)
        await store.release(lease)
        (again,) = await store.claim(WORKER)
        await store.finish(again, [])
        tokens += [lease.token, again.token]

    assert tokens == sorted(set(tokens))


# The end of a message


async def test_finish_settles_sends_and_takes_the_message_away(store: Store) -> None:
    lease = await start(store)

    await store.finish(lease, [settled("task_1", 4)], messages=[message("msg_2", lane="other")])

    assert (await store.task("task_1")).state == TaskState.SUCCEEDED
    assert await states(store) == {"msg_2": "ready"}


async def test_a_refused_finish_changes_nothing(store: Store) -> None:
    lease = await start(store)
    await store.send(message("msg_used"))
    differs = replace(message("msg_used"), payload={"n": 1})

    with pytest.raises(ConflictError, match="msg_used"):
        await store.finish(lease, [settled("task_1", 4)], messages=[message("msg_new"), differs])
    with pytest.raises(ConcurrencyError):
        await store.finish(lease, [settled("task_1", 9)], messages=[message("msg_new")])

    assert (await store.task("task_1")).state == TaskState.PROCESSING
    assert await states(store) == {"msg_task_1": "leased", "msg_used": "ready"}
    await store.finish(lease, [settled("task_1", 4)], messages=[message("msg_new")])


async def test_a_finish_sends_each_message_once(store: Store) -> None:
    lease = await start(store)
    await store.send(message("msg_old"))
    keyed = replace(message("msg_a"), dedupe_key="k")

    await store.finish(
        lease,
        [],
        messages=[
            message("msg_old"),
            keyed,
            keyed,
            replace(keyed, message_id="msg_b"),
            message("msg_c"),
        ],
    )

    assert set(await states(store)) == {"msg_old", "msg_a", "msg_c"}


async def test_one_finish_with_two_messages_of_one_id_is_refused(store: Store) -> None:
    lease = await start(store)
    twins = [message("msg_2"), replace(message("msg_2"), priority=5)]

    with pytest.raises(ConflictError):
        await store.finish(lease, [], messages=twins)
    assert await states(store) == {"msg_task_1": "leased"}


@pytest.mark.parametrize("ending", ["finish", "fail"])
async def test_settling_a_settled_task_changes_nothing_and_ends_the_message(
    store: Store, ending: Ending
) -> None:
    lease = await start(store)
    await store.append(lease, [settled("task_1", 4, "cancelled")])
    late = [progress("task_1", 4, "late", salt="x"), settled("task_1", 5, salt="x")]

    if ending == "finish":
        await store.finish(lease, late, messages=[message("msg_result")])
    else:
        await store.fail(lease, late, retry_at=None, reason="broken")

    assert (await store.task("task_1")).state == TaskState.CANCELLED
    assert (await store.task("task_1")).status.seq == 4
    assert await states(store) == ({} if ending == "finish" else {"msg_task_1": "dead"})


async def test_an_append_to_a_settled_task_cannot_settle_it_again(store: Store) -> None:
    lease = await start(store)
    await store.append(lease, [settled("task_1", 4)])

    with pytest.raises(TransitionError):
        await store.append(lease, [settled("task_1", 5, "failed")])
    assert (await store.task("task_1")).state == TaskState.SUCCEEDED


@pytest.mark.parametrize("retry_s", [None, 0, 60])
async def test_a_repeated_end_of_a_message_succeeds_and_changes_nothing(
    store: Store, retry_s: int | None
) -> None:
    lease = await start(store)
    retry_at = None if retry_s is None else START + timedelta(seconds=retry_s)
    await store.fail(lease, [progress("task_1", 4)], retry_at=retry_at, reason="busy")
    before = await store.messages()

    await store.fail(lease, [progress("task_1", 4)], retry_at=retry_at, reason="busy")

    assert await store.messages() == before
    assert len(await store.events("task_1")) == 4


async def test_a_repeated_finish_succeeds_and_changes_nothing(store: Store) -> None:
    lease = await start(store)
    result = message("msg_result")
    for _ in range(2):
        await store.finish(lease, [settled("task_1", 4)], messages=[result])

    assert (await store.task("task_1")).status.seq == 4
    assert await states(store) == {"msg_result": "ready"}


async def test_a_finish_with_events_of_an_earlier_append_is_no_repeat(store: Store) -> None:
    lease = await start(store)
    await store.append(lease, [progress("task_1", 4)])
    await store.release(lease)

    with pytest.raises(StaleLeaseError):
        await store.finish(lease, [progress("task_1", 4)])


async def test_a_message_about_a_foreign_task_can_be_handled_but_not_written_to(
    store: Store,
) -> None:
    await enroll(store)
    await store.send(message("msg_1", task_id="ticket-7"))
    (lease,) = await store.claim(WORKER)

    with pytest.raises(NotFoundError, match="ticket-7"):
        await store.append(lease, [progress("ticket-7", 1)])
    await store.finish(lease, [])

    assert await store.messages() == []


# Lanes


async def send_lane(store: Store, *names: str, lane: str = "lane") -> None:
    await enroll(store)
    for name in names:
        await store.send(message(name, lane=lane))


async def test_only_the_head_of_a_lane_is_ready(store: Store) -> None:
    await send_lane(store, "a", "b", "c")

    assert await states(store) == {"a": "ready", "b": "held", "c": "held"}
    assert ids(await store.claim(WORKER, limit=9)) == ["a"]
    assert await store.claim(WORKER, limit=9) == []


async def test_finishing_the_head_releases_the_next(store: Store) -> None:
    await send_lane(store, "a", "b", "c")
    (lease,) = await store.claim(WORKER)

    await store.finish(lease, [])

    assert await states(store) == {"b": "ready", "c": "held"}


async def test_a_released_message_keeps_its_place_and_its_count(store: Store) -> None:
    await send_lane(store, "a", "b")
    (lease,) = await store.claim(WORKER)

    await store.release(lease)

    assert await states(store) == {"a": "ready", "b": "held"}
    (again,) = await store.claim(WORKER)
    assert (again.message.message_id, again.attempts, again.crashes) == ("a", 0, 0)


async def test_a_failed_message_goes_last_and_counts(store: Store, clock: FakeClock) -> None:
    await send_lane(store, "a", "b")
    (lease,) = await store.claim(WORKER)

    await store.fail(lease, [], retry_at=clock.now() + timedelta(seconds=5), reason="连接被拒绝")

    first, second = await store.messages()
    assert (first.message.message_id, first.state) == ("b", "ready")
    assert (second.message.message_id, second.state, second.attempts) == ("a", "held", 1)
    assert (second.reason, second.not_before) == ("连接被拒绝", START + timedelta(seconds=5))


async def test_a_failed_message_alone_in_its_lane_is_delayed(
    store: Store, clock: FakeClock
) -> None:
    await send_lane(store, "a")
    (lease,) = await store.claim(WORKER)
    await store.fail(lease, [], retry_at=clock.now() + timedelta(seconds=5), reason="busy")

    assert await states(store) == {"a": "delayed"}
    clock.advance(4.999999)
    assert await store.claim(WORKER) == []
    clock.advance(0.000001)
    (again,) = await store.claim(WORKER)
    assert (again.message.message_id, again.attempts) == ("a", 1)


async def test_a_message_to_retry_at_once_is_ready(store: Store, clock: FakeClock) -> None:
    await send_lane(store, "a")
    (lease,) = await store.claim(WORKER)

    await store.fail(lease, [], retry_at=clock.now(), reason="busy")

    assert await states(store) == {"a": "ready"}


@pytest.mark.parametrize(("pause_s", "state"), [(-1, "ready"), (0, "ready"), (1, "delayed")])
async def test_a_message_is_delayed_only_until_its_time(
    store: Store, pause_s: int, state: str
) -> None:
    later = START + timedelta(seconds=pause_s)
    await store.send(replace(message("a"), not_before=later))

    assert await states(store) == {"a": state}


async def test_a_delayed_head_blocks_its_lane(store: Store, clock: FakeClock) -> None:
    await enroll(store)
    later = START + timedelta(seconds=60)
    await store.send(replace(message("a", lane="lane"), not_before=later))
    await store.send(message("b", lane="lane"))

    assert await states(store) == {"a": "delayed", "b": "held"}
    assert await store.claim(WORKER) == []
    clock.advance(60)
    assert ids(await store.claim(WORKER, limit=9)) == ["a"]


async def test_a_message_whose_time_has_come_while_it_was_held_is_ready(
    store: Store, clock: FakeClock
) -> None:
    await enroll(store)
    await store.send(message("a", lane="lane"))
    for name, seconds in (("b", 10), ("c", 30)):
        later = START + timedelta(seconds=seconds)
        await store.send(replace(message(name, lane="lane"), not_before=later))
    clock.advance(10)

    (lease,) = await store.claim(WORKER)
    await store.finish(lease, [])
    assert await states(store) == {"b": "ready", "c": "held"}
    (lease,) = await store.claim(WORKER)
    await store.finish(lease, [])
    assert await states(store) == {"c": "delayed"}


async def test_a_dead_message_does_not_block_its_lane(store: Store) -> None:
    await send_lane(store, "a", "b")
    (lease,) = await store.claim(WORKER)

    await store.fail(lease, [], retry_at=None, reason="poison")

    assert await states(store) == {"a": "dead", "b": "ready"}
    (lease,) = await store.claim(WORKER, limit=9)
    await store.finish(lease, [])
    await store.send(message("c", lane="lane"))
    assert await states(store) == {"a": "dead", "c": "ready"}
    dead = (await store.messages())[0]
    assert (dead.attempts, dead.reason, dead.worker_id) == (1, "poison", None)


async def test_a_reason_with_lone_surrogates_is_kept_readable(store: Store) -> None:
    await send_lane(store, "a")
    (lease,) = await store.claim(WORKER)

    await store.fail(lease, [], retry_at=None, reason="no file 'a\udcff'")

    assert [row.reason for row in await store.messages()] == ["no file 'a?'"]


async def test_a_finish_may_send_into_its_own_lane(store: Store) -> None:
    await send_lane(store, "a", "b")
    (lease,) = await store.claim(WORKER)

    await store.finish(lease, [], messages=[message("c", lane="lane")])

    assert await states(store) == {"b": "ready", "c": "held"}


async def test_root_tasks_of_a_session_are_handled_one_after_the_other(store: Store) -> None:
    await enroll(store)
    for task_id in ("task_1", "task_2"):
        await submit(store, task_id, session_id="s")
    await submit(store, "task_3", session_id="t")

    leases = await store.claim(WORKER, limit=9)

    assert ids(leases) == ["msg_task_1", "msg_task_3"]
    await store.finish(leases[0], [])
    assert ids(await store.claim(WORKER, limit=9)) == ["msg_task_2"]


# Claiming


async def test_claims_go_by_priority_then_age(store: Store) -> None:
    await enroll(store)
    for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", -1), ("e", 5)):
        await store.send(replace(message(name), priority=priority))

    claimed = [await store.claim(WORKER, limit=2) for _ in range(4)]

    assert [ids(leases) for leases in claimed] == [["b", "e"], ["a", "c"], ["d"], []]


async def test_claims_can_be_narrowed_to_receivers_and_to_a_task(store: Store) -> None:
    await enroll(store)
    await store.send(message("a", task_id="task_1"))
    await store.send(replace(message("b", task_id="task_2"), receiver="executor.b"))
    await store.send(replace(message("c", task_id="task_3"), receiver="执行器.c"))

    assert ids(await store.claim(WORKER, task_id="task_9", limit=9)) == []
    assert ids(await store.claim(WORKER, task_id="task_2", receivers=["executor.a"])) == []
    assert ids(await store.claim(WORKER, receivers=["执行器.c", "executor.b"], limit=9)) == [
        "b",
        "c",
    ]
    assert ids(await store.claim(WORKER, task_id="task_1")) == ["a"]


async def test_a_lease_carries_the_whole_message(store: Store) -> None:
    await enroll(store)
    sent = Message.from_wire(
        {
            **message("msg_1").to_wire(),
            "payload": {"text": "统计", "n": [1, 2.5, None]},
            "metadata": {"k": {}},
            "source_channel": "http",
            "reply_to": "queue.cli",
            "causation_id": "msg_0",
            "dedupe_key": "d",
            "priority": 3,
            "not_before": "2025-12-31T23:59:59.000001+00:00",
            "expires_at": "2027-01-01T08:00:00+08:00",
            "colour": "a field of a later version",
        }
    )
    await store.send(sent)

    (lease,) = await store.claim(WORKER)

    assert lease.message == sent
    assert [row.message for row in await store.messages()] == [sent]
    assert lease.message.extra == {"colour": "a field of a later version"}


async def test_a_claim_needs_a_registered_worker(store: Store) -> None:
    await store.send(message("a"))

    with pytest.raises(NotFoundError, match="worker-9"):
        await store.claim("worker-9")
    assert await states(store) == {"a": "ready"}


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_claim_takes_at_least_one(store: Store, limit: int) -> None:
    await enroll(store)

    with pytest.raises(InputError, match="limit"):
        await store.claim(WORKER, limit=limit)


# Sending


async def test_a_message_sent_twice_is_taken_once_even_after_it_is_done(store: Store) -> None:
    await enroll(store)
    assert await store.send(message("a"))
    assert not await store.send(message("a"))
    (lease,) = await store.claim(WORKER)
    await store.finish(lease, [])

    assert not await store.send(message("a"))
    assert await store.messages() == []


@pytest.mark.parametrize(
    "change",
    [{"payload": {"n": 1}}, {"priority": 1}, {"receiver": "executor.b"}, {"extra": {"x": None}}],
    ids=str,
)
async def test_a_message_id_stands_for_one_body(store: Store, change: dict[str, object]) -> None:
    await store.send(message("a"))
    differs = replace(message("a"), **change)

    with pytest.raises(ConflictError, match="'a'"):
        await store.send(differs)
    with pytest.raises(ConflictError, match="'a'"):
        await store.submit(opening("task_1"), differs)


async def test_messages_are_listed_by_task(store: Store) -> None:
    await store.send(message("a", task_id="task_1"))
    await store.send(message("b", task_id="task_2"))

    rows = await store.messages(task_id="task_2")

    assert [row.message.message_id for row in rows] == ["b"]


# Workers


async def test_workers_register_renew_and_retire(store: Store, clock: FakeClock) -> None:
    one = Worker(worker_id="w1", host="主机", pid=1, lock_path="/run/w1", renewed_at=START)
    two = replace(one, worker_id="w2", pid=2)
    await store.register(two)
    await store.register(one)
    assert await store.workers() == [one, two]

    clock.advance(10)
    assert await store.renew("w1")
    assert not await store.renew("w9")
    assert await store.retire("w2", crashed=False) == 0

    assert await store.workers() == [replace(one, renewed_at=START + timedelta(seconds=10))]
    assert not await store.renew("w2")


async def test_a_worker_may_register_again(store: Store) -> None:
    one = Worker(worker_id="w1", host="h", pid=1, lock_path="", renewed_at=START)
    await store.register(one)
    await store.register(replace(one, pid=2))

    assert [worker.pid for worker in await store.workers()] == [2]


@pytest.mark.parametrize("crashed", [True, False])
async def test_what_a_retired_worker_held_is_ready_in_its_place(
    store: Store, crashed: bool
) -> None:
    await send_lane(store, "a", "b")
    await send_lane(store, "x", lane="other")
    await enroll(store, "worker-2")
    held = await store.claim(WORKER, limit=9)

    freed = await store.retire(WORKER, crashed=crashed)

    assert (ids(held), freed) == (["a", "x"], 2)
    assert await states(store) == {"a": "ready", "b": "held", "x": "ready"}
    again = await store.claim("worker-2", limit=9)
    assert [(lease.crashes, lease.attempts) for lease in again] == [(int(crashed), 0)] * 2
    with pytest.raises(StaleLeaseError):
        await store.finish(held[0], [])


async def test_retiring_an_unknown_worker_frees_nothing(store: Store) -> None:
    await send_lane(store, "a")
    await store.claim(WORKER)

    assert await store.retire("worker-9", crashed=True) == 0
    assert await states(store) == {"a": "leased"}


# Lists


@pytest.fixture
async def listed(store: Store) -> Store:
    """Five tasks: odd ones of agent a, even ones of b; 1 and 2 in a session; 2 at work."""
    await enroll(store)
    for number in range(1, 6):
        await submit(
            store,
            f"task_{number}",
            agent="ab"[number % 2 == 0],
            session_id="会话" if number < 3 else None,
        )
    (lease,) = await store.claim(WORKER, task_id="task_1")
    await store.finish(lease, [record("task_1", 3, TaskStarted(worker="w")), settled("task_1", 4)])
    (lease,) = await store.claim(WORKER, task_id="task_2")
    await store.append(lease, [record("task_2", 3, TaskStarted(worker="w"))])
    return store


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        (TaskQuery(), "54321"),
        (TaskQuery(limit=2), "54"),
        (TaskQuery(before="task_3"), "21"),
        (TaskQuery(before="task_1"), ""),
        (TaskQuery(limit=1, before="task_3"), "2"),
        (TaskQuery(agent="a"), "531"),
        (TaskQuery(agent="b", limit=1), "4"),
        (TaskQuery(agent="c"), ""),
        (TaskQuery(session_id="会话"), "21"),
        (TaskQuery(session_id="会话", agent="a"), "1"),
        (TaskQuery(states=[TaskState.DISPATCHED]), "543"),
        (TaskQuery(states=[TaskState.PROCESSING, TaskState.SUCCEEDED]), "21"),
        (TaskQuery(states=[TaskState.DISPATCHED], agent="a", before="task_5"), "3"),
        (TaskQuery(states=[TaskState.SUCCEEDED], session_id="会话"), "1"),
        (TaskQuery(states=[TaskState.FAILED]), ""),
    ],
    ids=str,
)
async def test_tasks_are_listed_newest_first(listed: Store, query: TaskQuery, numbers: str) -> None:
    found = await listed.tasks(query)

    assert [task.task_id for task in found] == [f"task_{number}" for number in numbers]
    assert found == [await listed.task(task.task_id) for task in found]


async def test_a_page_after_an_unknown_task_is_not_found(listed: Store) -> None:
    with pytest.raises(NotFoundError, match="task_9"):
        await listed.tasks(TaskQuery(before="task_9"))


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_a_page_holds_1_to_1000_tasks(limit: int) -> None:
    with pytest.raises(InputError, match="1000"):
        TaskQuery(limit=limit)
