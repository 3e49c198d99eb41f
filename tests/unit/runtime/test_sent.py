"""A record with compactions: what was sent is built again, and replay and fork stay right."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from hermes import Agent, Hermes, Limits, tool
from hermes.app import RunOptions
from hermes.core.chat import ChatMessage, ToolCall, Usage
from hermes.core.events import ContextCompacted, ModelRequested, Recorded
from hermes.errors import InputError
from hermes.loop import RunState
from hermes.loop.summary import INSTRUCTION
from hermes.models import ModelReply, ModelRequest
from hermes.models.profiles import Profile
from hermes.runtime.fork import Changes
from hermes.runtime.sent import Sent
from hermes.testing import ScriptedModel

SUMMARY = "So far every page was in order."


@dataclass
class Reader:
    """A model with a small window that reads pages until it has enough."""

    turns: int = 40
    name: str = "reader"
    profile: Profile = field(default_factory=lambda: Profile(name="reader", window=2_000))
    requests: list[list[ChatMessage]] = field(default_factory=list[list[ChatMessage]])
    paths: list[str] = field(default_factory=list[str])
    read: list[str] = field(default_factory=list[str])

    def agent(self, instructions: str = "Read.") -> Agent:
        @tool(effect="read")
        def page(name: str) -> str:
            """Read a page."""
            self.read.append(name)
            return f"{name}: " + "word " * 160

        model = ScriptedModel([self.answer] * 200, name=self.name)
        model.profile = self.profile  # pyright: ignore[reportAttributeAccessIssue]
        return Agent(
            model=model,
            tools=[page],
            groups=(),
            instructions=instructions,
            limits=Limits(max_steps=60),
        )

    def answer(self, request: ModelRequest) -> ModelReply:
        self.requests.append(list(request.messages))
        if request.messages[0].text == INSTRUCTION:
            return ModelReply(text=SUMMARY, usage=Usage(prompt_tokens=500, completion_tokens=9))
        if len(self.read) >= self.turns:
            return ModelReply(text=f"{len(self.read)} pages")
        number = len(self.read)
        call = ToolCall(id=f"c{number}", name="page", arguments=f'{{"name": "p-{number}"}}')
        return ModelReply(calls=(call,), finish_reason="tool_calls")


@dataclass
class _Late:
    """Says when a summary is asked for."""

    asked: anyio.Event

    def recorded(self, record: Recorded) -> None:
        event = record.event
        if isinstance(event, ModelRequested) and event.purpose == "compaction":
            self.asked.set()

    def delta(self, text: str, *, reasoning: bool = False) -> None:
        pass

    def progress(self, path: str, text: str) -> None:
        pass


def messages_of(found: Sent) -> list[ChatMessage]:
    return [message for part in found.parts for message in part.messages]


async def test_what_was_sent_is_built_again_to_the_letter(tmp_path: Path) -> None:
    reader = Reader()
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        task_id = (await app.run(reader.agent(), "read all")).task_id
        events = [record.event for record in await app.store.events(task_id)]
        paths = [event.path for event in events if isinstance(event, ModelRequested)]
        assert any("compact" in path for path in paths)
        # With another agent: the record alone says what was sent.
        other = Reader().agent("Read in another way.")
        built = [messages_of(await app.sent(task_id, other, at=path)) for path in paths]

    assert built == reader.requests


async def test_what_differs_now_is_told(tmp_path: Path) -> None:
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        task_id = (await app.run(Reader(turns=2).agent(), "read all")).task_id
        same = await app.sent(task_id, Reader().agent())
        other = await app.sent(task_id, Reader().agent("Read in another way."))
        bare = await app.sent(task_id, Agent(model=ScriptedModel([], name="other")))

    assert same.differences == ()
    assert [line for line in other.differences if "prompt" in line]
    assert any("the tools are not those" in line for line in bare.differences)
    assert any("model" in line for line in bare.differences)


async def test_the_parts_are_counted(tmp_path: Path) -> None:
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        task_id = (await app.run(Reader().agent(), "read all")).task_id
        found = await app.sent(task_id, Reader().agent())
        events = [record.event for record in await app.store.events(task_id)]
        compact = next(
            event.path for event in events if isinstance(event, ContextCompacted) and event.path
        )
        summary = await app.sent(task_id, Reader().agent(), at=compact)

    names = [part.name for part in found.parts]
    assert names[:3] == ["system", "goal", "summary"]
    assert names[-1] == "recent turns"
    assert {"progress", "summary"} <= set(found.parts[2].pieces)
    assert sum(found.parts[2].pieces.values()) <= found.parts[2].tokens + 5
    assert [tool.name for tool in found.tools if tool.name == "page"] == ["page"]
    assert found.tools_tokens > 0
    assert (summary.purpose, summary.counted) == ("compaction", 500)
    assert [part.name for part in summary.parts] == ["system", "transcript"]


@pytest.mark.parametrize("at", ["3", "turn3", "/turn3", "/turn3/model1"])
async def test_a_call_is_named_long_or_short(tmp_path: Path, at: str) -> None:
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        task_id = (await app.run(Reader(turns=4).agent(), "read all")).task_id
        assert (await app.sent(task_id, Reader().agent(), at=at)).path == "/turn3/model1"
        with pytest.raises(InputError, match="no model call '/turn9'"):
            await app.sent(task_id, Reader().agent(), at="/turn9")


async def test_a_replay_takes_the_recorded_summaries(tmp_path: Path) -> None:
    reader = Reader()
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        task_id = (await app.run(reader.agent(), "read all")).task_id
        asked = len(reader.requests)
        found = await app.replay(task_id, reader.agent())

    assert found.difference is None
    assert found.is_whole
    assert len(reader.requests) == asked


async def test_a_run_that_ended_at_a_bound_replays_with_its_summaries(tmp_path: Path) -> None:
    reader = Reader()
    agent = reader.agent()
    agent.definition = Agent(
        model=agent.model,
        tools=agent.definition.tools,
        groups=(),
        limits=Limits(max_steps=None, max_model_calls=25),
    ).definition
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        response = await app.run(agent, "read all")
        found = await app.replay(response.task_id, agent)

    assert response.status == "partial"
    assert found.difference is None


@pytest.mark.parametrize("turn", [5, 20, 39])
async def test_a_fork_goes_on_with_the_summary(tmp_path: Path, turn: int) -> None:
    reader = Reader()
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        task_id = (await app.run(reader.agent(), "read all")).task_id
        first = list(reader.requests)
        paths = [
            record.event.path
            for record in await app.store.events(task_id)
            if isinstance(record.event, ModelRequested)
        ]
        forked = await app.fork(task_id, reader.agent(), at=f"/turn{turn}", changes=Changes())
        reader.requests.clear()
        reader.read = reader.read[: turn - 1]
        response = await app.resume(forked.task_id, reader.agent())
        copied = [record.event for record in await app.store.events(forked.task_id)]

    assert response.output == "40 pages"
    assert reader.requests[0] == first[paths.index(f"/turn{turn}/model1")]
    state = RunState.of(copied)
    assert state.compacted is not None
    for event in copied:
        if isinstance(event, ContextCompacted):
            assert set(event.handles) <= state.handles


async def test_r024_the_current_request_stands_and_the_one_before_is_over(tmp_path: Path) -> None:
    """Task A is done, task B is compacted half-way, and task C comes in just then."""
    second = "Task B: read all pages, “to the letter”."
    reader, asked, ids = Reader(), anyio.Event(), list[str]()
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        first = ScriptedModel(["A is done"])
        await app.run(Agent(model=first), "Task A: say hello.", session_id="s")
        third = ScriptedModel(["C is done"])
        agent, late = reader.agent(), Agent(model=third)

        async def hand_in() -> None:
            await asked.wait()
            ids.append(await app.submit(late, "Task C: say goodbye.", session_id="s"))

        async with anyio.create_task_group() as group:
            group.start_soon(hand_in)
            options = RunOptions(observers=[_Late(asked)])
            await app.run(agent, second, session_id="s", options=options)
        await app.resume(ids[0], late)

    texts = [message.text for message in reader.requests[-1]]
    assert texts[1:4] == ["Task A: say hello.", "A is done", second]
    assert "The request above is the current one and still open" in texts[4]
    assert "Requests before it in this session are over" in texts[4]
    assert [message.text for message in third.requests[0].messages][-3:] == [
        second,
        "40 pages",
        "Task C: say goodbye.",
    ]
