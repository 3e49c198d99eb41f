"""Tools that come with Hermes, each in its group; only the groups that are asked for are made."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import cast

from hermes.tools.base import Tool

from .options import BuiltinOptions

_MODULES: dict[str, tuple[str, ...]] = {
    "core": ("core", "human", "time_zone", "todos"),
    "files": ("files", "files_search", "files_change"),
    "shell": ("shell",),
    "python": ("python",),
    "data": ("data", "charts"),
    "http": ("http", "http_page"),
    "mock": ("mock",),
    "weather": ("weather",),
    "notify": ("notify", "notify_mail"),
    "database": ("database",),
    "logs": ("logs",),
    "mcp": (),  # filled by MCP servers
}
"""Each group's modules here; each has `tools(options)`."""

BUILTIN_GROUPS = tuple(_MODULES)
DEFAULT_OPTIONS = BuiltinOptions()


def builtin_tools(
    groups: Iterable[str] = BUILTIN_GROUPS, *, options: BuiltinOptions = DEFAULT_OPTIONS
) -> tuple[Tool, ...]:
    """The built-in tools of some groups; the same objects for the same options.

    Args:
        groups: Groups that have none are passed over.
        options: What they are set up with.
    """
    wanted = frozenset(groups)
    return tuple(
        tool for group in BUILTIN_GROUPS if group in wanted for tool in _made(group, options)
    )


def is_builtin(tool: Tool) -> bool:
    """Whether a tool is a built-in one with the default options."""
    if tool.group not in _MODULES:
        return False
    return any(tool is each for each in _made(tool.group, DEFAULT_OPTIONS))


@lru_cache(maxsize=64)
def _made(group: str, options: BuiltinOptions) -> tuple[Tool, ...]:
    # Loaded on need, since making a tool loads pydantic.
    made: list[Tool] = []
    for name in _MODULES[group]:
        module = import_module(f"{__name__}.{name}")
        made += cast("tuple[Tool, ...]", module.tools(options))
    return tuple(made)
