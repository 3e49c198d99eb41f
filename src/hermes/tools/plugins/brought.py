"""Tools that others bring: installed packages and files in a folder, each loaded for itself."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal, cast

from hermes.errors import ConfigError, ToolDefinitionError
from hermes.tools.base import Tool
from hermes.tools.builtin import is_builtin
from hermes.tools.failures import described
from hermes.tools.function import NAME
from hermes.tools.loading import load_file, tool_files

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_LOG = logging.getLogger("hermes.plugin")
GROUP = "hermes.tools"

Kind = Literal["package", "file", "process", "mcp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """One plugin as it was found.

    Attributes:
        name: What switches it off.
        kind: An installed `package`, a `file` of a folder, a `process` or an `mcp` server.
        place: Where it comes from: `package:entry`, a path, a command or an address.
        version: As it says itself; "" if it does not.
        tools: What it brings.
        problem: Why it, or one of its tools, is not used; "" if all is well.
    """

    name: str
    kind: Kind
    place: str
    version: str = ""
    tools: tuple[Tool, ...] = ()
    problem: str = ""

    def as_record(self) -> dict[str, object]:
        """As plain JSON, tools by name."""
        return {
            "name": self.name,
            "kind": self.kind,
            "version": self.version,
            "place": self.place,
            "tools": [tool.name for tool in self.tools],
            "problem": self.problem,
        }

    def __str__(self) -> str:
        return f"{_TITLES[self.kind]} {self.name!r}"


_TITLES: Mapping[Kind, str] = {
    "package": "plugin",
    "file": "plugin",
    "process": "plugin",
    "mcp": "MCP server",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """What all plugins bring.

    Attributes:
        plugins: Each with its tools and its problem.
        groups: Groups that are right even if no tool here is in them.
        is_whole: Whether every plugin was asked and told all its tools; if not, a name that
            nobody knows may be right.
    """

    plugins: tuple[Plugin, ...] = ()
    groups: frozenset[str] = frozenset()
    is_whole: bool = True

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Those of all plugins; no two have the same name."""
        return tuple(tool for plugin in self.plugins for tool in plugin.tools)

    @property
    def problems(self) -> tuple[str, ...]:
        """One line for each plugin that is not, or not wholly, used."""
        return tuple(f"{item}: {item.problem}" for item in self.plugins if item.problem)

    def plugin_of(self, tool: str) -> Plugin | None:
        """The plugin that brings a tool; None if none does."""
        return next((it for it in self.plugins if any(t.name == tool for t in it.tools)), None)


NOTHING = Brought()


@lru_cache(maxsize=16)
def local_plugins(paths: tuple[Path, ...] = (), off: frozenset[str] = frozenset()) -> Brought:
    """Load installed plugins, and those in folders; once in a process.

    One that cannot be loaded is named in a warning and left out.

    Args:
        paths: Folders, or single files.
        off: Names that are left alone.
    """
    found = [*_packages(off), *(it for path in paths for it in _files(path, off))]
    plugins = without_clashes(found)
    for plugin in plugins:
        if plugin.problem:
            _LOG.warning("%s is left out: %s; all else goes on", plugin, plugin.problem)
    return Brought(plugins=plugins, is_whole=not any(plugin.problem for plugin in plugins))


def without_clashes(plugins: Iterable[Plugin], builtin: Iterable[Tool] = ()) -> tuple[Plugin, ...]:
    """Refuse a plugin that brings a tool of a name that an earlier one or a built-in has.

    Args:
        plugins: In the order of their right to a name.
        builtin: The built-in tools that are on.
    """
    kept: list[Plugin] = []
    taken = {tool.name: f"a built-in ({tool.origin})" for tool in builtin}
    for plugin in plugins:
        clash = next((tool for tool in plugin.tools if tool.name in taken), None)
        if clash is None:
            taken |= {tool.name: f"{plugin} ({tool.origin})" for tool in plugin.tools}
            kept.append(plugin)
            continue
        problem = (
            f"its tool {clash.name!r} ({clash.origin}) has the name of {taken[clash.name]}; "
            "rename one of them, or switch one off by HERMES_PLUGINS_OFF"
        )
        kept.append(replace(plugin, tools=(), problem=problem))
    return tuple(kept)


def _packages(off: frozenset[str]) -> list[Plugin]:
    from importlib.metadata import entry_points  # loaded on need, it takes a while

    entries = sorted(entry_points(group=GROUP), key=lambda entry: (_distribution(entry), entry))
    return [_package(entry) for entry in entries if entry.name not in off]


def _package(entry: EntryPoint) -> Plugin:
    name, version = _distribution(entry)
    plugin = Plugin(name=entry.name, kind="package", place=f"{name}:{entry.value}", version=version)
    _LOG.debug("loading %s from %s", plugin, plugin.place)
    try:
        return replace(plugin, tools=_tools_in(entry.load()))
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # whatever a plugin raises as it loads is that plugin's fault
        return replace(plugin, problem=_told(exc))


def _distribution(entry: EntryPoint) -> tuple[str, str]:
    return (entry.dist.name, entry.dist.version) if entry.dist is not None else ("", "")


def _tools_in(value: object) -> tuple[Tool, ...]:
    """The tools that an entry point names: one, a list of them, or those of a module."""
    if isinstance(value, Tool):
        given: list[object] = [cast("Tool", value)]
    elif isinstance(value, ModuleType):
        named = cast("dict[str, object]", vars(value)).values()
        given = [item for item in named if isinstance(item, Tool)]
    elif isinstance(value, list | tuple):
        given = list(cast("Sequence[object]", value))
    else:
        given = [value]
    tools: dict[int, Tool] = {}
    for item in given:
        if not isinstance(item, Tool):
            raise ToolDefinitionError(
                f"the entry point leads to a {type(item).__name__}, which is no tool",
                hint="name a tool, a list of tools, or a module with tools",
            )
        tool = cast("Tool", item)
        tools[id(tool)] = tool
    # A module may import a built-in one for its own use.
    found = [tool for tool in tools.values() if not is_builtin(tool)]
    if not found:
        raise ToolDefinitionError("the entry point leads to no tool")
    return _checked(found)


def _files(path: Path, off: frozenset[str]) -> list[Plugin]:
    if not path.exists():
        problem = "no such folder; HERMES_TOOL_PATH names it"
        return [Plugin(name=path.name, kind="file", place=str(path), problem=problem)]
    files = tool_files(path) if path.is_dir() else [path]
    return [_file(file) for file in files if file.stem not in off]


def _file(file: Path) -> Plugin:
    plugin = Plugin(name=file.stem, kind="file", place=str(file))
    _LOG.debug("loading %s from %s", plugin, plugin.place)
    try:
        module, tools = load_file(file)
        return replace(
            plugin, tools=_checked(tools), version=str(getattr(module, "__version__", ""))
        )
    except (ConfigError, ToolDefinitionError) as exc:
        return replace(plugin, problem=_told(exc))


def _checked(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    places: dict[str, str] = {}
    found = tuple(tools)
    for tool in found:
        if not NAME.fullmatch(tool.name):
            raise ToolDefinitionError(f"{tool.name!r:.80} is no tool name")
        if tool.name in places:
            raise ToolDefinitionError(
                f"two of its tools are called {tool.name!r}: {places[tool.name]} and {tool.origin}"
            )
        places[tool.name] = tool.origin
    return found


def _told(exc: BaseException) -> str:
    return str(exc) if isinstance(exc, ConfigError | ToolDefinitionError) else described(exc)
