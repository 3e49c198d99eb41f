"""Programs as a tool's means: run with a time limit, and gone with all they started."""

from __future__ import annotations

import asyncio
import codecs
import logging
import os
import shlex
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from hermes.errors import NotDone, ToolError

_LOG = logging.getLogger("hermes.tool")
_GUARD = str(Path(__file__).with_name("process_guard.py"))
_GUARD_GIVES_UP_S = 7.0
"""A bit more than the guard itself waits after SIGKILL."""
_LAST_BYTES_S = 1.0

DEFAULT_LIMIT_BYTES = 1_000_000
DEFAULT_GRACE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """What a program came to.

    Attributes:
        args: What was run.
        exit_code: Its exit code; the negative number of the signal that ended it, if one did.
        stdout: UTF-8 text, undecodable bytes as `�`; head and tail if it was too long, with a
            line between them that says how much is missing.
        stderr: The same.
        stdout_bytes: How much it wrote, kept or not.
        stderr_bytes: The same.
    """

    args: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    stdout_bytes: int
    stderr_bytes: int

    def check(self) -> ProcessResult:
        """The result itself, if the exit code is 0.

        Raises:
            ToolError: It is not; the message has the end of what the program complained of.
        """
        if self.exit_code == 0:
            return self
        said = " ".join((self.stderr or self.stdout).split())[-300:]
        text = f"`{_line(self.args)}` {ended(self.exit_code)}"
        raise ToolError(f"{text}: {said}" if said else text, code="exit_code")


class ProcessTimeout(TimeoutError):
    """A program did not end in time, and was ended with all it had started.

    Attributes:
        stdout: What it had written, as in `ProcessResult`.
        stderr: The same.
    """

    def __init__(self, text: str, *, stdout: str = "", stderr: str = "") -> None:
        super().__init__(text)
        self.stdout, self.stderr = stdout, stderr


async def run_process(
    args: Sequence[str] | str,
    *,
    timeout_s: float | None,
    input: str | bytes | None = None,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    cancel_grace_s: float = DEFAULT_GRACE_S,
) -> ProcessResult:
    """Run a program to its end; when this returns or raises, nothing it started is left.

    The program has a session and process group of its own, and a small process above it that
    inherits its orphans. When the program has ended, its time is over or the call is cancelled,
    every descendant gets SIGTERM and, after the grace time, SIGKILL, even one that left the
    process group. When the Hermes process dies, also by SIGKILL, they get SIGKILL at once, since
    another process may take the task over. Out of reach are only programs that run as another
    user or were handed to another process (`at`, `docker run`, a service manager); and if the
    guard itself is killed, the program's process group dies, but what has left that is not found.

    Args:
        args: Program and arguments; a text is a command line for `/bin/sh`.
        timeout_s: Seconds it may take; None for as long as the tool may.
        input: What it reads on stdin; nothing by default.
        cwd: Its folder; the present one by default.
        env: All of its environment; that of this process by default.
        limit_bytes: At most so much of stdout, and of stderr, is kept: half from the beginning,
            half from the end. The rest is read and dropped.
        cancel_grace_s: Seconds between SIGTERM and SIGKILL.

    Raises:
        ProcessTimeout: Its time was over; it has what the program had written.
        NotDone: It cannot be started.
        ConnectionError: Its guard was killed, and it with it; how far it came is unknown.
    """
    words = ("/bin/sh", "-c", args) if isinstance(args, str) else tuple(args)
    if not words:
        raise NotDone("no program is named", code="not_started")
    stdout, stderr = _Kept(limit_bytes), _Kept(limit_bytes)
    data = input.encode() if isinstance(input, str) else input
    command: Guarded | None = None
    with anyio.move_on_after(timeout_s) as scope:
        async with guarded(
            words,
            cwd=cwd,
            env=env,
            stdin=DEVNULL if data is None else PIPE,
            output=PIPE,
            grace_s=cancel_grace_s,
        ) as command:
            await _talk(command, data, stdout, stderr)
    if scope.cancelled_caught or command is None:
        text = f"`{_line(words)}` did not end within {timeout_s or 0:g} s"
        raise ProcessTimeout(text, stdout=stdout.text, stderr=stderr.text)
    return ProcessResult(
        args=words,
        exit_code=command.exit_code(words),
        stdout=stdout.text,
        stderr=stderr.text,
        stdout_bytes=stdout.size,
        stderr_bytes=stderr.size,
    )


