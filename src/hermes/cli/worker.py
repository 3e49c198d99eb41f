"""`hermes worker`: a process that takes work until it is told to stop."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import TaskStatus

from hermes.agents import Launch
from hermes.app import Hermes
from hermes.config import Settings, absolute, load_settings
from hermes.errors import InputError
from hermes.runtime import CLAIMED, ChildCommand, WorkLoop, when_idle
from hermes.telemetry import logs

from . import exits
from .streams import stdout_kept_clean

_LOG = logging.getLogger("hermes.worker")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a worker is to do.

    Attributes:
        queues: Only tasks of these agents; any if empty.
        once: End as soon as there is nothing to do.
        only: This one task, on behalf of a worker that does not trust it; then the end.
        worker_id: The name that this worker goes by; a new one by default.
    """

    agents: Sequence[Path] = ()
    tools: Sequence[Path] = ()
    queues: Sequence[str] = ()
    concurrency: int | None = None
    once: bool = False
    only: str | None = None
    worker_id: str | None = None


def worker(job: Job) -> exits.Exit:
    """Work; returns the exit code."""
    settings = _settings()
    files = _files(job)
    with stdout_kept_clean() as stdout:
        return anyio.run(_work, job, settings, files, stdout)


async def _work(job: Job, settings: Settings, files: dict[str, Launch], stdout: int) -> exits.Exit:
    seen: list[signal.Signals] = []
    app = Hermes(settings=settings, files=files, worker_id=job.worker_id)
    async with app, anyio.create_task_group() as group:
        if job.only:
            loop = app.worker(
                task_id=job.only, concurrency=1, on_claim=lambda _: _say_claimed(stdout)
            )
            group.start_soon(_end_with_parent, loop)
        else:
            loop = app.worker(
                queues=job.queues, concurrency=job.concurrency, child=_child(job, settings)
            )
            await _introduce(loop, job, settings)
        await group.start(_heed_signals, loop, seen)
        await loop.run(when_idle if job.once or job.only else None)
        group.cancel_scope.cancel()
    return exits.Exit.INTERRUPTED if len(seen) > 1 else exits.Exit.SUCCEEDED


async def _heed_signals(
    loop: WorkLoop,
    seen: list[signal.Signals],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """The first signal lets steps end, the second one ends them, the third one the process."""
    with anyio.open_signal_receiver(*_SIGNALS) as numbers:
        task_status.started()
        async for number in numbers:
            seen.append(number)
            if len(seen) == 1:
                exits.tell(f"{number.name}: no new work; once more ends at once")
                loop.drain()
            elif len(seen) == 2:
                loop.interrupt()
            else:
                os._exit(exits.Exit.INTERRUPTED)


async def _introduce(loop: WorkLoop, job: Job, settings: Settings) -> None:
    fields = {
        "event": "worker.started",
        "worker_id": await loop.worker_id(),
        "pid": os.getpid(),
        "database": re.sub(r"//[^/@]*@", "//…@", settings.database_url),
        "queues": ",".join(job.queues) or "any",
        "concurrency": job.concurrency or settings.concurrency,
    }
    _LOG.info("started", extra={"hermes": fields})


async def _end_with_parent(loop: WorkLoop) -> None:
    """Give the task back when the worker that started this one is gone."""
    await anyio.wait_readable(sys.stdin)
    loop.drain()


def _say_claimed(stdout: int) -> None:
    os.write(stdout, f"{CLAIMED}\n".encode())


def _child(job: Job, settings: Settings) -> ChildCommand:
    words = [sys.executable, "-m", "hermes", "worker", "--only", "{task}", "--as", "{worker}"]
    for path in job.agents:
        words += ["--agent", str(path.absolute())]
    for path in job.tools:
        words += ["--tools", str(path.absolute())]
    return ChildCommand(
        words=words,
        folder=str(Path.cwd()),
        environment=os.environ | {"HERMES_DATABASE_URL": settings.database_url},
    )


def _files(job: Job) -> dict[str, Launch]:
    """The agents of the files by name; without files the tools are those of the agent `agent`."""
    found: dict[str, Launch] = {}
    for path in job.agents or [None] if job.tools else job.agents:
        launch = Launch.of(agent=path, tools=job.tools, playbook=None, model=None, max_steps=None)
        name = launch.definition().name
        if name in found:
            raise InputError(f"{found[name].agent} and {path} are both agent {name!r}")
        found[name] = launch
    return found


def _settings() -> Settings:
    loaded = load_settings()
    settings = loaded.settings
    # A worker that says nothing looks like one that hangs.
    level = "info" if loaded.sources["log_level"] == "default" else settings.log_level
    logs.configure(level=level, style=settings.log_format)
    # A tool may change the working directory; the journal stays where it is.
    return settings.model_copy(update={"database_url": absolute(settings.database_url)})
