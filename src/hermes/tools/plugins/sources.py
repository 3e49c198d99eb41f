"""Programs that bring tools, each behind one connection that is kept for all runs."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from hermes.errors import NotDone, ToolDefinitionError
from hermes.tools.base import Tool, ToolContext

from .brought import Plugin
from .foreign import MAX_TOOLS, Call, Foreign, foreign_tool
from .link import Link
from .options import PluginServer
from .toolserver import ToolServer, tool_server

_LOG = logging.getLogger("hermes.plugin")
_TURN_S = 10.0


class Source(Protocol):
    """A program that brings tools.

    Attributes:
        group: The group of all its tools; None where each says so itself.
        is_known: Whether it has told its tools.
    """

    group: str | None
    is_known: bool

    async def refresh(self) -> None:
        """Open it if it is not, and ask what it offers now."""
        ...

    def plugin(self) -> Plugin:
        """What it offered last, and what is wrong with it."""
        ...

    async def aclose(self) -> None:
        """Close it; bounded."""
        ...


@asynccontextmanager
async def turn(free: anyio.Semaphore, label: str) -> AsyncGenerator[None]:
    """One of the calls that may run at a time.

    Raises:
        NotDone: None was free for a while: a call that waited out its own time would be in doubt.
    """
    with anyio.move_on_after(_TURN_S) as scope:
        await free.acquire()
    if scope.cancelled_caught:
        text = f"{label} is busy: as many calls run as may at a time"
        raise NotDone(text, code="busy", hint="try again later")
    try:
        yield
    finally:
        free.release()


class ToolTable:
    """The tools of a program, made anew only where what it says of them has changed."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._seen: object = None
        self.tools: tuple[Tool, ...] = ()
        self.problem = ""

    def take(self, seen: object, described: Iterable[tuple[Foreign, Call]]) -> None:
        """Make the tools.

        Args:
            seen: What they are made from; the same again changes nothing.
            described: Each tool, and how it is called.
        """
        if seen == self._seen:
            return
        self._seen = seen
        made: dict[str, Tool] = {}
        faults: list[str] = []
        for number, (foreign, call) in enumerate(described):
            if number == MAX_TOOLS:
                faults.append(f"it offers more than {MAX_TOOLS} tools; the others are left out")
                break
            try:
                tool = foreign_tool(foreign, call)
                if tool.name in made:
                    raise ToolDefinitionError(f"two of its tools are called {tool.name!r}")
            except ToolDefinitionError as exc:
                faults.append(exc.message)
                continue
            made[tool.name] = tool
        self.tools, self.problem = tuple(made.values()), "; ".join(faults)
        for fault in faults:
            _LOG.warning("%s: %s; that tool is left out", self._label, fault)


class ProcessSource:
    """A plugin that runs in an environment of its own."""

    def __init__(self, name: str, spec: PluginServer, group: TaskGroup) -> None:
        self.group, self.is_known = spec.group, False
        self._name, self._spec, self._version = name, spec, ""
        self._link: Link[ToolServer] = Link(
            f"plugin {name!r}",
            lambda: tool_server(name, spec),
            group=group,
            start_timeout_s=spec.start_timeout_s,
        )
        self._tools = ToolTable(self._link.label)
        self._free = anyio.Semaphore(spec.concurrency)

    async def refresh(self) -> None:
        try:
            peer = await self._link.peer()
        except NotDone:
            return  # told in the log, once
        self._version, self.is_known = peer.version, True
        self._tools.take(peer.offered, map(self._described, peer.offered))

    def plugin(self) -> Plugin:
        return Plugin(
            name=self._name,
            kind="process",
            place=str(self._spec.file or self._spec.module),
            version=self._version,
            tools=self._tools.tools,
            problem=self._link.problem or self._tools.problem,
        )

    async def aclose(self) -> None:
        await self._link.aclose()

    def _described(self, told: Mapping[str, object]) -> tuple[Foreign, Call]:
        name = str(told.get("name", ""))
        foreign = Foreign(
            name=name,
            description=str(told.get("description", "")),
            parameters=told.get("parameters"),
            origin=f"{self._link.label}, {self._spec.file or self._spec.module}",
            effect=told.get("effect"),
            group=str(told.get("group", "")) if self.group is None else self.group,
            timeout_s=told.get("timeout_s"),
            untrusted=bool(told.get("untrusted_output")),
            outbound=bool(told.get("outbound")),
        )

        async def call(arguments: Mapping[str, object], context: ToolContext | None) -> object:
            async with turn(self._free, self._link.label):
                peer = await self._link.peer()
                return await peer.call(name, arguments, context)

        return foreign, call
