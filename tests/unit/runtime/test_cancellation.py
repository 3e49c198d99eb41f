"""Cancelled at any moment, a run leaves nothing held and nothing in the way of others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from hermes import Agent, Hermes, Limits, tool
from hermes.core.events import Recorded
from hermes.core.message import Message
from hermes.core.task import TERMINAL
from hermes.errors import InputError
from hermes.store import Lease, Submitted, TaskQuery
from hermes.testing import ScriptedModel, call, calls


def agent(*answers: str) -> Agent:
    return Agent(model=ScriptedModel(answers or ["hello"]))


@pytest.mark.parametrize("busy", [False, True], ids=["claimed by the submit", "claimed later"])
async def test_a_cancellation_in_the_middle_of_a_claim_gives_the_lease_back(
    workdir: Path, monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    async with Hermes("sqlite:///j.db") as app:
        submit, claim = app.store.submit, app.store.claim
        running: list[asyncio.Task[object]] = []

        async def submit_and_cancel(
            records: Sequence[Recorded], message: Message, *, claim_for: str | None = None
        ) -> Submitted:
            if busy:
                return await submit(records, message)
            monkeypatch.undo()
            asyncio.get_running_loop().call_soon(running[0].cancel)
            return await submit(records, message, claim_for=claim_for)

        async def claim_and_cancel(worker_id: str, *, task_id: str | None = None) -> list[Lease]:
            monkeypatch.undo()
            asyncio.get_running_loop().call_soon(running[0].cancel)
            return await claim(worker_id, task_id=task_id)

        monkeypatch.setattr(app.store, "submit", submit_and_cancel)
        monkeypatch.setattr(app.store, "claim", claim_and_cancel)
        running.append(asyncio.ensure_future(app.run(agent(), "x", session_id="s")))
        with pytest.raises(asyncio.CancelledError):
            await running[0]
        assert [row.state for row in await app.store.messages()] in ([], ["ready"])
        with anyio.fail_after(5):
            assert (await app.run(agent(), "y", session_id="t")).status == "succeeded"


@pytest.mark.parametrize("native", [True, False], ids=["asyncio", "anyio"])
async def test_runs_cancelled_at_any_moment_never_block_their_session(
    workdir: Path, native: bool
) -> None:
    async with Hermes("sqlite:///j.db") as app:
        await app.run(agent(), "warm up")
        for step in range(25):
            after_s = step * 0.0008
            if native:
                try:
                    await asyncio.wait_for(app.run(agent(), "x", session_id="s"), after_s)
                except TimeoutError:
                    pass
            else:
                with anyio.move_on_after(after_s):
                    await app.run(agent(), "x", session_id="s")
        with anyio.fail_after(10):
            assert (await app.run(agent(), "last", session_id="s")).status == "succeeded"
        tasks = await app.store.tasks(TaskQuery(session_id="s"))
        assert {task.state for task in tasks} <= TERMINAL
        assert await app.store.messages() == []


async def test_a_process_that_was_taken_for_dead_goes_on_as_a_new_worker(workdir: Path) -> None:
    async with Hermes("sqlite:///j.db") as app:
        await app.run(agent(), "first")
        [worker] = await app.store.workers()
        await app.store.retire(worker.worker_id, crashed=True)
        assert (await app.run(agent(), "second")).status == "succeeded"


async def test_a_bound_reached_beside_a_doubt_is_not_forgotten() -> None:
    @tool(timeout_s=0.05)
    async def pay(amount: int) -> str:
        """Pay."""
        await anyio.sleep_forever()
        return ""

    two = calls(call("pay", amount=1), call("pay", amount=2))
    bounded = Agent(
        model=ScriptedModel([two, "never asked"]), tools=[pay], limits=Limits(max_tool_calls=1)
    )
    async with Hermes("memory://") as app:
        first = await app.run(bounded, "pay")
        assert first.status == "waiting"
        second = await app.resume(first.task_id, bounded, decision="done")
    assert second.status == "partial"
    assert second.error is not None
    assert "max_tool_calls" in second.error.message


async def test_a_call_that_a_person_decided_on_is_made_though_the_time_is_over() -> None:
    made: list[str] = []

    @tool
    async def pay() -> str:
        """Pay; the first time it takes too long."""
        made.append("pay")
        if len(made) == 1:
            await anyio.sleep_forever()
        return "paid"

    late = Agent(model=ScriptedModel([call("pay")]), tools=[pay], limits=Limits(max_seconds=0.1))
    async with Hermes("memory://") as app:
        first = await app.run(late, "pay")
        assert first.status == "waiting"
        second = await app.resume(first.task_id, late, decision="again")
    assert made == ["pay", "pay"]
    assert second.status == "partial"


async def test_a_tool_that_runs_its_own_session_again_is_refused_and_not_stuck() -> None:
    seen: list[str] = []

    async with Hermes("memory://") as app:

        @tool(effect="read")
        async def inner() -> str:
            """Run inside."""
            try:
                await app.run(agent(), "inside", session_id="s")
            except InputError as exc:
                seen.append(str(exc))
            return "ok"

        outer = Agent(
            model=ScriptedModel([calls(call("inner"), call("inner")), "done"]), tools=[inner]
        )
        with anyio.fail_after(5):
            response = await app.run(outer, "outside", session_id="s")
    assert response.status == "succeeded"
    assert len(seen) == 2
    assert "already holds session 's'" in seen[0]
