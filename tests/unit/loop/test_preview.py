"""A person who is asked reads what the call would do; nothing is changed for that."""

from __future__ import annotations

import pytest

from hermes import tool
from hermes.core.events import ToolStarted
from hermes.core.failpoints import set_hook
from hermes.errors import ToolError
from hermes.testing import call, calls
from hermes.tools import Tool
from tests.unit.loop.stage import Death, Stage


def removing(stage: Stage) -> Tool:
    @tool(requires_approval=True)
    async def remove(path: str, dry_run: bool) -> str:
        """Remove."""
        if path == "missing":
            raise ToolError("no such folder")
        if dry_run:
            stage.ran.append(f"looked at {path}")
            return f"remove {path} with 3 files:\na, b, c"
        stage.ran.append(f"removed {path}")
        return "removed"

    return remove


async def test_the_review_says_what_the_call_would_do(stage: Stage) -> None:
    stage.play([call("remove", path="报告"), "Done."], removing(stage))

    response = await stage.start()

    review = await stage.review()
    assert review.data["preview"] == "remove 报告 with 3 files:\na, b, c"
    assert review.text == ("may remove be called? It would: remove 报告 with 3 files: a, b, c")
    assert response.pending[0].text == review.text
    assert stage.ran == ["looked at 报告"]
    assert await stage.events(response.task_id, ToolStarted) == []
    assert (await stage.decide("approve")).status == "succeeded"
    assert stage.ran == ["looked at 报告", "removed 报告"]


async def test_a_preview_that_fails_is_said_and_the_person_still_asked(stage: Stage) -> None:
    stage.play([call("remove", path="missing"), "Done."], removing(stage))
    assert (await stage.start()).status == "waiting"
    review = await stage.review()
    assert "no such folder" in str(review.data["preview_failed"])
    assert "What it would do is not known: no such folder" in review.text
    assert "preview" not in review.data


async def test_a_function_of_the_arguments_says_which_calls_are_asked_for(stage: Stage) -> None:
    @tool(requires_approval=lambda arguments: arguments["amount"] != 1)
    async def pay(amount: int) -> str:
        """Pay."""
        stage.ran.append(f"pay {amount}")
        return "paid"

    stage.play([calls(call("pay", amount=1), call("pay", amount=5)), "Paid."], pay)
    response = await stage.start()
    assert (response.status, stage.ran) == ("waiting", ["pay 1"])
    assert (await stage.review()).data["because"] == ["this tool asks before such a call"]
    assert (await stage.decide("approve")).status == "succeeded"
    assert stage.ran == ["pay 1", "pay 5"]


@pytest.mark.parametrize("point", ["loop.commit.before", "loop.commit.after", "loop.tool.before"])
async def test_a_crash_between_the_yes_and_the_call_makes_it_once_or_asks(
    stage: Stage, point: str
) -> None:
    stage.play([call("remove", path="a"), "Done."], removing(stage))
    await stage.start()
    await stage.store.decide((await stage.review()).review_id, "approve", by="ann")

    def hook(name: str) -> None:
        if name == point:
            raise Death

    set_hook(hook)
    try:
        with pytest.raises(Death):
            await stage.carry()
    finally:
        set_hook(None)
    await stage.crash()
    response = await stage.carry()

    if point == "loop.commit.before":  # nothing was written: the yes still holds
        assert (response.status, stage.ran[1:]) == ("succeeded", ["removed a"])
    else:  # it may have been made
        assert (response.pending[0].kind, stage.ran[1:]) == ("in_doubt", [])


async def test_what_was_read_before_is_kept_while_a_preview_takes_its_time(stage: Stage) -> None:
    @tool
    async def pay() -> str:
        """Pay."""
        return "paid"

    async def die() -> str:
        raise Death

    @tool(requires_approval=True, preview=die)
    async def remove() -> str:
        """Remove."""
        return "removed"

    stage.play([calls(call("pay"), call("remove")), "Done."], pay, remove)
    task_id = await stage.submit()
    with pytest.raises(Death):
        await stage.carry()
    assert "tool.returned" in await stage.types(task_id)
