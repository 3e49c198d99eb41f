"""Calls whose outcome nobody knows: asked about, reconciled, or put before a person."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import anyio
import pytest

from hermes import NOT_DONE, tool
from hermes.agents import Holding
from hermes.core import ids
from hermes.core.chat import ToolMessage
from hermes.core.events import (
    Pending,
    Recorded,
    TaskWaiting,
    ToolFailed,
    ToolInDoubt,
    ToolReconciled,
    ToolStarted,
)
from hermes.models import ModelReply, ModelRequest
from hermes.runtime import wake_message
from hermes.testing import call, calls
from hermes.tools import Tool
from tests.unit.loop.stage import Stage


def told(stage: Stage) -> list[str]:
    return [m.text for m in stage.model.requests[-1].messages if isinstance(m, ToolMessage)]


def paying(stage: Stage) -> Tool:
    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        stage.ran.append(f"pay {amount}")
        return "paid"

    return pay


def sending(
    stage: Stage, found: Callable[[], object], *, fail: BaseException | None = None
) -> Tool:
    async def look(key: str, arguments: dict[str, object]) -> object:
        stage.ran.append(f"look {key.partition('/')[2]} {arguments}")
        return found()

    @tool(reconcile=look, timeout_s=5)
    async def send(text: str) -> str:
        """Send."""
        stage.ran.append(f"send {text}")
        if fail is not None:
            raise fail
        return "sent"

    return send


class TestAPersonDecides:
    async def broken_off(self, stage: Stage) -> str:
        stage.play([call("pay", amount=5), "Paid."], paying(stage))
        task_id = await stage.submit()
        await stage.break_off(task_id)
        assert (await stage.carry()).status == "waiting"
        return task_id

    async def test_the_review_shows_the_call(self, stage: Stage) -> None:
        task_id = await self.broken_off(stage)
        review = await stage.review()
        assert (review.reason, review.name, review.path) == ("in_doubt", "pay", "/turn1/tool1")
        assert review.data["arguments"] == {"amount": 5}
        assert review.data["effect"] == "unsafe"
        assert review.data["idempotency_key"] == f"{task_id}/turn1/tool1"
        assert stage.ran == ["pay 5"]

    async def test_done_gives_the_fixed_sentence(self, stage: Stage) -> None:
        await self.broken_off(stage)
        await stage.store.decide((await stage.review()).review_id, "done", by="ann")
        assert (await stage.carry()).output == "Paid."
        assert told(stage) == [
            "This call took place, as a person confirmed; its result was not recorded."
        ]
        assert stage.ran == ["pay 5"]

    async def test_done_with_an_answer_gives_that(self, stage: Stage) -> None:
        await self.broken_off(stage)
        review_id = (await stage.review()).review_id
        await stage.store.decide(review_id, "done", answer={"receipt": 7}, by="ann")
        await stage.carry()
        assert told(stage) == ['{"receipt":7}']

    async def test_retry_makes_it_once_more_under_a_new_intent(self, stage: Stage) -> None:
        task_id = await self.broken_off(stage)
        await stage.store.decide((await stage.review()).review_id, "retry", by="ann")
        assert (await stage.carry()).output == "Paid."
        assert stage.ran == ["pay 5", "pay 5"]
        assert len(await stage.events(task_id, ToolStarted)) == 2
        [word] = await stage.events(task_id, ToolReconciled)
        assert (word.decision, word.by) == ("again", "ann")

    async def test_a_retry_that_breaks_off_too_is_in_doubt_again(self, stage: Stage) -> None:
        await self.broken_off(stage)
        await stage.store.decide((await stage.review()).review_id, "retry", by="ann")
        await stage.break_off()
        assert (await stage.carry()).status == "waiting"
        assert stage.ran == ["pay 5", "pay 5"]

    async def test_a_retry_waits_until_the_old_holder_cannot_act(self, stage: Stage) -> None:
        await self.broken_off(stage)
        stage.clock.advance(10)
        await stage.store.decide((await stage.review()).review_id, "retry", by="ann")
        alive = Holding(holder_is_gone=False, lease_s=15)

        waiting = await stage.carry(holding=alive)

        [pending] = waiting.pending
        assert (pending.kind, pending.path) == ("time", "")
        assert pending.due_at == stage.clock.now() + timedelta(seconds=30 + 15 - 10)
        assert stage.ran == ["pay 5"]
        stage.clock.advance(35)
        assert (await stage.carry(holding=alive)).output == "Paid."
        assert stage.ran == ["pay 5", "pay 5"]

    async def test_cancel_ends_the_task_and_says_what_is_unknown(self, stage: Stage) -> None:
        await self.broken_off(stage)
        await stage.store.decide((await stage.review()).review_id, "cancel", by="ann")
        response = await stage.carry()
        assert response.status == "cancelled"
        assert response.error is not None
        assert "pay was running: whether it took place is unknown" in response.error.message
        assert len(await stage.events(response.task_id, ToolInDoubt)) == 1

    async def test_a_late_wake_changes_nothing(self, stage: Stage) -> None:
        task_id = await self.broken_off(stage)
        await stage.store.decide((await stage.review()).review_id, "retry", by="ann")
        await stage.carry()
        await stage.carry_all()
        assert (await stage.types(task_id)).count("task.settled") == 1
        assert await stage.store.messages() == []


class TestReconcileAfterACrash:
    async def test_a_call_that_took_place_gives_its_result(self, stage: Stage) -> None:
        stage.play([call("send", text="x"), "Sent."], sending(stage, lambda: {"id": 7}))
        task_id = await stage.submit()
        await stage.break_off(task_id)

        response = await stage.carry()

        assert response.output == "Sent."
        assert stage.ran == ["send x", "look turn1/tool1 {'text': 'x'}"]
        assert told(stage) == ['{"id":7}']
        [word] = await stage.events(task_id, ToolReconciled)
        assert (word.decision, word.by) == ("done", "reconcile")
        assert await stage.events(task_id, ToolInDoubt) == []

    async def test_a_call_that_did_not_is_made_now(self, stage: Stage) -> None:
        stage.play([call("send", text="x"), "Sent."], sending(stage, lambda: NOT_DONE))
        task_id = await stage.submit()
        await stage.break_off(task_id)
        assert (await stage.carry()).output == "Sent."
        assert stage.ran == ["send x", "look turn1/tool1 {'text': 'x'}", "send x"]
        assert len(await stage.events(task_id, ToolStarted)) == 2

    async def test_a_tool_that_cannot_tell_leaves_it_to_a_person(self, stage: Stage) -> None:
        def unreachable() -> object:
            raise OSError("no route")

        stage.play([call("send", text="x"), "Sent."], sending(stage, unreachable))
        await stage.break_off(await stage.submit())
        response = await stage.carry()
        assert response.status == "waiting"
        assert "OSError: no route" in (await stage.review()).text
        await stage.store.decide((await stage.review()).review_id, "done", by="ann")
        assert (await stage.carry()).output == "Sent."

    async def test_it_waits_until_the_old_holder_cannot_act(self, stage: Stage) -> None:
        stage.play([call("send", text="x"), "Sent."], sending(stage, lambda: NOT_DONE))
        await stage.break_off(await stage.submit())
        alive = Holding(holder_is_gone=False, lease_s=15)
        assert (await stage.carry(holding=alive)).status == "waiting"
        assert stage.ran == ["send x"]
        stage.clock.advance(20)
        assert (await stage.carry(holding=alive)).output == "Sent."

    async def test_a_long_result_is_cut_and_can_be_read_on(self, stage: Stage) -> None:
        def read_on(request: ModelRequest) -> ModelReply:
            text = getattr(request.messages[-1], "text", "")
            handle = text.partition('handle="')[2].partition('"')[0]
            return calls(call("read_more", handle=handle, offset=39_990))

        long = sending(stage, lambda: "y" * 40_000)
        stage.play([call("send", text="x"), read_on, "Read."], long)
        await stage.break_off(await stage.submit())
        assert (await stage.carry()).output == "Read."
        cut, rest = told(stage)
        assert len(cut) <= 16_000
        assert rest.startswith("yyyyyyyyyy\n[characters 39990 to 40000 of 40000")

    async def test_a_second_crash_before_the_result_is_durable_asks_again(
        self, stage: Stage
    ) -> None:
        stage.play([call("send", text="x"), "Sent."], sending(stage, lambda: "sent before"))
        await stage.break_off(await stage.submit())
        await stage.lease()
        await stage.crash()
        assert (await stage.carry()).output == "Sent."
        assert stage.ran.count("send x") == 1


class TestReconcileWithoutACrash:
    async def test_a_lost_connection_is_asked_about_at_once(self, stage: Stage) -> None:
        lost = sending(stage, lambda: "sent before", fail=ConnectionResetError("gone"))
        stage.play([call("send", text="x"), "Sent."], lost)
        response = await stage.start()
        assert response.output == "Sent."
        assert told(stage) == ["sent before"]
        assert stage.ran == ["send x", "look turn1/tool1 {'text': 'x'}"]

    async def test_a_call_that_surely_was_not_done_is_made_once_more(self, stage: Stage) -> None:
        @tool(reconcile=lambda key, arguments: NOT_DONE)
        async def send(names: list[str]) -> str:
            """Send."""
            stage.ran.append(f"send {names}")
            names.append("spoilt")
            if len(stage.ran) == 1:
                raise ConnectionResetError
            return "sent"

        stage.play([call("send", names=["x"]), "Sent."], send)
        response = await stage.start()
        assert told(stage) == ["sent"]
        assert stage.ran == ["send ['x']", "send ['x']"]
        assert len(await stage.events(response.task_id, ToolStarted)) == 2

    async def test_if_that_comes_to_nothing_either_the_model_is_told(self, stage: Stage) -> None:
        lost = sending(stage, lambda: NOT_DONE, fail=ConnectionResetError("gone"))
        stage.play([call("send", text="x"), "Not sent."], lost)
        response = await stage.start()
        [failed] = await stage.events(response.task_id, ToolFailed)
        assert (failed.error.code, failed.error.retryable) == ("not_done", True)
        assert stage.ran.count("send x") == 2

    async def test_a_plain_function_that_may_still_be_at_work_is_not_trusted(
        self, stage: Stage
    ) -> None:
        release = threading.Event()

        @tool(reconcile=lambda key, arguments: NOT_DONE, timeout_s=0.05)
        def send(text: str) -> str:
            """Send."""
            release.wait(5)
            return "sent"

        stage.play([call("send", text="x")], send)
        response = await stage.start()
        release.set()
        assert response.status == "waiting"
        assert "its thread may still be at work" in (await stage.review()).text

    async def test_an_async_function_was_stopped_and_is(self, stage: Stage) -> None:
        @tool(reconcile=lambda key, arguments: NOT_DONE, timeout_s=0.05)
        async def send(text: str) -> str:
            """Send."""
            await anyio.sleep_forever()
            return "sent"

        stage.play([call("send", text="x"), "Not sent."], send)
        assert (await stage.start()).output == "Not sent."

    async def test_the_error_of_the_tool_itself_needs_no_asking(self, stage: Stage) -> None:
        broken = sending(stage, lambda: "sent before", fail=ValueError("no such person"))
        stage.play([call("send", text="x"), "Not sent."], broken)
        await stage.start()
        assert stage.ran == ["send x"]


async def test_a_cancelled_run_keeps_a_reconcilable_call_in_doubt(stage: Stage) -> None:
    begun = anyio.Event()

    @tool(reconcile=lambda key, arguments: NOT_DONE)
    async def send(text: str) -> str:
        """Send."""
        begun.set()
        await anyio.sleep_forever()
        return "sent"

    stage.play([call("send", text="x")], send)
    task_id = await stage.submit()
    async with anyio.create_task_group() as group:
        group.start_soon(stage.carry)
        await begun.wait()
        group.cancel_scope.cancel()
    assert len(await stage.events(task_id, ToolInDoubt)) == 1


async def test_a_doubt_that_an_older_version_left_gets_its_review(stage: Stage) -> None:
    """Earlier journals wait without a wait of their own and without a review."""
    stage.play([call("pay", amount=5), "Paid."], paying(stage))
    task_id = await stage.submit()
    await stage.break_off(task_id)
    lease = await stage.lease(task_id)
    task = await stage.store.task(task_id)
    path, name = "/turn1/tool1", "pay"
    [begun] = await stage.events(task_id, ToolStarted)
    events = [
        ToolInDoubt(path=path, call_id=begun.call_id, name=name, reason="it broke off"),
        TaskWaiting(pending=(Pending(kind="in_doubt", path=path, name=name, text="well?"),)),
    ]
    records = [
        Recorded(
            event_id=f"{seq:032x}",
            task_id=task_id,
            seq=seq,
            event=event,
            at=stage.clock.now(),
            trace_id=task.trace_id,
        )
        for seq, event in enumerate(events, task.status.seq + 1)
    ]
    await stage.store.finish(lease, records)
    await stage.store.send(wake_message(task, clock=stage.clock, new_id=ids.uuid7))

    assert (await stage.carry()).status == "waiting"

    assert len(await stage.events(task_id, ToolInDoubt)) == 1
    await stage.store.decide((await stage.review()).review_id, "done", by="ann")
    assert (await stage.carry()).output == "Paid."
    assert stage.ran == ["pay 5"]


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_what_may_be_repeated_is_repeated_without_waiting(stage: Stage, effect: str) -> None:
    @tool(effect=effect)  # pyright: ignore[reportArgumentType]  # one of the effect classes
    async def put(text: str) -> str:
        """Put."""
        stage.ran.append(f"put {text}")
        return "put"

    stage.play([call("put", text="x"), "Put."], put)
    await stage.break_off(await stage.submit())
    assert (await stage.carry(holding=Holding(holder_is_gone=False))).output == "Put."
    assert stage.ran == ["put x", "put x"]
