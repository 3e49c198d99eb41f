"""Replies that are not waited for any longer: what had been heard is kept, and counts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import anyio
import pytest

from hermes import Agent, Hermes, Limits
from hermes.agents import response_of
from hermes.app import RunOptions
from hermes.core.chat import estimate_tokens
from hermes.core.events import ModelFailed, Recorded
from hermes.core.request import AgentResponse
from hermes.models import ModelRequest, ReasoningDelta, StreamPart, TextDelta
from hermes.models.profiles import Prices, Profile
from hermes.store import TaskQuery
from hermes.testing import ScriptedModel

WORDS = ("Twelve lamps, ", "还有报告")


class Endless(ScriptedModel):
    """Says some words, and then nothing more."""

    def __init__(self, *words: str, thoughts: Sequence[str] = ()) -> None:
        super().__init__([])
        self._words, self._thoughts = words, thoughts
        self.has_spoken = anyio.Event()
        self.profile = Profile(name="m", is_known=True, prices=Prices(prompt=2.0, completion=10.0))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        for word in self._thoughts:
            yield ReasoningDelta(text=word)
        for word in self._words:
            yield TextDelta(text=word)
        self.has_spoken.set()
        await anyio.sleep_forever()


async def cancelled(app: Hermes, model: Endless) -> tuple[AgentResponse, list[Recorded]]:
    options = RunOptions(stream=True)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: app.run(Agent(model=model), "count", options=options))
        await model.has_spoken.wait()
        group.cancel_scope.cancel()
    [task] = await app.store.tasks(TaskQuery())
    records = list(await app.store.events(task.task_id))
    return response_of(records), records


def failure_in(records: Sequence[Recorded]) -> ModelFailed:
    [failed] = [each.event for each in records if isinstance(each.event, ModelFailed)]
    return failed


async def test_a_cancelled_run_keeps_and_counts_what_was_heard() -> None:
    async with Hermes("memory://") as app:
        response, records = await cancelled(app, Endless(*WORDS, thoughts=["hm"]))
    failed = failure_in(records)
    assert (response.status, response.output) == ("cancelled", "".join(WORDS))
    assert (failed.error.code, failed.partial_text) == ("cancelled", "".join(WORDS))
    assert [entry.status for entry in response.trace] == ["error"]
    usage = response.usage
    assert usage.estimated
    assert usage.completion_tokens == estimate_tokens("".join(WORDS) + "hm")
    assert usage.prompt_tokens > 0
    assert usage.cost == pytest.approx(
        (2 * usage.prompt_tokens + 10 * usage.completion_tokens) / 1e6
    )


async def test_a_run_whose_time_is_over_does_the_same() -> None:
    agent = Agent(model=Endless(*WORDS), limits=Limits(max_seconds=0.3))
    async with Hermes("memory://") as app:
        with anyio.fail_after(10):
            response = await app.run(agent, "count", options=RunOptions(stream=True))
    assert (response.status, response.output) == ("partial", "".join(WORDS))
    assert response.error is not None
    assert response.error.code == "budget"
    assert response.usage.completion_tokens == estimate_tokens("".join(WORDS))


async def test_of_a_reply_that_had_not_begun_nothing_counts() -> None:
    async with Hermes("memory://") as app:
        response, records = await cancelled(app, Endless())
    assert (response.output, response.usage.total_tokens) == (None, 0)
    assert failure_in(records).error.code == "cancelled"


async def test_a_task_that_was_cancelled_can_be_replayed() -> None:
    async with Hermes("memory://") as app:
        model = Endless(*WORDS)
        _, records = await cancelled(app, model)
        told = await app.replay(records[0].task_id, Agent(model=model))
    assert told.difference is None
