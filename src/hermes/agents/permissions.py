"""What an agent's tools may do: names that settings and agent files allow and deny."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from hermes.core.problems import did_you_mean
from hermes.tools import BuiltinOptions, Tool, ToolRegistry, builtin_tools
from hermes.tools.policy import Policy, check_allowed, check_known, read_allowed, without

ALLOW_SETTING = "HERMES_TOOL_ALLOW"
DENY_SETTING = "HERMES_TOOL_DENY"

Lists = Sequence[tuple[str, Sequence[str]]]
"""Lists of names, each with what it is called in an error."""


def offered(
    registry: ToolRegistry,
    denied: Lists,
    *,
    own: Iterable[Tool],
    builtin: BuiltinOptions,
    is_whole: bool = True,
) -> ToolRegistry:
    """The tools but those that are denied.

    Args:
        registry: Those that are on.
        denied: Names of tools that are never offered.
        own: Tools of the agent, on or off.
        builtin: What the built-in tools are set up with.
        is_whole: Whether all plugins told their tools; if not, an unknown name may be right,
            unless it is close to one that is known.

    Raises:
        ConfigError: There is no such tool: the one that was meant would be offered.
    """
    if not any(names for _, names in denied):
        return registry
    known = _known(registry, own, builtin)
    for where, names in denied:
        judged = [name for name in names if is_whole or _is_close(name, known)]
        check_known(judged, known, where=where)
    return without(registry, [name for _, names in denied for name in names])


def policy_of(
    registry: ToolRegistry,
    allowed: Lists,
    *,
    own: Iterable[Tool],
    builtin: BuiltinOptions,
    is_whole: bool = True,
) -> Policy:
    """What the agent's calls may do without a person once content from outside was read.

    Args:
        registry: The tools that are on.
        allowed: Entries, each `NAME` or `NAME:ARGUMENT=PATTERN`.
        own: As in `offered`.
        builtin: As in `offered`.
        is_whole: As in `offered`.

    Raises:
        ConfigError: An entry has another form, or fits no call.
    """
    if not any(entries for _, entries in allowed):
        return Policy()
    known = _known(registry, own, builtin)
    read = [(where, read_allowed(entries, where=where)) for where, entries in allowed]
    for where, entries in read:
        there = [entry for entry in entries if is_whole or _is_close(entry.name, known)]
        check_allowed(there, known, where=where)
    return Policy(allow=tuple(entry for _, entries in read for entry in entries))


def _is_close(name: str, known: Collection[str]) -> bool:
    """Whether a name is, or is surely meant to be, one of these."""
    return name in known or bool(did_you_mean(name, known))


def _known(registry: ToolRegistry, own: Iterable[Tool], builtin: BuiltinOptions) -> dict[str, Tool]:
    """Every tool there is here, those that are off included."""
    return {tool.name: tool for tool in (*builtin_tools(options=builtin), *own, *registry)}
