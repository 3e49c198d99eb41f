"""A llama.cpp server in a process of its own, one for each model file of this process."""

from __future__ import annotations

import atexit
import json
import os
import secrets
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, cast

from hermes.errors import ConfigError, ModelError

START_S = 120.0
_MAGIC = b"GGUF"
_TAIL_CHARS = 300
_KILLED = -9


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a server listens, and the key that it wants."""

    address: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A model to be served.

    Attributes:
        path: Of the GGUF file.
        window: Tokens of a whole request and its reply.
    """

    path: Path
    window: int

    @property
    def max_output(self) -> int:
        """Tokens of one reply."""
        return self.window // 2

    def check(self) -> None:
        """Refuse what cannot be served, before anything is started.

        Raises:
            ConfigError: The extra is not installed, or the file is missing or no GGUF file.
        """
        if find_spec("xllamacpp") is None:
            raise ConfigError(
                f"the local model {self.path.name!r} needs the package xllamacpp",
                hint="pip install 'hermes-courier[local]'",
            )
        try:
            with self.path.open("rb") as file:
                magic = file.read(len(_MAGIC))
        except OSError as exc:
            raise ConfigError(
                f"cannot read the model file {str(self.path)!r}: {exc.strerror}",
                hint="give the path of a GGUF file, as in local:/models/NAME.gguf",
            ) from exc
        if magic != _MAGIC:
            raise ConfigError(
                f"{str(self.path)!r} is no GGUF file: it begins with {magic!r}",
                hint="models for llama.cpp end in .gguf; others have to be converted first",
            )


class LocalServer:
    """One server; started on first use, ended with this process.

    Args:
        file: What it serves.
        start_s: How long loading may take, in seconds.
    """

    def __init__(self, file: ModelFile, *, start_s: float = START_S) -> None:
        self._file, self._start_s = file, start_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._place: Place | None = None

    @property
    def pid(self) -> int | None:
        """Of the server's process; None while there is none."""
        return self._process.pid if self._process else None

    def place(self) -> Place:
        """Where it listens; starts it if it does not run. Blocks while it loads.

        Raises:
            ConfigError: As `ModelFile.check`.
            ModelError: It could not be started.
        """
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self._end()
            if self._place is None:
                self._file.check()
                self._place = self._start()
            return self._place

    def close(self) -> None:
        """End it."""
        with self._lock:
            self._end()

    def _start(self) -> Place:
        key = secrets.token_urlsafe(24)
        order = {
            "path": str(self._file.path),
            "name": self._file.path.stem,
            "key": key,
            "window": self._file.window,
            "max_output": self._file.max_output,
        }
        with tempfile.TemporaryFile() as log:
            self._process = process = subprocess.Popen(
                [sys.executable, "-P", "-m", "hermes.models.local_child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # An interrupt at the terminal is for the run, which ends its server itself.
                start_new_session=True,
            )
            try:
                line = self._exchange(process, json.dumps(order).encode() + b"\n")
                answer = _read(line)
                if "address" not in answer:
                    raise self._failed(process, answer.get("error", ""), log)
            except BaseException:
                self._end()
                raise
        return Place(address=answer["address"], key=key)

    def _exchange(self, process: subprocess.Popen[bytes], order: bytes) -> bytes:
        """The one line that the server says; empty if it said none in time."""
        stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        try:
            stdin.write(order)
            stdin.flush()
        except BrokenPipeError:
            return b""
        deadline, said = time.monotonic() + self._start_s, b""
        with selectors.DefaultSelector() as ready:
            ready.register(stdout, selectors.EVENT_READ)
            while not said.endswith(b"\n"):
                left_s = deadline - time.monotonic()
                if left_s <= 0 or not ready.select(left_s):
                    raise ModelError(
                        f"the local model {self._file.path.name!r} was not ready within "
                        f"{self._start_s:g} s",
                        code="local",
                        hint="take a smaller file",
                    )
                more = os.read(stdout.fileno(), 65_536)
                if not more:
                    return b""
                said += more
        return said

    def _failed(self, process: subprocess.Popen[bytes], error: str, log: IO[bytes]) -> ModelError:
        try:
            code = process.wait(10)
        except subprocess.TimeoutExpired:
            code = None
        log.seek(0)
        text = log.read().decode(errors="replace")
        name = self._file.path.name
        if code == _KILLED or "alloc" in text.lower():
            return ModelError(
                f"the local model {name!r} did not fit into memory",
                code="local",
                hint="take a smaller file or a smaller HERMES_CONTEXT_WINDOW "
                f"(now {self._file.window:,})",
            )
        lines = [line for line in text.splitlines() if " E " in line] or text.splitlines()[-1:]
        seen = " ".join(lines[:1])[:_TAIL_CHARS]
        why = "; ".join(part for part in (error, seen) if part) or f"it ended with code {code}"
        return ModelError(
            f"llama.cpp cannot serve {name!r}: {why}",
            code="local",
            hint="see that the file is whole and of an architecture that this llama.cpp knows",
        )

    def _end(self) -> None:
        process, self._process, self._place = self._process, None, None
        if process is None:
            return
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


_SERVERS: dict[tuple[Path, int], LocalServer] = {}
_LOCK = threading.Lock()


def server_of(file: ModelFile) -> LocalServer:
    """The server of a file, one for this process."""
    with _LOCK:
        key = file.path.resolve(), file.window
        found = _SERVERS.get(key)
        if found is None:
            found = _SERVERS[key] = LocalServer(file)
        return found


@atexit.register
def close_all() -> None:
    """End all servers of this process."""
    with _LOCK:
        servers = [*_SERVERS.values()]
        _SERVERS.clear()
    for server in servers:
        server.close()


def _read(line: bytes) -> dict[str, str]:
    try:
        return json.loads(line)
    except ValueError:
        return {}
