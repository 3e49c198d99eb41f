"""Real child processes that a test may have struck, and their ends."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hermes.errors import ConfigError

End = Literal["ended", "failed", "killed", "stopped", "hung"]

_LOOK_EVERY_S = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A child of this process."""

    pid: int
    complaints: Path

    def wait(self, *, timeout_s: float) -> End:
        """Wait until it ends or stands still; one that does neither in time is killed.

        Returns:
            `ended`: it did all it was to do. `failed`: it raised; `complaints` holds the traceback.
            `killed`: SIGKILL. `stopped`: SIGSTOP; it may go on. `hung`: its time was over.
        """
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if pid:
                return _end(status)
            time.sleep(_LOOK_EVERY_S)
        self.kill()
        return "hung"

    def go_on(self) -> None:
        """Let a stopped child go on."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it, stopped or not."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def fork(work: Callable[[], None], *, complaints: Path) -> Fork:
    """Do `work` in a child that shares what is loaded, and no connection.

    Args:
        work: Runs in the child alone; the child ends with it.
        complaints: File for all that the child prints.

    Raises:
        ConfigError: This process has threads, which a fork would not copy.
    """
    if threading.active_count() > 1:
        names = ", ".join(thread.name for thread in threading.enumerate())
        raise ConfigError(
            f"a process with threads cannot be forked safely ({names})",
            hint="run crash tests in a process of their own",
        )
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()
    pid = os.fork()
    if pid:
        return Fork(pid=pid, complaints=complaints)
    code = 1
    try:
        fd = os.open(complaints, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        work()
        code = 0
    except BaseException:  # the child has nobody to raise to
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _end(status: int) -> End:
    if os.WIFSTOPPED(status):
        return "stopped"
    if os.WIFSIGNALED(status):
        return "killed" if os.WTERMSIG(status) == signal.SIGKILL else "failed"
    return "ended" if os.WEXITSTATUS(status) == 0 else "failed"
