"""A provider says that a request is too long: it is compacted, and made once more."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hermes.agents import AgentDefinition
from hermes.core.events import ContextCompacted, ModelFailed, ModelRequested
from hermes.core.failpoints import set_hook
from hermes.errors import ModelError
from hermes.loop.context import tokens_of
from hermes.loop.summary import INSTRUCTION
from hermes.models import ModelReply, ModelRequest
from hermes.runtime.replay import replay
from hermes.tools import tool
from tests.unit.loop.stage import Death, Stage, staged
from tests.unit.loop.test_compaction import Desk, dies_after


class Narrow(Desk):
    """Its provider takes fewer tokens than anybody has told.

    Attributes:
        takes: So many.
        refused: How often it said so.
    """

    takes: int = 2_500
    refused: int = 0

    def answer(self, request: ModelRequest) -> ModelReply:
        size = tokens_of(request.messages)
        if size > self.takes:
            self.refused += 1
            raise ModelError(
                f"the request is too long: {size}", code="context_length", hint="set the window"
            )
        return super().answer(request)


@pytest.fixture(params=[100_000, None], ids=["a window too large", "no window"])
async def desk(request: pytest.FixtureRequest) -> AsyncIterator[Narrow]:
    async with staged("memory://") as stage:
        yield Narrow(stage, window=request.param, turns=24)


async def test_the_conversation_is_compacted_and_the_run_goes_on(desk: Narrow) -> None:
    task_id, response = await desk.start()

    assert (response.status, response.output) == ("succeeded", "24 pages")
    assert desk.read == [f"p-{n}" for n in range(24)]
    assert desk.refused == 1, "what was refused bounds all later requests"
    [failed] = await desk.stage.events(task_id, ModelFailed)
    assert failed.error.code == "context_length"
    assert len(await desk.stage.events(task_id, ContextCompacted)) > 1


async def test_where_nothing_can_be_compacted_the_refusal_stands(desk: Narrow) -> None:
    desk.takes = 10
    task_id, response = await desk.start()

    assert (response.status, desk.refused) == ("failed", 1)
    assert response.error is not None
    assert response.error.message.startswith("the request is too long")
    assert (response.error.code, response.error.hint) == ("context_length", "set the window")
    assert len(await desk.stage.events(task_id, ModelRequested)) == 1


async def test_a_second_refusal_in_a_row_is_the_last(desk: Narrow) -> None:
    task_id = await desk.stage.submit("read all pages")

    class Stubborn(Narrow):
        def answer(self, request: ModelRequest) -> ModelReply:
            is_summary = request.messages[0].text == INSTRUCTION
            if self.refused and not is_summary:
                self.takes = 0
            return super().answer(request)

    stubborn = Stubborn(desk.stage, window=desk.window, turns=24)
    response = await stubborn.carry(task_id)

    assert (response.status, stubborn.refused) == ("failed", 2)
    assert response.error is not None
    assert response.error.code == "context_length"
    assert len(await desk.stage.events(task_id, ContextCompacted)) == 1


@pytest.mark.parametrize("takes", [2_500, 10], ids=["recovered", "refused"])
async def test_a_replay_decides_the_same(desk: Narrow, takes: int) -> None:
    @tool(effect="read")
    def page(name: str) -> str:
        """Read a page."""
        raise AssertionError(name)

    desk.takes = takes
    task_id, _ = await desk.start()
    agent = AgentDefinition(name="a", tools=(page,))
    registry, stage = agent.registry(("core",)), desk.stage
    again = await replay(
        stage.store, task_id, agent, registry, desk.model().name, clock=stage.clock
    )
    assert (again.difference, again.is_whole) == (None, True)


async def test_a_run_broken_off_anywhere_asks_the_same(desk: Narrow) -> None:
    await desk.start()
    undisturbed = [list(request.messages) for request in desk.requests]
    for at in range(8, 24, 2):
        async with staged("memory://") as stage:
            again = Narrow(stage, window=desk.window, turns=24)
            await die_and_go_on(again, stage, commits=at)
            sent = [list(request.messages) for request in again.requests]
            assert [each for n, each in enumerate(sent) if each not in sent[:n]] == undisturbed


async def die_and_go_on(desk: Narrow, stage: Stage, *, commits: int) -> None:
    task_id = await stage.submit("read all pages")
    set_hook(dies_after(commits))
    try:
        with pytest.raises(Death):
            await desk.carry(task_id)
    finally:
        set_hook(None)
    await stage.crash()
    await desk.carry(task_id)
