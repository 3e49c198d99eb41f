"""Tools that come with Hermes."""

from __future__ import annotations

from hermes.tools.base import Tool


def builtin_tools() -> tuple[Tool, ...]:
    """Every built-in tool, each in its group."""
    # Loaded on need, since making a tool loads pydantic.
    from .core import read_more
    from .human import ask_human

    return (read_more, ask_human)
