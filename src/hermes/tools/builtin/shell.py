"""Programs that an agent may run; group `shell`."""

from __future__ import annotations

import os
import shlex
import shutil
from typing import Annotated

from pydantic import Field

from hermes.core.problems import did_you_mean
from hermes.errors import NotDone, ToolError
from hermes.tools.base import Tool
from hermes.tools.function import tool
from hermes.tools.processes import ProcessTimeout, run_process

from .files_workspace import Workspace, must_be
from .options import BuiltinOptions

MAX_TIMEOUT_S = 600
OUTPUT_BYTES = 200_000
_MAX_ARGUMENT_BYTES = 120_000
_SAID_CHARS = 300
# What programs need to find their way; none of it is a key.
_HARMLESS = ("HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR")
_HARMLESS_PREFIX = "LC_"
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


class Shell:
    """Running programs that are on the list, in the workspace."""

    def __init__(self, options: BuiltinOptions) -> None:
        self._workspace = Workspace(options.workspace)
        self._programs = options.shell_programs
        self._env = options.shell_env

    async def run_command(
        self,
        argv: Annotated[
            list[Annotated[str, Field(max_length=100_000)]], Field(min_length=1, max_length=500)
        ],
        cwd: str = ".",
        stdin: Annotated[str, Field(max_length=1_000_000)] = "",
        timeout_s: Annotated[int, Field(ge=1, le=MAX_TIMEOUT_S)] = 60,
    ) -> dict[str, object]:
        """Run one program with its arguments in the workspace, and wait for its end.

        Use it for what no other tool does, with a program that is allowed. There is no shell: no
        pipes, `&&`, `*`, `$NAME` or redirection; each argument arrives as it is written. Not for
        reading and writing files (`read_file`, `write_file`), nor for programs that stay: when it
        ends or its time is over, all that it started is ended. It gets no keys or settings from
        the environment. This is no sandbox: the program may read and change what the user may
        that Hermes runs as.

        Args:
            argv: The program by its name, then each argument on its own: `["git", "log", "-5"]`.
            cwd: Its folder, relative to the workspace.
            stdin: What it reads on standard input.
            timeout_s: Seconds until it is ended; what it did until then stays done.

        Returns:
            `exit_code` (0 is good by custom; negative: the signal that ended it), `stdout` and
            `stderr`, of each the first and last 100,000 bytes if it is longer.

        Example:
            run_command(argv=["git", "log", "--oneline", "-5"], cwd="project")
        """
        program = self._program(argv)
        with self._workspace.spot(cwd) as spot:
            folder = must_be(spot, "folder").handle
            try:
                ended = await run_process(
                    [program, *argv[1:]],
                    timeout_s=timeout_s,
                    input=stdin or None,
                    # The folder that was found, whatever has its name by now.
                    cwd=f"/proc/{os.getpid()}/fd/{folder}",
                    env=self._environment(),
                    limit_bytes=OUTPUT_BYTES,
                )
            except ProcessTimeout as exc:
                raise _with_last_words(exc) from exc
        data: dict[str, object] = {"exit_code": ended.exit_code, "stdout": ended.stdout}
        return {**data, "stderr": ended.stderr} if ended.stderr else data

    def shown(self, argv: list[str], cwd: str = ".", stdin: str = "", timeout_s: int = 60) -> str:
        """What `run_command` would run."""
        program = self._program(argv)
        fed = f", with {len(stdin):,} characters on standard input" if stdin else ""
        return f"in {cwd!r}, at most {timeout_s} s{fed}: {shlex.join([program, *argv[1:]])}"

    def can_run(self) -> str | None:
        """What is missing before any program can be run; None if nothing is."""
        return None if self._programs else "HERMES_SHELL_PROGRAMS names no program"

    def _program(self, argv: list[str]) -> str:
        """Where the program stands.

        Raises:
            ToolError: It is not on the list.
            NotDone: It is not installed, or an argument cannot be passed.
        """
        name = argv[0]
        if name not in self._programs:
            raise ToolError(
                f"the program {name!r:.80} is not allowed",
                code="not_allowed",
                hint=self._instead(name),
            )
        if "/" in name and not os.path.isabs(name):
            raise ToolError(
                f"HERMES_SHELL_PROGRAMS has {name!r}, neither a name nor an absolute path",
                code="not_allowed",
                hint="a person has to correct the setting",
            )
        for argument in argv:
            _check_argument(argument)
        if sum(len(argument.encode()) for argument in argv) > _MAX_ARGUMENT_BYTES:
            raise NotDone(
                f"the arguments have more than {_MAX_ARGUMENT_BYTES:,} bytes",
                code="too_long",
                hint="pass long text by stdin or in a file",
            )
        found = name if os.path.isabs(name) else shutil.which(name, path=self._path())
        if found is None:
            raise NotDone(
                f"the program {name!r} is not installed",
                code="not_installed",
                hint=f"looked for in {self._path()}",
            )
        return found

    def _instead(self, name: str) -> str:
        if name.partition(" ")[0] in self._programs:
            return 'give each argument as an item of its own: ["git", "log", "-5"]'
        allowed = ", ".join(self._programs) or "none"
        known = f"HERMES_SHELL_PROGRAMS allows: {allowed}"
        return did_you_mean(name, self._programs) or known

    def _path(self) -> str:
        """Folders of programs; none that an agent could write a program into."""
        root = os.path.realpath(self._workspace.root)
        folders = os.environ.get("PATH", _DEFAULT_PATH).split(":")
        return ":".join(
            folder
            for folder in folders
            if os.path.isabs(folder)
            and os.path.commonpath([os.path.realpath(folder), root]) != root
        )

    def _environment(self) -> dict[str, str]:
        wanted = {*_HARMLESS, *self._env}
        env = {
            name: value
            for name, value in os.environ.items()
            if name in wanted or name.startswith(_HARMLESS_PREFIX)
        }
        return {**env, "PATH": self._path(), "TERM": "dumb"}


def _check_argument(argument: str) -> None:
    try:
        has_zero = b"\0" in argument.encode()
    except UnicodeEncodeError:
        has_zero = True
    if has_zero:
        raise NotDone(
            f"the argument {argument!r:.80} holds a zero byte or half a character",
            code="bad_argument",
        )


def _with_last_words(exc: ProcessTimeout) -> ProcessTimeout:
    """The same with the end of what the program had written: the rest is lost with it."""
    said = " ".join((exc.stderr or exc.stdout).split())[-_SAID_CHARS:]
    text = f"{exc}; its last words: {said}" if said else str(exc)
    return ProcessTimeout(text, stdout=exc.stdout, stderr=exc.stderr)


def tools(options: BuiltinOptions) -> tuple[Tool, ...]:
    """Running programs.

    What a program writes counts as coming from outside, and the call as one that may send: a
    program prints what others wrote as readily as what it found at home, and which it was nobody
    can tell from its output.
    """
    shell = Shell(options)
    made = tool(
        effect="unsafe",
        group="shell",
        timeout_s=MAX_TIMEOUT_S + 30.0,
        requires_approval=options.shell_approval == "always",
        preview=shell.shown,
        untrusted_output=True,
        outbound=True,
        health=shell.can_run,
    )
    return (made(shell.run_command),)
