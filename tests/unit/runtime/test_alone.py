"""A task in a process of its own, as the process sees it that started that one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest

from hermes.core.ids import uuid7
from hermes.runtime import ChildCommand, ChildProcesses, alone
from hermes.store import MemoryStore
from hermes.testing import FakeClock


def children(code: str) -> ChildProcesses:
    command = ChildCommand(
        words=[sys.executable, "-c", code], folder=str(Path.cwd()), environment=dict(os.environ)
    )
    return ChildProcesses(MemoryStore(clock=FakeClock()), command, new_id=uuid7)


async def test_a_child_that_never_claims_does_not_stop_all_other_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alone, "START_S", 0.05)
    claimed = anyio.Event()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(children("import time; time.sleep(60)").carry, "t", claimed.set)
            await claimed.wait()
            group.cancel_scope.cancel()


async def test_a_child_that_ends_before_it_claims_says_so() -> None:
    heard: list[str] = []
    fault = await children("raise SystemExit(3)").carry("t", lambda: heard.append("claimed"))
    assert "code 3" in fault
    assert heard == ["claimed"]


async def test_a_child_that_cannot_be_started_says_so() -> None:
    command = ChildCommand(words=["/nowhere/python"], folder="/", environment={})
    it = ChildProcesses(MemoryStore(clock=FakeClock()), command, new_id=uuid7)
    assert "could be started" in await it.carry("t", lambda: None)
