"""A deed with a business key is done once, in whatever words it is asked for."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
import pytest

from hermes import NOT_DONE, tool
from hermes.core.chat import ToolMessage
from hermes.core.events import ToolFailed, ToolReturned, ToolStarted
from hermes.errors import EffectTakenError
from hermes.store import EffectRow
from hermes.testing import call, calls
from hermes.tools import Tool
from tests.unit.loop.stage import Stage


def told(stage: Stage) -> list[str]:
    return [m.text for m in stage.model.requests[-1].messages if isinstance(m, ToolMessage)]


def paying(stage: Stage, *, scope: str = "root", fail: BaseException | None = None) -> Tool:
    @tool(key="{order}", key_scope=scope)  # pyright: ignore[reportArgumentType]  # named by each test
    async def pay(order: str, words: str = "") -> str:
        """Pay."""
        stage.ran.append(f"pay {order} {words}")
        if fail is not None and len(stage.ran) == 1:
            raise fail
        return f"receipt for {order}"

    return pay


async def test_the_second_call_gets_the_first_ones_result(stage: Stage) -> None:
    first = call("pay", order="A1", words="please")
    second = call("pay", order="A1", words="again")
    stage.play([first, second, "Paid."], paying(stage))

    response = await stage.start()

    assert stage.ran == ["pay A1 please"]
    assert told(stage)[1] == (
        f"[not run again: the same pay (A1) was done at /turn1/tool1 of task {response.task_id}; "
        "its result follows]\nreceipt for A1"
    )
    assert len(await stage.events(response.task_id, ToolStarted)) == 1
    assert len(await stage.events(response.task_id, ToolReturned)) == 2


async def test_two_calls_of_one_turn_are_one_deed(stage: Stage) -> None:
    stage.play([calls(call("pay", order="A1"), call("pay", order="A1")), "Paid."], paying(stage))
    await stage.start()
    assert len(stage.ran) == 1


async def test_a_key_that_is_refused_and_looks_free_is_a_fault_and_no_endless_loop(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody(*_: str) -> EffectRow | None:
        return None

    pay = paying(stage, scope="global")
    stage.play([call("pay", order="A1"), "Paid."], pay)
    await stage.start()
    monkeypatch.setattr(stage.store, "effect", nobody)
    stage.play([call("pay", order="A1")], pay)
    with anyio.fail_after(10), pytest.raises(EffectTakenError):
        await stage.start()
    assert len(stage.ran) == 1


async def test_another_key_is_another_deed(stage: Stage) -> None:
    stage.play([calls(call("pay", order="A1"), call("pay", order="A2")), "Paid."], paying(stage))
    await stage.start()
    assert len(stage.ran) == 2


@pytest.mark.parametrize(("scope", "runs"), [("root", 2), ("global", 1)])
async def test_the_scope_says_where_a_deed_is_the_same(stage: Stage, scope: str, runs: int) -> None:
    stage.play([call("pay", order="A1"), "Paid."] * 2, paying(stage, scope=scope))
    await stage.start()
    await stage.start()
    assert len(stage.ran) == runs


async def test_a_call_that_failed_frees_its_key(stage: Stage) -> None:
    broken = paying(stage, fail=ValueError("no"))
    stage.play([call("pay", order="A1"), call("pay", order="A1"), "Paid."], broken)
    response = await stage.start()
    assert len(stage.ran) == 2
    row = await stage.store.effect(response.task_id, "pay", "A1")
    assert row == EffectRow(
        scope=response.task_id,
        tool="pay",
        key="A1",
        state="done",
        task_id=response.task_id,
        path="/turn2/tool1",
    )


async def test_a_call_in_doubt_keeps_its_key(stage: Stage) -> None:
    lost = paying(stage, scope="global", fail=TimeoutError("no answer"))
    stage.play([call("pay", order="A1"), call("pay", order="A1"), "Not paid."], lost)
    assert (await stage.start()).status == "waiting"

    other = await stage.start()

    assert len(stage.ran) == 1
    [failed] = await stage.events(other.task_id, ToolFailed)
    assert (failed.status, failed.error.code) == ("refused", "duplicate")
    assert "under way or in doubt" in failed.error.message
    review_id = (await stage.review()).review_id
    stage.play(["Paid.", call("pay", order="A1"), "Paid."], *stage.tools)
    await stage.store.decide(review_id, "done", answer="receipt 7", by="ann")
    await stage.carry()
    third = await stage.start()
    assert third.status == "succeeded"
    assert told(stage)[-1].endswith("its result follows]\nreceipt 7")
    assert len(stage.ran) == 1


async def test_a_retry_of_a_call_in_doubt_keeps_its_own_key(stage: Stage) -> None:
    lost = paying(stage, fail=TimeoutError("no answer"))
    stage.play([call("pay", order="A1"), "Paid."], lost)
    response = await stage.start()
    await stage.store.decide((await stage.review()).review_id, "retry", by="ann")
    assert (await stage.carry()).output == "Paid."
    row = await stage.store.effect(response.task_id, "pay", "A1")
    assert row is not None
    assert row.state == "done"


async def test_the_loser_of_a_race_for_a_key_loses_nothing_else(stage: Stage) -> None:
    """Both look the key up while it is free; the second's commit finds it taken."""
    inside, go_on = anyio.Event(), anyio.Event()

    @tool(effect="read")
    async def look(order: str) -> str:
        """Look."""
        stage.ran.append("look")
        return "seen"

    @tool(key="{order}", key_scope="global")
    async def pay(order: str) -> str:
        """Pay."""
        stage.ran.append("pay")
        return "receipt"

    both = calls(call("look", order="A1"), call("pay", order="A1"))
    stage.play([both, both, "Paid.", "Paid."], look, pay)
    effect = stage.store.effect
    lookups: list[str] = []

    async def slow_effect(scope: str, name: str, key: str) -> EffectRow | None:
        lookups.append(key)
        row = await effect(scope, name, key)
        if len(lookups) == 1:
            inside.set()
            await go_on.wait()
        return row

    stage.store.effect = slow_effect  # pyright: ignore[reportAttributeAccessIssue]  # to stop inside
    first, second = await stage.submit(), await stage.submit()
    async with anyio.create_task_group() as group:
        group.start_soon(stage.carry, first)
        await inside.wait()
        await stage.carry(second)
        go_on.set()

    assert stage.ran == ["look", "look", "pay"]
    for task_id in (first, second):
        assert (await stage.store.task(task_id)).state == "succeeded"
        assert len(await stage.events(task_id, ToolReturned)) == 2
    assert len(await stage.events(first, ToolStarted)) == 1


