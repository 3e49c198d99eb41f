"""What health functions say, and how often they are asked."""

from __future__ import annotations

import threading
from collections.abc import Callable

import anyio
import pytest

from hermes import tool
from hermes.testing import FakeClock
from hermes.tools import Tool
from hermes.tools.health import HealthChecks, problem_of


def made(health: Callable[[], object], name: str = "look") -> Tool:
    @tool(name=name, effect="read", health=health)
    def look() -> str:
        """Look."""
        return ""

    return look


async def asynchronous() -> bool:
    await anyio.lowlevel.checkpoint()
    return False


def leaves() -> bool:
    raise SystemExit(3)


def breaks() -> bool:
    raise ConnectionRefusedError("port 5432")


@pytest.mark.parametrize(
    ("health", "problem"),
    [
        (lambda: True, ""),
        (lambda: None, ""),
        (lambda: False, "its health check says no"),
        (lambda: "", "its health check says no"),
        (lambda: "the disk\nis full", "the disk is full"),
        (lambda: {"ok": True}, "its health check gave dict, which is neither true nor false"),
        (lambda: 1, "its health check gave int, which is neither true nor false"),
        (asynchronous, "its health check says no"),
        (breaks, "its health check failed: ConnectionRefusedError: port 5432"),
        (leaves, "its health check failed: SystemExit: 3"),
    ],
)
async def test_what_a_health_function_says(health: Callable[[], object], problem: str) -> None:
    assert await problem_of(made(health), health) == problem


async def test_no_answer_in_time_is_a_problem_and_a_hanging_thread_gets_no_second() -> None:
    begun: list[int] = []
    release = threading.Event()

    def hangs() -> bool:
        begun.append(1)
        release.wait(10)
        return True

    tool = made(hangs, name="hanging")
    try:
        silent = "its health check gave no answer within 0.01 s"
        assert await problem_of(tool, hangs, timeout_s=0.01) == silent
        assert await problem_of(tool, hangs, timeout_s=0.01) == silent
        assert len(begun) == 1
    finally:
        release.set()


async def test_an_answer_holds_for_its_time_over_all_runs() -> None:
    asked: list[int] = []

    async def health() -> bool:
        asked.append(1)
        await anyio.lowlevel.checkpoint()
        return len(asked) > 1

    clock = FakeClock()
    checks = HealthChecks(clock=clock, every_s=30)
    tool = made(health)
    found: list[dict[str, str]] = []

    async def look() -> None:
        found.append(await checks.problems([tool]))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(look)
    clock.advance(29.9)
    await look()
    assert len(asked) == 1
    assert found == [{"look": "its health check says no"}] * 21
    clock.advance(0.1)
    assert await checks.problems([tool]) == {}
    assert len(asked) == 2


async def test_a_run_that_is_cancelled_while_it_asks_leaves_the_question_to_the_next() -> None:
    hang, entered = anyio.Event(), anyio.Event()
    asked: list[int] = []

    async def health() -> bool:
        asked.append(1)
        entered.set()
        await hang.wait()
        return True

    checks = HealthChecks(clock=FakeClock())
    tool = made(health)
    async with anyio.create_task_group() as group:
        group.start_soon(checks.problems, [tool])
        await entered.wait()
        group.cancel_scope.cancel()
    hang.set()
    assert await checks.problems([tool]) == {}
    assert len(asked) == 2


async def test_a_tool_without_a_health_function_is_not_asked() -> None:
    @tool
    def plain() -> str:
        """Plain."""
        return ""

    assert await HealthChecks(clock=FakeClock()).problems([plain]) == {}
