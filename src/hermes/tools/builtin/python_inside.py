"""The program inside of bubblewrap: it bounds itself, runs the code and says what came of it.

It reads one JSON object on stdin, `{"code", "inputs", "memory", "timeout_s", "printed"}`, and
writes one on stdout: `{"value"}` or `{"error"}`, and `"printed"`. It imports nothing of Hermes.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import errno
import io
import json
import os
import platform
import resource
import signal
import sys
import traceback
from typing import cast

_NAME = "<code>"
_AGAIN_S = 0.2
# Per machine: what starts a process or a program, and what starts a process or a thread.
_SYSCALLS = {
    "x86_64": (0xC000003E, (57, 58, 59, 322), 56),
    "aarch64": (0xC00000B7, (221, 281), 220),
}
_CLONE3 = 435
_CLONE_THREAD = 0x0001_0000
_X32 = 0x4000_0000
_ALLOW, _REFUSE = 0x7FFF_0000, 0x0005_0000
_LOAD, _EQUAL, _AT_LEAST, _SET, _GIVE = 0x20, 0x15, 0x35, 0x45, 0x06
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2


class Kept(io.TextIOBase):
    """The beginning of what is printed, and how much more that was."""

    def __init__(self, limit: int) -> None:
        self._limit, self._text, self._missing = limit, io.StringIO(), 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        room = max(0, self._limit - self._text.tell())
        self._text.write(text[:room])
        self._missing += len(text) - len(text[:room])
        return len(text)

    @property
    def text(self) -> str:
        more = f"\n[… {self._missing:,} more characters were printed …]" if self._missing else ""
        return self._text.getvalue() + more


def main() -> None:
    """What stands on stdin, run."""
    given = json.loads(sys.stdin.read())
    answer = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    _bound(given["memory"], given["timeout_s"])
    printed = Kept(given["printed"])
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            told = {"value": _as_json(_value(given["code"], dict(given["inputs"])))}
        except BaseException as exc:  # whatever the code raises is its result
            told = {"error": _error(exc)}
    signal.setitimer(signal.ITIMER_REAL, 0)
    left = memoryview(json.dumps({**told, "printed": printed.text}).encode())
    while left:
        left = left[os.write(answer, left) :]
    os._exit(0)  # threads of the code may still be at work


def _bound(memory: int, timeout_s: float) -> None:
    forbid_processes()
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, int(timeout_s) + 2),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 32),
        (resource.RLIMIT_NPROC, 16),
    ):
        resource.setrlimit(what, (most, most))
    signal.signal(signal.SIGALRM, _over)
    signal.setitimer(signal.ITIMER_REAL, timeout_s, _AGAIN_S)


def _over(_number: int, _frame: object) -> None:
    raise TimeoutError


def forbid_processes() -> None:
    """From here on no process and no program can be started, only threads.

    The kernel bounds the number of processes for ordinary users, but not for root.
    """
    known = _SYSCALLS.get(platform.machine())
    if known is None:
        return
    machine, starters, clone = known
    # Jumps go forward, over so many instructions: if it holds, and if not.
    code = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, machine), (_GIVE, 0, 0, _REFUSE | errno.EPERM)]
    code += [(_LOAD, 0, 0, 0), (_AT_LEAST, 0, 1, _X32), (_GIVE, 0, 0, _REFUSE | errno.EPERM)]
    for number in starters:
        code += [(_EQUAL, 0, 1, number), (_GIVE, 0, 0, _REFUSE | errno.EPERM)]
    # Its flags stand in memory, where a filter cannot look; without it, libraries take the other.
    code += [(_EQUAL, 0, 1, _CLONE3), (_GIVE, 0, 0, _REFUSE | errno.ENOSYS)]
    code += [(_EQUAL, 0, 3, clone), (_LOAD, 0, 0, 16), (_SET, 1, 0, _CLONE_THREAD)]
    code += [(_GIVE, 0, 0, _REFUSE | errno.EPERM), (_GIVE, 0, 0, _ALLOW)]
    filters = (_Instruction * len(code))(*code)
    program = _Program(len(code), filters)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "the filter of system calls cannot be set")


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("code", ctypes.POINTER(_Instruction)))


def _value(code: str, names: dict[str, object]) -> object:
    tree = ast.parse(code, _NAME)
    names["__name__"] = "__main__"
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, _NAME, "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), _NAME, "eval"), names)


def _as_json(value: object) -> object:
    """The value, or its text where JSON has no form for it."""
    try:
        return json.loads(json.dumps(value, default=_plain, allow_nan=False))
    except (TypeError, ValueError):
        return repr(value)


def _plain(value: object) -> object:
    if isinstance(value, set | frozenset):
        return sorted(cast("set[object]", value), key=repr)
    return str(value)


def _error(exc: BaseException) -> dict[str, object]:
    frames = traceback.extract_tb(exc.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == _NAME]
    line = exc.lineno if isinstance(exc, SyntaxError) else (lines[-1] if lines else None)
    message = exc.msg if isinstance(exc, SyntaxError) else str(exc)
    return {"type": type(exc).__name__, "message": message, "line": line}


if __name__ == "__main__":
    main()
