"""Starts the crash matrix in a process of its own, which may fork."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.postgres import SHARED, connect

ROOT = Path(__file__).parents[2]


_MODES = {
    "crash": "crash matrix",
    "freeze": "frozen and overtaken",
    "pairs": "crash during recovery",
    "list": "points",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a matrix came to.

    Attributes:
        title: What was done, in words.
        points: How many the scenario has.
        runs: How many were broken off.
        broken: Point to the promises that were broken.
        missed: Points that a run did not come to.
    """

    title: str
    points: int
    runs: int
    broken: dict[str, list[str]]
    missed: list[str]
    seconds: float

    @property
    def line(self) -> str:
        """The numbers, for people."""
        runs = "" if self.runs == self.points else f", {self.runs} runs"
        missed = f", {len(self.missed)} not reached" if self.missed else ""
        failures = f"{len(self.broken)} failures{missed} ({self.seconds} s)"
        return f"{self.title}: {self.points} points{runs}, {failures}"


def matrix(database: str, scenario: str, mode: str, *words: str) -> Result:
    """Run `tests.crash.matrix`.

    Without a server, a test for PostgreSQL is skipped, or fails under CI.
    """
    if database == "postgres":
        connect().close()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HERMES_")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.matrix", database, scenario, mode, *words],
        cwd=ROOT,
        env=clean | {"HERMES_TEST_POSTGRES": SHARED},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    title = " ".join([_MODES[mode], database, scenario, *words])
    return Result(title=title, **json.loads(done.stdout))
