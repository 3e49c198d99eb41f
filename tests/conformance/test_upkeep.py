"""What an operator and an idle worker ask of a store, on every store."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from hermes.core.events import ArtifactSaved, TaskEvent, TaskStarted, ToolReturned
from hermes.errors import InputError, NotFoundError, StoreUnavailableError
from hermes.store import Also, EffectRow, Pruned, Store, open_store
from hermes.testing.clock import START, FakeClock
from tests.journal import (
    WORKER,
    asking,
    child,
    claim_one,
    dispatch,
    enroll,
    ids,
    message,
    progress,
    record,
    review,
    settle,
    settled,
    start,
    states,
    submit,
    suspend,
    wait,
)

LATER = START + timedelta(days=1)
NOTHING_TO_PRUNE = Pruned(tasks=0, events=0, blobs=0, blob_bytes=0)


def named(data: bytes) -> dict[str, bytes]:
    return {hashlib.sha256(data).hexdigest(): data}


async def done(
    store: Store,
    task_id: str = "task_1",
    *,
    session_id: str | None = None,
    blobs: dict[str, bytes] | None = None,
) -> None:
    """A task that is settled."""
    await enroll(store)
    await submit(store, task_id, session_id=session_id)
    lease = await claim_one(store, task_id)
    started = record(task_id, 3, TaskStarted(worker=WORKER))
    await store.finish(lease, [started, settled(task_id, 4)], blobs=blobs or {})


async def is_there(store: Store, task_id: str) -> bool:
    try:
        await store.task(task_id)
    except NotFoundError:
        return False
    return True


# Hints


async def hinted(store: Store, timeout_s: float = 30) -> bool:
    """Whether a hint came before the time was over."""
    is_hint = False
    with anyio.move_on_after(timeout_s):
        await store.work_hint(timeout_s * 2)
        is_hint = True
    return is_hint


async def quiet(store: Store) -> None:
    """Look for work, and use up what is left of older hints."""
    assert await store.claim(WORKER) == []
    while await hinted(store, 0.5):
        assert await store.claim(WORKER) == []


async def test_an_idle_store_gives_no_hint(store: Store) -> None:
    await enroll(store)
    await quiet(store)

    assert not await hinted(store, 0.3)


async def test_a_hint_ends_by_its_time(store: Store) -> None:
    await enroll(store)
    await quiet(store)

    with anyio.fail_after(20):
        await store.work_hint(0.05)


async def _submit(store: Store) -> None:
    await submit(store, "task_2")


async def _signal(store: Store) -> None:
    await store.signal("paid")


async def _decide(store: Store) -> None:
    await store.decide("review_2", "approve", by="ana")


async def _send(store: Store) -> None:
    await store.send(message("msg_x"))


async def _cancel(store: Store) -> None:
    await store.request_cancel("task_1")


Waker = Callable[[Store], Awaitable[None]]
WAKERS: list[Waker] = [_submit, _signal, _decide, _send, _cancel]


@pytest.mark.parametrize("wake", WAKERS)
async def test_new_work_is_hinted_at_who_waits_for_it(store: Store, wake: Waker) -> None:
    asked = review(2)
    await suspend(store, Also(reviews=[asked], waits=[wait(), asking(asked)]))
    await quiet(store)
    got: list[bool] = []

    async def idle() -> None:
        got.append(await hinted(store))

    async with anyio.create_task_group() as group:
        group.start_soon(idle)
        await anyio.lowlevel.checkpoint()
        await wake(store)

    assert got == [True]
    assert len(await store.claim(WORKER)) == 1


async def test_work_that_came_since_the_last_look_is_not_missed(store: Store) -> None:
    await enroll(store)
    await quiet(store)
    await submit(store)

    assert await hinted(store)


async def test_a_message_whose_time_has_come_is_hinted_at(store: Store, clock: FakeClock) -> None:
    await enroll(store)
    await store.send(replace(message("msg_x"), not_before=LATER))
    await quiet(store)
    clock.advance(24 * 3600)

    assert await hinted(store)
    assert ids(await store.claim(WORKER)) == ["msg_x"]


# Status and backup


async def test_the_status_counts_what_there_is(store: Store, kind: str) -> None:
    await done(store, "task_1")
    await done(store, "task_2")
    await suspend(store, Also(reviews=[review(task_id="task_3")]), "task_3")
    await submit(store, "task_4")

    status = await store.status()

    assert status.backend == {"postgres": "postgresql"}.get(kind, kind)
    assert status.version == status.newest == 5
    assert dict(status.tasks) == {"dispatched": 1, "succeeded": 2, "waiting": 1}
    assert dict(status.messages) == {"ready": 1}
    assert (status.workers, status.open_reviews) == (1, 1)
    assert (status.size_bytes == 0) == (kind == "memory")


async def test_a_backup_holds_all_there_was_and_opens_as_a_store(
    store: Store, kind: str, clock: FakeClock, tmp_path: Path
) -> None:
    if kind != "sqlite":
        pytest.skip("only SQLite's copy is itself a store")
    blobs = named(b"x" * 5000)
    await done(store, blobs=blobs)
    await suspend(store, Also(waits=[wait(task_id="task_2")]), "task_2")

    await store.backup(tmp_path / "copy.db")
    await submit(store, "task_3")

    async with open_store(f"sqlite:///{tmp_path / 'copy.db'}", clock=clock) as copy:
        assert await copy.events("task_1") == await store.events("task_1")
        assert [await copy.blob(name) for name in blobs] == list(blobs.values())
        assert await copy.signal("paid")
        assert len(await copy.claim(WORKER, task_id="task_2")) == 1
        assert not await is_there(copy, "task_3")


async def test_a_backup_does_not_overwrite(store: Store, kind: str, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("mine")
    fault = StoreUnavailableError if kind == "memory" else InputError

    with pytest.raises(fault):
        await store.backup(target)

    assert target.read_text() == "mine"


# Prune


async def test_old_settled_tasks_go_with_all_that_is_theirs(store: Store) -> None:
    deed = EffectRow(
        scope="task_1", tool="pay", key="7", state="started", task_id="task_1", path="/turn1/tool1"
    )
    asked = review()
    lease = await start(store)
    also = Also(effects=[deed], reviews=[asked], waits=[asking(asked)])
    await store.append(lease, [progress("task_1", 4)], also=also)
    await store.decide("review_1", "approve", by="ana")
    await store.finish(lease, [settled("task_1", 5)])
    await submit(store, "task_2")

    assert await store.prune(LATER) == Pruned(tasks=1, events=5, blobs=0, blob_bytes=0)

    assert not await is_there(store, "task_1")
    assert await store.events("task_1") == []
    assert await store.reviews(is_open=None) == []
    assert await store.effect("task_1", "pay", "7") is None
    assert await states(store) == {"msg_task_2": "ready"}


async def test_a_pruned_task_leaves_no_id_behind(store: Store) -> None:
    await done(store)
    await store.prune(LATER)

    await done(store)

    assert [item.seq for item in await store.events("task_1")] == [1, 2, 3, 4]


async def test_a_second_prune_finds_nothing(store: Store) -> None:
    await done(store)
    await store.prune(LATER)

    assert await store.prune(LATER) == NOTHING_TO_PRUNE


async def test_a_dry_run_counts_and_changes_nothing(store: Store) -> None:
    mine, shared = b"m" * 3000, b"s" * 2000
    await done(store, "task_1", blobs=named(mine) | named(shared))
    await suspend(store, Also(waits=[wait(task_id="task_2")]), "task_2")
    await store.signal("paid")
    lease = await claim_one(store, "task_2")
    await store.append(lease, [progress("task_2", 5)], blobs=named(shared))

    counted = await store.prune(LATER, dry_run=True)

    assert counted == Pruned(tasks=1, events=4, blobs=1, blob_bytes=3000)
    assert await is_there(store, "task_1")
    assert await store.blob(next(iter(named(mine)))) == mine
    assert await store.prune(LATER) == counted
    assert await store.blob(next(iter(named(shared)))) == shared


async def test_a_task_goes_only_when_its_last_event_is_older(store: Store) -> None:
    await done(store)

    assert await store.prune(START) == NOTHING_TO_PRUNE
    assert (await store.prune(START + timedelta(microseconds=1))).tasks == 1


async def test_what_is_not_settled_stays(store: Store) -> None:
    await submit(store, "task_1")
    await suspend(store, Also(waits=[wait(task_id="task_2")]), "task_2")

    assert await store.prune(LATER) == NOTHING_TO_PRUNE


async def test_a_tree_goes_as_a_whole(store: Store) -> None:
    lease = await start(store)
    deep = child("task_3", parent_id="task_2")
    await store.append(lease, [], also=Also(children=[child("task_2"), deep]))
    await store.finish(lease, [settled("task_1", 4)])
    await settle(store, "task_2")
    assert await store.prune(LATER) == NOTHING_TO_PRUNE

    await settle(store, "task_3")

    assert await store.prune(LATER) == Pruned(tasks=3, events=12, blobs=0, blob_bytes=0)


async def test_a_task_with_a_message_to_come_stays(store: Store, clock: FakeClock) -> None:
    await done(store)
    await store.send(message("msg_x", task_id="task_1"))

    assert await store.prune(LATER) == NOTHING_TO_PRUNE


async def test_a_dead_message_of_a_settled_task_goes_with_it(store: Store) -> None:
    lease = await start(store)
    await store.fail(lease, [settled("task_1", 4, "failed")], retry_at=None, reason="broken")

    assert (await store.prune(LATER)).tasks == 1
    assert await store.messages() == []


async def test_a_task_with_an_open_review_stays(store: Store) -> None:
    await done(store)
    await store.send(message("msg_x", task_id="task_1"))
    lease = await claim_one(store)
    await store.finish(lease, [], also=Also(reviews=[review()]))
    assert await store.prune(LATER) == NOTHING_TO_PRUNE

    await store.decide("review_1", "reject", by="ana")

    assert (await store.prune(LATER)).tasks == 1


async def test_what_an_unsettled_task_of_the_session_may_read_stays(store: Store) -> None:
    await done(store, "task_1", session_id="s")
    await done(store, "task_2", session_id="t")
    await submit(store, "task_3", session_id="s")

    assert (await store.prune(LATER)).tasks == 1

    assert await is_there(store, "task_1")
    assert not await is_there(store, "task_2")


async def test_a_blob_stays_as_long_as_a_task_names_it(store: Store) -> None:
    result, file = b"r" * 4000, b"f" * 4000
    (result_name,), (file_name,) = named(result), named(file)
    await done(store, "task_1", blobs=named(result) | named(file))
    lease = await start(store, "task_2")
    events: list[TaskEvent] = [
        ToolReturned(
            path="/t", call_id="c", name="n", content="…", size_chars=4000, blob=result_name
        ),
        ArtifactSaved(path="/t", name="file", sha256=file_name, size_bytes=4000),
    ]
    await store.append(lease, [record("task_2", 4 + n, event) for n, event in enumerate(events)])

    assert await store.prune(LATER) == Pruned(tasks=1, events=4, blobs=0, blob_bytes=0)

    assert (await store.blob(result_name), await store.blob(file_name)) == (result, file)
    await store.finish(lease, [settled("task_2", 6)])
    assert await store.prune(LATER) == Pruned(tasks=1, events=6, blobs=2, blob_bytes=8000)
    with pytest.raises(NotFoundError):
        await store.blob(file_name)


async def test_old_signals_go_and_may_come_again(store: Store) -> None:
    await store.signal("paid")

    await store.prune(START)
    assert not await store.signal("paid")
    await store.prune(LATER)

    assert await store.signal("paid")


async def test_what_is_submitted_under_an_old_dedupe_key_after_a_prune_is_new(
    store: Store,
) -> None:
    await enroll(store)
    sent = replace(dispatch("task_1"), dedupe_key="order-7")
    new = child("task_1", parent_id="task_0", root_id="task_1")
    await store.submit(new.records, sent)
    await settle(store, "task_1")
    assert not (await store.submit(new.records, sent)).is_new

    await store.prune(LATER)

    assert (await store.submit(new.records, sent)).is_new
