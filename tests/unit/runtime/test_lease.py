"""What a process does about its lease: renew it, distrust it, and watch those of others."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from hermes.core.ids import uuid7
from hermes.errors import StaleLeaseError, StoreUnavailableError
from hermes.runtime import LeaseTimes, WorkerProcess
from hermes.runtime.carrier import Carrier
from hermes.runtime.locks import are_proved_dead, new_worker_id
from hermes.runtime.reaper import Reaper
from hermes.store import Lease, MemoryStore, Worker
from hermes.testing.clock import START, FakeClock
from tests.journal import enroll, states, submit
from tests.workers import until

TIMES = LeaseTimes(lease_s=3.0, heartbeat_s=0.01)


class FlakyStore(MemoryStore):
    """A store that is away while `is_away`."""

    is_away = False

    async def renew(self, worker_id: str) -> bool:
        self._check()
        return await super().renew(worker_id)

    async def release(self, lease: Lease) -> None:
        self._check()
        await super().release(lease)

    def _check(self) -> None:
        if self.is_away:
            raise StoreUnavailableError("away")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> FlakyStore:
    return FlakyStore(clock=clock)


@asynccontextmanager
async def at_work(
    store: FlakyStore, clock: FakeClock
) -> AsyncGenerator[tuple[WorkerProcess, Lease]]:
    """A process that holds a task."""
    process = WorkerProcess(store, clock=clock, times=TIMES)
    async with anyio.create_task_group() as group:
        await process.start(group)
        await submit(store)
        [lease] = await store.claim(process.worker_id)
        yield process, lease
        group.cancel_scope.cancel()


async def test_work_goes_on_as_long_as_the_lease_is_renewed(
    store: FlakyStore, clock: FakeClock
) -> None:
    async with at_work(store, clock) as (process, lease):
        with process.hold(lease) as hold:
            for _ in range(5):
                clock.advance(2)
                await anyio.sleep(0.05)
                hold.check()
        assert not hold.scope.cancelled_caught


async def test_work_ends_without_a_word_when_the_lease_cannot_be_renewed_in_time(
    store: FlakyStore, clock: FakeClock
) -> None:
    async with at_work(store, clock) as (process, lease):
        store.is_away = True
        with anyio.fail_after(10), process.hold(lease) as hold:
            clock.advance(2.5)
            with pytest.raises(StaleLeaseError):
                hold.check()
            await anyio.sleep_forever()
        assert hold.scope.cancelled_caught
        assert hold.interrupted()


async def test_a_process_that_was_declared_dead_ends_its_work(
    store: FlakyStore, clock: FakeClock
) -> None:
    async with at_work(store, clock) as (process, lease):
        with anyio.fail_after(5), process.hold(lease) as hold:
            await store.retire(process.worker_id, crashed=True)
            await anyio.sleep_forever()
        assert hold.interrupted()
        assert process.is_dead


async def test_a_process_that_learns_it_was_declared_dead_by_a_claim_ends_its_work_and_says_so(
    store: FlakyStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    times = LeaseTimes(lease_s=3000, heartbeat_s=1000)
    async with anyio.create_task_group() as group:
        carrier = Carrier(store, group=group, clock=clock, new_id=uuid7, times=times)
        await submit(store)
        [lease] = await carrier.claim_ready(limit=1)
        process = await carrier.process()
        with anyio.fail_after(5), process.hold(lease) as hold:
            await store.retire(process.worker_id, crashed=True)
            assert await carrier.claim_ready(limit=1) == []
            await anyio.sleep_forever()
        assert hold.interrupted()
        assert caplog.text.count("declared dead") == 1
        [again] = await carrier.claim_ready(limit=1)
        assert again.worker_id != lease.worker_id
        group.cancel_scope.cancel()


async def test_a_cancelled_hold_is_no_interruption(store: FlakyStore, clock: FakeClock) -> None:
    async with at_work(store, clock) as (process, lease):
        with process.hold(lease, outside_cancels=False) as hold:
            assert hold.interrupted()  # whoever cancels from outside does not mean the task
            hold.cancel()
            hold.interrupt()
            await anyio.sleep_forever()
        assert not hold.interrupted()


async def test_a_task_that_cannot_be_given_back_at_once_is_so_when_the_store_is_back(
    store: FlakyStore, clock: FakeClock
) -> None:
    async with at_work(store, clock) as (process, lease):
        store.is_away = True
        await process.give_back(lease)
        assert await states(store) == {"msg_task_1": "leased"}
        store.is_away = False

        async def is_ready() -> bool:
            return await states(store) == {"msg_task_1": "ready"}

        await until(is_ready)


async def test_a_cancel_request_reaches_who_holds_the_task(
    store: FlakyStore, clock: FakeClock
) -> None:
    async with at_work(store, clock) as (process, lease):
        with anyio.fail_after(5), process.hold(lease, outside_cancels=False) as hold:
            await store.request_cancel("task_1")
            await anyio.sleep_forever()
        assert hold.scope.cancelled_caught
        assert not hold.interrupted()


class Renewing:
    """Workers as a store lists them, and what the reaper does to them."""

    run_dir = None

    def __init__(self, *workers: Worker) -> None:
        self.rows: Sequence[Worker] = workers
        self.retired: list[str] = []

    async def workers(self) -> Sequence[Worker]:
        return self.rows

    async def retire(self, worker_id: str, *, crashed: bool) -> int:
        assert crashed
        self.retired.append(worker_id)
        return 0


def elsewhere(worker_id: str = "w") -> Worker:
    return Worker(worker_id=worker_id, host="elsewhere", pid=1, lock_path="", renewed_at=START)


def reaper(store: Renewing, clock: FakeClock) -> Reaper:
    return Reaper(store, clock=clock, lease_s=30.0)  # pyright: ignore[reportArgumentType]  # all that it uses


async def test_a_silent_worker_is_retired_after_a_lease_whatever_its_clock_says(
    clock: FakeClock,
) -> None:
    clock.advance(10_000)  # by the wall clock it has been silent for hours
    store = Renewing(elsewhere())
    watch = reaper(store, clock)
    await watch.sweep()
    clock.advance(30)
    await watch.sweep()
    assert store.retired == []
    clock.advance(1)
    await watch.sweep()
    assert store.retired == ["w"]


async def test_a_worker_that_renews_is_left_alone(clock: FakeClock) -> None:
    store = Renewing(elsewhere())
    watch = reaper(store, clock)
    for _ in range(5):
        await watch.sweep()
        clock.advance(20)
        store.rows = [replace(store.rows[0], renewed_at=clock.now())]
    await watch.sweep()
    assert store.retired == []


async def test_a_time_that_is_read_a_little_differently_is_no_sign_of_life(
    clock: FakeClock,
) -> None:
    store = Renewing(elsewhere())
    watch = reaper(store, clock)
    for number in range(5):
        await watch.sweep()
        clock.advance(10)
        jitter = timedelta(milliseconds=100 * (number % 2))
        store.rows = [replace(store.rows[0], renewed_at=START + jitter)]
    assert store.retired == ["w"]


async def test_after_an_outage_others_get_a_whole_lease_to_show_themselves(
    clock: FakeClock,
) -> None:
    store = Renewing(elsewhere())
    watch = reaper(store, clock)
    await watch.sweep()
    clock.advance(60)
    watch.begin_again()
    await watch.sweep()
    assert store.retired == []


def test_only_a_lock_of_this_host_proves_a_death(tmp_path: Path) -> None:
    ours = new_worker_id(lambda: "1")  # pyright: ignore[reportArgumentType]  # any text will do
    assert are_proved_dead([], None)
    assert are_proved_dead([ours], str(tmp_path))
    assert not are_proved_dead([ours], None)
    assert not are_proved_dead([ours, "worker_1@elsewhere"], str(tmp_path))


async def test_a_worker_that_was_silent_too_long_frees_its_messages_with_a_crash(
    store: FlakyStore, clock: FakeClock
) -> None:
    await enroll(store, "w")
    await submit(store)
    await store.claim("w")
    watch = Reaper(store, clock=clock, lease_s=30.0)
    await watch.sweep()
    clock.advance(31)
    await watch.sweep()
    [row] = await store.messages()
    assert (row.state, row.crashes) == ("ready", 1)
