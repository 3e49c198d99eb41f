"""Chaos: workers that are killed and frozen, a client that insists, a person who answers."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from hermes import Agent, Hermes
from hermes.agents import Launch
from hermes.app import RunOptions
from hermes.config import Settings
from hermes.core.events import ReviewDecision
from hermes.errors import ConflictError, StoreError
from hermes.store import Review, TaskQuery
from hermes.store.values import MAX_TASKS
from tests.chaos.history import History, read_history
from tests.chaos.plant.tools import CHILDREN
from tests.chaos.world import read_log

ROOT = Path(__file__).parents[2]
AGENT = ROOT / "tests" / "chaos" / "plant" / "agent.toml"
LEASE_S = 2.0
FROZEN_S = (2.5, 4.0)
"""Past the lease, and within the time for which a call of a frozen process is waited for."""

Blow = Literal["kill", "freeze", "kill alone", "restart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One round of chaos.

    Attributes:
        database: URL of an empty database.
        folder: For logs.
        restart: Restarts the database server; its argument tells it how roughly.
        blows: How often something is struck.
    """

    database: str
    folder: Path
    seed: int
    parents: int = 30
    workers: int = 3
    blows: int = 18
    restart: Callable[[bool], None] | None = None
    longest_s: float = 150.0


@dataclass(slots=True, kw_only=True)
class Tally:
    """What the harness did."""

    blows: dict[Blow, int] = field(
        default_factory=lambda: {"kill": 0, "freeze": 0, "kill alone": 0, "restart": 0}
    )
    decisions: dict[str, int] = field(default_factory=dict[str, int])
    fenced: int = 0
    declared_dead: int = 0
    gave_up: int = 0
    seconds: float = 0.0


