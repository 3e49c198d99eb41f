"""Whatever is killed, frozen or restarted: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.chaos.harness import Chaos, Plan, running_world
from tests.chaos.history import counts, violations
from tests.postgres import Server, private_server

SEEDS = [1, pytest.param(2, marks=pytest.mark.soak), pytest.param(3, marks=pytest.mark.soak)]


async def survive(plan: Plan) -> None:
    with running_world(plan.folder, plan.seed) as port:
        chaos = Chaos(plan, port)
        history = await chaos.run()
    tally, seen = chaos.tally, counts(history)
    sys.stdout.write(
        f"seed {plan.seed}, {tally.seconds:.0f} s: {tally.blows}, {tally.fenced} fenced writes, "
        f"{tally.declared_dead} workers declared dead, {tally.gave_up} gave up at their start\n"
        f"{seen}\n{tally.decisions}\n"
    )
    found = violations(history)
    assert not found, "\n".join(found)
    assert seen.tasks == plan.parents * (1 + history.children)
    assert tally.blows["kill"] and tally.blows["freeze"]
    assert seen.interrupted > 10, "too little was broken off to tell"


@pytest.mark.parametrize("seed", SEEDS)
async def test_chaos_on_sqlite_breaks_no_promise(tmp_path: Path, seed: int) -> None:
    database = f"sqlite:///{tmp_path / 'hermes.db'}"
    await survive(Plan(database=database, folder=tmp_path, seed=seed))


@pytest.mark.parametrize("seed", SEEDS)
async def test_chaos_on_a_postgresql_that_restarts_breaks_no_promise(
    tmp_path: Path, seed: int
) -> None:
    with private_server() as server:
        plan = Plan(
            database=server.url,
            folder=tmp_path,
            seed=seed,
            restart=lambda is_rough: restart(server, is_rough=is_rough),
        )
        await survive(plan)


def restart(server: Server, *, is_rough: bool) -> None:
    """End all sessions, in good order or as a crash does, and begin again."""
    server.stop(signal.SIGQUIT if is_rough else signal.SIGINT)
    server.start()
