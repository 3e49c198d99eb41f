"""A worker that is started while its PostgreSQL is away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.postgres import private_server


@contextmanager
def started_worker(url: str, folder: Path, *words: str) -> Generator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "hermes", "worker", *words],
        env=os.environ | {"HERMES_DATABASE_URL": url, "HERMES_LOG_FORMAT": "text"},
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


def read_until(process: subprocess.Popen[str], sign: str) -> str:
    """What it says up to a line with `sign`, or to its end."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if sign in line:
            break
    return said


def test_a_worker_waits_for_a_server_and_can_be_stopped_meanwhile(workdir: Path) -> None:
    with private_server() as server:
        server.stop()
        with (
            started_worker(server.url, workdir) as first,
            started_worker(server.url, workdir) as second,
        ):
            for process in (first, second):
                assert "trying again in 1 s: PostgreSQL at" in read_until(process, "trying")
                read_until(process, "trying again in 2 s")
            second.send_signal(signal.SIGTERM)
            assert "SIGTERM: nothing was begun" in read_until(second, "SIGTERM")
            assert second.wait(20) == 0
            server.start()
            assert "worker.started" in read_until(first, "worker.started")
            first.send_signal(signal.SIGTERM)
            assert "worker.drained" in read_until(first, "worker.drained")
            assert first.wait(20) == 0


def test_a_server_that_refuses_is_not_waited_for(workdir: Path) -> None:
    with private_server() as server:
        with started_worker(f"{server.url}_of_nobody", workdir) as process:
            assert "does not exist" in read_until(process, "error: ")
            assert process.wait(20) == 1
        server.stop()
        with started_worker(server.url, workdir, "--once") as process:
            assert "cannot be reached" in read_until(process, "error: ")
            assert process.wait(20) == 1
