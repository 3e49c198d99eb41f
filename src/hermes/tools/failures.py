"""What an exception of a tool means: an error, a refusal, or an outcome that nobody knows."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import cast

from hermes.core.effects import Effect, may_repeat
from hermes.core.events import CallStatus, Fault
from hermes.core.json import dumps
from hermes.errors import HermesError, NotDone, ToolError

from .base import ToolResult

AGAIN = "try again"
PERMANENT = "permanent: the same call will fail again"
LOOK_FIRST = "find out whether it took effect before calling again"
_MESSAGE_CHARS = 500
# The HTTP libraries' own words for a request that surely never left; what else breaks in
# transport may have been done.
_HTTP_MODULES = ("httpx2", "httpx")
_NO_WAY = (errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH)
_NEVER_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError")


def failed_result(status: CallStatus, fault: Fault, *, duration_s: float = 0.0) -> ToolResult:
    """The result of a call that came to nothing.

    The model reads one JSON object, `{"status", "error": {code, message, retryable, hint}}`.
    """
    told = {
        "code": fault.code,
        "message": fault.message,
        "retryable": fault.retryable,
        "hint": fault.hint,
    }
    content = dumps({"status": status, "error": {k: v for k, v in told.items() if v != ""}})
    return ToolResult(
        status=status, content=content, error=fault, size=len(content), duration_s=duration_s
    )


def outcome_of(exc: BaseException, effect: Effect) -> tuple[CallStatus, Fault]:
    """Status and fault of a call whose tool raised.

    A `ToolError` says itself what it means. A timeout or a lost connection leaves an `unsafe`
    call in doubt: the request may have been carried out. All else is an error of the tool.
    """
    exc = _only(exc)
    if isinstance(exc, ToolError):
        hint = exc.hint or (AGAIN if exc.retryable else PERMANENT)
        return "error", _fault(exc.code, exc.message, exc.retryable, hint)
    if isinstance(exc, HermesError):
        return "error", _fault("failed", exc.message, False, exc.hint or PERMANENT)
    text = described(exc)
    if not may_be_done(exc):
        retryable = isinstance(exc, ConnectionError) or _is_http(exc)
        return "error", _fault("exception", text, retryable, AGAIN if retryable else PERMANENT)
    if not may_repeat(effect):
        return "in_doubt", _fault("in_doubt", f"{text}; it may have been done", False, LOOK_FIRST)
    if any(isinstance(item, TimeoutError) for item in _chain(exc)):
        return "timeout", _fault("timeout", text, True, AGAIN)
    return "error", _fault("connection", text, True, AGAIN)


def timed_out(timeout_s: float | None, effect: Effect) -> tuple[CallStatus, Fault]:
    """Status and fault of a call whose time is over."""
    text = f"no result within {timeout_s:g} s" if timeout_s is not None else "no result in time"
    if may_repeat(effect):
        return "timeout", _fault("timeout", text, True, AGAIN)
    return "in_doubt", _fault("in_doubt", f"{text}; it may have been done", False, LOOK_FIRST)


def may_be_done(exc: BaseException) -> bool:
    """Whether an exception leaves open if the other side acted: a timeout or a lost connection.

    Libraries wrap such errors in their own; the whole chain of causes counts.
    """
    if isinstance(exc, NotDone):
        return False
    if _is_http(exc):
        return type(exc).__name__ not in _NEVER_SENT
    return any(
        isinstance(item, TimeoutError | ConnectionError)
        and not isinstance(item, ConnectionRefusedError)
        for item in _chain(exc)
    )


def lies_outside(exc: BaseException) -> bool:
    """Whether an exception tells of something outside that does not work at present.

    That is no answer in time, no connection, and a `ToolError` that says `retryable`. `NotDone` is
    about the call, and so is every other error.
    """
    exc = _only(exc)
    if isinstance(exc, NotDone):
        return False
    if isinstance(exc, ToolError):
        return exc.retryable
    if isinstance(exc, HermesError):
        return False
    return _is_http(exc) or any(map(_is_unreachable, _chain(exc)))


def _is_unreachable(exc: BaseException) -> bool:
    if isinstance(exc, TimeoutError | ConnectionError | socket.gaierror):
        return True
    return isinstance(exc, OSError) and exc.errno in _NO_WAY


def described(exc: BaseException) -> str:
    """An exception in one line, `ValueError: text`, never a traceback."""
    try:
        text = " ".join(str(exc).split())
    except Exception as broken:  # its own `__str__` failed: foreign code, nothing to tell
        text = f"(no text: {type(broken).__name__})"
    text = text.encode("utf-8", "backslashreplace").decode()
    text = text if len(text) <= _MESSAGE_CHARS else f"{text[: _MESSAGE_CHARS - 1]}…"
    name = type(exc).__name__
    return f"{name}: {text}" if text else name


def _fault(code: str, message: str, retryable: bool, hint: str) -> Fault:
    return Fault(code=code, message=message, retryable=retryable, hint=hint)


def _only(exc: BaseException) -> BaseException:
    """What a group holds, if it holds one; task groups wrap even a single error."""
    while len(inner := members(exc)) == 1:
        exc = inner[0]
    return exc


def members(exc: BaseException) -> Sequence[BaseException]:
    """What an exception group holds; nothing for any other exception."""
    if isinstance(exc, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", exc).exceptions
    return ()


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """An exception, the members of a group, and their causes; each once."""
    waiting, seen = [exc], set[int]()
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        waiting += members(item)
        hidden = None if item.__suppress_context__ else item.__context__
        waiting += [cause for cause in (item.__cause__, hidden) if cause is not None]


def _is_http(exc: BaseException) -> bool:
    modules = (sys.modules.get(name) for name in _HTTP_MODULES)
    return any(module is not None and isinstance(exc, module.TransportError) for module in modules)
