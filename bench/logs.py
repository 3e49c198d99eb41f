"""A large nginx log: the log report's tools against a plain loop over the lines.

Repeats the lines of the example's real log, day by day, until the file has the wanted size; then
reads it, each time in a process of its own:

* plain: a Python loop over the file's lines with the same filter, which only counts;
* read: `read_error_logs`, which also keeps the first 200 lines;
* summarise: `summarise_errors`, which sorts every line that passes into its kind.

Wanted for a log of two days: at most 1.5 times the plain loop, under 150 MB of memory. A second
file holds one day only, so that most lines pass and have to be sorted into kinds: the worst case.

Usage: python bench/logs.py [--mb 1024] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples/log_report"
sys.path[:0] = [str(EXAMPLE), str(ROOT)]  # the tools import their neighbours by name

from examples.log_report import tools  # noqa: E402

LOG = EXAMPLE / "logs/error.log"
DAY = "2026-11-29"
LEVEL = "error"
MB = 1_000_000


def main() -> None:
    """Measure and print; with `--measure` be one measured process."""
    parser = argparse.ArgumentParser(description="Measure the log report on a large file.")
    parser.add_argument("--mb", type=int, default=1024, help="size of the log")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts")
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        name, file = cast("list[str]", arguments.measure)
        print(json.dumps(_measure(name, Path(file))))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "error.log"
        for title, one_day in (("one day of two", False), ("one day only", True)):
            _write_log(path, arguments.mb * MB, one_day=one_day)
            _compare(title, path, arguments.rounds)


def _write_log(path: Path, size_bytes: int, *, one_day: bool) -> None:
    """The lines of the first day over and over, then those of the second, or only the latter."""
    log = LOG.read_bytes()
    cut = log.index(b"2026/11/29 ")
    parts = (log[cut:],) if one_day else (log[:cut], log[cut:])
    with path.open("wb") as file:
        for part in parts:
            for _ in range(max(1, size_bytes // len(parts) // len(part))):
                file.write(part)


def _compare(title: str, path: Path, rounds: int) -> None:
    print(f"{title}, level {LEVEL}: {path.stat().st_size / MB:,.0f} MB")
    # In turns, so that a busy moment of the machine hits all alike.
    runs = [{name: _in_process(name, path) for name in WORK} for _ in range(rounds)]
    plain_s = min(run["plain"]["seconds"] for run in runs)
    for name in WORK:
        seconds = min(run[name]["seconds"] for run in runs)
        peak_mb = max(run[name]["peak_mb"] for run in runs)
        print(
            f"  {name:9}  {seconds:6.2f} s  {seconds / plain_s:5.2f} x plain"
            f"  peak {peak_mb:4.0f} MB  {runs[0][name]['lines']:,.0f} lines pass"
        )


def _in_process(name: str, path: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", name, str(path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return cast("dict[str, float]", json.loads(done.stdout))


def _measure(name: str, path: Path) -> dict[str, float]:
    started = time.perf_counter()
    lines = WORK[name](path)
    seconds = time.perf_counter() - started
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB
    return {"seconds": seconds, "peak_mb": peak_mb, "lines": lines}


def _plain(path: Path) -> int:
    levels = frozenset({b"[emerg]", b"[alert]", b"[crit] ", b"[error]"})
    count = 0
    with path.open("rb") as file:
        for line in file:
            if line[:11] == b"2026/11/29 " and line[20:27] in levels:
                count += 1
    return count


def _read(path: Path) -> int:
    return tools.read_error_logs(path, DAY, LEVEL).total


def _summarise(path: Path) -> int:
    return tools.summarise_errors(path, DAY, LEVEL).total


WORK: dict[str, Callable[[Path], int]] = {"plain": _plain, "read": _read, "summarise": _summarise}

if __name__ == "__main__":
    main()
