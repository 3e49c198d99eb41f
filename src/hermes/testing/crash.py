"""Crash a run at every point, start again, and judge from the outside what came of it.

A process is really killed (SIGKILL). That shows safety against a dying process, not against a
machine that loses its power.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeVar

import anyio

from hermes.app import Hermes
from hermes.config import Settings
from hermes.core.clock import SystemClock
from hermes.errors import StoreUnavailableError
from hermes.store import Store, Worker, open_store
from hermes.tools import builtin_tools

from .faults import Blow, Point, Striker, at_each_point
from .outside import Outside, Seen
from .process import End, Fork, fork
from .scenario import Place, Scenario, live
from .snapshot import Snapshot
from .verdict import History, broken_promises

R = TypeVar("R")

LIFE_TIMEOUT_S = 30.0
MAX_LIVES = 12

_IN_A_TRANSACTION = frozenset({"store.commit.before"})
"""A process that stands still here holds the database's locks: nobody could take over."""

_SUCCESSOR = "worker_successor"


class Ground(Protocol):
    """Gives each run a database and a folder of its own."""

    def fresh(self) -> Place:
        """An empty place."""
        ...

    def clear(self, place: Place) -> None:
        """The run is over and judged."""
        ...


class SQLiteGround:
    """A folder a run, with a SQLite file in it.

    Args:
        folder: Where the runs' folders are made.
        seed: Files that each run starts with.
    """

    def __init__(self, folder: Path, *, seed: Path | None = None) -> None:
        self._folder, self._seed, self._count = folder, seed, 0

    def fresh(self) -> Place:
        """An empty place."""
        self._count += 1
        home = self._folder / f"run{self._count}"
        home.mkdir(parents=True)
        work = home / "work"
        if self._seed is None:
            work.mkdir()
        else:
            shutil.copytree(self._seed, work, symlinks=True)
        return Place(database=f"sqlite:///{home / 'hermes.db'}", folder=work)

    def clear(self, place: Place) -> None:
        """Remove the folder."""
        shutil.rmtree(place.folder.parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one run.

    Attributes:
        points: Where it was struck, in order; empty for a run without a crash.
        broken: The promises that were broken, a line each.
        lives: How each of its processes ended.
    """

    points: Sequence[Point]
    history: History
    broken: Sequence[str]
    lives: Sequence[End]

    @property
    def was_struck(self) -> bool:
        """Whether every point was reached."""
        return sum(end in ("killed", "stopped") for end in self.lives) == len(self.points)

    @property
    def status(self) -> str:
        """How the last process said that it ended."""
        ends = [seen.name for seen in self.history.seen if seen.kind == "end"]
        return ends[-1] if ends else "never ended"

    def __str__(self) -> str:
        return " then ".join(map(str, self.points)) or "no crash"


class CrashTest:
    """Runs a scenario again and again, broken off at another point each time.

    Args:
        scenario: What is done.
        ground: Where.
        settings: Of the application in each process.
        mutation: Called in each child before it works: for proving that a fault is found.
        timeout_s: Longest life of a process.
    """

    def __init__(
        self,
        scenario: Scenario,
        ground: Ground,
        *,
        settings: Settings,
        mutation: Callable[[], None] | None = None,
        timeout_s: float = LIFE_TIMEOUT_S,
    ) -> None:
        self.scenario = scenario
        self._ground, self._settings = ground, settings
        self._mutation, self._timeout_s = mutation, timeout_s
        self._clean: History | None = None

    def clean(self) -> Outcome:
        """Run without a crash; what comes out is what every other run has to come to."""
        self._load()
        outcome = self._run([], "kill")
        self._clean = outcome.history
        return outcome

    def _load(self) -> None:
        """Make once what every life needs; each inherits it by its fork."""
        import_module("hermes.tools.plugins.host")  # as an application does at its first run
        builtin_tools(self._settings.tool_groups, options=self._settings.builtin)

    @property
    def points(self) -> list[Point]:
        """Every point that the run without a crash came to, in order."""
        if self._clean is None:
            self.clean()
        assert self._clean is not None
        return points_of(self._clean, life=0)

    def crash(self, *points: Point) -> Outcome:
        """Kill the first process at the first point, the second at the second, and so on."""
        _ = self.points
        return self._run(points, "kill")

    def freeze(self, point: Point) -> Outcome:
        """Stop a process at a point, let another take its work over, and let it go on.

        Whatever it then writes must be refused. The work is finished by further processes.
        """
        _ = self.points
        return self._run([point], "stop")

    def freezing_points(self) -> list[Point]:
        """The points at which a process may stand still without holding the database."""
        return [point for point in self.points if point.name not in _IN_A_TRANSACTION]

    def pairs(self, count: int, *, seed: int) -> Iterator[Outcome]:
        """Crash at a random point, and again at a random point of the recovery.

        Args:
            count: How many pairs.
            seed: Of the choice.
        """
        chance = random.Random(seed)
        for _ in range(count):
            first = chance.choice(self.points)
            recovery = points_of(self.crash(first).history, life=1)
            if recovery:
                yield self.crash(first, chance.choice(recovery))

    def _run(self, points: Sequence[Point], blow: Blow) -> Outcome:
        place = self._ground.fresh()
        run = _Run(self, place, blow)
        history = run.to_the_end(points)
        broken = [*run.faults, *broken_promises(history, self._clean)]
        self._ground.clear(place)
        return Outcome(points=tuple(points), history=history, broken=broken, lives=run.ends)

    def work(self, place: Place, outside: Outside, point: Point | None, blow: Blow) -> None:
        """One life, in a child process."""
        if self._mutation is not None:
            self._mutation()

        striker = Striker(point, blow, is_quiet=outside.is_quiet)

        def act(reached: Point) -> None:
            outside.add(Seen(life=0, kind="point", name=reached.name, place=reached.nth))
            striker.reach(reached)

        app = Hermes(place.database, settings=self._settings)
        with at_each_point(act):
            anyio.run(live, self.scenario, place, outside, app)

    def start(self, place: Place, outside: Outside, point: Point | None, blow: Blow) -> Fork:
        """Begin a life."""
        return fork(
            partial(self.work, place, outside, point, blow),
            complaints=outside.path.with_suffix(".txt"),
        )

    @property
    def timeout_s(self) -> float:
        """Longest life of a process."""
        return self._timeout_s


class _Run:
    """One run of a crash test: life after life until it is over."""

    def __init__(self, test: CrashTest, place: Place, blow: Blow) -> None:
        self._test, self._place = test, place
        self._blow: Blow = blow
        self._log = place.folder.parent / f"{place.folder.name}.outside.jsonl"
        self.ends: list[End] = []
        self.faults: list[str] = []

    def to_the_end(self, points: Sequence[Point]) -> History:
        left = list(points)
        snapshots = [Snapshot()]
        while True:
            end = self._live(left.pop(0) if left else None, snapshots)
            snapshots.append(self._look())
            if end != "killed" and end != "stopped":
                break
            if len(self.ends) >= MAX_LIVES:
                self.faults.append(f"not over after {MAX_LIVES} processes")
                break
        return History(
            seen=Outside(self._log).read(),
            snapshots=snapshots,
            measured=self._test.scenario.measure(self._place.folder),
        )

    def _live(self, point: Point | None, snapshots: Sequence[Snapshot]) -> End:
        outside = Outside(self._log, life=len(self.ends))
        child = self._test.start(self._place, outside, point, self._blow)
        end = child.wait(timeout_s=self._test.timeout_s)
        self.ends.append(end)
        if end == "stopped":
            self._overtake(child)
        elif end in ("failed", "hung"):
            self.faults.append(f"a process {end}: {_last_line(child.complaints)}")
        return end

    def _overtake(self, child: Fork) -> None:
        """Take the stopped child's work away, and see that it writes no more."""
        try:
            before = self._asked(_take_over)
        except StoreUnavailableError:  # it stands still within a transaction after all
            self.ends[-1] = "hung"
            before = None
        child.go_on()
        end = child.wait(timeout_s=self._test.timeout_s)
        if end == "hung":
            self.faults.append("a process whose work was taken over went on")
        after = self._asked(_give_back)
        if before is not None and after != before:
            self.faults.append(
                f"a process whose lease had ended wrote to the journal: {after}, was {before}"
            )

    def _look(self) -> Snapshot:
        return self._asked(Snapshot.of)

    def _asked(self, question: Callable[[Store], Awaitable[R]]) -> R:
        async def ask() -> R:
            async with open_store(self._place.database, clock=SystemClock()) as store:
                return await question(store)

        return anyio.run(ask)


def points_of(history: History, *, life: int) -> list[Point]:
    """The points that one life of a run came to, in order."""
    return [
        Point(name=seen.name, nth=seen.place)
        for seen in history.seen
        if seen.kind == "point" and seen.life == life
    ]


async def _take_over(store: Store) -> dict[str, int]:
    """Claim all that a live process holds, as if its lease had ended; write nothing.

    Returns:
        How many events each claimed task has.
    """
    for worker in await store.workers():
        await store.retire(worker.worker_id, crashed=True)
    now = SystemClock().now()
    await store.register(
        Worker(worker_id=_SUCCESSOR, host="elsewhere", pid=0, lock_path="", renewed_at=now)
    )
    await store.claim(_SUCCESSOR, limit=1000)
    return await _lengths(store)


async def _give_back(store: Store) -> dict[str, int]:
    lengths = await _lengths(store)
    await store.retire(_SUCCESSOR, crashed=False)
    return lengths


async def _lengths(store: Store) -> dict[str, int]:
    rows = await store.messages()
    claimed = {row.message.task_id for row in rows if row.worker_id == _SUCCESSOR}
    return {task_id: len(await store.events(task_id)) for task_id in sorted(claimed)}


def _last_line(complaints: Path) -> str:
    lines = (
        complaints.read_text(errors="replace").strip().splitlines() if complaints.exists() else []
    )
    return lines[-1] if lines else "it said nothing"
