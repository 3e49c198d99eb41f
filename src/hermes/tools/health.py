"""Health checks: whether tools can work, by what they say themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass

import anyio

from hermes.core.clock import Clock

from .base import Health, Tool
from .runner import Failure, contained
from .threads import call_in_thread, is_at_work

EVERY_S = 30.0
TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a health check came to.

    Attributes:
        problem: In words; "" if all is well.
        at_s: When, by the clock that never goes back.
    """

    problem: str
    at_s: float


class HealthChecks:
    """Asks each tool that has a health function, not more often than it must.

    Args:
        clock: Says how old an answer is.
        every_s: An answer holds for so long.
        timeout_s: No answer within it is a bad one.
    """

    def __init__(
        self, *, clock: Clock, every_s: float = EVERY_S, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._clock, self._every_s, self._timeout_s = clock, every_s, timeout_s
        self._known: dict[tuple[str, str], Checked] = {}
        self._turns: dict[tuple[str, str], anyio.Lock] = {}

    async def problems(self, tools: Iterable[Tool]) -> dict[str, str]:
        """What is wrong, by tool name; tools without a health function are passed over."""
        asked = [tool for tool in tools if tool.health is not None]
        stale = [tool for tool in asked if not self._is_fresh(tool)]
        if len(stale) == 1:
            await self._look(stale[0])
        elif stale:
            async with anyio.create_task_group() as group:
                for tool in stale:
                    group.start_soon(self._look, tool)
        known = ((tool.name, self._known[_key(tool)].problem) for tool in asked)
        return {name: problem for name, problem in known if problem}

    def _is_fresh(self, tool: Tool) -> bool:
        known = self._known.get(_key(tool))
        return known is not None and self._clock.monotonic() - known.at_s < self._every_s

    async def _look(self, tool: Tool) -> None:
        assert tool.health is not None
        # Several runs want to know at the same time: one asks, the others read its answer.
        async with self._turns.setdefault(_key(tool), anyio.Lock()):
            if not self._is_fresh(tool):
                problem = await problem_of(tool, tool.health, timeout_s=self._timeout_s)
                self._known[_key(tool)] = Checked(problem=problem, at_s=self._clock.monotonic())


async def problem_of(tool: Tool, ask: Health, *, timeout_s: float = TIMEOUT_S) -> str:
    """What a health function says is wrong, or ""."""
    silent = f"its health check gave no answer within {timeout_s:g} s"
    thread = f"health of {tool.name} {tool.fingerprint}"
    if is_at_work(thread):  # a thread cannot be stopped; a second one would hang as well
        return silent

    async def work() -> str:
        if inspect.iscoroutinefunction(ask):
            answer = ask()
        else:
            answer = await call_in_thread(ask, name=thread)
        return _read(await answer if inspect.isawaitable(answer) else answer)

    outcome = await contained(work, timeout_s=timeout_s, effect="read")
    if not isinstance(outcome, Failure):
        return outcome
    return silent if outcome.is_late else f"its health check failed: {outcome.fault.message}"


def _key(tool: Tool) -> tuple[str, str]:
    return tool.name, tool.fingerprint


def _read(answer: object) -> str:
    if answer is True or answer is None:
        return ""
    if answer is False or answer == "":
        return "its health check says no"
    if isinstance(answer, str):
        return " ".join(answer.split())[:200]
    return f"its health check gave {type(answer).__name__}, which is neither true nor false"
