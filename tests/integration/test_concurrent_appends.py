"""Several processes append to one task at once: nothing is lost, doubled or out of order."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.core.clock import SystemClock
from hermes.core.task import fold
from hermes.store import open_store
from tests.integration import counter
from tests.journal import start
from tests.postgres import database

TIMES = 200


@pytest.fixture(params=[("sqlite", 2), ("postgres", 8)], ids=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A database, and how many processes write to it."""
    kind, processes = request.param
    if kind == "sqlite":
        yield f"sqlite:///{tmp_path / 'hermes.db'}", processes
    else:
        with database() as url:
            yield url, processes


async def test_a_counter_kept_by_several_processes_is_exact(place: tuple[str, int]) -> None:
    url, processes = place
    async with open_store(url, clock=SystemClock(), synchronous="NORMAL") as store:
        lease = await start(store)
        command = [sys.executable, counter.__file__, url, counter.dump(lease), str(TIMES)]
        started = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(processes)
        ]
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        told = [process.communicate(timeout=150) for process in started]
        assert [process.returncode for process in started] == [0] * processes, told

        events = await store.events("task_1")
        task = await store.task("task_1")

    assert [item.seq for item in events] == list(range(1, 4 + processes * TIMES))
    assert counter.counter(events) == list(range(1, 1 + processes * TIMES))
    assert task == fold(events)
    # They did get in each other's way, so it was for a reason.
    assert sum(int(out) for out, _ in told) > 0
