"""Making a call: once, or again where its error may pass and a repeat does no harm."""

from __future__ import annotations

import logging
from dataclasses import replace

from hermes.core.clock import Clock
from hermes.core.events import Fault
from hermes.core.failpoints import hit
from hermes.store import TaskReader
from hermes.telemetry import logs
from hermes.tools import ToolGuard, ToolResult, Verdict, failed_result, run, verdict_of

from .bench import Bench, context_of
from .journal import Journal
from .outcome import Ready
from .purse import Purse
from .setup import RunSetup

_LOG = logging.getLogger("hermes.tool")


class Attempts:
    """Makes calls whose intent is durable, past the breaker of their tool."""

    def __init__(
        self,
        setup: RunSetup,
        journal: Journal,
        reader: TaskReader,
        clock: Clock,
        guard: ToolGuard,
        purse: Purse,
    ) -> None:
        self._setup, self._journal, self._purse = setup, journal, purse
        self._reader, self._clock, self._guard = reader, clock, guard

    async def make(self, item: Ready) -> tuple[ToolResult, Bench]:
        """Make a call until it has its outcome.

        Each try has the tool's whole timeout, but no more than the task has left; between two of
        them is a pause, for which there has to be time as well. What a try wrote that failed is
        forgotten.

        Returns:
            The outcome of the last try, and what it wrote. Where the breaker let none through,
            that is a refusal.
        """
        began, tool = self._clock.monotonic(), item.prepared.tool
        tries, waited_s = 0, 0.0
        while True:
            tries += 1
            result, bench = await self._try(item)
            if tries > 1:
                result = replace(result, tries=tries)
            delay_s = self._guard.retry_delay_s(tool, result, waited_s=waited_s)
            left_s = self._purse.left_s()
            if delay_s is None or (left_s is not None and delay_s >= left_s):
                break
            code = result.error.code if result.error else ""
            logs.tool_again(_LOG, self._journal.task, item.path, tool.name, tries, code, delay_s)
            await self._guard.sleep(delay_s)
            self._setup.tenure.check_lease()
            waited_s += delay_s
        if tries > 1:
            result = replace(result, duration_s=self._clock.monotonic() - began)
        return result, bench

    async def _try(self, item: Ready) -> tuple[ToolResult, Bench]:
        bench = Bench(item.path, journal=self._journal, reader=self._reader, clock=self._clock)
        known = self._guard.cache.get(item.prepared)
        if known is not None:
            bench.close()
            return known, bench
        given = self._guard.enter(item.prepared.tool)
        if isinstance(given, Fault):  # it broke since the call was begun
            bench.close()
            return failed_result("refused", given), bench
        verdict: Verdict | None = None
        try:
            result, verdict = await self._run(item, bench)
        finally:
            self._guard.leave(item.prepared.tool, given, verdict)
        if bench.is_untouched:
            self._guard.cache.put(item.prepared, result)
        return result, bench

    async def _run(self, item: Ready, bench: Bench) -> tuple[ToolResult, Verdict | None]:
        prepared, own_s = item.prepared, item.prepared.tool.timeout_s
        timeout_s = self._timeout_s(own_s)
        if timeout_s != own_s:
            prepared = replace(prepared, tool=replace(prepared.tool, timeout_s=timeout_s))
        hit("loop.tool.before")
        try:
            result = await run(
                prepared,
                context_of(self._setup, self._journal, item.path, bench),
                clock=self._clock,
                limit_chars=self._setup.result_limit_chars,
            )
        finally:
            bench.close()
        hit("loop.tool.after")
        # A call that got less than its own time says nothing of the tool.
        is_cut = result.is_late and timeout_s != own_s
        return result, None if is_cut else verdict_of(result)

    def _timeout_s(self, own_s: float | None) -> float | None:
        left_s = self._purse.left_s()
        if left_s is None or left_s <= 0:
            # Out of time, only a call that a person decided on is made: it gets its own time.
            return own_s
        return left_s if own_s is None else min(own_s, left_s)
