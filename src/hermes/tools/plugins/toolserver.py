"""A plugin in an environment of its own: its process, and the calls to it."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from hermes.core.json import as_list, as_object
from hermes.errors import NotDone, ToolError
from hermes.tools.base import ToolContext

from .link import LineTooLong, lines
from .options import PluginServer
from .process import Program, filled_in, program

_LOG = logging.getLogger("hermes.plugin")
_CHILD = str(Path(__file__).with_name("toolserver_child.py"))
_LINE_BYTES = 4_000_000
_PONG_S = 2.0


class PluginDied(ConnectionError):
    """The process of a plugin ended while a call was under way."""


class PluginTimeout(TimeoutError):
    """What a plugin's own call waited for did not come in time."""


@dataclass(eq=False)
class _Waiting:
    context: ToolContext | None
    done: anyio.Event = field(default_factory=anyio.Event)
    is_sent: bool = False
    answer: Mapping[str, object] | None = None


class ToolServer:
    """One running process of a plugin.

    Attributes:
        version: Of the plugin; "" if it tells none.
        offered: Its tools, as it described them.
    """

    def __init__(self, running: Program, group: TaskGroup) -> None:
        self.version = ""
        self.offered: list[Mapping[str, object]] = []
        self._running, self._group = running, group
        self._waiting: dict[int, _Waiting] = {}
        self._numbers = count(1)
        self._outbox, self._to_send = anyio.create_memory_object_stream[Mapping[str, object]](
            math.inf
        )
        self._over, self._problem = anyio.Event(), ""
        group.start_soon(self._listen)
        group.start_soon(self._send)

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    async def ended(self) -> str:
        await self._over.wait()
        return self._problem

    async def load(self) -> None:
        """Ask for its tools.

        Raises:
            ToolError: The plugin cannot be loaded; the message says why.
        """
        told = as_object(await self._ask({"do": "list"})) or {}
        self.version = str(told.get("version", ""))
        found = map(as_object, as_list(told.get("tools")))
        self.offered = [item for item in found if item is not None]

    async def call(
        self, tool: str, arguments: Mapping[str, object], context: ToolContext | None
    ) -> object:
        """Call a tool.

        Raises:
            ToolError: What the plugin said.
            NotDone: It surely was not called.
            PluginDied: The process ended before it answered.
            PluginTimeout: What the call itself waited for did not come.
        """
        key = context.idempotency_key if context is not None else ""
        words = {"do": "call", "tool": tool, "arguments": dict(arguments), "key": key}
        return await self._ask(words, context)

    async def _ask(self, words: Mapping[str, object], context: ToolContext | None = None) -> object:
        number = next(self._numbers)
        waiting = _Waiting(context)
        if not self._over.is_set():
            self._waiting[number] = waiting
            self._outbox.send_nowait({"id": number, **words})
            try:
                await waiting.done.wait()
            except anyio.get_cancelled_exc_class():
                if not self._over.is_set():
                    self._outbox.send_nowait({"id": number, "do": "cancel"})
                    self._group.start_soon(self._check)
                raise
            finally:
                del self._waiting[number]
        if waiting.answer is not None:
            return _result(waiting.answer, words)
        text = f"{self._running.label} ended before it answered: {self._problem}"
        raise PluginDied(text) if waiting.is_sent else NotDone(text)

    async def _check(self) -> None:
        """After a call that was given up: a process that is stuck as a whole is of no use."""
        try:
            with anyio.fail_after(_PONG_S):
                await self._ask({"do": "ping"})
        except TimeoutError:
            self._end(f"it did not answer a ping within {_PONG_S:g} s")
        except (PluginDied, NotDone):
            return  # it has ended, and says why itself

    async def _send(self) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for words in self._to_send:
                number = words["id"]
                if isinstance(number, int) and number in self._waiting:
                    # Said before: what was written may be read even where writing fails.
                    self._waiting[number].is_sent = True
                text = json.dumps(words, ensure_ascii=False)
                await self._running.stdin.send(text.encode("utf-8", "backslashreplace") + b"\n")

    async def _listen(self) -> None:
        try:
            async with aclosing(lines(self._running.stdout, limit=_LINE_BYTES)) as found:
                async for line in found:
                    self._hear(line)
            self._end(await self._running.reason())
        except LineTooLong as exc:
            self._end(f"it wrote {exc}")
        finally:
            self._end("it was closed")

    def _end(self, problem: str) -> None:
        """Nothing more is heard of it; the first reason counts."""
        self._problem = self._problem or problem
        self._over.set()
        self._outbox.close()
        self._to_send.close()
        for waiting in self._waiting.values():
            waiting.done.set()

    def _hear(self, line: bytes) -> None:
        try:
            answer = as_object(json.loads(line))
            number = None if answer is None else answer.get("id")
        except ValueError:
            answer = number = None
        if answer is None or not isinstance(number, int):
            _LOG.warning("%s: wrote %.80r among its answers", self._running.label, line)
            return
        waiting = self._waiting.get(number)
        if waiting is None:
            return  # nobody waits any more
        if "progress" in answer:
            if waiting.context is not None:
                waiting.context.progress(str(answer["progress"]))
            return
        waiting.answer = answer
        waiting.done.set()


def _result(answer: Mapping[str, object], words: Mapping[str, object]) -> object:
    error = as_object(answer.get("error"))
    if error is None:
        return answer.get("ok")
    text, code = str(error.get("message", "")), str(error.get("code", "failed"))
    hint = str(error.get("hint", ""))
    if words["do"] == "list":
        raise ToolError(f"it cannot be loaded: {text}", code=code)
    if error.get("not_done"):
        raise NotDone(text, code=code, hint=hint)
    if error.get("open") == "timeout":
        raise PluginTimeout(text)
    if error.get("open") == "connection":
        raise PluginDied(text)
    raise ToolError(text, code=code, retryable=error.get("retryable") is True, hint=hint)


def _command(spec: PluginServer) -> tuple[str, ...]:
    """Paths are from our folder, not from the one that the plugin is to have."""
    python = spec.python or sys.executable
    if "/" in python:
        python = str(Path(python).absolute())
    if spec.file is None:
        return (python, "-u", _CHILD, "module", spec.module or "")
    return (python, "-u", _CHILD, "file", str(spec.file.absolute()))


@asynccontextmanager
async def tool_server(name: str, spec: PluginServer) -> AsyncGenerator[ToolServer]:
    """A plugin's process with its tools told.

    Raises:
        ToolError: It cannot be started or loaded.
    """
    label = f"plugin {name!r}"
    args = _command(spec)
    env = {"PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1", **filled_in(spec.env)}
    async with program(label, args, env=env, cwd=spec.cwd) as running:
        async with anyio.create_task_group() as group:
            server = ToolServer(running, group)
            try:
                await server.load()
            except (NotDone, PluginDied) as exc:
                raise ToolError(await server.ended(), code="not_loaded") from exc
            yield server
            group.cancel_scope.cancel()
