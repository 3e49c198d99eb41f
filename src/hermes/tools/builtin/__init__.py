"""Tools that come with Hermes."""

from __future__ import annotations

from hermes.tools.base import Tool

GROUPS = frozenset({"core", "http"})
"""Groups that a setting may name whether or not a tool of theirs is loaded."""


def builtin_tools() -> tuple[Tool, ...]:
    """Every built-in tool, each in its group."""
    # Loaded on need, since making a tool loads pydantic.
    from .core import read_more

    return (read_more,)
