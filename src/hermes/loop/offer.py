"""Which tools a model is offered, and what it is told where that has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes.core.chat import ToolSpec
from hermes.core.events import Fault
from hermes.tools import Tool, ToolGuard

from . import prompts
from .setup import RunSetup
from .state import RunState

USED_UP = "used_up"


class Offer:
    """The tools of a run without those that are used up or do not work at present.

    Args:
        setup: Of the run; where it says itself what is hidden, nothing is looked at.
        guard: Knows the tools of this process.
    """

    def __init__(self, setup: RunSetup, guard: ToolGuard) -> None:
        self._setup, self._guard = setup, guard
        self._specs: dict[tuple[str, ...], tuple[ToolSpec, ...]] = {(): setup.registry.specs}

    async def hidden(self, path: str, state: RunState) -> Mapping[str, str]:
        """The tools that the model call at a path is not offered, and why."""
        if self._setup.hidden is not None:
            return dict.fromkeys(self._setup.hidden(path), "")
        broken = await self._guard.broken(self._setup.registry)
        return {**broken, **dict.fromkeys(self._used_up(state), "")}

    def specs(self, hidden: tuple[str, ...]) -> tuple[ToolSpec, ...]:
        """What is offered; the same tuple for the same hidden ones."""
        found = self._specs.get(hidden)
        if found is None:
            found = tuple(spec for spec in self._specs[()] if spec.name not in hidden)
            self._specs[hidden] = found
        return found

    def may_finish(self, state: RunState) -> bool:
        """Whether the run may end with the next reply: its required tools have succeeded."""
        return all(name in state.succeeded for name in self._setup.required_tools)

    def notice(self, state: RunState, hidden: Mapping[str, str]) -> str:
        """What the model is told: what is missing from now on, and what is back; "" for nothing."""
        spent = self._used_up(state)
        news = {name: why for name, why in hidden.items() if name not in state.hidden}
        gone = {name: why for name, why in news.items() if name not in spent}
        back = _back(state.hidden, hidden, self._setup.registry.names)
        parts = [prompts.tools_changed(gone, back, self._setup.prompts)] if gone or back else []
        return "\n".join([*parts, *(_used_up_line(spent[name]) for name in news if name in spent)])

    def _used_up(self, state: RunState) -> dict[str, Tool]:
        return {tool.name: tool for tool in self._setup.registry if is_used_up(state, tool)}


def is_used_up(state: RunState, tool: Tool, *, more: int = 0) -> bool:
    """Whether a task has made all the calls of a tool that it may make.

    Args:
        state: Of the run.
        tool: Its `max_calls` says how many those are.
        more: Calls that are about to be made.
    """
    return tool.max_calls is not None and state.calls_made(tool.name) + more >= tool.max_calls


def used_up(tool: Tool) -> Fault:
    """Why a call is refused of a tool whose calls are used up."""
    return Fault(
        code=USED_UP,
        message=f"{tool.name} is used up: a task may call it {_times(tool)}; nothing was run",
        hint="go on with the results that there are",
    )


def _used_up_line(tool: Tool) -> str:
    return (
        f"{tool.name} is used up: it may be called {_times(tool)} in a task, and it was. "
        "Go on with its results."
    )


def _times(tool: Tool) -> str:
    return "once" if tool.max_calls == 1 else f"{tool.max_calls} times"


def _back(before: Sequence[str], now: Mapping[str, str], names: Sequence[str]) -> list[str]:
    return [name for name in before if name not in now and name in names]
