"""All plugins of an application: those of this process, and the programs it keeps running."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio.abc import TaskGroup

from hermes.tools.base import Tool

from .brought import Brought, local_plugins, without_clashes
from .options import McpServer, PluginOptions, PluginServer

if TYPE_CHECKING:
    from .sources import Source

_LOG = logging.getLogger("hermes.plugin")
_S = TypeVar("_S")


class PluginHost:
    """The plugins of one application.

    Programs are started when an agent first needs their group, are started again after they died,
    and end with the application.

    Args:
        options: Which there are.
        group: Where the connections live; without it only what this process loads is there.
    """

    def __init__(self, options: PluginOptions, group: TaskGroup | None = None) -> None:
        self._options = options
        self._sources: tuple[Source, ...] = ()
        self._told: set[str] = set()
        servers, mcp = _on(options.servers, options.off), _on(options.mcp, options.off)
        self._has_more = bool(servers or mcp)
        if group is not None:
            self._sources = (*_process_sources(servers, group), *_mcp_sources(mcp, group))

    async def prepare(self, groups: Iterable[str]) -> None:
        """Have the tools of some groups at hand, as far as they are to be had.

        What cannot be started is named in a warning and left out; each has its own time limit.

        Args:
            groups: Those that are on; tools without a group always are.
        """
        wanted = {"", None, *groups}
        sources = [source for source in self._sources if source.group in wanted]
        if not sources:
            return
        async with anyio.create_task_group() as opening:
            for source in sources:
                opening.start_soon(source.refresh)

    def brought(self, builtin: Iterable[Tool] = ()) -> Brought:
        """What there is at present.

        Args:
            builtin: The built-in tools that are on, whose names no plugin may take.
        """
        local = local_plugins(self._options.paths, self._options.off)
        found = [*local.plugins, *(item.plugin() for item in self._sources)]
        plugins = without_clashes(found, builtin)
        for before, plugin in zip(found, plugins, strict=True):
            if plugin.problem != before.problem and plugin.problem not in self._told:
                self._told.add(plugin.problem)
                _LOG.warning("%s is left out: %s; all else goes on", plugin, plugin.problem)
        groups = {source.group for source in self._sources if source.group}
        is_whole = all(source.is_known for source in self._sources)
        return Brought(
            plugins=plugins,
            groups=frozenset(groups),
            is_whole=is_whole
            and bool(self._sources or not self._has_more)
            and not any(plugin.problem for plugin in plugins),
        )

    async def aclose(self) -> None:
        """End what was started."""
        async with anyio.create_task_group() as closing:
            for source in self._sources:
                closing.start_soon(source.aclose)


def _on(specs: Mapping[str, _S], off: frozenset[str]) -> dict[str, _S]:
    return {name: spec for name, spec in specs.items() if name not in off}


def _process_sources(specs: Mapping[str, PluginServer], group: TaskGroup) -> list[Source]:
    if not specs:
        return []
    from .sources import ProcessSource  # with JSON Schema behind it

    return [ProcessSource(name, spec, group) for name, spec in specs.items()]


def _mcp_sources(specs: Mapping[str, McpServer], group: TaskGroup) -> list[Source]:
    if not specs:
        return []
    from hermes.tools.mcp.source import McpSource  # with an HTTP library behind it

    return [McpSource(name, spec, group) for name, spec in specs.items()]
