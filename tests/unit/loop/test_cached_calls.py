"""What a tool has read is given again for a while, where it says so, and marked."""

from __future__ import annotations

import pytest

from hermes import ToolContext, ToolError, tool
from hermes.core.events import ToolReturned
from hermes.errors import ToolDefinitionError
from hermes.telemetry import trace
from hermes.testing import call
from hermes.tools import Tool
from tests.unit.loop.resilient import Shift, told
from tests.unit.loop.stage import Stage

TWICE = [call("look", place="yard"), call("look", place="yard"), "Seen."]


def looker(stage: Stage, cache_s: float | None = 60.0) -> Tool:
    @tool(effect="read", cache_s=cache_s)
    async def look(place: str) -> str:
        """Look."""
        stage.ran.append(place)
        return f"{place} {len(stage.ran)}"

    return look


async def test_the_same_call_gets_the_same_result_and_the_trace_says_so(stage: Stage) -> None:
    response, model = await Shift(stage).run(TWICE, looker(stage))
    assert (stage.ran, told(model)) == (["yard"], ["yard 1", "yard 1"])
    events = await stage.events(response.task_id, ToolReturned)
    assert [event.cached for event in events] == [False, True]
    entries = [entry for entry in trace(await stage.store.events(response.task_id)) if entry.cached]
    assert [entry.as_json()["cached"] for entry in entries] == [True]


async def test_it_holds_for_its_time_and_over_tasks_but_not_for_other_arguments(
    stage: Stage,
) -> None:
    shift, look = Shift(stage), looker(stage)
    await shift.run(TWICE, look)
    await shift.run([call("look", place="yard"), call("look", place="barn"), "Seen."], look)
    assert stage.ran == ["yard", "barn"]
    stage.clock.advance(60)
    await shift.run([call("look", place="yard"), "Seen."], look)
    assert stage.ran == ["yard", "barn", "yard"]


async def test_without_the_option_each_call_is_made(stage: Stage) -> None:
    await Shift(stage).run(TWICE, looker(stage, None))
    assert stage.ran == ["yard", "yard"]


async def test_failures_and_what_wrote_something_are_not_kept(stage: Stage) -> None:
    @tool(effect="read", cache_s=60.0)
    async def look(ctx: ToolContext, place: str) -> str:
        """Look."""
        stage.ran.append(place)
        if len(stage.ran) == 1:
            raise ToolError("down")
        ctx.variables["seen"] = place
        return place

    script = [call("look", place="yard")] * 3
    await Shift(stage).run([*script, "Seen."], look)
    assert stage.ran == ["yard"] * 3


@pytest.mark.parametrize(("effect", "cache_s"), [("unsafe", 5.0), ("idempotent", 5.0), ("read", 0)])
def test_only_what_reads_may_be_kept_and_for_some_time(effect: str, cache_s: float) -> None:
    async def act() -> None:
        """Act."""

    with pytest.raises(ToolDefinitionError, match="cache_s"):
        tool(effect=effect, cache_s=cache_s)(act)  # pyright: ignore[reportArgumentType]  # a case table
