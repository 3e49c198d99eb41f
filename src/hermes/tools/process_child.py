"""The process of one call: finds the function, calls it, sends the outcome back."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import pickle
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from copy import deepcopy
from pathlib import Path
from socket import socket
from types import ModuleType
from typing import cast

from hermes.core.codec import sha256
from hermes.errors import ConfigError, ToolError

from .base import ToolContext
from .failures import described, outcome_of
from .loading import load_tools
from .process_call import (
    Artifact,
    Begun,
    Call,
    Channel,
    NotCalled,
    Place,
    Progress,
    Raised,
    Returned,
    find,
)
from .results import ResultFault, normalise
from .waiting import Waiting

_TOOL_FILE = "hermes_tools_"
_MAIN = "__main__"


def main(fd: int) -> None:
    """Serve one call over the socket `fd`."""
    channel = Channel(socket(fileno=fd))
    place = cast("Place", pickle.loads(channel.receive()))
    pickled = channel.receive()
    try:
        function = cast("Callable[..., object]", find(_module(place), place.qualname))
        # Only now: its classes may be those of the module.
        call = cast("Call", pickle.loads(pickled))
    except Exception as exc:  # loading runs its author's own code
        text = str(exc) if isinstance(exc, ConfigError) else described(exc)
        channel.send(NotCalled(text=f"{place.module}.{place.qualname}: {text}"))
        return
    channel.send(Begun())
    try:
        outcome = _outcome(function, call, channel)
    except BaseException as exc:  # as `run` does for a tool in the main process
        outcome = _raised(exc)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # the process may be ended as soon as its outcome is known
    channel.send(outcome)


def _outcome(function: Callable[..., object], call: Call, channel: Channel) -> Returned | Raised:
    variables = _Variables(call.lent.variables if call.lent else {})
    context = _context(call, variables, channel)
    value = function(**{**call.bound, **dict.fromkeys(call.context, context)})
    if inspect.isawaitable(value):  # a plain function may wrap an async one
        value = asyncio.run(_awaited(value))
    if not isinstance(value, Waiting):
        try:
            value = normalise(value)
        except Exception as exc:  # a value's own properties are foreign code
            return _unfit(exc)
    return Returned(value=value, written=variables.written)


def _module(place: Place) -> ModuleType:
    if place.module.startswith(_TOOL_FILE):
        load_tools(Path(place.file))
        return sys.modules[place.module]
    if not place.is_main:
        return _imported(place)
    # Under another name, so that `if __name__ == "__main__"` does not start it again.
    is_script = place.module == _MAIN
    module = _from_file("__mp_main__", place.file) if is_script else _imported(place)
    sys.modules[_MAIN] = module
    return module


def _imported(place: Place) -> ModuleType:
    spec = importlib.util.find_spec(place.module)
    if spec is None and place.file:
        return _from_file(place.module, place.file)
    return importlib.import_module(place.module)


def _from_file(name: str, file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _context(call: Call, variables: _Variables, channel: Channel) -> ToolContext | None:
    lent = call.lent
    if lent is None:
        return None
    return ToolContext(
        request=lent.request,
        history=lent.history,
        task=lent.task,
        variables=variables,
        idempotency_key=lent.idempotency_key,
        trace_id=lent.trace_id,
        bench=_Bench(channel),
    )


async def _awaited(value: Awaitable[object]) -> object:
    return await value


def _raised(exc: BaseException) -> Raised:
    is_doubtful = outcome_of(exc, "unsafe")[0] == "in_doubt"
    status, fault = outcome_of(exc, "read")
    name, _, text = fault.message.partition(": ")
    return Raised(
        name=name,
        text=text if is_doubtful else fault.message,
        code=fault.code,
        retryable=fault.retryable,
        hint=fault.hint,
        may_be_done=is_doubtful,
        is_timeout=status == "timeout",
    )


def _unfit(exc: Exception) -> Raised:
    reason = str(exc) if isinstance(exc, ResultFault) else described(exc)
    return Raised(
        name=type(exc).__name__,
        text=f"the tool did run, but its result cannot be stored: {reason}",
        code="bad_result",
        hint="do not call it again just for the result",
    )


class _Variables(MutableMapping[str, object]):
    """The task's variables, of which a list or object is read as a copy, and what was written."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self._given = given
        self.written: dict[str, object] = {}

    def __getitem__(self, name: str) -> object:
        return deepcopy(self.written[name] if name in self.written else self._given[name])

    def __setitem__(self, name: str, value: object) -> None:
        self.written[name] = normalise(value)

    def __delitem__(self, name: str) -> None:
        raise ToolError(f"variable {name!r} cannot be removed", hint="set it to None")

    def __iter__(self) -> Iterator[str]:
        return iter({**self._given, **self.written})

    def __len__(self) -> int:
        return len({**self._given, **self.written})


class _Bench:
    """The workbench as far as it reaches into another process."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def cancelled(self) -> bool:
        return False  # the process does not outlive its call

    def progress(self, text: str) -> None:
        self._channel.send(Progress(text=text))

    def artifact(self, name: str, data: bytes | str) -> str:
        self._channel.send(Artifact(name=name, data=data))
        return sha256(data.encode() if isinstance(data, str) else data)

    async def read(self, handle: str) -> bytes:
        raise ToolError(
            f"handle {handle!r:.80} cannot be read in a process of its own",
            hint="its author has to leave run_in out",
        )
