"""A process that is killed at any point of the engine loses nothing and does nothing twice."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from hermes.testing.faults import Point
from tests.crash.matrix import chosen
from tests.crash.running import matrix
from tests.crash.scenarios import ALL

Tell = Callable[[str], None]

DATABASES = ("sqlite", "postgres")
SAMPLE = 40


def test_many_points_are_others_at_each_seed_and_one_of_each_kind_always() -> None:
    points = [Point(name=name, nth=nth) for name in ("commit", "tool") for nth in range(1, 50)]
    points.append(Point(name="stop", nth=1))
    several = [chosen(points, 10, seed=seed) for seed in range(20)]

    for some in several:
        assert {point.name for point in some} == {"commit", "tool", "stop"}
        assert len(some) == 10
        assert some == [point for point in points if point in some]
    assert len({tuple(some) for some in several}) == 20
    assert chosen(points, 10, seed=3) == several[3]
    assert chosen(points, 1000, seed=1) == points


@pytest.mark.parametrize("scenario", list(ALL))
@pytest.mark.parametrize("database", DATABASES)
def test_a_run_killed_at_any_of_many_points_comes_to_the_same_end(
    database: str, scenario: str, tell: Tell
) -> None:
    """At one point of each kind at least; `make soak` goes through all of them."""
    seed = random.randrange(10**6)  # others at each time
    _survives(tell, database, scenario, "crash", "--count", str(SAMPLE), "--seed", str(seed))


@pytest.mark.soak
@pytest.mark.parametrize("scenario", list(ALL))
@pytest.mark.parametrize("database", DATABASES)
def test_a_run_killed_at_any_point_comes_to_the_same_end(
    database: str, scenario: str, tell: Tell
) -> None:
    _survives(tell, database, scenario, "crash")


def _survives(tell: Tell, database: str, scenario: str, mode: str, *words: str) -> None:
    result = matrix(database, scenario, mode, *words)
    tell(result.line)

    assert not result.broken, result.line
    # Where a poll falls is not the same in each run, so a late point may have another number.
    assert len(result.missed) <= result.runs // 10


@pytest.mark.parametrize("database", DATABASES)
def test_there_are_over_a_hundred_points(database: str, tell: Tell) -> None:
    points = sum(matrix(database, scenario, "list").points for scenario in ALL)
    tell(f"crash points {database}: {points} in {len(ALL)} scenarios")

    assert points > 100


@pytest.mark.parametrize("database", DATABASES)
def test_a_run_killed_again_during_its_recovery_comes_to_the_same_end(
    database: str, tell: Tell
) -> None:
    seed = random.randrange(10**6)
    for scenario in ("effects", "children"):
        result = matrix(database, scenario, "pairs", "--count", "15", "--seed", str(seed))
        tell(result.line)

        assert not result.broken, f"seed {seed}"


@pytest.mark.parametrize("database", DATABASES)
def test_a_frozen_process_whose_work_was_taken_over_writes_nothing(
    database: str, tell: Tell
) -> None:
    _survives(tell, database, "effects", "freeze", "--count", "30")


@pytest.mark.soak
@pytest.mark.parametrize("scenario", list(ALL))
@pytest.mark.parametrize("database", DATABASES)
def test_many_second_crashes_come_to_the_same_end(database: str, scenario: str, tell: Tell) -> None:
    seed = random.randrange(10**6)
    result = matrix(database, scenario, "pairs", "--count", "300", "--seed", str(seed))
    tell(result.line)

    assert not result.broken, f"seed {seed}"


@pytest.mark.soak
@pytest.mark.parametrize("scenario", list(ALL))
@pytest.mark.parametrize("database", DATABASES)
def test_a_process_frozen_at_any_point_writes_nothing(
    database: str, scenario: str, tell: Tell
) -> None:
    result = matrix(database, scenario, "freeze")
    tell(result.line)

    assert not result.broken
