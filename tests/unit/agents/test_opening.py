"""What a task is told of its session: exchanges near by, a sentence on others, no more."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hermes.agents.opening import EXCHANGES, earlier_of
from hermes.core.chat import AssistantMessage, UserMessage
from hermes.core.events import TaskStarted
from hermes.errors import ModelError
from hermes.models import ModelReply
from hermes.testing import MemoryStore
from tests.unit.loop.stage import Stage, staged


async def answered(stage: Stage, goal: str, answer: str) -> str:
    task_id = await stage.submit(goal, session="s")
    stage.play([answer])
    await stage.carry(task_id)
    return task_id


async def shown(stage: Stage) -> list[str]:
    """The messages before the goal of one more task of the session, by their texts."""
    task_id = await stage.submit("now", session="s")
    stage.play(["ok"])
    await stage.carry(task_id)
    texts = [message.text for message in stage.model.requests[0].messages]
    assert texts[-1] == "now"
    return texts[1:-1]


async def test_the_exchange_before_stands_as_conversation() -> None:
    async with staged("memory://") as stage:
        await answered(stage, "who am I?", "Ann")
        task_id = await stage.submit("and now?", session="s")
        stage.play(["ok"])
        await stage.carry(task_id)
        messages = stage.model.requests[0].messages

        assert messages[1:3] == [UserMessage(text="who am I?"), AssistantMessage(text="Ann")]


async def test_at_most_ten_exchanges_are_shown_and_the_others_told_in_five_sentences() -> None:
    async with staged("memory://") as stage:
        for number in range(20):
            await answered(stage, f"goal {number}", f"answer {number}")
        told, *exchanges = await shown(stage)

        assert len(exchanges) == 2 * EXCHANGES
        assert exchanges[0] == "goal 10"
        assert [line for line in told.splitlines() if line.startswith("- ")] == [
            "- 6 other tasks ended before these.",
            *(f"- “goal {n}” succeeded: answer {n}" for n in range(6, 10)),
        ]


async def test_what_is_older_than_half_an_hour_is_not_told() -> None:
    async with staged("memory://") as stage:
        for number in range(12):
            await answered(stage, f"goal {number}", f"answer {number}")
        stage.clock.advance(31 * 60)
        first, *_ = await shown(stage)

        assert first == "goal 2"


async def test_a_long_answer_is_cut_and_its_task_named() -> None:
    async with staged("memory://") as stage:
        task_id = await answered(stage, "write", "word " * 20_000)
        _, text = await shown(stage)

        assert len(text) < 10_000
        assert f"task {task_id} has them" in text


async def test_long_exchanges_leave_room_for_the_task() -> None:
    async with staged("memory://") as stage:
        for number in range(5):
            await answered(stage, f"goal {number}", "word " * 1_500)
        told, *exchanges = await shown(stage)

        assert len(exchanges) == 4
        assert exchanges[0] == "goal 3"
        assert "“goal 2” succeeded: word word" in told


async def test_a_task_that_failed_is_told_with_its_reason() -> None:
    async with staged("memory://") as stage:
        task_id = await stage.submit("try", session="s")
        stage.play([ModelError("it is down", code="x", retryable=False)])
        await stage.carry(task_id)
        [told] = await shown(stage)

        assert "“try” failed: it is down" in told


async def test_a_resume_sees_what_the_start_saw() -> None:
    async with staged("memory://") as stage:
        for number in range(12):
            await answered(stage, f"goal {number}", f"answer {number}")
        task_id = await stage.submit("now", session="s")
        stage.play([lambda _: pytest.fail("dies")])
        with pytest.raises(BaseException, match="dies"):
            await stage.carry(task_id)
        await stage.crash()
        stage.clock.advance(3_600)
        first = stage.model.requests[0].messages
        stage.play([ModelReply(text="ok")])
        await stage.carry(task_id)

        assert stage.model.requests[0].messages == first
        [started] = await stage.events(task_id, TaskStarted)
        assert len(started.earlier) == EXCHANGES
        assert "goal 1" in started.others


async def test_a_small_window_is_shown_less() -> None:
    async with staged("memory://") as stage:
        for number in range(4):
            await answered(stage, f"goal {number}", "word " * 400)
        task = await stage.store.task(await stage.submit("now", session="s"))
        now = stage.clock.now() + timedelta(seconds=1)
        wide = await earlier_of(stage.store, task, now=now, window=None)
        narrow = await earlier_of(stage.store, task, now=now, window=8_000)

        assert (len(wide.exchanges), len(narrow.exchanges)) == (4, 1)


async def test_a_task_of_no_session_is_told_nothing() -> None:
    async with staged("memory://") as stage:
        assert isinstance(stage.store, MemoryStore)
        task = await stage.store.task(await stage.submit("now"))
        found = await earlier_of(stage.store, task, now=stage.clock.now(), window=None)

        assert (found.exchanges, found.others, found.origin) == ((), "", "")
