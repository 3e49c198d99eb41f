"""A program that runs one command and, when that is over, ends all that came of it.

`processes` starts it by its path with a bare interpreter, so it imports nothing of Hermes:

    process_guard.py GRACE_S CONTROL_FD PARENT_PID KEPT_FDS COMMAND [ARGUMENT …]

It stands between Hermes and the command because only a parent of its own can promise that no
process is left. As a subreaper it inherits every orphan among the command's descendants, also
those that made a session of their own. It ends them all when the command has ended, and when
Hermes says so on the control socket: with time to tidy up. When Hermes dies, in whatever way,
that socket closes, and they are killed at once: somebody may repeat the call from then on.

On the control socket it says, a line each: `pid N` or `errno N` (not started), `status N` as in
`os.waitstatus_to_exitcode`, and `left N` if processes could not be ended. Its end says that the
rest is gone.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.02
_GIVE_UP_S = 5.0
"""After SIGKILL; what still lives then waits in the kernel, or belongs to another user."""
_ORPHANED = signal.SIGUSR1
"""Sent by the kernel when Hermes dies."""
_WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Guard:
    """One command and its descendants.

    Args:
        control: The socket to Hermes.
        grace_s: Seconds between SIGTERM and SIGKILL.
    """

    def __init__(self, control: socket.socket, *, grace_s: float) -> None:
        self._control, self._grace_s = control, grace_s
        self._pid = 0
        self._is_to_end = False
        self._is_alone = False
        self._wake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in _WATCHED:
            signal.signal(number, self._end)
        signal.signal(_ORPHANED, self._be_alone)
        signal.signal(signal.SIGCHLD, _nothing)

    def run(self, command: Sequence[str], *, keep: Sequence[int]) -> None:
        """Run the command to its end, and its descendants to theirs.

        Args:
            command: The program and its arguments.
            keep: Descriptors that are the command's alone.
        """
        if not self._start(command, keep):
            return
        # From here on its pipes are its own: they end when it does.
        _let_go((0, 1, 2), keep)
        while self._pid and not self._is_to_end:
            self._listen(None)
            self._reap()
        if left := self._end_all():
            self._say(f"left {left}")

    def _start(self, command: Sequence[str], keep: Sequence[int]) -> bool:
        result, failed = os.pipe2(os.O_CLOEXEC)
        wait, go = os.pipe2(os.O_CLOEXEC)
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            os.close(go)
            _become(command, keep, parent=parent, wait=wait, failed=failed)
        os.close(failed)
        # Said before it can do anything: what never had a process id was surely not begun.
        self._say(f"pid {pid}")
        with suppress(OSError):  # it was killed already
            os.write(go, b"!")
        fault = os.read(result, 16)
        for fd in (result, wait, go):
            os.close(fd)
        if fault:
            os.waitpid(pid, 0)
            self._say(f"errno {fault.decode()}")
            return False
        self._pid = pid
        return True

    def _listen(self, timeout_s: float | None) -> None:
        """Wait for a signal, for a word of Hermes, or for its death."""
        watched = [self._wake] if self._is_alone else [self._control, self._wake]
        ready, _, _ = select.select(watched, [], [], timeout_s)
        if self._wake in ready:
            _emptied(self._wake)
        if self._control in ready:
            self._is_to_end = True
            self._is_alone = self._is_alone or not self._heard()

    def _heard(self) -> bytes:
        try:
            return self._control.recv(16)
        except OSError:
            return b""

    def _end(self, _number: int, _frame: object) -> None:
        self._is_to_end = True

    def _be_alone(self, _number: int, _frame: object) -> None:
        self._is_to_end = self._is_alone = True

    def _reap(self) -> bool:
        """Take in who has ended; whether any child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._pid:
                self._pid = 0
                self._say(f"status {os.waitstatus_to_exitcode(status)}")

    def _end_all(self) -> int:
        """SIGTERM, then SIGKILL to every descendant; how many are left after all."""
        if not self._reap():
            return 0
        kill_at = time.monotonic() + self._grace_s
        if not self._is_alone:
            _signal_all(signal.SIGTERM)
            _signal_all(signal.SIGCONT)
        while self._reap():
            now = time.monotonic()
            if self._is_alone:
                kill_at = min(kill_at, now)
            if now >= kill_at + _GIVE_UP_S:
                return len(descendants(os.getpid()))
            if now >= kill_at:
                _signal_all(signal.SIGKILL)
            self._listen(_POLL_S)
        return 0

    def _say(self, text: str) -> None:
        with suppress(OSError):  # Hermes is gone: there is nobody to tell
            self._control.sendall(f"{text}\n".encode())


def descendants(root: int) -> list[int]:
    """Process ids of all that descends from `root`, parents before their children."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (parent := _parent_of(entry)):
            children.setdefault(parent, []).append(int(entry))
    found = list(children.get(root, ()))
    for pid in found:  # grows as it goes
        found.extend(children.get(pid, ()))
    return found


def _parent_of(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # A process names itself, in parentheses, as it likes.
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def _signal_all(number: signal.Signals) -> None:
    for pid in descendants(os.getpid()):
        with suppress(OSError):  # it has ended, or runs as another user
            os.kill(pid, number)


def _nothing(_number: int, _frame: object) -> None:
    """A handler: the wake-up pipe is what counts."""


def _become(
    command: Sequence[str], keep: Sequence[int], *, parent: int, wait: int, failed: int
) -> None:
    """In the child: a session of its own, signals as any program expects them, and exec."""
    code = 0
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent or not os.read(wait, 1):
            os._exit(127)
        signal.set_wakeup_fd(-1)
        for number in (*_WATCHED, _ORPHANED, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        for fd in keep:
            os.set_inheritable(fd, True)
        os.execvpe(command[0], list(command), _environment())
    except OSError as exc:
        code = exc.errno or 0
    finally:
        os.write(failed, str(code).encode())
        os._exit(127)


def _environment() -> dict[bytes, bytes]:
    """As it was given: the interpreter adds `LC_CTYPE` to its own where no locale is set."""
    with open("/proc/self/environ", "rb") as file:
        pairs = (entry.partition(b"=") for entry in file.read().split(b"\0") if entry)
        return {name: value for name, _, value in pairs}


def _let_go(standard: Sequence[int], keep: Sequence[int]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in standard:
        os.dup2(null, fd)
    for fd in keep:
        os.close(fd)


def _emptied(pipe: int) -> None:
    with suppress(BlockingIOError):
        while os.read(pipe, 512):
            pass


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def main(words: Sequence[str]) -> None:
    """What the command line says."""
    grace_s, control_fd, parent, keep, *command = words
    control = socket.socket(fileno=int(control_fd))
    control.set_inheritable(False)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    guard = Guard(control, grace_s=float(grace_s))
    # Beside the end of the socket, which a fork of Hermes could hold open.
    _prctl(_PR_SET_PDEATHSIG, _ORPHANED)
    if os.getppid() == int(parent):
        guard.run(command, keep=[int(fd) for fd in keep.split(",") if fd])


if __name__ == "__main__":
    main(sys.argv[1:])
