"""Durable steps a second, beside the raw limit of the same database in the same run.

A step is what a tool call costs: its intent is committed, then its outcome. The contenders take
turns, and the best of some repeats counts:

- `hermes`: steps of 1, 8, 64 and 256 runs side by side, each with its own task and lease;
- `raw`: the same bytes in one table with as many commits. On SQLite that is a loop whose callers
  hand their rows to one thread, which commits what waits together; on PostgreSQL as many
  connections as the store has, each row a commit of its own;
- `journal`: on SQLite, the same loop with the statements that a journal cannot do without: fence,
  event with its indexes, status of the task, each write in a savepoint; no event is made, encoded
  or folded;
- `one raw commit`: one row, one commit, no loop and no thread beside it.

The disk is measured as it is, and with 1 ms added to every sync (through a VFS of SQLite), as on
the disk of a cloud machine.

Usage: python bench/store.py [--repeats 5] [--steps 2000] [--postgres URL]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from limits.sqlite import raw_commits, raw_group_rate, raw_table, slow_disk, write_event
from limits.steps import hermes_rate

from hermes.errors import HermesError
from hermes.store import connection

RUNS: tuple[int, ...] = (1, 8, 64, 256)
POSTGRES = "postgresql://postgres@127.0.0.1:5432/postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """One database and its contenders, each a measurement that gives a rate a second."""

    title: str
    commits: Callable[[], Awaitable[float]]
    hermes: Callable[[int], Awaitable[float]]
    raw: Callable[[int], Awaitable[float]]
    journal: Callable[[int], Awaitable[float]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The best of the repeats: single commits, and steps by the number of runs."""

    commits: float
    hermes: dict[int, float]
    raw: dict[int, float]
    journal: dict[int, float]

    @property
    def step(self) -> float:
        """How many raw commits long one step of a single run is."""
        return self.commits / self.hermes[1]

    def share(self, runs: int) -> float:
        """Of the raw rate at so many runs."""
        return self.hermes[runs] / self.raw[runs]

    def share_of_journal(self, runs: int) -> float:
        """Of the rate of a journal that only executes its statements."""
        return self.hermes[runs] / self.journal[runs]


async def measure(contest: Contest, repeats: int) -> Rates:
    """Let the contenders take turns, so that noise hits all alike."""
    commits = 0.0
    hermes, raw, journal = (dict.fromkeys(RUNS, 0.0) for _ in range(3))
    for _ in range(repeats):
        for runs in RUNS:
            commits = max(commits, await contest.commits())
            raw[runs] = max(raw[runs], await contest.raw(runs))
            hermes[runs] = max(hermes[runs], await contest.hermes(runs))
            if contest.journal is not None:
                journal[runs] = max(journal[runs], await contest.journal(runs))
    return Rates(commits=commits, hermes=hermes, raw=raw, journal=journal)


def sqlite_contest(
    title: str, synchronous: connection.Synchronous, folder: Path, steps: int, vfs: str | None
) -> Contest:
    """Each measurement in a file of its own."""

    def fresh() -> Path:
        return folder / f"{uuid4().hex}.db"

    async def commits() -> float:
        return raw_commits(fresh(), synchronous, vfs, steps)

    async def hermes(runs: int) -> float:
        return await hermes_rate(f"sqlite:///{fresh()}", synchronous, runs, _scaled(steps, runs))

    async def raw(runs: int) -> float:
        table = raw_table(fresh(), synchronous, vfs)
        return await raw_group_rate(table, runs, _scaled(steps, runs))

    async def journal(runs: int) -> float:
        table = raw_table(fresh(), synchronous, vfs)
        return await raw_group_rate(table, runs, _scaled(steps, runs), write_event)

    return Contest(title=title, commits=commits, hermes=hermes, raw=raw, journal=journal)


