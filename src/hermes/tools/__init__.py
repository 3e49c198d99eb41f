"""Tools: what models may call, how their arguments are read, and what their results become."""

from hermes.core.breaker import Verdict
from hermes.tools.arguments import ArgumentError, Arguments, read_arguments
from hermes.tools.arguments.aliases import Aliases
from hermes.tools.arguments.exact import Repair
from hermes.tools.base import (
    DEFAULT_TIMEOUT_S,
    NOT_DONE,
    ArgumentFault,
    NotDoneType,
    TaskSnapshot,
    Tool,
    ToolContext,
    ToolResult,
    Workbench,
)
from hermes.tools.builtin import BUILTIN_GROUPS, DEFAULT_OPTIONS, builtin_tools, is_builtin
from hermes.tools.builtin.options import BuiltinOptions
from hermes.tools.failures import failed_result
from hermes.tools.function import register_tool, tool
from hermes.tools.guard import GuardPolicy, ToolGuard, unavailable, verdict_of
from hermes.tools.loading import load_tools
from hermes.tools.processes import ProcessResult, ProcessTimeout, run_process
from hermes.tools.reconciling import reconcile
from hermes.tools.registry import ToolRegistry
from hermes.tools.results import DEFAULT_LIMIT_CHARS, ResultFault, cap, handle_of, normalise, render
from hermes.tools.runner import Prepared, prepare, result_of, run
from hermes.tools.threads import is_at_work
from hermes.tools.waiting import (
    MAX_CHILDREN,
    Child,
    Children,
    Event,
    Question,
    Until,
    Waiting,
)

__all__ = [
    "BUILTIN_GROUPS",
    "DEFAULT_LIMIT_CHARS",
    "DEFAULT_OPTIONS",
    "DEFAULT_TIMEOUT_S",
    "MAX_CHILDREN",
    "NOT_DONE",
    "Aliases",
    "ArgumentError",
    "ArgumentFault",
    "Arguments",
    "BuiltinOptions",
    "Child",
    "Children",
    "Event",
    "GuardPolicy",
    "NotDoneType",
    "Prepared",
    "ProcessResult",
    "ProcessTimeout",
    "Question",
    "Repair",
    "ResultFault",
    "TaskSnapshot",
    "Tool",
    "ToolContext",
    "ToolGuard",
    "ToolRegistry",
    "ToolResult",
    "Until",
    "Verdict",
    "Waiting",
    "Workbench",
    "builtin_tools",
    "cap",
    "failed_result",
    "handle_of",
    "is_at_work",
    "is_builtin",
    "load_tools",
    "normalise",
    "prepare",
    "read_arguments",
    "reconcile",
    "register_tool",
    "render",
    "result_of",
    "run",
    "run_process",
    "tool",
    "unavailable",
    "verdict_of",
]
