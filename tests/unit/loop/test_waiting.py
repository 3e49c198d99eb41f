"""A call that returns something to wait for suspends its task, without a process."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import cast

import pytest

from hermes import Event, Question, ToolContext, Until, tool
from hermes.agents import Executor, Holding
from hermes.core import ids
from hermes.core.chat import ToolMessage
from hermes.core.events import (
    ReviewDecided,
    ReviewRequested,
    TaskWaiting,
    ToolFailed,
    ToolInDoubt,
    ToolReturned,
    ToolStarted,
)
from hermes.core.task import TaskState
from hermes.errors import InputError, NotFoundError
from hermes.runtime import wake_message
from hermes.testing import call, calls
from hermes.tools import Tool
from tests.unit.loop.stage import Stage


def asking(stage: Stage, effect: str = "unsafe") -> Tool:
    @tool(effect=effect)  # pyright: ignore[reportArgumentType]  # named by each test
    async def ask(text: str) -> Question:
        """Ask."""
        stage.ran.append(f"ask {text}")
        return Question(text=text, options=["red", "blue"])

    return ask


def noting(stage: Stage, effect: str = "unsafe") -> Tool:
    @tool(effect=effect)  # pyright: ignore[reportArgumentType]  # named by each test
    async def note(text: str) -> str:
        """Note."""
        stage.ran.append(f"note {text}")
        return f"noted {text}"

    return note


def told(stage: Stage) -> list[str]:
    return [m.text for m in stage.model.requests[-1].messages if isinstance(m, ToolMessage)]


class TestQuestion:
    async def test_the_task_waits_without_a_message_and_without_a_lease(self, stage: Stage) -> None:
        stage.play([call("ask", text="which?")], asking(stage))

        response = await stage.start()

        assert response.status == "waiting"
        [pending] = response.pending
        assert (pending.kind, pending.path, pending.text) == ("question", "/turn1/tool1", "which?")
        assert await stage.store.messages() == []
        review = await stage.review()
        assert (review.reason, review.review_id) == ("question", pending.review_id)
        assert review.data == {"question": "which?", "options": ["red", "blue"]}

    async def test_the_answer_is_the_result_and_nothing_is_asked_twice(self, stage: Stage) -> None:
        stage.play([call("ask", text="which?"), "It is red."], asking(stage))
        waiting = await stage.start()

        await stage.store.decide((await stage.review()).review_id, "answer", answer="red", by="ann")
        response = await stage.carry()

        assert (response.status, response.output) == ("succeeded", "It is red.")
        assert told(stage) == ["red"]
        assert stage.ran == ["ask which?"]
        [decided] = await stage.events(waiting.task_id, ReviewDecided)
        assert (decided.decision, decided.by, decided.answer) == ("answer", "ann", "red")
        assert await stage.store.waits(waiting.task_id) == []
        assert await stage.store.messages() == []

    async def test_an_answer_that_was_taken_in_leaves_no_wait_beside_the_next(
        self, stage: Stage
    ) -> None:
        stage.play([call("ask", text="which?"), call("ask", text="sure?")], asking(stage))
        waiting = await stage.start()
        await stage.store.decide((await stage.review()).review_id, "answer", answer="red", by="ann")
        response = await stage.carry()
        [wait] = await stage.store.waits(waiting.task_id)
        assert wait.wait_id == response.pending[0].wait_id

    async def test_a_structured_answer_is_told_as_json(self, stage: Stage) -> None:
        stage.play([call("ask", text="which?"), "Fine."], asking(stage))
        await stage.start()
        review_id = (await stage.review()).review_id
        await stage.store.decide(review_id, "answer", answer={"colour": "red"}, by="ann")
        await stage.carry()
        assert told(stage) == ['{"colour":"red"}']

    async def test_a_built_in_tool_asks(self, stage: Stage) -> None:
        stage.play([call("ask_human", question="Go?", options=["yes", "no"]), "Gone."])
        await stage.start()
        review = await stage.review()
        assert (review.text, review.data["options"]) == ("Go?", ["yes", "no"])
        await stage.store.decide(review.review_id, "answer", answer="yes", by="ann")
        assert (await stage.carry()).output == "Gone."
        assert told(stage) == ["yes"]

    async def test_the_time_of_waiting_is_not_spent(self, stage: Stage) -> None:
        stage.play([call("ask", text="which?"), "Red."], asking(stage))
        waiting = await stage.start()
        stage.clock.advance(86_400)
        await stage.store.decide((await stage.review()).review_id, "answer", answer="red", by="ann")
        await stage.carry()
        task = await stage.store.task(waiting.task_id)
        assert task.status.spent.seconds == 0

    async def test_a_crash_after_the_wait_began_asks_nobody_again(self, stage: Stage) -> None:
        stage.play([call("ask", text="which?"), "Red."], asking(stage))
        await stage.start()
        await stage.store.decide((await stage.review()).review_id, "answer", answer="red", by="ann")
        await stage.lease()
        await stage.crash()

        response = await stage.carry()

        assert response.output == "Red."
        assert stage.ran == ["ask which?"]
        assert await stage.events(response.task_id, ToolInDoubt) == []

    async def test_a_person_may_cancel_the_task_instead(self, stage: Stage) -> None:
        stage.play([call("ask", text="which?")], asking(stage))
        waiting = await stage.start()
        await stage.store.decide((await stage.review()).review_id, "cancel", by="ann")

        response = await stage.carry()

        assert response.status == "cancelled"
        assert response.error is not None
        assert response.error.message == "the run was cancelled by ann"
        assert await stage.store.waits(waiting.task_id) == []
        assert await stage.store.messages() == []


class TestOrder:
    async def test_calls_beside_it_end_before_the_task_waits(self, stage: Stage) -> None:
        both = calls(call("ask", text="q"), call("note", text="n"))
        stage.play([both, "Done."], asking(stage, "read"), noting(stage, "read"))

        waiting = await stage.start()

        assert stage.ran == ["ask q", "note n"]
        returned = await stage.events(waiting.task_id, ToolReturned)
        assert [event.path for event in returned] == ["/turn1/tool2"]
        await stage.store.decide((await stage.review()).review_id, "answer", answer="red", by="ann")
        await stage.carry()
        assert told(stage) == ["red", "noted n"]
        assert stage.ran == ["ask q", "note n"]

    async def test_calls_after_it_in_order_begin_once_it_is_answered(self, stage: Stage) -> None:
        three = calls(call("note", text="1"), call("ask", text="q"), call("note", text="2"))
        stage.play([three, "Done."], asking(stage), noting(stage))

        await stage.start()
        assert stage.ran == ["note 1", "ask q"]

        await stage.store.decide((await stage.review()).review_id, "answer", answer="red", by="ann")
        await stage.carry()
        assert stage.ran == ["note 1", "ask q", "note 2"]
        assert told(stage) == ["noted 1", "red", "noted 2"]

    async def test_two_questions_may_be_answered_apart(self, stage: Stage) -> None:
        both = calls(call("ask", text="a"), call("ask", text="b"))
        stage.play([both, "Done."], asking(stage, "read"))
        waiting = await stage.start()
        first, second = await stage.store.reviews()

        await stage.store.decide(second.review_id, "answer", answer="blue", by="ann")
        still = await stage.carry()
        assert still.status == "waiting"
        assert [pending.review_id for pending in still.pending] == [first.review_id]

        await stage.store.decide(first.review_id, "answer", answer="red", by="ann")
        assert (await stage.carry()).status == "succeeded"
        assert told(stage) == ["red", "blue"]
        assert stage.ran == ["ask a", "ask b"]
        requested = await stage.events(waiting.task_id, ReviewRequested)
        assert len(requested) == 2

    async def test_two_answers_are_taken_in_at_once(self, stage: Stage) -> None:
        both = calls(call("ask", text="a"), call("ask", text="b"))
        stage.play([both, "Done."], asking(stage, "read"))
        await stage.start()
        for review in await stage.store.reviews():
            await stage.store.decide(review.review_id, "answer", answer="red", by="ann")
        assert (await stage.carry()).status == "succeeded"
        await stage.carry_all()
        assert await stage.store.messages() == []

    async def test_a_resume_for_another_reason_begins_nothing_after_it(self, stage: Stage) -> None:
        stage.play(
            [calls(call("ask", text="q"), call("note", text="2"))], asking(stage), noting(stage)
        )
        waiting = await stage.start()
        task = await stage.store.task(waiting.task_id)
        await stage.store.send(wake_message(task, clock=stage.clock, new_id=ids.uuid7))

        still = await stage.work(await stage.lease(), decision="again")

        assert (still.status, stage.ran) == ("waiting", ["ask q"])
        assert [pending.kind for pending in still.pending] == ["question"]

    async def test_a_message_that_dies_meanwhile_forgets_no_question(self, stage: Stage) -> None:
        both = calls(call("ask", text="a"), call("ask", text="b"))
        stage.play([both, "Done."], asking(stage, "read"))
        waiting = await stage.start()
        first, second = await stage.store.reviews()
        await stage.store.decide(first.review_id, "answer", answer="red", by="ann")
        lease = await stage.lease()
        await stage.work(lease, Holding(should_stop=lambda: True))
        assert (await stage.store.task(waiting.task_id)).state is TaskState.PROCESSING
        await stage.bury(lease)

        [dead] = [r for r in await stage.store.reviews() if r.reason == "dead_letter"]
        await stage.store.decide(dead.review_id, "retry", by="ann")
        still = await stage.carry()
        assert [pending.review_id for pending in still.pending] == [second.review_id]

        await stage.store.decide(second.review_id, "answer", answer="blue", by="ann")
        assert (await stage.carry()).output == "Done."
        assert told(stage) == ["red", "blue"]
        assert stage.ran == ["ask a", "ask b"]


class TestTime:
    async def test_the_task_goes_on_at_the_time_and_not_before(self, stage: Stage) -> None:
        @tool
        async def wait(hours: int) -> Until:
            """Wait."""
            return Until(at=stage.clock.now() + timedelta(hours=hours))

        stage.play([call("wait", hours=2), "Now."], wait)
        waiting = await stage.start()
        [pending] = waiting.pending
        assert (pending.kind, pending.due_at) == ("time", stage.clock.now() + timedelta(hours=2))
        with pytest.raises(NotFoundError):
            await stage.lease()

        stage.clock.advance(2 * 3600)
        response = await stage.carry()

        assert response.output == "Now."
        assert told(stage) == ['{"now":"2026-01-01T02:00:00Z"}']

    async def test_a_time_that_is_over_lets_it_go_on_at_once(self, stage: Stage) -> None:
        @tool
        async def wait() -> Until:
            """Wait."""
            return Until(at=stage.clock.now() - timedelta(hours=1))

        stage.play([call("wait"), "Now."], wait)
        assert (await stage.start()).status == "waiting"
        assert (await stage.carry()).output == "Now."

    async def test_a_time_without_a_zone_is_told_to_the_model(self, stage: Stage) -> None:
        @tool
        async def wait() -> Until:
            """Wait."""
            return Until(at=datetime(2026, 1, 1))  # noqa: DTZ001  # what is under test

        stage.play([call("wait"), "Well."], wait)
        assert (await stage.start()).status == "succeeded"
        assert "Until.at needs a time zone" in told(stage)[0]


class TestEvent:
    @staticmethod
    def play(stage: Stage, hours: float | None = None) -> None:
        @tool
        async def wait() -> Event:
            """Wait."""
            until = None if hours is None else stage.clock.now() + timedelta(hours=hours)
            return Event(name="paid/7", until=until)

        stage.play([call("wait"), "Done."], wait)

    async def test_the_payload_of_the_signal_is_the_result(self, stage: Stage) -> None:
        self.play(stage)
        waiting = await stage.start()
        assert [(item.kind, item.name) for item in waiting.pending] == [("event", "paid/7")]

        await stage.store.signal("paid/7", {"amount": 5})

        assert (await stage.carry()).status == "succeeded"
        assert told(stage) == ['{"amount":5}']

    async def test_an_event_that_has_happened_lets_it_go_on_at_once(self, stage: Stage) -> None:
        await stage.store.signal("paid/7", "yes")
        self.play(stage)
        await stage.start()
        assert (await stage.carry()).status == "succeeded"
        assert told(stage) == ["yes"]

    async def test_the_result_is_null_when_its_time_is_over(self, stage: Stage) -> None:
        self.play(stage, hours=1)
        await stage.start()
        stage.clock.advance(3600)
        assert (await stage.carry()).status == "succeeded"
        assert told(stage) == ["null"]


class TestWake:
    async def test_a_message_without_news_writes_no_more_than_its_end(self, stage: Stage) -> None:
        stage.play([call("ask", text="q")], asking(stage))
        waiting = await stage.start()
        before = len(await stage.store.events(waiting.task_id))
        [wait] = await stage.store.waits(waiting.task_id)

        message = (await stage.store.task(waiting.task_id)).spec
        assert message.agent == "a"
        await stage.store.request_cancel(waiting.task_id)
        response = await stage.carry()

        assert response.status == "waiting"
        assert await stage.types(waiting.task_id, after=before) == ["message.handled"]
        assert [item.wait_id for item in await stage.store.waits(waiting.task_id)] == [wait.wait_id]

    async def test_a_waiting_task_can_be_cancelled(self, stage: Stage) -> None:
        stage.play([call("ask", text="q")], asking(stage))
        waiting = await stage.start()
        await stage.store.request_cancel(waiting.task_id)

        await Executor(stage.store, clock=stage.clock).cancel(await stage.lease(), ())

        task = await stage.store.task(waiting.task_id)
        assert task.state is TaskState.CANCELLED
        assert await stage.store.waits(waiting.task_id) == []
        assert await stage.store.reviews() == []
        assert await stage.store.messages() == []
        [failed] = await stage.events(waiting.task_id, ToolFailed)
        assert failed.error.code == "cancelled"
        assert await stage.events(waiting.task_id, ToolInDoubt) == []

    async def test_what_a_call_set_before_it_waits_is_kept(self, stage: Stage) -> None:
        @tool
        async def ask(context: ToolContext) -> Question:
            """Ask."""
            context.variables["asked"] = True
            return Question(text="q")

        stage.play([call("ask"), "Done."], ask)
        await stage.start()
        await stage.store.decide((await stage.review()).review_id, "answer", answer="x", by="ann")
        await stage.carry()
        assert stage.model.requests[-1].variables == {"asked": True}


async def test_the_wait_is_written_in_one_commit_with_the_end_of_the_message(stage: Stage) -> None:
    stage.play([call("ask", text="q")], asking(stage))
    waiting = await stage.start()
    types = await stage.types(waiting.task_id)
    assert types[-3:] == ["review.requested", "task.waiting", "message.handled"]
    [waits] = await stage.events(waiting.task_id, TaskWaiting)
    assert len(waits.pending) == 1
    [started] = await stage.events(waiting.task_id, ToolStarted)
    assert started.path == "/turn1/tool1"


async def test_a_decision_that_does_not_fit_is_refused(stage: Stage) -> None:
    stage.play([call("ask", text="q")], asking(stage))
    await stage.start()
    review_id = (await stage.review()).review_id
    with pytest.raises(InputError):
        await stage.store.decide(review_id, "approve", by="ann")
    assert cast("object", (await stage.review()).decision) is None