async def test_a_key_that_cannot_be_told_refuses_the_call(stage: Stage) -> None:
    def broken(arguments: Mapping[str, object]) -> str:
        raise KeyError("region")

    @tool(key=broken)
    async def pay(order: str) -> str:
        """Pay."""
        stage.ran.append("pay")
        return "paid"

    stage.play([call("pay", order="A1"), "Not paid."], pay)
    response = await stage.start()
    [failed] = await stage.events(response.task_id, ToolFailed)
    assert (failed.status, failed.error.code) == ("refused", "no_key")
    assert stage.ran == []


async def test_a_duplicate_needs_no_approval(stage: Stage) -> None:
    @tool(key="{order}", requires_approval=True)
    async def pay(order: str) -> str:
        """Pay."""
        stage.ran.append("pay")
        return "paid"

    stage.play([call("pay", order="A1"), call("pay", order="A1"), "Paid."], pay)
    await stage.start()
    await stage.store.decide((await stage.review()).review_id, "approve", by="ann")
    assert (await stage.carry()).status == "succeeded"
    assert stage.ran == ["pay"]


async def test_a_reconciled_call_keeps_or_frees_its_key(stage: Stage) -> None:
    answers: list[object] = [NOT_DONE]

    @tool(key="{order}", reconcile=lambda key, arguments: answers[0])
    async def pay(order: str) -> str:
        """Pay."""
        stage.ran.append("pay")
        raise ConnectionResetError

    stage.play([call("pay", order="A1"), call("pay", order="A1"), "Paid."], pay)
    response = await stage.start()
    row = await stage.store.effect(response.task_id, "pay", "A1")
    assert (stage.ran, row.state if row else "") == (["pay"] * 4, "failed")

    answers[0] = "receipt"
    stage.play([call("pay", order="A2"), "Paid."], pay)
    response = await stage.start()
    row = await stage.store.effect(response.task_id, "pay", "A2")
    assert row is not None
    assert row.state == "done"
