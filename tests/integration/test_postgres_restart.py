"""A PostgreSQL server that stops and comes back, under a store that is at work."""

import logging
import signal
from collections.abc import Iterator

import anyio
import pytest
from anyio import to_thread

from hermes.core.clock import SystemClock
from hermes.core.task import fold
from hermes.errors import StoreUnavailableError
from hermes.store import Lease, Store
from hermes.store.postgres import PostgresStore
from tests.journal import WORKER, enroll, progress, start, submit, texts
from tests.postgres import Server, private_server

TASKS, EVENTS = 8, 120


@pytest.fixture(scope="module")
def made() -> Iterator[Server]:
    with private_server() as server:
        yield server


@pytest.fixture
def server(made: Server) -> Iterator[Server]:
    """Running, whatever the last test left."""
    yield made
    if not made.is_running:
        made.start()


async def write(store: Store, lease: Lease, done: list[int]) -> None:
    for seq in range(4, 4 + EVENTS):
        await store.append(lease, [progress(lease.message.task_id, seq, str(seq))])
        done.append(seq)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["in good order", "crash"])
async def test_a_restart_amid_appends_loses_nothing_and_doubles_nothing(
    server: Server, how: signal.Signals
) -> None:
    done: list[int] = []
    at_stop = 0
    names = [f"task_{how.name}_{n}" for n in range(TASKS)]
    async with PostgresStore(server.url, clock=SystemClock(), wait_s=20) as store:
        leases = [await start(store, name) for name in names]
        async with anyio.create_task_group() as group:
            for lease in leases:
                group.start_soon(write, store, lease, done)
            while len(done) < TASKS * EVENTS / 4:
                await anyio.lowlevel.checkpoint()
            await to_thread.run_sync(server.stop, how)
            at_stop = len(done)
            await to_thread.run_sync(server.start)

        assert at_stop < len(done) == TASKS * EVENTS
        for name in names:
            events = await store.events(name)
            assert [item.seq for item in events] == list(range(1, 4 + EVENTS))
            assert await texts(store, name) == [str(seq) for seq in range(4, 4 + EVENTS)]
            assert await store.task(name) == fold(events)


async def test_a_server_that_is_away_is_named_and_found_again(server: Server) -> None:
    url = server.url.replace("postgres@", "postgres:s3cret@")
    async with PostgresStore(url, clock=SystemClock(), wait_s=0.3) as store:
        await submit(store, "task_away")
        server.stop()

        with pytest.raises(StoreUnavailableError) as read:
            await store.task("task_away")
        with pytest.raises(StoreUnavailableError) as write:
            await enroll(store)
        with pytest.raises(StoreUnavailableError) as opening:
            async with PostgresStore(url, clock=SystemClock(), wait_s=0.3):
                pass
        for caught in (read, write, opening):
            assert "127.0.0.1" in str(caught.value)
            assert "s3cret" not in str(caught.value)

        server.start()
        assert (await store.task("task_away")).task_id == "task_away"
        await enroll(store)


async def test_a_hint_that_broke_off_comes_again_and_is_said_once(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hermes.store")
    async with (
        PostgresStore(server.url, clock=SystemClock()) as one,
        PostgresStore(server.url, clock=SystemClock()) as two,
    ):
        await enroll(one)
        await one.work_hint(0.5)
        await to_thread.run_sync(server.stop)
        with anyio.fail_after(10):
            while "hears no more" not in caplog.text:
                await one.work_hint(0.05)
        await anyio.sleep(1.5)  # so that it has tried again in vain, and said nothing more
        await to_thread.run_sync(server.start)
        with anyio.fail_after(10):
            while "again" not in caplog.text:
                await one.work_hint(0.05)
            assert await one.claim(WORKER, task_id="task_hint") == []
            await submit(two, "task_hint")
            await one.work_hint(60)
    assert caplog.text.count("hears no more") == 1
