"""Everything that happens in a run reaches its reader, in order, and never holds the run up."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import cast

import anyio
import anyio.lowlevel
import pytest

from hermes import Agent, AgentResponse, Hermes, ToolContext, tool
from hermes.agents import (
    Broken,
    CallBegun,
    Feed,
    FeedItem,
    Happened,
    Piece,
    ToolSaid,
    item_object,
    streamed,
)
from hermes.agents.feed import MAX_PROGRESS
from hermes.app import RunOptions
from hermes.core.chat import Usage
from hermes.core.events import ModelRetried
from hermes.errors import ConfigError, InputError, ModelError
from hermes.models import FailedAttempt, ModelReply, ModelRequest, StreamPart, TextDelta
from hermes.models.base import CallDelta, ReasoningDelta
from hermes.store import TaskQuery
from hermes.testing import ScriptedModel
from hermes.testing.model import call, calls

CJK = "霜降之后，👩‍👩‍👧 – é"
NOTHING = AgentResponse(output=None, trace=(), usage=Usage(), task_id="", status="succeeded")


@tool(effect="read")
async def look(place: str, ctx: ToolContext) -> str:
    """Look at a place.

    Args:
        place: Where.
    """
    ctx.progress(f"looking at {place}")
    await anyio.lowlevel.checkpoint()
    return f"nothing at {place}"


class Breaking(ScriptedModel):
    """Streams what it is given, and raises what it is given."""

    def __init__(self, *parts: StreamPart | FailedAttempt | Exception) -> None:
        super().__init__([])
        self._parts = parts

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        for part in self._parts:
            if isinstance(part, Exception):
                raise part
            if isinstance(part, FailedAttempt):
                assert request.watch is not None
                await request.watch(part)
            else:
                yield part


async def all_of(items: AsyncGenerator[FeedItem | AgentResponse]) -> list[FeedItem | AgentResponse]:
    async with aclosing(items):
        return [item async for item in items]


def text_of(items: Sequence[object], kind: str = "text") -> str:
    return "".join(item.text for item in items if isinstance(item, Piece) and item.kind == kind)


async def test_pieces_calls_words_and_events_come_in_order_and_last_the_response() -> None:
    model = ScriptedModel([calls(call("look", place="here"), reasoning="Hm."), CJK])
    items = await all_of(Agent(model=model, tools=[look]).stream("Look!"))
    assert text_of(items) == CJK
    assert text_of(items, "reasoning") == "Hm."
    assert CallBegun(task_id=id_of(items), path="/turn1/model1", name="look") in items
    said = [item.text for item in items if isinstance(item, ToolSaid)]
    assert said == ["looking at here"]
    seqs = [item.record.seq for item in items if isinstance(item, Happened)]
    assert seqs == list(range(1, len(seqs) + 1))
    response = items[-1]
    assert isinstance(response, AgentResponse)
    assert response.output == CJK
    assert response.status == "succeeded"


def id_of(items: Sequence[object]) -> str:
    return next(item.record.task_id for item in items if isinstance(item, Happened))


async def test_each_item_is_one_json_object_that_says_what_it_is() -> None:
    model = ScriptedModel([calls(call("look", place="here"), reasoning="Hm."), CJK])
    items = await all_of(Agent(model=model, tools=[look]).stream("Look!"))
    objects = [item_object(item) for item in items]
    kinds = {cast("str", found["kind"]) for found in objects}
    assert kinds == {"text", "reasoning", "call", "progress", "event", "response"}
    assert all(found["task_id"] == id_of(items) for found in objects)
    assert json.loads(json.dumps(objects)) == objects


async def test_a_reply_that_is_tried_again_says_that_the_pieces_so_far_are_void() -> None:
    failed = FailedAttempt(
        model="a", error=ModelError("the line broke", code="stream"), attempt=1, next_model="b"
    )
    model = Breaking(
        TextDelta(text="Hal"), failed, TextDelta(text="Hello"), ModelReply(text="Hello")
    )
    items = await all_of(Agent(model=model).stream("Say hello."))
    place = next(place for place, item in enumerate(items) if isinstance(item, Broken))
    broken, before = items[place], items[place - 1]
    assert isinstance(before, Happened)
    assert isinstance(before.record.event, ModelRetried)
    assert isinstance(broken, Broken)
    assert (broken.reason, broken.starts_anew) == ("the line broke", True)
    assert (text_of(items[:place]), text_of(items[place:])) == ("Hal", "Hello")


async def test_a_reply_that_fails_leaves_its_pieces_marked_as_a_part() -> None:
    """R059."""
    error = ModelError("quota exceeded", code="quota", partial_text="Half an ans")
    model = Breaking(TextDelta(text="Half an ans"), error)
    items = await all_of(Agent(model=model).stream("Say it."))
    broken = next(item for item in items if isinstance(item, Broken))
    assert (broken.reason, broken.starts_anew) == ("quota exceeded", False)
    response = items[-1]
    assert isinstance(response, AgentResponse)
    assert (response.status, response.output) == ("failed", "Half an ans")


async def test_what_the_run_raises_comes_after_the_partial_text() -> None:
    model = Breaking(TextDelta(text="Half"), RuntimeError("a bug"))
    seen: list[object] = []
    with pytest.raises(RuntimeError, match="a bug"):
        async for item in Agent(model=model).stream("Say it."):
            seen.append(item)
    assert text_of(seen) == "Half"
    assert isinstance(seen[-1], Broken)
    assert seen[-1].reason == "RuntimeError"


async def test_a_wrong_request_raises_at_once() -> None:
    with pytest.raises(InputError):
        await all_of(Agent(model=ScriptedModel([])).stream(" "))
    with pytest.raises(ConfigError):
        await all_of(Agent().stream("Hello"))


async def test_leaving_the_stream_cancels_the_task() -> None:
    started = anyio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait for ever."""
        started.set()
        await anyio.sleep_forever()
        return ""

    agent = Agent(model=ScriptedModel([calls(call("wait"))]), tools=[wait])
    async with Hermes("memory://") as app:
        async with aclosing(app.stream(agent, "Wait.")) as items:
            async for item in items:
                if isinstance(item, Happened) and item.record.event.type == "tool.started":
                    await started.wait()
                    break
        [task] = await app.store.tasks(TaskQuery())
        assert task.state.value == "cancelled"


