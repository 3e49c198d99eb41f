"""A call that needs approval is begun once, after a person's yes to this very call."""

from __future__ import annotations

import pytest

from hermes import tool
from hermes.core.chat import ToolMessage
from hermes.core.events import ReviewDecided, ToolFailed, ToolStarted
from hermes.testing import call, calls
from hermes.tools import Tool
from tests.unit.loop.stage import Stage


def paying(stage: Stage, effect: str = "unsafe") -> Tool:
    @tool(requires_approval=True, effect=effect)  # pyright: ignore[reportArgumentType]  # named by each test
    async def pay(amount: int) -> str:
        """Pay."""
        stage.ran.append(f"pay {amount}")
        return "paid"

    return pay


def told(stage: Stage) -> list[str]:
    return [m.text for m in stage.model.requests[-1].messages if isinstance(m, ToolMessage)]


@pytest.mark.parametrize("effect", ["unsafe", "read"])
async def test_the_task_waits_before_the_call_is_begun(stage: Stage, effect: str) -> None:
    stage.play([call("pay", amount=5)], paying(stage, effect))

    response = await stage.start()

    assert (response.status, response.pending[0].kind) == ("waiting", "approval")
    assert stage.ran == []
    assert await stage.events(response.task_id, ToolStarted) == []
    review = await stage.review()
    assert (review.data["name"], review.data["arguments"]) == ("pay", {"amount": 5})
    assert review.data["effect"] == effect
    assert review.data["digest"]


async def test_an_approved_call_runs_once(stage: Stage) -> None:
    stage.play([call("pay", amount=5), "Paid."], paying(stage))
    await stage.start()
    await stage.store.decide((await stage.review()).review_id, "approve", by="ann")
    response = await stage.carry()
    assert (response.status, stage.ran) == ("succeeded", ["pay 5"])
    assert [e.decision for e in await stage.events(response.task_id, ReviewDecided)] == ["approve"]


async def test_a_refused_call_never_runs_and_the_model_reads_why(stage: Stage) -> None:
    stage.play([call("pay", amount=5), "Not paid."], paying(stage))
    await stage.start()
    review_id = (await stage.review()).review_id
    await stage.store.decide(review_id, "reject", answer="too much, ask for 3", by="ann")
    response = await stage.carry()
    assert (response.output, stage.ran) == ("Not paid.", [])
    [failed] = await stage.events(response.task_id, ToolFailed)
    assert (failed.status, failed.error.code) == ("refused", "rejected")
    assert "too much, ask for 3" in told(stage)[0]


async def test_an_approval_is_for_one_call_only(stage: Stage) -> None:
    both = calls(call("pay", amount=5), call("pay", amount=6))
    stage.play([both, "Paid."], paying(stage))
    await stage.start()
    await stage.store.decide((await stage.review()).review_id, "approve", by="ann")
    waiting = await stage.carry()
    assert (waiting.status, stage.ran) == ("waiting", ["pay 5"])
    review = await stage.review()
    assert review.data["arguments"] == {"amount": 6}
    await stage.store.decide(review.review_id, "approve", by="ann")
    assert (await stage.carry()).status == "succeeded"
    assert stage.ran == ["pay 5", "pay 6"]


async def test_an_approval_does_not_hold_for_a_call_that_has_changed(stage: Stage) -> None:
    stage.play([call("pay", amount=5), "Paid."], paying(stage))
    await stage.start()
    await stage.store.decide((await stage.review()).review_id, "approve", by="ann")

    @tool(name="pay", requires_approval=True)
    async def pay_in_words(amount: str) -> str:
        """Pay."""
        stage.ran.append(f"pay {amount}")
        return "paid"

    stage.tools = [pay_in_words]
    response = await stage.carry_accepting()

    assert (response.status, stage.ran) == ("waiting", [])
    assert (await stage.review()).data["arguments"] == {"amount": "5"}


async def test_an_approved_call_that_broke_off_is_in_doubt_not_run_again(stage: Stage) -> None:
    stage.play([call("pay", amount=5), "Paid."], paying(stage))
    await stage.start()
    await stage.store.decide((await stage.review()).review_id, "approve", by="ann")
    await stage.break_off()

    response = await stage.carry()

    assert response.status == "waiting"
    assert (await stage.review()).reason == "in_doubt"
    assert stage.ran == ["pay 5"]
    await stage.store.decide((await stage.review()).review_id, "retry", by="ann")
    assert (await stage.carry()).status == "succeeded"
    assert stage.ran == ["pay 5", "pay 5"]
