"""Programs that bring tools: how they are started, what they get, what they say on stderr."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from subprocess import PIPE

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream
from pydantic import SecretStr

from hermes.errors import ConfigError, HermesError
from hermes.tools.processes import Guarded, ended, guarded

from .link import LineTooLong, lines

_LOG = logging.getLogger("hermes.plugin")
_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_GRACE_S = 2.0
_LINE_BYTES = 65_536
_TAIL_CHARS = 300
_STATUS_S = 2.0


def filled_in(values: Mapping[str, SecretStr]) -> dict[str, str]:
    """Values with `${NAME}` replaced by the variable of this process.

    Raises:
        ConfigError: There is no such variable; the value itself is not told.
    """

    def variable(found: re.Match[str]) -> str:
        value = os.environ.get(found[1])
        if value is None:
            raise ConfigError(f"our environment has no {found[1]}, which it is to be given")
        return value

    return {
        name: _VARIABLE.sub(variable, value.get_secret_value()) for name, value in values.items()
    }


class Program:
    """A program under its guard, its stderr read into the log.

    Attributes:
        label: As in the log, `plugin 'crm'`.
        stdin: To write to.
        stdout: To read from.
    """

    def __init__(self, label: str, args: Sequence[str], guard: Guarded) -> None:
        self.label = label
        self._args, self._guard, self._said = tuple(args), guard, ""
        assert guard.process.stdin is not None and guard.process.stdout is not None
        self.stdin: ByteSendStream = guard.process.stdin
        self.stdout: ByteReceiveStream = guard.process.stdout
        self._stderr = anyio.Event()

    async def listen(self) -> None:
        """Read stderr to its end."""
        stream = self._guard.process.stderr
        assert stream is not None
        try:
            async with aclosing(lines(stream, limit=_LINE_BYTES)) as found:
                async for line in found:
                    text = line.decode("utf-8", "replace").rstrip()
                    _LOG.info("%s: %s", self.label, text[:1_000])
                    self._said = text or self._said
        except LineTooLong:
            _LOG.warning("%s: writes stderr without line ends; it is read no further", self.label)
        finally:
            self._stderr.set()

    async def reason(self) -> str:
        """Why its output has ended: its exit code, and the last that it complained of."""
        with anyio.move_on_after(_STATUS_S):
            await self._guard.ended()
            await self._stderr.wait()
        try:
            code = self._guard.exit_code(self._args)
        except HermesError as exc:
            return exc.message
        except ConnectionError:
            return "it closed its output" if self._guard.status is None else "it was ended"
        said = self._said[-_TAIL_CHARS:]
        return f"it {ended(code)}, and last wrote: {said}" if said else f"it {ended(code)}"


@asynccontextmanager
async def program(
    label: str, args: Sequence[str], *, env: Mapping[str, str], cwd: Path | None
) -> AsyncGenerator[Program]:
    """A program that talks on its stdin and stdout, with little of our environment.

    At the end of the block it and all that it started are gone: SIGTERM, after 2 s SIGKILL. It
    dies with this process.
    """
    ours = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    async with guarded(
        args, cwd=cwd, env={**ours, **env}, stdin=PIPE, output=PIPE, grace_s=_GRACE_S
    ) as guard:
        started = Program(label, args, guard)
        async with anyio.create_task_group() as group:
            group.start_soon(started.listen)
            yield started
            group.cancel_scope.cancel()