async def test_a_cancelled_reader_cancels_the_task() -> None:
    started = anyio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait for ever."""
        started.set()
        await anyio.sleep_forever()
        return ""

    agent = Agent(model=ScriptedModel([calls(call("wait"))]), tools=[wait])
    async with Hermes("memory://") as app:
        async with anyio.create_task_group() as group:

            async def read() -> None:
                await all_of(app.stream(agent, "Wait."))

            group.start_soon(read)
            await started.wait()
            group.cancel_scope.cancel()
        [task] = await app.store.tasks(TaskQuery())
        assert task.state.value == "cancelled"


async def test_each_item_may_be_waited_for_under_a_bound_of_its_own() -> None:
    """A generator that held a task group open would break here."""
    items = Agent(model=ScriptedModel(["Hello"])).stream("Say hello.")
    seen: list[object] = []
    with pytest.raises(StopAsyncIteration):
        while True:
            with anyio.fail_after(10):
                seen.append(await anext(items))
    assert isinstance(seen[-1], AgentResponse)


async def test_a_slow_reader_gets_merged_pieces_and_every_event_and_holds_nothing_up() -> None:
    feed = Feed()
    over = anyio.Event()

    async def work() -> AgentResponse:
        for letter in "abc" * 1000:
            feed.delta(letter)
        for number in range(MAX_PROGRESS + 50):
            feed.progress("/turn1/tool1", f"{number}")
        feed.delta("d", reasoning=True)
        over.set()
        return NOTHING

    seen: list[FeedItem | AgentResponse] = []
    async for item in streamed(feed, work):
        await over.wait()  # the whole run, while the first item is looked at
        seen.append(item)
    assert text_of(seen) == "abc" * 1000
    assert sum(isinstance(item, Piece) for item in seen) == 2
    said = [item.text for item in seen if isinstance(item, ToolSaid)]
    assert said == [f"{number}" for number in range(50, MAX_PROGRESS + 50)]


async def test_a_reader_that_leaves_lets_the_run_go_on_and_nothing_is_kept_for_it() -> None:
    """R056."""
    feed = Feed()
    options = RunOptions(observers=[feed], stream=True)
    agent = Agent(model=ScriptedModel([calls(call("look", place="here")), CJK]), tools=[look])

    async def read() -> None:
        async with aclosing(feed.items()) as items:
            async for _ in items:
                return

    async with Hermes("memory://") as app, anyio.create_task_group() as group:
        group.start_soon(read)
        response = await app.run(agent, "Look!", options=options)
        feed.end()
        assert response.output == CJK
    assert [item async for item in feed.items()] == []


async def test_observers_that_do_not_care_for_calls_need_no_method_for_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Old:
        def recorded(self, record: object) -> None: ...
        def delta(self, text: str, *, reasoning: bool = False) -> None: ...
        def progress(self, path: str, text: str) -> None: ...

    parts = (CallDelta(name="look"), ReasoningDelta(text="Hm"), ModelReply(text="Done."))
    items = await all_of(Agent(model=Breaking(*parts)).stream("Do.", observers=[Old()]))
    assert any(isinstance(item, CallBegun) for item in items)
    assert not caplog.records
