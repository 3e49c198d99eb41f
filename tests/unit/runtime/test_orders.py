"""What is refused before anything is stored or waited for."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from hermes import Agent, Hermes
from hermes.errors import InputError
from hermes.testing import ScriptedModel

AGENT = Agent(model=ScriptedModel([]))


@pytest.fixture
async def app() -> AsyncGenerator[Hermes]:
    async with Hermes("memory://") as opened:
        yield opened


@pytest.mark.parametrize(("text", "says"), [("a\x00b", "NUL character"), ("a\udcff", "no UTF-8")])
@pytest.mark.parametrize("what", ["goal", "session id", "dedupe key"])
async def test_words_that_not_every_store_can_hold_are_named(
    app: Hermes, what: str, text: str, says: str
) -> None:
    given = {"goal": "go", "session id": "s", "dedupe key": "k"} | {what: text}
    with pytest.raises(InputError, match=f"the {what} holds .*{says}"):
        await app.submit(
            AGENT,
            given["goal"],
            session_id=given["session id"],
            dedupe_key=given["dedupe key"],
        )


@pytest.mark.parametrize("concurrency", [0, -1])
async def test_a_worker_that_could_carry_nothing_is_refused(app: Hermes, concurrency: int) -> None:
    with pytest.raises(InputError, match="1 task at a time or more"):
        app.worker(concurrency=concurrency)


async def test_queues_given_as_one_text_are_not_taken_for_its_letters(app: Hermes) -> None:
    with pytest.raises(InputError, match="a list of names"):
        app.worker(queues="clerk")


@pytest.mark.parametrize("name", ["", " ", "a\x00b"])
async def test_an_event_that_no_call_can_wait_for_is_refused(app: Hermes, name: str) -> None:
    with pytest.raises(InputError, match="an event needs a name"):
        await app.signal(name)
