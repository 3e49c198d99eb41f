"""A write-ahead log that ends anywhere, as after a power cut, reopens at some whole transaction."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

from hermes.core import ids
from hermes.core.events import MessageHandled, Pending, TaskWaiting
from hermes.core.task import fold
from hermes.store import Also, NewTask, Review, SQLiteStore, Store, TaskQuery, Wait
from hermes.testing.clock import START, FakeClock
from tests.journal import WORKER, dispatch, enroll, opening, progress, record, settled, start

HEADER, FRAME_HEADER = 32, 24
SETTLED, WAITING = "task_1", "task_2"


class Witness:
    """A store that notes how it stands after each call."""

    def __init__(self, store: Store, stands: list[object]) -> None:
        self._store, self._stands = store, stands

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        method = getattr(self._store, name)

        async def call(*args: object, **more: object) -> object:
            result = await method(*args, **more)
            self._stands.append(await stand(self._store))
            return result

        return call


async def plain_work(store: Store) -> None:
    """A task from its beginning to its end, with a text that goes into a blob."""
    await enroll(store)
    lease = await start(store, SETTLED)
    for seq in range(4, 8):
        await store.append(lease, [progress(SETTLED, seq, "字" * (4_000 if seq == 5 else 20))])
    await store.finish(lease, [settled(SETTLED, 8)])


async def waiting_work(store: Store) -> None:
    """A task that asks a person and hands work to a child, and is woken."""
    lease = await start(store, WAITING)
    wait = ids.wait_id(WAITING, "/turn1/tool1", 4)
    review = ids.review_id(wait)
    pending = Pending(
        kind="question", path="/turn1/tool1", name="ask", text="?", wait_id=wait, review_id=review
    )
    child = ids.child_task_id(WAITING, "/turn1/tool2#1.1")
    first = opening(child)
    created = replace(first[0], event=replace(first[0].event, parent_id=WAITING))
    also = Also(
        children=[NewTask(records=[created, first[1]], message=dispatch(child))],
        waits=[Wait(wait_id=wait, task_id=WAITING, path="/turn1/tool1", kind="person", key=review)],
        reviews=[
            Review(
                review_id=review,
                wait_id=wait,
                task_id=WAITING,
                path="/turn1/tool1",
                reason="question",
                name="ask",
                text="?",
                created_at=START,
            )
        ],
    )
    await store.finish(
        lease,
        [
            record(WAITING, 4, TaskWaiting(pending=(pending,))),
            record(WAITING, 5, MessageHandled(message_id=lease.message.message_id)),
        ],
        also=also,
    )
    await store.decide(review, "answer", answer="blue", by="someone")
    [woken] = await store.claim(WORKER, task_id=WAITING)
    await store.finish(woken, [settled(WAITING, 6, "cancelled")], also=Also(ended_waits=[wait]))


async def stand(store: Store) -> object:
    """All that a store tells of itself; its tasks are the folds of gapless streams."""
    tasks = await store.tasks(TaskQuery())
    found: list[object] = [await store.messages(), await store.workers()]
    for task in tasks:
        events = await store.events(task.task_id)
        assert [item.seq for item in events] == list(range(1, len(events) + 1))
        assert fold(events) == task
        reviews = await store.reviews(task_id=task.task_id, is_open=None)
        found.append((events, await store.waits(task.task_id), reviews))
    return repr(found)


async def test_a_log_cut_anywhere_reopens_at_a_whole_transaction(tmp_path: Path) -> None:
    source = tmp_path / "hermes.db"
    stands: list[object] = []
    async with SQLiteStore(source, clock=FakeClock()) as store:
        stands.append(await stand(store))
        witness = cast("Store", Witness(store, stands))
        await plain_work(witness)
        await waiting_work(witness)
        shutil.copy(source, tmp_path / "copy.db")
        log = Path(f"{source}-wal").read_bytes()

    frame = FRAME_HEADER + int.from_bytes(log[8:12], "big")
    assert (len(log) - HEADER) % frame == 0
    reached = 0
    for cut in cuts(len(log), frame):
        path = tmp_path / "cut.db"
        shutil.copy(tmp_path / "copy.db", path)
        Path(f"{path}-wal").write_bytes(log[:cut])
        async with SQLiteStore(path, clock=FakeClock(), synchronous="NORMAL") as store:
            found = await stand(store)
        place = index_between(stands, found, start=reached)
        assert place is not None, f"cut at byte {cut} of {len(log)}: no state that ever was"
        reached = place

    assert reached == len(stands) - 1


def cuts(size: int, frame: int) -> list[int]:
    """Each border of a frame, and a place within each: in its header or in its page, in turn."""
    borders = range(HEADER, size + 1, frame)
    within = [end - (9 if turn % 2 else frame - 7) for turn, end in enumerate(borders[1:])]
    return sorted([0, *borders, *within])


def index_between(stands: list[object], found: object, *, start: int) -> int | None:
    return next((place for place in range(start, len(stands)) if stands[place] == found), None)
