"""A process that takes work: registered, renewed, and provably alive while it lives."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from hermes.core.clock import Clock
from hermes.core.ids import NewUUID, uuid7
from hermes.errors import StoreError, StoreUnavailableError
from hermes.store import Store, Worker

RENEW_EVERY_S = 10.0
LEASE_S = 30.0

_LOG = logging.getLogger("hermes.worker")

_OWN: set[str] = set()
"""Workers of this very process. Their locks must not be probed: that would let go of them."""

os.register_at_fork(after_in_child=_OWN.clear)


class WorkerProcess:
    """This process as a worker of one store.

    It keeps a POSIX lock on a file beside the database. The lock goes with the process however it
    dies, so another process on the same host can tell at once that its work may be taken over.
    """

    def __init__(self, store: Store, *, clock: Clock, new_id: NewUUID = uuid7) -> None:
        self._store, self._clock = store, clock
        self.worker_id = f"worker_{new_id()}"
        self.is_dead = False
        self._lock_fd: int | None = None

    async def start(self, group: TaskGroup) -> None:
        """Register, and go on renewing in `group` until that is cancelled.

        Raises:
            StoreUnavailableError: The lock file cannot be made.
            StoreError: The store cannot take the worker in.
        """
        lock_path = self._lock()
        worker = Worker(
            worker_id=self.worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            lock_path=str(lock_path or ""),
            renewed_at=self._clock.now(),
        )
        try:
            await self._store.register(worker)
        except BaseException:
            self._unlock()
            raise
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
                    self.is_dead = True
                    return
            except StoreError as exc:
                _LOG.warning("worker %s could not renew its lease: %s", self, exc)

    def _lock(self) -> Path | None:
        _OWN.add(self.worker_id)
        if self._store.run_dir is None:
            return None
        path = Path(self._store.run_dir) / f"{self.worker_id}.lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Open to the looks of others: who may use the journal has to see who is alive.
            self._lock_fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.lockf(self._lock_fd, fcntl.LOCK_EX)
        except OSError as exc:
            self._unlock()
            raise StoreUnavailableError(
                f"cannot make the lock file {path}: {exc.strerror}",
                hint="let its folder be created and written to, or choose another database path",
            ) from exc
        return path

    def _unlock(self) -> None:
        _OWN.discard(self.worker_id)
        if self._lock_fd is None or self._store.run_dir is None:
            return
        with suppress(OSError):  # a file that is left over is unlocked, which says enough
            (Path(self._store.run_dir) / f"{self.worker_id}.lock").unlink()
        os.close(self._lock_fd)
        self._lock_fd = None

    def __str__(self) -> str:
        return self.worker_id


def is_gone(worker: Worker, *, clock: Clock) -> bool:
    """Whether a worker surely lives no more.

    On its own host its lock tells at once, whatever process id it had: a container that starts
    again gives the same ones. Elsewhere, and where the lock cannot be probed, it counts as gone
    after `LEASE_S` seconds without a sign of life.
    """
    if worker.worker_id in _OWN:
        return False
    if worker.host == socket.gethostname() and worker.lock_path:
        is_locked = _is_locked(Path(worker.lock_path))
        if is_locked is not None:
            return not is_locked
    return (clock.now() - worker.renewed_at).total_seconds() > LEASE_S


def _is_locked(path: Path) -> bool | None:
    """Whether a process keeps the file locked; None where that cannot be told."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    except OSError:
        return None
    else:
        return False
    finally:
        os.close(fd)
