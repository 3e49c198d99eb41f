"""A conversation past its share of the window: shortened, summarised, and nothing lost."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

import pytest

from hermes.agents import AgentDefinition, Equipment, Executor
from hermes.core.budget import Limits
from hermes.core.chat import AssistantMessage, ChatMessage, ToolCall, ToolMessage, Usage
from hermes.core.events import ContextCompacted, ModelFailed, ModelRequested, TaskSettled
from hermes.core.failpoints import set_hook
from hermes.core.request import AgentResponse
from hermes.errors import ModelError
from hermes.loop.summary import INSTRUCTION
from hermes.models import ModelReply, ModelRequest
from hermes.testing import ScriptedModel
from hermes.tools import tool
from tests.unit.loop.stage import Death, Stage, staged

SUMMARY = "So far every page was in order."


@dataclass
class Desk:
    """A stage whose model reads pages and whose window is small."""

    stage: Stage
    window: int | None = 2_000
    turns: int = 12
    chars: int = 800
    parallel: int = 1
    summary: Callable[[ModelRequest], ModelReply] = lambda _: ModelReply(text=SUMMARY)
    read: list[str] = field(default_factory=list[str])
    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])
    summaries: list[ModelRequest] = field(default_factory=list[ModelRequest])
    limits: Limits = Limits(max_steps=None)
    usage: Usage = Usage()

    def model(self) -> ScriptedModel:
        return ScriptedModel([self.answer] * 200)

    def answer(self, request: ModelRequest) -> ModelReply:
        if request.messages[0].text == INSTRUCTION:
            self.summaries.append(request)
            return self.summary(request)
        self.requests.append(request)
        check(request.messages)
        turn = len(self.read) // self.parallel
        if turn >= self.turns:
            return ModelReply(text=f"{len(self.read)} pages", usage=self.usage)
        first = len(self.read)
        calls = tuple(
            ToolCall(id=f"c{first + n}", name="page", arguments=f'{{"name": "p-{first + n}"}}')
            for n in range(self.parallel)
        )
        return ModelReply(calls=calls, finish_reason="tool_calls", usage=self.usage)

    async def carry(self, task_id: str) -> AgentResponse:
        @tool(effect="read")
        def page(name: str) -> str:
            """Read a page."""
            self.read.append(name)
            return f"{name}: " + "word " * (self.chars // 5)

        definition = AgentDefinition(name="a", tools=(page,))
        registry = definition.registry(("core",))
        model = self.model()
        self.stage.model = model
        equipment = Equipment(
            agent=definition,
            model=model,
            registry=registry,
            limits=self.limits,
            window=self.window,
        )
        executor = Executor(self.stage.store, clock=self.stage.clock)
        return await executor.carry(await self.stage.lease(task_id), equipment)

    async def start(self, goal: str = "read all pages") -> tuple[str, AgentResponse]:
        task_id = await self.stage.submit(goal)
        return task_id, await self.carry(task_id)


def dies_after(commits: int) -> Callable[[str], None]:
    """A hook that kills the process after so many commits, once."""
    left = [commits]

    def hook(name: str) -> None:
        left[0] -= name == "loop.commit.after"
        if left[0] == 0 and name == "loop.commit.after":
            raise Death

    return hook


def check(messages: Sequence[ChatMessage]) -> None:
    """Calls and results stand together: what a strict provider would look at."""
    wanted: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert wanted.pop(0) == message.call_id
        else:
            assert not wanted
            if isinstance(message, AssistantMessage):
                wanted = [call.id for call in message.calls]
    assert not wanted


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with staged("memory://") as stage:
        yield Desk(stage)


async def test_without_a_window_nothing_is_compacted(desk: Desk) -> None:
    desk.window = None
    task_id, response = await desk.start()

    assert response.status == "succeeded"
    assert await desk.stage.events(task_id, ContextCompacted) == []


async def test_the_conversation_stays_within_the_window(desk: Desk) -> None:
    desk.turns = 40
    task_id, response = await desk.start()
    compacted = await desk.stage.events(task_id, ContextCompacted)

    assert response.output == "40 pages"
    assert desk.read == [f"p-{n}" for n in range(40)]
    assert len(desk.summaries) == len([event for event in compacted if event.path]) > 0
    assert all(event.after_tokens < event.before_tokens for event in compacted)
    assert max(len(request.messages) for request in desk.requests) < 25


async def test_the_goal_stands_word_for_word_and_what_is_done_is_told(desk: Desk) -> None:
    goal = "Read all pages — “exactly” as they are,\nthen say how many."
    desk.turns = 40
    await desk.start(goal)
    last = desk.requests[-1].messages

    assert last[1].text == goal
    assert SUMMARY in last[2].text
    assert "still open" in last[2].text
    assert "Done, not to be done again" in last[2].text
    assert "name=p-0 to name=p-" in last[2].text


async def test_between_compactions_a_request_only_gets_longer(desk: Desk) -> None:
    desk.turns = 40
    task_id, _ = await desk.start()
    breaks = 0
    for before, after in zip(desk.requests, desk.requests[1:], strict=False):
        if list(after.messages[: len(before.messages)]) != list(before.messages):
            breaks += 1
    compacted = await desk.stage.events(task_id, ContextCompacted)

    assert breaks == len(compacted)


async def test_cheap_shortening_comes_before_a_summary(desk: Desk) -> None:
    desk.window, desk.chars, desk.turns = 16_000, 6_000, 8
    task_id, _ = await desk.start()
    first = (await desk.stage.events(task_id, ContextCompacted))[0]

    assert first.path == ""
    assert first.upto == 0
    assert first.shortened > 0
    assert first.handles
    assert not desk.summaries


async def test_what_was_shortened_can_be_opened(desk: Desk) -> None:
    desk.turns = 40
    task_id, _ = await desk.start()
    handles = [
        name
        for event in await desk.stage.events(task_id, ContextCompacted)
        for name in event.handles
    ]

    whole = [(await desk.stage.store.blob(name)).decode() for name in handles]
    assert whole == [f"p-{n}: " + "word " * 160 for n in range(len(handles))]


async def test_a_summary_is_no_step_and_counts_as_a_model_call(desk: Desk) -> None:
    desk.turns, desk.limits = 40, Limits(max_steps=41)
    desk.summary = lambda _: ModelReply(
        text=SUMMARY, usage=Usage(prompt_tokens=900, completion_tokens=9)
    )
    task_id, response = await desk.start()
    spent = (await desk.stage.store.task(task_id)).status.spent

    assert response.status == "succeeded"
    assert spent.steps == 41
    assert spent.model_calls == 41 + len(desk.summaries)
    assert spent.usage.prompt_tokens == 900 * len(desk.summaries)


async def test_no_summary_is_asked_for_beyond_the_bound(desk: Desk) -> None:
    desk.turns, desk.limits = 40, Limits(max_steps=None, max_model_calls=20)
    task_id, response = await desk.start()
    spent = (await desk.stage.store.task(task_id)).status.spent

    assert response.status == "partial"
    assert spent.model_calls == 20


USELESS: dict[str, Callable[[ModelRequest], ModelReply]] = {
    "empty": lambda _: ModelReply(text="  "),
    "longer than what it replaces": lambda _: ModelReply(text="long " * 4_000),
    "filtered": lambda _: ModelReply(text="no", finish_reason="content_filter"),
    "a call written as text": lambda _: ModelReply(
        text='<tool_call>{"name": "page", "arguments": {"number": 1}}</tool_call>'
    ),
    "unreadable": lambda _: ModelReply(text="{", problem="that is no JSON"),
}


@pytest.mark.parametrize("reply", USELESS.values(), ids=USELESS.keys())
async def test_a_useless_summary_is_the_last_one(
    desk: Desk,
    reply: Callable[[ModelRequest], ModelReply],
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk.summary, desk.turns, desk.window, desk.chars = reply, 20, 6_000, 700
    with caplog.at_level(logging.WARNING, "hermes.context"):
        _, response = await desk.start()

    assert len(desk.summaries) == 1
    assert response.output == "20 pages"
    assert len([record for record in caplog.records if record.name == "hermes.context"]) == 1


async def test_a_failed_summary_is_the_last_one_and_the_run_goes_on(desk: Desk) -> None:
    def fail(_: ModelRequest) -> ModelReply:
        raise ModelError("it is down", code="unavailable", retryable=True)

    desk.summary, desk.turns, desk.window, desk.chars = fail, 20, 6_000, 700
    task_id, response = await desk.start()
    [failed] = await desk.stage.events(task_id, ModelFailed)

    assert failed.path.endswith("/compact1")
    assert len(desk.summaries) == 1
    assert response.status == "succeeded"
    compacted = await desk.stage.events(task_id, ContextCompacted)
    assert {event.path for event in compacted} == {""}


async def test_a_conversation_that_does_not_fit_at_all_ends_with_what_is_known(desk: Desk) -> None:
    desk.summary = lambda _: ModelReply(text="")
    desk.turns, desk.parallel, desk.window = 50, 3, 1_500
    task_id, response = await desk.start()

    assert response.status == "partial"
    assert response.error is not None
    assert response.error.code == "context_full"
    assert "HERMES_CONTEXT_WINDOW" in (response.error.hint or "")
    assert response.output
    assert len(await desk.stage.events(task_id, TaskSettled)) == 1


async def test_one_turn_that_is_too_large_is_shortened_too(desk: Desk) -> None:
    desk.turns, desk.parallel, desk.chars, desk.window = 2, 6, 6_000, 4_000
    _, response = await desk.start()

    assert response.output == "12 pages"


async def test_a_summary_lost_in_a_crash_is_asked_for_again(desk: Desk) -> None:
    desk.turns, seen = 40, list[str]()

    def die_once(request: ModelRequest) -> ModelReply:
        seen.append("asked")
        if len(seen) == 1:
            raise Death
        return ModelReply(text=SUMMARY)

    desk.summary = die_once
    task_id = await desk.stage.submit("read all pages")
    with pytest.raises(Death):
        await desk.carry(task_id)
    await desk.stage.crash()
    response = await desk.carry(task_id)
    intents = [
        event.path
        for event in await desk.stage.events(task_id, ModelRequested)
        if event.purpose == "compaction"
    ]

    assert response.output == "40 pages"
    assert desk.read == [f"p-{n}" for n in range(40)]
    assert len(intents) == len(set(intents)) == len(seen) - 1
    assert desk.summaries[0].messages == desk.summaries[1].messages


async def test_a_run_broken_off_anywhere_sends_the_same_requests(desk: Desk) -> None:
    desk.turns = 30
    await desk.start()
    undisturbed = [list(request.messages) for request in desk.requests]
    for at in range(2, 30, 5):
        async with staged("memory://") as stage:
            again = Desk(stage, turns=30)
            task_id = await stage.submit("read all pages")
            set_hook(dies_after(2 * at))
            try:
                with pytest.raises(Death):
                    await again.carry(task_id)
            finally:
                set_hook(None)
            await stage.crash()
            await again.carry(task_id)
            sent = [list(request.messages) for request in again.requests]
            assert [each for n, each in enumerate(sent) if each not in sent[:n]] == undisturbed


async def test_a_provider_s_count_is_believed(desk: Desk) -> None:
    desk.turns, desk.window = 3, 100_000
    desk.usage = Usage(prompt_tokens=70_000, completion_tokens=1)
    task_id, _ = await desk.start()
    compacted = await desk.stage.events(task_id, ContextCompacted)

    assert compacted
    assert compacted[0].before_tokens > 70_000


async def test_what_came_from_outside_keeps_its_mark_in_the_summary(desk: Desk) -> None:
    @tool(effect="read", untrusted_output=True)
    def page(name: str) -> str:
        """Read a page."""
        desk.read.append(name)
        return f"{name}: " + "word " * 160

    desk.turns = 30
    definition = AgentDefinition(name="a", tools=(page,))
    registry = definition.registry(("core",))
    equipment = Equipment(
        agent=definition,
        model=desk.model(),
        registry=registry,
        policy=definition.policy(registry),
        limits=desk.limits,
        window=desk.window,
    )
    task_id = await desk.stage.submit()
    executor = Executor(desk.stage.store, clock=desk.stage.clock)
    await executor.carry(await desk.stage.lease(task_id), equipment)
    [standing] = [message.text for message in desk.requests[-1].messages if SUMMARY in message.text]

    assert "[from outside: page" in standing
    settled = await desk.stage.events(task_id, TaskSettled)
    assert "page" in settled[0].origin
