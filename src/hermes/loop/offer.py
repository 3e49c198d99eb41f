"""Which tools a model is offered, and what it is told where that has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes.core.chat import ToolSpec
from hermes.tools import ToolGuard

from . import prompts
from .setup import RunSetup
from .state import RunState


class Offer:
    """The tools of a run without those that do not work at present.

    Args:
        setup: Of the run; where it says itself what is hidden, nothing is looked at.
        guard: Knows the tools of this process.
    """

    def __init__(self, setup: RunSetup, guard: ToolGuard) -> None:
        self._setup, self._guard = setup, guard
        self._specs: dict[tuple[str, ...], tuple[ToolSpec, ...]] = {(): setup.registry.specs}

    async def hidden(self, path: str) -> Mapping[str, str]:
        """The tools that the model call at a path is not offered, and why."""
        if self._setup.hidden is not None:
            return dict.fromkeys(self._setup.hidden(path), "")
        return await self._guard.broken(self._setup.registry)

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
        gone = {name: why for name, why in hidden.items() if name not in state.hidden}
        back = _back(state.hidden, hidden, self._setup.registry.names)
        return prompts.tools_changed(gone, back) if gone or back else ""


def _back(before: Sequence[str], now: Mapping[str, str], names: Sequence[str]) -> list[str]:
    return [name for name in before if name not in now and name in names]
