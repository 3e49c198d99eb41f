"""Plain functions that hold the interpreter lock, each call in a process of its own."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import pickle
import socket
import struct
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import cast

import anyio

from hermes.core.chat import ChatMessage
from hermes.core.request import AgentRequest
from hermes.errors import NotDone, ToolDefinitionError, ToolError

from .base import Invoke, TaskSnapshot, Tool, ToolContext
from .processes import ended, guarded

MAX_PROCESSES = 64
_free = threading.BoundedSemaphore(MAX_PROCESSES)
_TIDY_S = 1.0
_HEAD = struct.Struct("!Q")
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from hermes.tools.process_child import main; main(int(sys.argv[1]))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where another process finds a function again.

    Attributes:
        module: The name to import it by; `__main__` for a script.
        file: Of its module; "" if it has none.
        is_main: Its module is the program itself, and has the name `__main__` here.
    """

    module: str
    qualname: str
    file: str
    is_main: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """What a call in another process is told of its task; all of it can be pickled."""

    request: AgentRequest
    history: Sequence[ChatMessage]
    task: TaskSnapshot
    variables: Mapping[str, object]
    idempotency_key: str
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call on its way.

    Attributes:
        bound: Arguments as the function's annotations promise.
        context: Parameters that get the `ToolContext`.
        lent: What that is made of; None where nobody asks for it.
    """

    bound: Mapping[str, object]
    context: tuple[str, ...]
    lent: Lent | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The function was found and is called now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What `ToolContext.progress` was told."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """What `ToolContext.artifact` was given."""

    name: str
    data: bytes | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """The end: plain JSON or what the call waits for, and the variables that it wrote."""

    value: object
    written: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The end: an exception that tells the call's outcome.

    Attributes:
        name: Its class.
        may_be_done: A timeout or a lost connection: the other side may have acted.
        is_timeout: Of these, a timeout.
    """

    name: str
    text: str
    code: str = "failed"
    retryable: bool = False
    hint: str = ""
    may_be_done: bool = False
    is_timeout: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCalled:
    """The end: the function was not found, or its module cannot be loaded."""

    text: str


Word = Begun | Progress | Artifact | Returned | Raised | NotCalled


class ProcessDied(ConnectionError):
    """The process of a call ended without an outcome."""


def process_invoker(
    function: Callable[..., object], context: tuple[str, ...], *, tool: str
) -> Invoke:
    """How a plain function is run in a process of its own.

    Each call starts a fresh interpreter, which imports the function's module again; arguments go
    there by pickle, the result comes back as plain JSON. The context offers the task, variables,
    key, progress and artifacts, but no handles to read; context variables do not go along. When
    the call is cancelled or its time is over the process is ended with all that it started, as
    by `run_process`. One that dies leaves the call's outcome unknown.

    Args:
        function: Must be found again by its module and name.
        context: Parameters that get the `ToolContext`.
        tool: The tool's name.

    Raises:
        ToolDefinitionError: It cannot be found again, or it is async.
    """
    place = place_of(function, tool=tool)

    async def invoke(bound: Mapping[str, object], given: ToolContext) -> object:
        _check_found(place, function)
        call = Call(bound=bound, context=context, lent=_lent(given) if context else None)
        if not _free.acquire(blocking=False):
            raise NotDone(
                f"{MAX_PROCESSES} calls run in processes already",
                code="busy",
                hint="try again later",
            )
        try:
            return await _call(place, _pickled(call), given)
        finally:
            _free.release()

    return invoke


def place_of(function: Callable[..., object], *, tool: str) -> Place:
    """Where another process finds a function.

    Raises:
        ToolDefinitionError: Nowhere, as with a lambda, an inner function or an object's method.
    """
    plain = inspect.unwrap(function) if inspect.isfunction(function) else function
    if inspect.iscoroutinefunction(plain):
        raise ToolDefinitionError(
            f"tool {tool!r}: an async function does not run in a process of its own",
            hint="leave run_in out, or make it a plain function",
        )
    qualname = str(getattr(function, "__qualname__", ""))
    module = sys.modules.get(function.__module__ or "")
    owner = getattr(function, "__self__", None)
    reason = ""
    if not qualname or "<" in qualname:
        reason = f"{qualname or function!r:.80} has no name that leads to it"
    elif owner is not None and not isinstance(owner, type | ModuleType):
        reason = "it is a method of an object that lives in this process alone"
    elif module is None or not (_file(module) or module.__spec__):
        reason = f"its module {function.__module__!r} comes from no file"
    if module is None or reason:
        raise ToolDefinitionError(
            f"tool {tool!r}: another process cannot find the function: {reason}",
            hint="define it at the top of a module, or leave run_in out",
        )
    is_main = module.__name__ == "__main__"
    name = module.__spec__.name if is_main and module.__spec__ else module.__name__
    return Place(module=name, qualname=qualname, file=_file(module), is_main=is_main)


def find(module: ModuleType, qualname: str) -> object:
    """The function that a module has under a name, also where that is a tool by now.

    Raises:
        AttributeError: It has none.
    """
    found: object = functools.reduce(getattr, qualname.split("."), module)
    return cast("Tool", found).function if isinstance(found, Tool) else found


