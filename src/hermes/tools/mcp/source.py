"""The tools of an MCP server, as `server__tool`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from hermes.errors import HermesError, NotDone
from hermes.tools.base import ToolContext
from hermes.tools.plugins.brought import Plugin
from hermes.tools.plugins.foreign import Call, Foreign, joined_name
from hermes.tools.plugins.link import Link
from hermes.tools.plugins.options import McpServer, shown_url
from hermes.tools.plugins.sources import ToolTable, turn

from .client import McpPeer, mcp_connection

if TYPE_CHECKING:
    from mcp_types import Tool as McpTool

_LOG = logging.getLogger("hermes.plugin")


class McpSource:
    """An MCP server whose tools are ours for as long as it offers them."""

    def __init__(self, name: str, spec: McpServer, group: TaskGroup) -> None:
        self.group: str | None = spec.group
        self.is_known = False
        self._name, self._spec, self._version = name, spec, ""
        self._link: Link[McpPeer] = Link(
            f"MCP server {name!r}",
            lambda: mcp_connection(name, spec),
            group=group,
            start_timeout_s=spec.start_timeout_s,
        )
        self._tools = ToolTable(self._link.label)
        self._free = anyio.Semaphore(spec.concurrency)
        self._problem = ""

    async def refresh(self) -> None:
        self._problem = ""
        try:
            peer = await self._link.peer()
            await peer.refresh()
        except NotDone:
            return  # told in the log, once
        except HermesError as exc:
            self._problem = exc.message
            _LOG.warning("%s: %s; what it told before is used", self._link.label, exc.message)
            return
        self._version, self.is_known = peer.version, True
        allowed = self._spec.tools
        offered = [it for it in peer.offered if allowed is None or it.name in allowed]
        missing = sorted(set(allowed or ()) - {item.name for item in offered})
        if missing:
            self._problem = f"it does not offer {', '.join(missing)}, which `tools` names"
        seen = [item.model_dump(mode="json") for item in offered]
        self._tools.take(seen, map(self._described, offered))

    def plugin(self) -> Plugin:
        return Plugin(
            name=self._name,
            kind="mcp",
            place=self._spec.command or shown_url(self._spec.url or ""),
            version=self._version,
            tools=self._tools.tools,
            problem=self._link.problem or self._problem or self._tools.problem,
        )

    async def aclose(self) -> None:
        await self._link.aclose()

    def _described(self, told: McpTool) -> tuple[Foreign, Call]:
        hints = told.annotations
        effect = self._spec.effect_of(
            told.name,
            reads=hints is not None and hints.read_only_hint is True,
            repeats=hints is not None and hints.idempotent_hint is True,
        )
        outbound = self._spec.outbound
        foreign = Foreign(
            name=joined_name(self._name, told.name),
            description=told.description or told.title or told.name,
            parameters=told.input_schema,
            origin=f"{self._link.label}, its tool {told.name!r}",
            effect=effect,
            group=self._spec.group,
            timeout_s=self._spec.timeout_s,
            outbound=self._spec.url is not None if outbound is None else outbound,
        )

        async def call(arguments: Mapping[str, object], context: ToolContext | None) -> object:
            async with turn(self._free, self._link.label):
                peer = await self._link.peer()
                return await peer.call(told.name, arguments, context)

        return foreign, call
