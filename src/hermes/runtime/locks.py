"""Lock files by which processes of one host prove to each other that they live."""

from __future__ import annotations

import fcntl
import os
import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from hermes.core.clock import Clock
from hermes.core.ids import NewUUID
from hermes.errors import StoreUnavailableError
from hermes.store import Worker

LEASE_S = 30.0

_HOST = re.sub(r"[^\w.-]", "-", socket.gethostname())

_OWN: dict[str, int | None] = {}
"""Workers of this very process, with the descriptors of their locks."""


def _let_go_in_fork() -> None:
    """A fork has no part in the life of its parent: it may outlive it."""
    for fd in _OWN.values():
        if fd is not None:
            with suppress(OSError):
                os.close(fd)
    _OWN.clear()


os.register_at_fork(after_in_child=_let_go_in_fork)


def new_worker_id(new_id: NewUUID) -> str:
    """An id for a worker of this host, whose name it carries."""
    return f"worker_{new_id()}@{_HOST}"


class LifeLock:
    """A lock on a file beside the database.

    It goes with the process however it dies, so another process on the same host can tell at once
    that its work may be taken over. It is a `flock`: a POSIX lock would be gone as soon as
    anything in the process, such as a tool that searches a folder, opens the file and closes it.

    Args:
        worker_id: Whose life it proves.
        folder: Where the file is made; None for a store that needs none.
    """

    def __init__(self, worker_id: str, folder: str | None) -> None:
        self._worker_id = worker_id
        self.path = None if folder is None else Path(folder) / f"{worker_id}.lock"

    def take(self) -> None:
        """Make the file and lock it.

        Raises:
            StoreUnavailableError: It cannot be made.
        """
        _OWN[self._worker_id] = None
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Open to the looks of others: who may use the journal has to see who is alive.
            fd = _OWN[self._worker_id] = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(fd, fcntl.LOCK_EX)
        except OSError as exc:
            self.release()
            raise StoreUnavailableError(
                f"cannot make the lock file {self.path}: {exc.strerror}",
                hint="let its folder be created and written to, or choose another database path",
            ) from exc

    def release(self) -> None:
        """Let go of it and remove the file; nothing in a fork of who took it."""
        fd = _OWN.pop(self._worker_id, None)
        if fd is not None:
            self.remove_file()
            os.close(fd)

    def remove_file(self) -> None:
        """Remove the file, if it is there."""
        if self.path is not None:
            with suppress(OSError):  # one that is left over is unlocked, which says enough
                self.path.unlink()


def is_own(worker: Worker) -> bool:
    """Whether it is a worker of this very process."""
    return worker.worker_id in _OWN


def is_proved_dead(worker: Worker) -> bool:
    """Whether its lock, on this host, shows that its process has ended."""
    if is_own(worker) or worker.host != socket.gethostname() or not worker.lock_path:
        return False
    return _is_locked(Path(worker.lock_path)) is False


def are_proved_dead(worker_ids: Iterable[str], folder: str | None) -> bool:
    """Whether none of these workers can still be at work: they were of this host, and ended.

    Args:
        worker_ids: Workers of one store.
        folder: Where that store's workers keep their locks; None if they keep none, which proves
            nothing.
    """
    return all(folder is not None and _has_ended(each, Path(folder)) for each in worker_ids)


def _has_ended(worker_id: str, folder: Path) -> bool:
    host = worker_id.partition("@")[2]
    if worker_id in _OWN or host not in ("", _HOST):
        return False
    return _is_locked(folder / f"{worker_id}.lock") is False


def is_gone(worker: Worker, *, clock: Clock, lease_s: float = LEASE_S) -> bool:
    """Whether a worker lives no more, or has not shown a sign of life for `lease_s` seconds.

    On its own host its lock tells at once that it ended, whatever process id it had: a container
    that starts again gives the same ones.
    """
    if is_own(worker):
        return False
    if is_proved_dead(worker):
        return True
    return (clock.now() - worker.renewed_at).total_seconds() > lease_s


def remove_lock_file(worker: Worker) -> None:
    """Remove what a dead worker left."""
    if worker.lock_path and worker.host == socket.gethostname():
        with suppress(OSError):  # another user's file stays where it is, and harms nobody
            Path(worker.lock_path).unlink()


def _is_locked(path: Path) -> bool | None:
    """Whether a process keeps the file locked; None where that cannot be told."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    except OSError:
        return None
    else:
        return False
    finally:
        os.close(fd)