class Channel:
    """Pickled values over a socket, from the side that may block.

    Both ends are of this program; nothing that a model or a peer says is unpickled.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rwb")
        self._lock = threading.Lock()

    def send(self, value: object) -> None:
        data = pickle.dumps(value)
        with self._lock:
            self._file.write(_HEAD.pack(len(data)) + data)
            self._file.flush()

    def receive(self) -> bytes:
        """The next value, still pickled."""
        (size,) = _HEAD.unpack(self._file.read(_HEAD.size))
        return self._file.read(size)


def _file(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return str(Path(file).absolute()) if isinstance(file, str) else ""


def _check_found(place: Place, function: Callable[..., object]) -> None:
    """Refuse to call something else under the function's name."""
    try:
        found = find(sys.modules[function.__module__], place.qualname)
    except (AttributeError, KeyError):
        found = None
    if found != function:
        raise NotDone(
            f"another process would not find the function: {place.module}.{place.qualname} "
            f"is {found!r:.80}",
            code="not_found",
            hint="its author has to give it a name of its own, or leave run_in out",
        )


def _lent(given: ToolContext) -> Lent:
    return Lent(
        request=replace(given.request, metadata=dict(given.request.metadata)),
        history=tuple(given.history),
        task=replace(given.task, limits=dict(given.task.limits)),
        variables=dict(given.variables),
        idempotency_key=given.idempotency_key,
        trace_id=given.trace_id,
    )


def _pickled(call: Call) -> bytes:
    try:
        return pickle.dumps(call)
    except (pickle.PicklingError, TypeError, AttributeError, ImportError) as exc:
        raise NotDone(
            f"the arguments cannot be passed to another process: {exc}",
            code="not_picklable",
            hint="its author has to take plain values, or classes of an importable module",
        ) from exc


async def _call(place: Place, call: bytes, given: ToolContext) -> object:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        fd = theirs.fileno()
        words = (sys.executable, "-c", _START, str(fd), json.dumps(sys.path))
        async with guarded(words, fds=(fd,)) as process:
            theirs.close()
            talk = _Talk(ours, given)
            outcome = await talk.until_outcome(pickle.dumps(place), call)
            # With an outcome there is nothing to wait for but the end of a tidy interpreter.
            with anyio.move_on_after(None if outcome is None else _TIDY_S):
                await process.ended()
        return talk.result(outcome, process.status)


class _Talk:
    """The caller's side of one call."""

    def __init__(self, connection: socket.socket, given: ToolContext) -> None:
        self._connection, self._given = connection, given
        self._has_begun = False

    async def until_outcome(self, *frames: bytes) -> Returned | Raised | NotCalled | None:
        """Ask, listen, and return the last word; None if the process ended without one."""
        loop = asyncio.get_running_loop()
        try:
            for frame in frames:
                await loop.sock_sendall(self._connection, _HEAD.pack(len(frame)) + frame)
        except (BrokenPipeError, ConnectionResetError):
            return None
        try:
            while (word := await self._next()) is not None:
                match word:
                    case Begun():
                        self._has_begun = True
                    case Progress(text=text):
                        self._given.progress(text)
                    case Artifact(name=name, data=data):
                        self._given.artifact(name, data)
                    case _:
                        return word
        except ConnectionResetError:
            return None
        return None

    def result(self, outcome: Returned | Raised | NotCalled | None, status: int | None) -> object:
        """The call's value, or its exception."""
        match outcome:
            case Returned():
                self._given.variables.update(outcome.written)
                return outcome.value
            case Raised():
                raise _as_raised(outcome)
            case NotCalled(text=text):
                raise NotDone(f"the function was not called: {text}", code="not_found")
            case None:
                how = ended(status) if status is not None else "was ended"
                if not self._has_begun:
                    raise NotDone(f"the process of the call {how} before it called the function")
                raise ProcessDied(f"the process of the call {how} before it had a result")

    async def _next(self) -> Word | None:
        head = await self._exactly(_HEAD.size)
        if head is None:
            return None
        data = await self._exactly(_HEAD.unpack(head)[0])
        return None if data is None else cast("Word", pickle.loads(data))

    async def _exactly(self, size: int) -> bytes | None:
        loop, data = asyncio.get_running_loop(), bytearray()
        while len(data) < size:
            more = await loop.sock_recv(self._connection, min(size - len(data), 1 << 20))
            if not more:
                return None
            data += more
        return bytes(data)


def _as_raised(outcome: Raised) -> Exception:
    """An exception that means here what the function's own meant there."""
    if outcome.may_be_done:
        # A stand-in of the same name: the class itself may exist in the other process alone.
        base = TimeoutError if outcome.is_timeout else ConnectionError
        stand_in = cast("type[Exception]", type(outcome.name, (base,), {}))
        return stand_in(outcome.text)
    return ToolError(
        outcome.text, code=outcome.code, retryable=outcome.retryable, hint=outcome.hint
    )