class Chaos:
    """One round, from the first submit to the last event."""

    def __init__(self, plan: Plan, port: int) -> None:
        self.plan, self.tally = plan, Tally()
        self.acknowledged: list[str] = []
        self._chance = random.Random(plan.seed)
        self._environment = _environment(plan, port)
        self._workers: list[subprocess.Popen[bytes]] = []
        self._frozen: set[int] = set()
        self._begun: list[int] = []

    async def run(self) -> History:
        """Let it all happen, wait until nothing moves, and read what is left."""
        began = anyio.current_time()
        settings = Settings.model_validate({"lease_s": LEASE_S, "heartbeat_s": LEASE_S / 5})
        async with Hermes(self.plan.database, settings=settings) as app:
            try:
                for _ in range(self.plan.workers):
                    self._start_worker()
                with anyio.move_on_after(self.plan.longest_s):
                    async with anyio.create_task_group() as group:
                        group.start_soon(self._answer, app)
                        group.start_soon(self._supervise)
                        async with anyio.create_task_group() as both:
                            both.start_soon(self._submit, app)
                            both.start_soon(self._strike)
                        await self._until_done(app)
                        group.cancel_scope.cancel()
                self._end_workers()
            finally:
                self._kill_all()
            history = await read_history(
                app.store,
                deeds=read_log(self.plan.folder / "world.jsonl"),
                acknowledged=self.acknowledged,
                children=CHILDREN,
            )
        self.tally.fenced = self._count_in_logs("is no longer ours")
        self.tally.declared_dead = self._count_in_logs("was declared dead")
        self.tally.seconds = anyio.current_time() - began
        return history

    # --- the client ---

    async def _submit(self, app: Hermes) -> None:
        """Submit every parent until it is acknowledged, as a client does that hears of a fault."""
        agent = Agent.from_file(AGENT)
        launch = Launch.of(agent=AGENT, tools=(), playbook=None, model=None, max_steps=None)
        options = RunOptions(launch=launch.as_record())
        for number in range(self.plan.parents):
            while True:
                try:
                    task_id = await app.submit(
                        agent,
                        f"parent {number}",
                        dedupe_key=f"parent {number}",
                        options=options,
                    )
                except StoreError:
                    await anyio.sleep(0.2)
                else:
                    break
            self.acknowledged.append(task_id)
            await anyio.sleep(self._chance.uniform(0.0, 0.8))

    # --- the person ---

    async def _answer(self, app: Hermes) -> None:
        while True:
            await anyio.sleep(0.3)
            try:
                for review in await app.store.reviews():
                    decision = self._decision(review)
                    await app.store.decide(review.review_id, decision, by="harness")
                    known = self.tally.decisions
                    known[f"{review.reason} {decision}"] = (
                        known.get(f"{review.reason} {decision}", 0) + 1
                    )
            except (StoreError, ConflictError):
                continue  # the server is being restarted, or the answer of a lost commit stands

    def _decision(self, review: Review) -> ReviewDecision:
        """What somebody says who looks at the world first."""
        match review.reason:
            case "in_doubt":
                key = review.task_id + review.path
                deeds = read_log(self.plan.folder / "world.jsonl")
                was_called = any(deed.op == "call" and deed.key == key for deed in deeds)
                return "done" if was_called else "retry"
            case "dead_letter":
                return "retry"
            case "partial":
                return "accept"
            case "approval":
                return "approve"
            case "question":
                return "answer"

    # --- the blows ---

    async def _strike(self) -> None:
        await anyio.sleep(1.5)  # until somebody is at work
        async with anyio.create_task_group() as group:
            for blow in self._blows():
                await anyio.sleep(self._chance.uniform(0.3, 1.3))
                await self._land(blow, group)

    def _blows(self) -> list[Blow]:
        blows: list[Blow] = self._chance.choices(
            ["kill", "freeze", "kill alone"], weights=[4, 4, 2], k=self.plan.blows
        )
        blows[:3] = ["kill", "freeze", "kill alone"]
        if self.plan.restart is not None:
            for place in (len(blows) // 3, 2 * len(blows) // 3):
                blows.insert(place, "restart")
        return blows

    async def _land(self, blow: Blow, freezing: TaskGroup) -> None:
        match blow:
            case "kill":
                victim = await self._victim()
                self._workers.remove(victim)
                victim.kill()
                victim.wait()
                self._start_worker()
            case "freeze":
                freezing.start_soon(self._freeze, (await self._victim()).pid)
            case "kill alone":
                children = [pid for worker in self._workers for pid in children_of(worker.pid)]
                if not children:
                    return
                _signal(self._chance.choice(children), signal.SIGKILL)
            case "restart":
                assert self.plan.restart is not None
                is_rough = self.tally.blows["restart"] % 2 == 0
                await anyio.to_thread.run_sync(self.plan.restart, is_rough)
        self.tally.blows[blow] += 1

    async def _victim(self) -> subprocess.Popen[bytes]:
        """A worker in the middle of a call; any that is not frozen where none is for seconds."""
        awake = self._workers
        for _ in range(30):
            awake = [worker for worker in self._workers if worker.pid not in self._frozen]
            calling = [worker for worker in awake if self._is_calling(worker)]
            if calling and len(awake) > 1:
                return self._chance.choice(calling)
            await anyio.sleep(0.1)
        return self._chance.choice(awake or self._workers)

    async def _freeze(self, pid: int) -> None:
        """Stop a worker, and the children that work for it, until others have its leases."""
        self._frozen.add(pid)
        family = [pid, *children_of(pid)]
        for each in family:
            _signal(each, signal.SIGSTOP)
        await anyio.sleep(self._chance.uniform(*FROZEN_S))
        for each in family:
            _signal(each, signal.SIGCONT)
        self._frozen.discard(pid)

    # --- processes ---

    def _start_worker(self) -> None:
        with self._log_of(len(self._begun)).open("wb") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "hermes", "worker", "--concurrency", "4"],
                cwd=self.plan.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._workers.append(worker)
        self._begun.append(worker.pid)

    async def _supervise(self) -> None:
        """Start a worker again that ended by itself, as one does that finds no database."""
        while True:
            await anyio.sleep(0.5)
            for worker in list(self._workers):
                if worker.poll() is not None:
                    self._workers.remove(worker)
                    self.tally.gave_up += 1
                    self._start_worker()

    def _log_of(self, number: int) -> Path:
        return self.plan.folder / f"worker{number}.log"

    def _is_calling(self, worker: subprocess.Popen[bytes]) -> bool:
        """Whether a call of the outside world is under way, by what the worker says."""
        log = self._log_of(self._begun.index(worker.pid)).read_text("utf-8", "replace")
        return log.count('"tool.start"') > log.count('"tool.end"')

    def _end_workers(self) -> None:
        """Ask all to end; each gives back what it has, and ends well."""
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            assert worker.wait(timeout=30) == 0

    def _kill_all(self) -> None:
        for worker in self._workers:
            if worker.poll() is None:
                _signal(worker.pid, signal.SIGCONT)
                worker.kill()
                worker.wait()

    async def _until_done(self, app: Hermes) -> None:
        """Wait until every task is settled and no message is left."""
        while True:
            await anyio.sleep(0.3)
            try:
                tasks = await app.store.tasks(TaskQuery(limit=MAX_TASKS))
                if all(task.state.is_terminal for task in tasks):
                    if not await app.store.messages():
                        return
            except StoreError:
                continue

    def _count_in_logs(self, text: str) -> int:
        logs = self.plan.folder.glob("worker*.log")
        return sum(log.read_text("utf-8", "replace").count(text) for log in logs)


@contextmanager
def running_world(folder: Path, seed: int) -> Generator[int]:
    """The outside world's process; yields its port."""
    world = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.world", str(folder / "world.jsonl"), str(seed)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert world.stdout is not None
    try:
        yield int(world.stdout.readline())
    finally:
        world.kill()
        world.communicate()


def children_of(pid: int) -> list[int]:
    """The processes that a process has started and that live."""
    try:
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return []


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it was quicker


def _environment(plan: Plan, port: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HERMES_")}
    return {
        **kept,
        "WORLD_PORT": str(port),
        "PYTHONPATH": str(ROOT / "src"),
        "HERMES_DATABASE_URL": plan.database,
        "HERMES_LEASE_S": str(LEASE_S),
        "HERMES_HEARTBEAT_S": str(LEASE_S / 5),
        "HERMES_DRAIN_S": "10",
    }