def postgres_contest(url: str, steps: int) -> Contest:
    """All measurements in one database: each has its own tasks, or its own table."""
    from limits.postgres import raw_postgres_commits, raw_postgres_rate

    from hermes.store.postgres import POOL_SIZE

    async def commits() -> float:
        return raw_postgres_commits(url, steps)

    async def hermes(runs: int) -> float:
        return await hermes_rate(url, "FULL", runs, _scaled(steps, runs))

    async def raw(runs: int) -> float:
        return await raw_postgres_rate(url, runs, _scaled(steps, runs), connections=POOL_SIZE)

    return Contest(title="PostgreSQL", commits=commits, hermes=hermes, raw=raw)


def _scaled(steps: int, runs: int) -> int:
    """More steps where they go faster, so that every measurement takes about as long."""
    return steps if runs == 1 else max(steps, runs * 8) * (2 if runs < 64 else 3)


# --- the report ---


def show(title: str, rates: Rates) -> None:
    """One line for each number of runs."""
    print(f"{title}: one raw commit takes {1e6 / rates.commits:.0f} µs")
    for runs in RUNS:
        line = f"  {runs:4} runs {rates.hermes[runs]:8.0f} steps/s"
        line += f"   raw {rates.raw[runs]:8.0f}, share {rates.share(runs):.2f}"
        if rates.journal[runs]:
            share = rates.share_of_journal(runs)
            line += f"   journal {rates.journal[runs]:8.0f}, share {share:.2f}"
        print(line)


def judge(title: str, rates: Rates) -> None:
    """The ratios on the bare disk that the project is held to."""
    print(f"  {title}: one step / one raw commit: {rates.step:.2f} (at most 6)")
    raw = "raw group commit loop" if rates.journal[64] else "the same rows, each committed alone"
    print(f"  {title}: 64 runs / {raw}: {rates.share(64):.2f} (at least 0.50)")
    if rates.journal[64]:
        share = rates.share_of_journal(64)
        print(f"  {title}: 64 runs / the same loop with a journal's statements: {share:.2f}")


def judge_slow(rates: Rates) -> None:
    """The ratios on a slow disk."""
    growth = rates.hermes[64] / rates.hermes[1]
    print(f"  1 ms a sync: one step / one raw commit: {rates.step:.2f} (at most 3)")
    print(f"  1 ms a sync: 64 runs / one run: {growth:.1f} (at least 10)")


async def on_sqlite(repeats: int, steps: int) -> None:
    """FULL and NORMAL on the disk as it is, and FULL with slow syncs."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("HERMES_BENCH_DIR")) as name:
        folder = Path(name)
        full = await measure(sqlite_contest("FULL", "FULL", folder, steps, None), repeats)
        show("SQLite FULL", full)
        judge("SQLite FULL", full)
        normal = await measure(sqlite_contest("NORMAL", "NORMAL", folder, steps, None), repeats)
        show("SQLite NORMAL", normal)
        print(f"  SQLite NORMAL: one step / one raw commit: {normal.step:.2f} (no sync: no bound)")
        with slow_disk() as vfs:
            few = max(50, steps // 10)
            slow = await measure(sqlite_contest("slow", "FULL", folder, few, vfs), repeats)
        show("SQLite FULL, 1 ms added to every sync", slow)
        judge_slow(slow)


async def on_postgres(server: str, repeats: int, steps: int) -> None:
    """PostgreSQL, if there is a server and the driver."""
    try:
        from limits.postgres import own_database

        async with own_database(server) as url:
            rates = await measure(postgres_contest(url, steps), repeats)
    except (ImportError, OSError, HermesError) as exc:
        print(f"PostgreSQL: not measured at {server}: {type(exc).__name__}: {exc}")
        return
    show("PostgreSQL", rates)
    judge("PostgreSQL", rates)


async def report(repeats: int, steps: int, server: str) -> None:
    """Measure all of them and print."""
    await on_sqlite(repeats, steps)
    await on_postgres(server, repeats, steps)


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description="Durable steps a second beside the raw limit.")
    parser.add_argument("--repeats", type=int, default=5, help="the best of so many counts")
    parser.add_argument("--steps", type=int, default=2000, help="of one run; more where it is fast")
    parser.add_argument(
        "--postgres", default=POSTGRES, help="URL of a server with a right to create"
    )
    options = parser.parse_args()
    asyncio.run(report(options.repeats, options.steps, options.postgres))


if __name__ == "__main__":
    main()
