"""`hermes worker`: a process that takes work until it is told to stop."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import TaskStatus

from hermes.agents import Launch
from hermes.app import Hermes
from hermes.config import Settings, absolute, load_settings
from hermes.errors import InputError, StoreUnavailableError
from hermes.runtime import CLAIMED, ChildCommand, WorkLoop, when_idle
from hermes.store import is_away
from hermes.telemetry import logs

from . import exits
from .streams import stdout_kept_clean

_LOG = logging.getLogger("hermes.worker")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _LOOK_S = 1.0, 10.0, 0.05
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


def queues_of(text: str | None) -> list[str]:
    """The agents whose tasks are taken; none for any.

    Raises:
        InputError: A list was given and names nobody, or what no agent can be called.
    """
    if text is None:
        return []
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(
            f"--queues names no agent, got {text!r}", hint="without --queues every task is taken"
        )
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise InputError("--queues holds bytes that are no UTF-8", hint="send UTF-8 text")
    return names


async def _work(job: Job, settings: Settings, files: dict[str, Launch], stdout: int) -> exits.Exit:
    seen: list[signal.Signals] = []
    async with AsyncExitStack() as stack:
        app = await _opened(stack, job, settings, files)
        if app is None:
            return exits.Exit.SUCCEEDED
        group = await stack.enter_async_context(anyio.create_task_group())
        if job.only:
            loop = app.worker(
                task_id=job.only, concurrency=1, on_claim=lambda _: _say_claimed(stdout)
            )
            group.start_soon(_end_with_parent, loop)
        else:
            loop = app.worker(
                queues=job.queues, concurrency=job.concurrency, child=_child(job, settings)
            )
        await group.start(_heed_signals, loop, seen)
        if not job.only:
            await _introduce(loop, job, settings)  # who reads that may send it a signal
        await loop.run(when_idle if job.once or job.only else None)
        group.cancel_scope.cancel()
    if loop.fault is not None:
        raise loop.fault
    return exits.Exit.INTERRUPTED if len(seen) > 1 else exits.Exit.SUCCEEDED


async def _opened(
    stack: AsyncExitStack, job: Job, settings: Settings, files: dict[str, Launch]
) -> Hermes | None:
    """The application, open and entered as a worker; None if a signal came first.

    A worker that is to stay waits for a database that is away. What a server that answers refuses,
    it refuses at the second try too: that is told, and is the end.
    """
    try:
        return await _open(stack, job, settings, files)
    except StoreUnavailableError as exc:
        if job.once or job.only:
            raise
        fault = exc
    was_away, pause_s = True, _FIRST_PAUSE_S
    with anyio.open_signal_receiver(*_SIGNALS) as signals:
        while True:
            away = await is_away(settings.database_url)
            if not (away or was_away):
                raise fault
            was_away = away
            _LOG.warning(
                "cannot open the database, trying again in %g s: %s", pause_s, fault.message
            )
            if await _is_told_to_stop(signals, pause_s):
                return None
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            try:
                app = await _open(stack, job, settings, files)
            except StoreUnavailableError as exc:
                fault = exc
            else:
                return None if await _is_told_to_stop(signals, _LOOK_S) else app


async def _open(
    stack: AsyncExitStack, job: Job, settings: Settings, files: dict[str, Launch]
) -> Hermes:
    async with AsyncExitStack() as tried:
        app = Hermes(settings=settings, files=files, worker_id=job.worker_id)
        await tried.enter_async_context(app)
        if not job.only:
            await app.worker().worker_id()
        stack.push_async_exit(tried.pop_all())
    return app


async def _is_told_to_stop(signals: AsyncIterator[signal.Signals], within_s: float) -> bool:
    with anyio.move_on_after(within_s):
        number = await anext(signals)
        exits.tell(f"{number.name}: nothing was begun")
        return True
    return False


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
