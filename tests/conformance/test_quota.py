"""The rate of a key is kept by whoever counts it: a process, or any store for all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import anyio.abc
import pytest

from hermes.core.quota import LocalQuota, Quota, Rate
from hermes.store import Store, StoreQuota, open_store
from hermes.testing import FakeClock

from .conftest import MAKERS

TEN_A_SECOND = Rate(requests=600)


@pytest.fixture(params=["local", *MAKERS])
def kind(request: pytest.FixtureRequest) -> str:
    """Who counts."""
    return str(request.param)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest) -> str:
    """Where an empty database is."""
    return MAKERS.get(kind, MAKERS["memory"])(request)


@pytest.fixture
def quota(kind: str, store: Store, clock: FakeClock) -> Quota:
    return LocalQuota(clock=clock) if kind == "local" else StoreQuota(store)


async def waits(
    quota: Quota, times: int, rate: Rate = TEN_A_SECOND, tokens: int = 0
) -> list[float]:
    return [(await quota.reserve("k", rate, tokens=tokens)).wait_s for _ in range(times)]


async def test_requests_get_even_places(quota: Quota) -> None:
    assert await waits(quota, 5) == [0.0, 0.1, 0.2, 0.3, 0.4]


async def test_time_that_goes_by_frees_places_but_saves_none_up(
    quota: Quota, clock: FakeClock
) -> None:
    await waits(quota, 3)
    clock.advance(0.15)
    assert await waits(quota, 1) == [pytest.approx(0.15)]
    clock.advance(60)
    assert await waits(quota, 3) == [0.0, 0.1, 0.2]


async def test_keys_do_not_know_of_each_other(quota: Quota) -> None:
    await waits(quota, 3)
    assert (await quota.reserve("another", TEN_A_SECOND, tokens=0)).wait_s == 0


async def test_however_many_come_at_once_no_place_is_given_twice(quota: Quota) -> None:
    found: list[int] = []

    async def take() -> None:
        found.append((await quota.reserve("k", TEN_A_SECOND, tokens=0)).at)

    async with anyio.create_task_group() as group:
        for _ in range(40):
            group.start_soon(take)
    found.sort()
    assert [at - found[0] for at in found] == [100_000 * place for place in range(40)]


async def test_a_pause_holds_those_who_wait_and_those_who_come(
    quota: Quota, clock: FakeClock
) -> None:
    first, second = [await quota.reserve("k", TEN_A_SECOND, tokens=0) for _ in range(2)]
    await quota.pause("k", 7.0)
    await quota.pause("k", 7.0)
    assert await quota.wait_s("k", first) == 7.0
    assert await quota.wait_s("k", second) == pytest.approx(7.1)
    assert await waits(quota, 1) == [pytest.approx(7.2)]
    clock.advance(7.1)
    assert await quota.wait_s("k", second) == 0


async def test_tokens_are_reserved_and_settled(quota: Quota) -> None:
    rate = Rate(tokens=60)
    assert await waits(quota, 2, rate, tokens=20) == [0.0, 14.0]
    await quota.settle("k", rate, reserved=20, used=5)
    assert await waits(quota, 1, rate) == [19.0]
    await quota.settle("k", rate, reserved=20, used=50)
    assert await waits(quota, 1, rate) == [49.0]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
async def test_a_new_connection_finds_what_was_counted(
    store: Store, url: str, clock: FakeClock
) -> None:
    await waits(StoreQuota(store), 3)
    async with open_store(url, clock=clock) as another:
        assert await waits(StoreQuota(another), 1) == [pytest.approx(0.3)]


_PROCESS = """
import sys, anyio
from hermes.core.clock import SystemClock
from hermes.core.quota import Rate
from hermes.store import StoreQuota, open_store

async def main():
    async with open_store(sys.argv[1], clock=SystemClock()) as store:
        quota = StoreQuota(store)
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(20):
            slot = await quota.reserve("k", Rate(requests=600), tokens=0)
            print(slot.at, flush=True)

anyio.run(main)
"""


async def test_processes_share_one_limit(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    found: list[int] = []

    async def read(process: anyio.abc.Process) -> None:
        assert process.stdout is not None
        text = b"".join([chunk async for chunk in process.stdout])
        found.extend(map(int, text.split()))

    words = [sys.executable, "-c", _PROCESS, url]
    with anyio.fail_after(60):
        async with await anyio.open_process(words) as one, await anyio.open_process(words) as two:
            for process in (one, two):
                assert process.stdout is not None
                said = b""
                while said != b"ready\n":
                    said += await process.stdout.receive()
            async with anyio.create_task_group() as group:
                for process in (one, two):
                    assert process.stdin is not None
                    await process.stdin.send(b"go\n")
                    group.start_soon(read, process)
            assert (await one.wait(), await two.wait()) == (0, 0)
    found.sort()
    assert len(found) == 40
    steps = [later - earlier for earlier, later in zip(found, found[1:], strict=False)]
    assert min(steps) >= 100_000
