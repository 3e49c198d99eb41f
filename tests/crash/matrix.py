"""Crash one scenario at its points and print what came of it, as one JSON object.

Usage: python -m tests.crash.matrix DATABASE SCENARIO MODE [--count N] [--seed N]
           [--mutation NAME] [--until-red] [--from-end]

DATABASE is `sqlite` or `postgres`. MODE: `crash` at every point; `freeze` there and be overtaken;
`pairs`, a second crash during the recovery; `list`, only count the points. It forks, so it is a
process of its own.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from hermes.config import load_settings
from hermes.core import json
from hermes.testing.crash import CrashTest, Ground, Outcome, SQLiteGround
from hermes.testing.faults import Point
from tests.crash.mutations import MUTATIONS
from tests.crash.postgres import PostgresGround
from tests.crash.scenarios import ALL


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("database", choices=["sqlite", "postgres"])
    parser.add_argument("scenario", choices=list(ALL))
    parser.add_argument("mode", choices=["crash", "freeze", "pairs", "list"])
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutation", choices=list(MUTATIONS))
    parser.add_argument("--until-red", action="store_true", help="stop at a broken promise")
    parser.add_argument("--from-end", action="store_true", help="the last points first")
    given = parser.parse_args()
    os.environ.pop("HERMES_TEST_POSTGRES", None)  # of the tests; no setting of Hermes
    # Commits are not synced: a killed process loses nothing by it.
    settings = load_settings(Path(), flags={"sqlite_synchronous": "NORMAL"}).settings
    with ground(given.database) as place:
        test = CrashTest(
            ALL[given.scenario],
            place,
            settings=settings,
            mutation=MUTATIONS[given.mutation] if given.mutation else None,
        )
        report(test, given)


@contextmanager
def ground(database: str) -> Generator[Ground]:
    with tempfile.TemporaryDirectory(prefix="hermes-crash-") as folder:
        if database == "sqlite":
            yield SQLiteGround(Path(folder))
            return
        with PostgresGround(Path(folder)) as place:
            yield place


def report(test: CrashTest, given: argparse.Namespace) -> None:
    began = time.monotonic()
    clean = test.clean()
    broken: dict[str, list[str]] = {"no crash": list(clean.broken)} if clean.broken else {}
    missed: list[str] = []
    runs = 0
    for outcome in outcomes(test, given) if not broken else ():
        if broken and given.until_red:
            break
        runs += 1
        if outcome.broken:
            broken[str(outcome)] = list(outcome.broken)
        elif not outcome.was_struck:
            missed.append(str(outcome))
    result = {
        "points": len(test.points),
        "runs": runs,
        "broken": broken,
        "missed": missed,
        "seconds": round(time.monotonic() - began, 1),
    }
    sys.stdout.write(json.dumps(result) + "\n")


def outcomes(test: CrashTest, given: argparse.Namespace) -> Iterator[Outcome]:
    match given.mode:
        case "crash":
            yield from map(test.crash, in_order(test.points, given))
        case "freeze":
            yield from map(test.freeze, in_order(test.freezing_points(), given))
        case "pairs":
            yield from test.pairs(given.count or 20, seed=given.seed)
        case _:
            return


def in_order(points: list[Point], given: argparse.Namespace) -> list[Point]:
    """Those to go through: all, or so many at random."""
    some = points if given.count is None else chosen(points, given.count, seed=given.seed)
    return some[::-1] if given.from_end else some


def chosen(points: list[Point], count: int, *, seed: int) -> list[Point]:
    """So many at random, in their order; one of each kind among them, if there are that many."""
    places = list(range(len(points)))
    random.Random(seed).shuffle(places)
    of_each_kind = set({points[place].name: place for place in places}.values())
    places.sort(key=lambda place: place not in of_each_kind)
    return [points[place] for place in sorted(places[:count])]


if __name__ == "__main__":
    main()
