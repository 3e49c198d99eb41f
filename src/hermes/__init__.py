"""Hermes, the courier of AI systems: an agent's every step in a journal, nothing done twice."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes.app import Agent, Hermes
    from hermes.core.budget import Limits
    from hermes.core.chat import Usage
    from hermes.core.request import AgentRequest, AgentResponse, TraceEntry
    from hermes.errors import HermesError, NotDone, ToolError
    from hermes.tools import (
        NOT_DONE,
        Child,
        Children,
        Event,
        Question,
        Tool,
        ToolContext,
        Until,
        register_tool,
        tool,
    )

__version__ = "0.1.0"

__all__ = [
    "NOT_DONE",
    "Agent",
    "AgentRequest",
    "AgentResponse",
    "Child",
    "Children",
    "Event",
    "Hermes",
    "HermesError",
    "Limits",
    "NotDone",
    "Question",
    "Tool",
    "ToolContext",
    "ToolError",
    "TraceEntry",
    "Until",
    "Usage",
    "__version__",
    "register_tool",
    "tool",
]

_HOMES = {
    "NOT_DONE": "hermes.tools",
    "Agent": "hermes.app",
    "AgentRequest": "hermes.core.request",
    "AgentResponse": "hermes.core.request",
    "Child": "hermes.tools",
    "Children": "hermes.tools",
    "Event": "hermes.tools",
    "Hermes": "hermes.app",
    "HermesError": "hermes.errors",
    "Limits": "hermes.core.budget",
    "NotDone": "hermes.errors",
    "Question": "hermes.tools",
    "Tool": "hermes.tools",
    "ToolContext": "hermes.tools",
    "ToolError": "hermes.errors",
    "TraceEntry": "hermes.core.request",
    "Until": "hermes.tools",
    "Usage": "hermes.core.chat",
    "register_tool": "hermes.tools",
    "tool": "hermes.tools",
}


def __getattr__(name: str) -> object:
    """Load a public name on first use, so that `import hermes` costs next to nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'hermes' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
