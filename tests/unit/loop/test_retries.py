"""A call is made again where its error may pass and a repeat does no harm, and counted."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
import pytest

from hermes import ToolContext, ToolError, tool
from hermes.core.budget import Limits
from hermes.core.events import ToolFailed, ToolReturned, ToolStarted, VariableSet
from hermes.errors import NotDone
from hermes.telemetry import trace
from hermes.testing import ScriptedModel, call
from hermes.tools import Tool
from tests.unit.loop.resilient import Shift, told
from tests.unit.loop.stage import Stage


def fails(stage: Stage, *errors: Callable[[], Exception], retries: int = 3) -> Tool:
    """A tool that raises these, one a try, and then gives a result."""
    left = list(errors)

    @tool(effect="read", retries=retries)
    async def look(ctx: ToolContext) -> str:
        """Look."""
        stage.ran.append("look")
        ctx.variables[f"try{len(stage.ran)}"] = True
        if left:
            raise left.pop(0)()
        return "seen"

    return look


def down() -> Exception:
    return ToolError("down", retryable=True)


async def test_a_call_is_made_again_until_it_succeeds_and_has_one_outcome(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    shift = Shift(stage)
    with caplog.at_level(logging.INFO, "hermes.tool"):
        response, model = await shift.run([call("look"), "Seen."], fails(stage, down, TimeoutError))
    assert (response.status, len(stage.ran), told(model)) == ("succeeded", 3, ["seen"])
    assert shift.slept == [0.5, 1.0]
    [returned] = await stage.events(response.task_id, ToolReturned)
    assert (returned.tries, returned.duration_s) == (3, 1.5)
    assert len(await stage.events(response.task_id, ToolStarted)) == 1
    [seen] = [
        entry for entry in trace(await stage.store.events(response.task_id)) if entry.tries > 1
    ]
    assert (seen.name, seen.as_json()["tries"]) == ("look", 3)
    fields = [vars(record)["hermes"] for record in caplog.records]
    again = [(f["tries"], f["code"], f["delay_ms"]) for f in fields if f["event"] == "tool.again"]
    assert again == [(1, "failed", 500), (2, "timeout", 1000)]
    assert [f["tries"] for f in fields if f["event"] == "tool.end"] == [3]


async def test_what_a_failed_try_wrote_is_forgotten(stage: Stage) -> None:
    response, _ = await Shift(stage).run([call("look"), "Seen."], fails(stage, down))
    written = await stage.events(response.task_id, VariableSet)
    assert [event.name for event in written] == ["try2"]


async def test_tries_end_and_the_outcome_says_how_many_there_were(stage: Stage) -> None:
    shift = Shift(stage)
    response, _ = await shift.run([call("look"), "No."], fails(stage, *[down] * 9, retries=2))
    [failed] = await stage.events(response.task_id, ToolFailed)
    assert (failed.tries, len(stage.ran), len(shift.slept)) == (3, 3, 2)


async def test_the_pause_is_spread(stage: Stage) -> None:
    shift = Shift(stage, spread=0.25)
    await shift.run([call("look"), "Seen."], fails(stage, down, down))
    assert shift.slept == [0.125, 0.25]


@pytest.mark.parametrize(
    "error", [lambda: ToolError("no such thing"), lambda: ValueError("a bug")], ids=["own", "bug"]
)
async def test_an_error_that_will_not_pass_is_not_tried_again(
    stage: Stage, error: Callable[[], Exception]
) -> None:
    await Shift(stage).run([call("look"), "No."], fails(stage, error))
    assert stage.ran == ["look"]


async def test_faulty_arguments_are_not_tried_again(stage: Stage) -> None:
    shift = Shift(stage)

    @tool(effect="read", retries=3)
    async def look(depth: int) -> str:
        """Look."""
        stage.ran.append("look")
        return "seen"

    await shift.run([call("look", depth="deep"), "No."], look)
    assert (stage.ran, shift.slept) == ([], [])


async def test_a_call_that_surely_was_not_made_is_made_again(stage: Stage) -> None:
    busy = fails(stage, lambda: NotDone("busy"))
    response, _ = await Shift(stage).run([call("look"), "Seen."], busy)
    assert (response.status, len(stage.ran)) == ("succeeded", 2)


async def test_without_time_for_the_pause_there_is_no_other_try(stage: Stage) -> None:
    shift = Shift(stage)
    limits = Limits(max_seconds=1.2)
    response, _ = await shift.run(
        [call("look"), "No."], fails(stage, down, down, down), limits=limits
    )
    # 0.5 s of 1.2 s are gone after the first pause, and the second would take 1 s.
    assert (shift.slept, len(stage.ran)) == ([0.5], 2)
    assert response.status in ("succeeded", "partial")


async def test_a_run_that_is_cancelled_in_the_pause_makes_no_other_try(stage: Stage) -> None:
    shift = Shift(stage)
    in_pause = anyio.Event()

    async def sleep(_: float) -> None:
        in_pause.set()
        await anyio.sleep_forever()

    shift.guard.sleep = sleep
    task_id = await stage.submit()
    async with anyio.create_task_group() as group:
        model = ScriptedModel([call("look")])
        group.start_soon(shift.carry, task_id, model, fails(stage, down))
        await in_pause.wait()
        group.cancel_scope.cancel()
    assert stage.ran == ["look"]
    assert (await stage.store.task(task_id)).state.value == "cancelled"


async def test_a_breaker_that_opens_ends_the_tries(stage: Stage) -> None:
    shift = Shift(stage)
    response, _ = await shift.run([call("look"), "No."], fails(stage, *[down] * 20, retries=15))
    assert len(stage.ran) == 5
    [failed] = await stage.events(response.task_id, ToolFailed)
    assert (failed.status, failed.error.code, failed.tries) == ("error", "failed", 5)
