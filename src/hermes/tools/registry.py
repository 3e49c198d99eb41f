"""The tools of a run: unique names, groups switched on and off, one digest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from hermes.core.chat import ToolSpec, estimate_tokens
from hermes.core.json import digest, dumps
from hermes.core.problems import did_you_mean
from hermes.errors import ConfigError, ToolDefinitionError

from .base import Tool
from .function import NAME


class ToolRegistry:
    """An unchanging set of tools in a stable order.

    Args:
        tools: Names are unique among them.

    Attributes:
        names: In the order given.

    Raises:
        ToolDefinitionError: Two tools share a name, or a name is not valid.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        self._former: dict[str, Tool] = {}
        for tool in tools:
            self._add(tool)
        self.names: tuple[str, ...] = tuple(self._tools)

    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model is told; the same tuple for the registry's whole life."""
        return tuple(tool.spec for tool in self)

    @cached_property
    def digest(self) -> str:
        """Of all specs: what a model was offered."""
        return digest([[spec.name, spec.description, spec.parameters] for spec in self.specs])

    @cached_property
    def tokens(self) -> int:
        """Of all specs in a request, estimated."""
        listed = [[spec.name, spec.description, spec.parameters] for spec in self.specs]
        return estimate_tokens(dumps(listed)) if listed else 0

    def get(self, name: str) -> Tool | None:
        """The tool of that name, to the letter."""
        return self._tools.get(name) or self._former.get(name)

    def also_as(self, former: Mapping[str, str]) -> ToolRegistry:
        """The same tools, found under former names too; nobody is told of these.

        Args:
            former: A name that a tool had to the one it has; one that is a tool's present name, or
                leads to none, finds nothing more.
        """
        if not former and not self._former:
            return self
        found = ToolRegistry(self)
        found._former = {
            old: replace(self._tools[new], name=old)
            for old, new in former.items()
            if new in self._tools and old not in self._tools
        }
        return found

    def each(self, change: Callable[[Tool], Tool]) -> ToolRegistry:
        """A registry with each tool changed, also where it is found under a former name."""
        found = ToolRegistry(map(change, self))
        found._former = {name: change(tool) for name, tool in self._former.items()}
        return found

    def enabled(self, groups: Iterable[str], *, known: Iterable[str] = ()) -> ToolRegistry:
        """A registry with the tools of these groups, and those that are in no group.

        Args:
            groups: Names of groups to switch on.
            known: Names that are right even if no tool here is in them.

        Raises:
            ConfigError: A group is unknown.
        """
        wanted = list(groups)
        present = {tool.group for tool in self if tool.group} | set(known)
        for group in wanted:
            if group not in present:
                hint = did_you_mean(group, present)
                there = f"groups: {', '.join(sorted(present)) or 'none'}"
                raise ConfigError(f"no tool group is called {group!r}", hint=hint or there)
        return ToolRegistry(tool for tool in self if not tool.group or tool.group in wanted)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools or name in self._former

    def _add(self, tool: Tool) -> None:
        if not NAME.fullmatch(tool.name):
            raise ToolDefinitionError(
                f"tool {tool.name!r}: a name is 1 to 64 ASCII letters, digits, `_` or `-`"
            )
        first = self._tools.setdefault(tool.name, tool)
        if first is not tool:
            raise ToolDefinitionError(
                f"two tools are called {tool.name!r}: {_place(first)} and {_place(tool)}",
                hint="give one of them another name by name=",
            )


def _place(tool: Tool) -> str:
    return tool.origin or "one made by hand"
