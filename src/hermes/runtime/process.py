"""A process that takes work: registered, renewed, and provably alive while it lives."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from hermes.core.clock import Clock
from hermes.core.ids import NewUUID, uuid7
from hermes.errors import StoreError
from hermes.store import Store, Worker

RENEW_EVERY_S = 10.0
LEASE_S = 30.0

_LOG = logging.getLogger("hermes.worker")


class WorkerProcess:
    """This process as a worker of one store.

    It keeps a POSIX lock on a file beside the database. The lock goes with the process however it
    dies, so another process on the same host can tell at once that its work may be taken over.
    """

    def __init__(self, store: Store, *, clock: Clock, new_id: NewUUID = uuid7) -> None:
        self._store, self._clock = store, clock
        self.worker_id = f"worker_{new_id()}"
        self._lock_fd: int | None = None

    async def start(self, group: TaskGroup) -> None:
        """Register, and go on renewing in `group` until that is cancelled."""
        lock_path = self._lock()
        worker = Worker(
            worker_id=self.worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            lock_path=str(lock_path or ""),
            renewed_at=self._clock.now(),
        )
        await self._store.register(worker)
        if lock_path is not None:
            group.start_soon(self._keep_renewing)

    async def stop(self) -> None:
        """Give back what is still held and leave no trace."""
        with anyio.CancelScope(shield=True):
            try:
                await self._store.retire(self.worker_id, crashed=False)
            finally:
                self._unlock()

    async def _keep_renewing(self) -> None:
        while True:
            await anyio.sleep(RENEW_EVERY_S)
            try:
                if not await self._store.renew(self.worker_id):
                    _LOG.error("worker %s was declared dead; its work goes on elsewhere", self)
                    return
            except StoreError as exc:
                _LOG.warning("worker %s could not renew its lease: %s", self, exc)

    def _lock(self) -> Path | None:
        if self._store.run_dir is None:
            return None
        folder = Path(self._store.run_dir)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.worker_id}.lock"
        self._lock_fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.lockf(self._lock_fd, fcntl.LOCK_EX)
        return path

    def _unlock(self) -> None:
        if self._lock_fd is not None and self._store.run_dir is not None:
            (Path(self._store.run_dir) / f"{self.worker_id}.lock").unlink(missing_ok=True)
            os.close(self._lock_fd)
            self._lock_fd = None

    def __str__(self) -> str:
        return self.worker_id


def is_gone(worker: Worker, *, clock: Clock) -> bool:
    """Whether a worker surely lives no more.

    On its own host its lock tells at once; elsewhere it counts as gone after `LEASE_S` seconds
    without a sign of life.
    """
    if worker.host == socket.gethostname() and worker.lock_path:
        return worker.pid != os.getpid() and _is_unlocked(Path(worker.lock_path))
    return (clock.now() - worker.renewed_at).total_seconds() > LEASE_S


def _is_unlocked(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    else:
        return True
    finally:
        os.close(fd)
