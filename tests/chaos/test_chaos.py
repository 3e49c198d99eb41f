"""Whatever is killed, frozen or restarted: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.harness import Chaos, Plan, running_world
from tests.chaos.history import counts, violations
from tests.postgres import Server, private_server

SEEDS = [1, 2, 3]
SEEDS_WITH_RESTARTS = [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 3))]


async def survive(plan: Plan, tell: Callable[[str], None]) -> None:
    with running_world(plan.folder, plan.seed) as port:
        chaos = Chaos(plan, port)
        history = await chaos.run()
    tally, seen = chaos.tally, counts(history)
    found = violations(history)
    blows = tally.blows
    tell(
        f"chaos {plan.database.partition(':')[0]} seed {plan.seed}: {seen.tasks} tasks, "
        f"{blows['kill']} kills, {blows['kill alone']} kills of a process alone, "
        f"{blows['freeze']} stops, {blows['restart']} restarts of the database, "
        f"{tally.fenced} fenced writes, {seen.interrupted} taken over, {seen.in_doubt} in doubt, "
        f"{seen.deeds} calls, {len(found)} broken promises ({tally.seconds:.0f} s)"
    )
    assert not found, "\n".join(found)
    assert seen.tasks == plan.parents * (1 + history.children)
    assert tally.blows["kill"] and tally.blows["freeze"]
    assert seen.interrupted > 10, "too little was broken off to tell"


@pytest.mark.parametrize("seed", SEEDS)
async def test_chaos_on_sqlite_breaks_no_promise(
    tmp_path: Path, seed: int, tell: Callable[[str], None]
) -> None:
    database = f"sqlite:///{tmp_path / 'hermes.db'}"
    await survive(Plan(database=database, folder=tmp_path, seed=seed), tell)


@pytest.mark.parametrize("seed", SEEDS_WITH_RESTARTS)
async def test_chaos_on_a_postgresql_that_restarts_breaks_no_promise(
    tmp_path: Path, seed: int, tell: Callable[[str], None]
) -> None:
    with private_server() as server:
        plan = Plan(
            database=server.url,
            folder=tmp_path,
            seed=seed,
            restart=lambda is_rough: restart(server, is_rough=is_rough),
        )
        await survive(plan, tell)


def restart(server: Server, *, is_rough: bool) -> None:
    """End all sessions, in good order or as a crash does, and begin again."""
    server.stop(signal.SIGQUIT if is_rough else signal.SIGINT)
    server.start()
