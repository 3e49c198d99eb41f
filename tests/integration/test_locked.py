"""Several processes write to one SQLite file all the time, and nobody hears of a lock."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest

from hermes.core.clock import SystemClock
from hermes.core.events import ProgressReported, TaskStarted
from hermes.core.task import fold
from hermes.store import SQLiteStore, Store
from tests.integration.steady_writer import PER_SECOND
from tests.journal import WORKER, enroll, progress, record, submit

ROOT = Path(__file__).parents[2]
WORKERS = ("first", "second", "third")
SHARED = "shared"
LONGEST_WAIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    done: int
    longest_s: float
    errors: list[str]


def begin(database: Path, role: str, seconds: float, name: str) -> subprocess.Popen[str]:
    words = [str(database), role, str(seconds), name, SHARED]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.integration.steady_writer", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def report_of(process: subprocess.Popen[str], seconds: float) -> Report:
    out, err = process.communicate(timeout=seconds + 60)
    assert process.returncode == 0, err
    return Report(**json.loads(out))


async def prepare(store: Store) -> None:
    """A task at work for each worker, and one for all of them."""
    await enroll(store)
    for task_id in (*WORKERS, SHARED):
        await submit(store, task_id)
        (lease,) = await store.claim(WORKER, task_id=task_id)
        await store.append(lease, [record(task_id, 3, TaskStarted(worker=WORKER))])
        await store.append(lease, [progress(task_id, 4, "begun")])


async def written(store: Store, task_id: str) -> Counter[str]:
    """Each text that was appended, with how often; the stream is whole and its fold as stored."""
    records = await store.events(task_id)
    assert [item.seq for item in records] == list(range(1, len(records) + 1))
    folded = fold(records)
    assert folded is not None
    assert folded.status == (await store.task(task_id)).status
    events = [item.event for item in records[4:]]
    return Counter(event.text for event in events if isinstance(event, ProgressReported))


@pytest.mark.parametrize("seconds", [10.0, pytest.param(60.0, marks=pytest.mark.soak)])
async def test_writers_never_hear_of_a_lock_and_lose_no_update(
    tmp_path: Path, seconds: float
) -> None:
    database = tmp_path / "hermes.db"
    async with SQLiteStore(database, clock=SystemClock()) as store:
        await prepare(store)
    writers = [begin(database, "worker", seconds, name) for name in WORKERS]
    api = begin(database, "api", seconds, "submitted")
    reader = begin(database, "reader", seconds, "reader")

    reports = {
        name: report_of(process, seconds)
        for name, process in zip((*WORKERS, "api", "reader"), (*writers, api, reader), strict=True)
    }

    for name, report in reports.items():
        assert report.errors == [], name
        assert report.longest_s < LONGEST_WAIT_S, name
        assert report.done > seconds * PER_SECOND / 5, f"{name} was starved"
    async with SQLiteStore(database, clock=SystemClock()) as store:
        expected = {name: {f"{name}/{n}" for n in range(reports[name].done)} for name in WORKERS}
        for name in WORKERS:
            assert await written(store, name) == Counter(expected[name])
        assert await written(store, SHARED) == Counter(chain(*expected.values()))
        for number in range(reports["api"].done):
            assert (await store.task(f"submitted_{number}")).status.seq == 2
    for name, report in reports.items():
        sys.stdout.write(f"{name}: {report.done} times, at most {report.longest_s:.3f} s\n")
