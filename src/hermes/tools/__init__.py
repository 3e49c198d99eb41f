"""Tools: what models may call, how their arguments are read, and what their results become."""

from hermes.tools.arguments import ArgumentError, Arguments, read_arguments
from hermes.tools.base import (
    DEFAULT_TIMEOUT_S,
    ArgumentFault,
    TaskSnapshot,
    Tool,
    ToolContext,
    ToolResult,
    Workbench,
)
from hermes.tools.builtin import builtin_tools
from hermes.tools.exact import Repair
from hermes.tools.failures import failed_result
from hermes.tools.function import register_tool, tool
from hermes.tools.loading import load_tools
from hermes.tools.registry import ToolRegistry
from hermes.tools.results import DEFAULT_LIMIT_CHARS, ResultFault, cap, handle_of, normalise, render
from hermes.tools.runner import Prepared, prepare, run

__all__ = [
    "DEFAULT_LIMIT_CHARS",
    "DEFAULT_TIMEOUT_S",
    "ArgumentError",
    "ArgumentFault",
    "Arguments",
    "Prepared",
    "Repair",
    "ResultFault",
    "TaskSnapshot",
    "Tool",
    "ToolContext",
    "ToolRegistry",
    "ToolResult",
    "Workbench",
    "builtin_tools",
    "cap",
    "failed_result",
    "handle_of",
    "load_tools",
    "normalise",
    "prepare",
    "read_arguments",
    "register_tool",
    "render",
    "run",
    "tool",
]