class Guarded:
    """A program that runs under its guard.

    Attributes:
        process: The guard's process; its pipes are the program's.
        status: How the program ended; None if that is not known, or not yet.
        left: Processes that could not be ended.
    """

    def __init__(self, process: Process, control: socket.socket) -> None:
        self.process, self._control = process, control
        self.status: int | None = None
        self.left = 0
        self._pid = 0
        self._errno = 0
        self._heard = b""

    async def ended(self) -> None:
        """Wait until the program and all that it started are gone."""
        loop = asyncio.get_running_loop()
        # A guard that ends before it reads our last word resets the connection; all of its own
        # words come first.
        with suppress(ConnectionResetError):
            while data := await loop.sock_recv(self._control, 1024):
                *lines, self._heard = (self._heard + data).split(b"\n")
                for line in lines:
                    self._hear(line.decode())

    def exit_code(self, args: Sequence[str]) -> int:
        """How the program ended.

        Raises:
            NotDone: It was not started.
            ConnectionError: Nobody knows.
        """
        if self._errno:
            reason = os.strerror(self._errno)
            raise NotDone(f"`{_line(args)}` cannot be started: {reason}", code="not_started")
        if self.status is None:
            if not self._pid:
                raise NotDone(f"`{_line(args)}` was not started: its guard ended")
            raise ConnectionError(f"the guard of `{_line(args)}` was killed, and it with it")
        return self.status

    async def end(self, grace_s: float) -> None:
        """End what still runs; on return it is gone, or a warning says what could not be ended."""
        with suppress(OSError):  # it has ended already
            self._control.send(b"end")
        with anyio.move_on_after(grace_s + _GUARD_GIVES_UP_S):
            await self.ended()
        if self._pid and self.status is None:
            with suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
        if self.left:
            _LOG.warning("%d processes of a tool could not be ended", self.left)

    def _hear(self, line: str) -> None:
        word, _, number = line.partition(" ")
        match word:
            case "pid":
                self._pid = int(number)
            case "errno":
                self._errno = int(number)
            case "status":
                self.status = int(number)
            case "left":
                self.left = int(number)
            case _:
                _LOG.warning("the guard of a process said %r", line)


@asynccontextmanager
async def guarded(
    args: Sequence[str],
    *,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int = DEVNULL,
    output: int | None = None,
    fds: Sequence[int] = (),
    grace_s: float = DEFAULT_GRACE_S,
) -> AsyncGenerator[Guarded]:
    """A program under its guard; at the end of the block it and all it started are gone.

    Args:
        args: Program and arguments.
        cwd: As in `run_process`.
        env: As in `run_process`.
        stdin: As in `subprocess.Popen`.
        output: The same, for stdout and stderr; those of this process by default.
        fds: Descriptors that the program gets under their own numbers; they stay open here.
        grace_s: Seconds between SIGTERM and SIGKILL.

    Raises:
        NotDone: Not even the guard can be started.
    """
    control, theirs = socket.socketpair()
    with control:
        control.setblocking(False)
        kept = ",".join(map(str, fds))
        guard = (sys.executable, "-I", "-S", _GUARD, str(grace_s), str(theirs.fileno()))
        start = partial(
            anyio.open_process,
            [*guard, str(os.getpid()), kept, *args],
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=output,
            stderr=output,
            pass_fds=(theirs.fileno(), *fds),
            start_new_session=True,
        )
        with theirs:
            try:
                process = await _whole(start)
            except OSError as exc:
                text = f"`{_line(args)}` cannot be started: {exc}"
                raise NotDone(text, code="not_started") from exc
        command = Guarded(process, control)
        try:
            yield command
        finally:
            with anyio.CancelScope(shield=True):
                await command.end(grace_s)
                await process.aclose()


async def _whole(start: Callable[[], Awaitable[Process]]) -> Process:
    """Start in one piece: asyncio loses the pipes of a start that is cancelled half-way."""
    with anyio.CancelScope(shield=True):
        return await start()
    raise AssertionError("nothing cancels a shielded start")


def ended(exit_code: int) -> str:
    """`ended with exit code 2`, or `was ended by SIGSEGV`."""
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was ended by signal {-exit_code}"


class _Kept:
    """The head and the tail of a stream, in bounded memory."""

    def __init__(self, limit: int) -> None:
        self._head_limit = (limit + 1) // 2
        self._tail_limit = limit - self._head_limit
        self._head, self._tail = bytearray(), bytearray()
        self.size = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        room = self._head_limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_limit + 65_536:
            self._shorten()

    @property
    def text(self) -> str:
        self._shorten()
        missing = self.size - len(self._head) - len(self._tail)
        if not missing:
            return (self._head + self._tail).decode("utf-8", "replace")
        # A character that the cut went through is left out.
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))
        start = next((n for n, byte in enumerate(self._tail[:3]) if byte & 0xC0 != 0x80), 0)
        tail = self._tail[start:].decode("utf-8", "replace")
        return f"{head}\n[… {missing:,} bytes left out …]\n{tail}"

    def _shorten(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_limit)]


async def _talk(command: Guarded, data: bytes | None, stdout: _Kept, stderr: _Kept) -> None:
    process = command.process
    async with anyio.create_task_group() as group:
        if data is not None and process.stdin is not None:
            group.start_soon(_feed, process.stdin, data)
        async with anyio.create_task_group() as readers:
            if process.stdout is not None and process.stderr is not None:
                readers.start_soon(_drain, process.stdout, stdout)
                readers.start_soon(_drain, process.stderr, stderr)
            await command.ended()
            # Its pipes are closed with it, unless what could not be ended keeps them open.
            readers.cancel_scope.deadline = anyio.current_time() + _LAST_BYTES_S
        group.cancel_scope.cancel()


async def _feed(stream: ByteSendStream, data: bytes) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # it reads no more
        await stream.send(data)
    await stream.aclose()


async def _drain(stream: ByteReceiveStream, kept: _Kept) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for data in stream:
            kept.add(data)


def _line(args: Sequence[str]) -> str:
    text = args[2] if args[:2] == ("/bin/sh", "-c") and len(args) == 3 else shlex.join(args)
    return text if len(text) <= 100 else f"{text[:99]}…"
