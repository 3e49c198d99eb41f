"""Bubblewrap as a sandbox: Python in namespaces of its own, with nothing to write to."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from hermes.core.json import as_object, dumps, loads
from hermes.errors import CodecError, ToolError
from hermes.tools.processes import ProcessResult, ProcessTimeout, ended, run_process

from .python_result import MEMORY_BYTES, PRINTED_CHARS, Ended, Snippet, failed, too_slow

_INSIDE = str(Path(__file__).with_name("python_inside.py"))
_SYSTEM = ("/bin", "/lib", "/lib32", "/lib64", "/libx32")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
_OUTPUT_BYTES = 8_000_000
_LATE_S = 3.0
"""It starts within that time, and ends itself when its own is over; code can forbid it to."""
_OVER = ("SIGALRM", "SIGXCPU")


async def run_in_bubblewrap(snippet: Snippet) -> Ended:
    """Run a program in a fresh sandbox: no network, no files but Python's own, no processes.

    Raises:
        ToolError: `bwrap` is not installed, or this machine lets it make no sandbox.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise ToolError("bubblewrap is not installed", code="no_sandbox")
    told = {
        "code": snippet.code,
        "inputs": dict(snippet.inputs),
        "memory": MEMORY_BYTES,
        "timeout_s": snippet.timeout_s,
        "printed": PRINTED_CHARS,
    }
    try:
        done = await run_process(
            [program, *_walls(), _python(), "-I", "-S", "-B", "-X", "utf8", "/inside.py"],
            timeout_s=snippet.timeout_s + _LATE_S,
            input=dumps(told),
            env={},
            limit_bytes=_OUTPUT_BYTES,
            cancel_grace_s=0,
        )
    except ProcessTimeout:
        return Ended(error=too_slow(snippet.timeout_s))
    return _ended(done, snippet)


def _walls() -> Iterator[str]:
    yield from ("--unshare-all", "--die-with-parent", "--new-session", "--clearenv")
    yield from ("--uid", "65534", "--gid", "65534", "--cap-drop", "ALL", "--hostname", "sandbox")
    yield from ("--ro-bind", "/usr", "/usr")
    for folder in _SYSTEM:
        if os.path.islink(folder):
            yield from ("--symlink", os.readlink(folder), folder)
        elif os.path.isdir(folder):
            yield from ("--ro-bind", folder, folder)
    base = os.path.realpath(sys.base_prefix)
    if not base.startswith("/usr/"):
        yield from ("--ro-bind", base, base)
    for device in _DEVICES:
        yield from ("--dev-bind", device, device)
    yield from ("--proc", "/proc", "--ro-bind", _INSIDE, "/inside.py", "--remount-ro", "/")
    yield from ("--chdir", "/", "--")


def _python() -> str:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return os.path.join(os.path.realpath(sys.base_prefix), "bin", version)


def _ended(done: ProcessResult, snippet: Snippet) -> Ended:
    try:
        said = as_object(loads(done.stdout))
    except CodecError:
        said = None
    if said is None:
        return Ended(error=_left(done, snippet))
    printed = str(said.get("printed", ""))
    error = as_object(said.get("error"))
    if error is None:
        return Ended(value=said.get("value"), printed=printed)
    if error["type"] == "TimeoutError" and not error["message"]:
        return Ended(printed=printed, error=too_slow(snippet.timeout_s))
    line = cast("int | None", error["line"])
    told = failed(str(error["type"]), str(error["message"]), line=line, code=snippet.code)
    return Ended(printed=printed, error=told)


def _left(done: ProcessResult, snippet: Snippet) -> dict[str, object]:
    """The error of a program that ended without a word.

    Raises:
        ToolError: It never began.
    """
    if done.stderr.startswith("bwrap:"):
        raise ToolError(
            f"the sandbox cannot be made here: {' '.join(done.stderr.split())[:300]}",
            code="no_sandbox",
            hint="bubblewrap needs user namespaces; HERMES_PYTHON_SANDBOX=monty needs nothing",
        )
    # As shells do, bwrap tells of a signal by 128 and its number.
    how = ended(128 - done.exit_code if done.exit_code > 128 else done.exit_code)
    if any(name in how for name in _OVER):
        return too_slow(snippet.timeout_s)
    return failed("InterpreterEnded", f"the interpreter {how} before the program had a value")
