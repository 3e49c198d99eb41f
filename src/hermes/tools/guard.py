"""What keeps calls off tools that cannot take them: places, breakers, health; one a process."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import anyio

from hermes.core.breaker import Breaker, Pass, Verdict
from hermes.core.clock import Clock
from hermes.core.effects import may_repeat
from hermes.core.events import Fault
from hermes.core.retry import RetryPolicy
from hermes.telemetry import logs

from .base import Tool, ToolResult
from .caching import ToolCache
from .health import EVERY_S, TIMEOUT_S, HealthChecks

UNAVAILABLE = "unavailable"
_FREE = Pass(epoch=0)

_LOG = logging.getLogger("hermes.tool")
_BASE_S = 0.5
_CAP_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardPolicy:
    """When a tool counts as broken.

    Attributes:
        failures: So many calls in a row that failed outside; None for never.
        cooldown_s: How long it is left alone then, before one call tries it.
        health_every_s: How long the answer of a health check holds.
        health_timeout_s: No answer within it is a bad one.
    """

    failures: int | None = 5
    cooldown_s: float = 30.0
    health_every_s: float = EVERY_S
    health_timeout_s: float = TIMEOUT_S


class ToolGuard:
    """Watches the tools of a process over all its runs.

    A tool is the same by name and fingerprint, whichever run has it.

    Args:
        clock: Measures cool-downs and the age of health checks.
        policy: When a tool counts as broken.
        sleep: Waits before a call is made again.
        spread: A random number from 0 up to 1: spreads those waits.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        policy: GuardPolicy | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        spread: Callable[[], float] = random.random,
    ) -> None:
        self.sleep = sleep
        self._clock, self._policy, self._spread = clock, policy or GuardPolicy(), spread
        self._places: dict[tuple[str, str, int], anyio.Semaphore] = {}
        self._breakers: dict[tuple[str, str], Breaker] = {}
        self._health = HealthChecks(
            clock=clock,
            every_s=self._policy.health_every_s,
            timeout_s=self._policy.health_timeout_s,
        )
        self._unwell: set[tuple[str, str]] = set()
        self.cache = ToolCache(clock=clock)

    async def take_place(
        self, tool: Tool, *, before_waiting: Callable[[], Awaitable[None]]
    ) -> None:
        """Wait for one of the tool's places, to be given back by `give_place`.

        Args:
            tool: Its `concurrency` says how many there are.
            before_waiting: Called where none is free at once.
        """
        places = self._places_of(tool)
        if places is None:
            return
        try:
            places.acquire_nowait()
        except anyio.WouldBlock:
            await before_waiting()
            await places.acquire()

    def give_place(self, tool: Tool) -> None:
        """Let the next one in."""
        places = self._places_of(tool)
        if places is not None:
            places.release()

    def _places_of(self, tool: Tool) -> anyio.Semaphore | None:
        if tool.concurrency is None:
            return None
        key = (tool.name, tool.fingerprint, tool.concurrency)
        places = self._places.get(key)
        if places is None:
            places = self._places[key] = anyio.Semaphore(tool.concurrency, fast_acquire=True)
        return places

    def refusal(self, tool: Tool) -> Fault | None:
        """Why a call of a tool would be refused now; nothing is taken."""
        breaker = self._breakers.get(_key(tool))
        if breaker is None or not breaker.refuses(self._clock.monotonic()):
            return None
        return unavailable(tool.name, self._why(breaker), self._when(breaker))

    def enter(self, tool: Tool) -> Pass | Fault:
        """The right to make one call, to be given back by `leave`; or why there is none."""
        breaker = self._breakers.get(_key(tool))
        if breaker is None:
            return _FREE
        given = breaker.enter(self._clock.monotonic())
        return given or unavailable(tool.name, self._why(breaker), self._when(breaker))

    def leave(self, tool: Tool, given: Pass, verdict: Verdict | None) -> None:
        """Give the right to a call back, with what the call says of the tool."""
        breaker = self._breakers.get(_key(tool))
        if breaker is None:
            if verdict != "outside" or self._policy.failures is None:
                return
            breaker = self._breakers[_key(tool)] = Breaker(
                failures=self._policy.failures, cooldown_s=self._policy.cooldown_s
            )
        if breaker.leave(given, verdict, self._clock.monotonic()):
            problem = self._why(breaker) if breaker.is_open else ""
            logs.tool_condition(_LOG, tool.name, problem)

    def retry_delay_s(self, tool: Tool, result: ToolResult, *, waited_s: float) -> float | None:
        """Seconds until a call is made again that came to this; None if it is not."""
        fault = result.error
        if result.status not in ("error", "timeout") or fault is None or not fault.retryable:
            return None
        if not may_repeat(tool.effect) or self.refusal(tool) is not None:
            return None
        policy = RetryPolicy(attempts=tool.retries + 1, base_s=_BASE_S, cap_s=_CAP_S)
        return policy.delay_s(result.tries, spread=self._spread(), waited_s=waited_s)

    async def broken(self, tools: Iterable[Tool]) -> dict[str, str]:
        """Tools that a model should not be offered now, and why, in the order given."""
        watched = [
            tool for tool in tools if tool.health is not None or _key(tool) in self._breakers
        ]
        if not watched:
            return {}
        problems = await self._health.problems(watched)
        for tool in watched:
            self._note_health(tool, problems.get(tool.name, ""))
            breaker = self._breakers.get(_key(tool))
            if breaker is not None and breaker.refuses(self._clock.monotonic()):
                problems.setdefault(tool.name, self._why(breaker))
        return {tool.name: problems[tool.name] for tool in watched if tool.name in problems}

    def _why(self, breaker: Breaker) -> str:
        if breaker.is_probed:
            return "another call is finding out whether it works again"
        return f"it failed {self._policy.failures} times in a row"

    def _when(self, breaker: Breaker) -> str:
        wait_s = breaker.wait_s(self._clock.monotonic())
        if wait_s <= 0:
            return "that call's end decides"
        return f"it is tried again in {max(1, round(wait_s))} s"

    def _note_health(self, tool: Tool, problem: str) -> None:
        if bool(problem) != (_key(tool) in self._unwell):
            logs.tool_condition(_LOG, tool.name, problem)
        (self._unwell.add if problem else self._unwell.discard)(_key(tool))


def verdict_of(result: ToolResult) -> Verdict:
    """What the outcome of a call says of its tool."""
    if result.status == "ok":
        return "ok"
    return "outside" if result.is_outside else "other"


def unavailable(name: str, why: str, when: str) -> Fault:
    """Why a call is refused of a tool that does not work at present."""
    return Fault(
        code=UNAVAILABLE,
        message=f"{name} is not available: {why}; nothing was run",
        retryable=True,
        hint=f"{when}; do without it until then, or say that it is missing",
    )


def _key(tool: Tool) -> tuple[str, str]:
    return tool.name, tool.fingerprint
