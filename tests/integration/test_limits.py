"""Many runs against a server that allows few requests: none fails, none is wasted, no burst."""

from __future__ import annotations

import anyio
import pytest

from hermes.app import Agent, Hermes
from hermes.config import Settings
from tests.providers.limited import LimitedServer

PER_S = 10.0


async def run_all(server: LimitedServer, runs: int, **settings: object) -> list[str]:
    """The outcomes of runs that are all begun at once."""
    outcomes: list[str] = []

    async def one(app: Hermes, number: int) -> None:
        response = await app.run(Agent(name="asker"), f"question {number}")
        outcomes.append(response.status)

    made = Settings.model_validate(
        {"model_name": "test-model", "api_base": server.url, "tool_groups": "core", **settings}
    )
    async with Hermes("memory://", settings=made) as app:
        async with anyio.create_task_group() as group:
            for number in range(runs):
                group.start_soon(one, app, number)
        return outcomes


def most_in_a_second(times: list[float]) -> int:
    return max(sum(begin <= at < begin + 1 for at in times) for begin in times)


@pytest.mark.parametrize("runs", [50, pytest.param(200, marks=pytest.mark.soak)])
async def test_a_known_rate_is_used_to_the_full_and_never_passed(runs: int) -> None:
    async with LimitedServer(per_s=PER_S) as server:
        outcomes = await run_all(server, runs, model_rpm=60 * PER_S)
    assert outcomes == ["succeeded"] * runs
    # A busy machine may hold the last one up, which weighs more where there are few.
    per_s = (runs - 1) / (server.taken[-1] - server.taken[0])
    assert per_s >= (9.5 if runs >= 200 else 8.5)
    assert server.refused == []
    assert most_in_a_second(server.taken) <= 1.4 * PER_S


async def test_after_a_refusal_all_wait_and_no_second_burst_follows() -> None:
    # Somebody else has just used the key up.
    async with LimitedServer(per_s=PER_S, level=0.0) as server:
        outcomes = await run_all(server, 30, model_rpm=60 * PER_S)
    assert outcomes == ["succeeded"] * 30
    assert 1 <= len(server.refused) <= PER_S
    first = min(server.refused)
    came = sorted(at - first for at in (*server.taken, *server.refused))
    assert [at for at in came if 0.4 < at < 0.9] == []  # `Retry-After: 1`
    assert most_in_a_second(server.taken) <= 1.4 * PER_S


@pytest.mark.parametrize("runs", [60])
async def test_a_rate_that_nobody_told_is_learnt(runs: int) -> None:
    async with LimitedServer(per_s=PER_S) as server:
        outcomes = await run_all(server, runs)
    assert outcomes == ["succeeded"] * runs
    assert len(server.refused) <= runs
