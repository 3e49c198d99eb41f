"""A process that dies takes nothing with it that was acknowledged.

SIGKILL shows safety against a dying process, not against a machine that loses its power.
"""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.core.events import ProgressReported
from hermes.core.task import fold
from hermes.store import SQLiteStore
from hermes.store.driver import connect
from hermes.testing.clock import FakeClock
from tests.journal import WORKER, progress, start, texts

ROOT = Path(__file__).parents[2]


def appender(path: Path, count: int, *task_ids: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.appender", str(path), str(count), *task_ids],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def prepare(path: Path, *task_ids: str) -> None:
    async with SQLiteStore(path, clock=FakeClock()) as store:
        for task_id in task_ids:
            assert (await start(store, task_id)).token == 1


def kill_after(process: subprocess.Popen[str], acknowledged: int) -> dict[str, int]:
    """Kill a process once it has acknowledged so much; returns the last `seq` of each task."""
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(acknowledged)]
    process.send_signal(signal.SIGKILL)
    rest, errors = process.communicate(timeout=10)
    assert process.returncode == -signal.SIGKILL, errors
    # The last line may be torn.
    lines += rest.splitlines(keepends=True)
    whole = [line.split() for line in lines if line.endswith("\n")]
    return {task_id: int(seq) for task_id, seq in whole}


async def check(path: Path, acknowledged: dict[str, int]) -> None:
    """Everything acknowledged is there, without gaps, and the database is sound."""
    async with SQLiteStore(path, clock=FakeClock()) as store:
        for task_id, last in acknowledged.items():
            events = await store.events(task_id)
            assert len(events) >= last
            assert [item.seq for item in events] == list(range(1, len(events) + 1))
            assert await store.task(task_id) == fold(events)
            for item in events[3:]:
                assert isinstance(item.event, ProgressReported)
                assert item.event.text.startswith(f"{task_id}/{item.seq} ")
    raw = connect(str(path))
    assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    raw.close()


async def test_what_was_acknowledged_survives_sigkill_at_random_moments(tmp_path: Path) -> None:
    path, task_ids = tmp_path / "hermes.db", ["task_1", "task_2", "task_3"]
    await prepare(path, *task_ids)
    acknowledged = dict.fromkeys(task_ids, 3)

    for _ in range(5):
        moment = random.randrange(1, 120)
        acknowledged |= kill_after(appender(path, 0, *task_ids), moment)
        await check(path, acknowledged)

    async with SQLiteStore(path, clock=FakeClock()) as store:
        (row,) = await store.messages(task_id="task_1")
        assert (row.state, row.worker_id) == ("leased", WORKER)


async def test_a_killed_process_does_not_lock_out_another(tmp_path: Path) -> None:
    path = tmp_path / "hermes.db"
    await prepare(path, "task_1", "task_2")
    async with SQLiteStore(path, clock=FakeClock()) as store:
        kill_after(appender(path, 0, "task_1"), 20)

        lease = await start(store, "task_3")
        await store.append(lease, [progress("task_3", 4, "still here")])

        assert await texts(store, "task_3") == ["still here"]


@pytest.mark.parametrize(
    "task_ids",
    [(("task_1", "task_2"), ("task_3", "task_4")), (("task_1",), ("task_1",))],
    ids=["tasks apart", "one task"],
)
async def test_two_processes_write_one_file_without_a_lock_error(
    tmp_path: Path, task_ids: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    path, each = tmp_path / "hermes.db", 150
    await prepare(path, *sorted({*task_ids[0], *task_ids[1]}))

    processes = [appender(path, each, *names) for names in task_ids]
    for process in processes:
        _, errors = process.communicate(timeout=10)
        assert (process.returncode, errors) == (0, "")

    names = [*task_ids[0], *task_ids[1]]
    await check(path, {name: 3 + each * names.count(name) for name in names})
