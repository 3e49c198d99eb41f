"""Starts the crash matrix in a process of its own, which may fork."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash import postgres

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a matrix came to.

    Attributes:
        points: How many the scenario has.
        runs: How many were broken off.
        broken: Point to the promises that were broken.
        missed: Points that a run did not come to.
    """

    points: int
    runs: int
    broken: dict[str, list[str]]
    missed: list[str]
    seconds: float


def matrix(database: str, *words: str) -> Result:
    """Run `tests.crash.matrix`; without a server, a test for PostgreSQL is skipped."""
    if database == "postgres" and not postgres.is_there():
        pytest.skip(f"no PostgreSQL at {postgres.ADMIN}")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HERMES_")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.matrix", database, *words],
        cwd=ROOT,
        env=clean | {"HERMES_TEST_POSTGRES": postgres.ADMIN},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = Result(**json.loads(done.stdout))
    sys.stdout.write(
        f"{database} {' '.join(words)}: {result.points} points, {result.runs} runs, "
        f"{len(result.broken)} broken, {len(result.missed)} not reached, {result.seconds} s\n"
    )
    return result
