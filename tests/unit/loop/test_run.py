"""What a run does with replies, calls and bounds."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Sequence
from typing import cast

import anyio
import pytest

from hermes import Agent, Hermes, Limits, ToolContext, ToolError, tool
from hermes.core.chat import AssistantMessage, ToolCall, ToolMessage, Usage, UserMessage
from hermes.core.events import ModelRequested, Recorded, ToolFailed, ToolReturned, ToolStarted
from hermes.core.request import AgentResponse
from hermes.errors import ConfigError, InputError, ToolDefinitionError
from hermes.models import ModelReply, ModelRequest
from hermes.testing import FakeClock, Scripted, ScriptedModel, call, calls
from hermes.tools import Tool


@tool(effect="read")
async def stock(article: str) -> int:
    """Look up a stock."""
    return {"lamp": 12}.get(article, 0)


class Watcher:
    def __init__(self) -> None:
        self.records: list[Recorded] = []
        self.deltas: list[str] = []
        self.words: list[str] = []

    def recorded(self, record: Recorded) -> None:
        self.records.append(record)

    def delta(self, text: str, *, reasoning: bool = False) -> None:
        self.deltas.append(text)

    def progress(self, path: str, text: str) -> None:
        self.words.append(text)


async def play(
    replies: Sequence[Scripted],
    *tools: Tool | Callable[..., object],
    watcher: Watcher | None = None,
    **options: object,
) -> tuple[AgentResponse, ScriptedModel]:
    model = ScriptedModel(replies)
    agent = Agent(tools=tools, model=model, **options)  # pyright: ignore[reportArgumentType]  # options are named by each test
    observers = [watcher] if watcher else []
    return await agent.run("count the lamps", observers=observers), model


def tool_texts(model: ScriptedModel) -> list[str]:
    return [m.text for m in model.requests[-1].messages if isinstance(m, ToolMessage)]


async def test_a_run_that_has_ended_leaves_nothing_to_the_collector() -> None:
    async with Hermes("memory://") as app:
        model = ScriptedModel([call("stock", article="lamp"), "12"] * 2)
        agent = Agent(tools=[stock], model=model)
        await app.run(agent, "count the lamps")
        gc.collect()
        gc.disable()
        try:
            await app.run(agent, "count the lamps")
            model.requests.clear()  # which lead back to their run
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = {type(item).__qualname__ for item in gc.garbage}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert left & {"Run", "Journal", "RunState", "AgentResponse"} == set()


async def test_a_question_goes_through_model_and_tool_to_an_answer() -> None:
    response, model = await play([call("stock", article="lamp"), "There are 12."], stock)

    assert (response.status, response.output) == ("succeeded", "There are 12.")
    assert tool_texts(model) == ["12"]
    assert [(entry.type, entry.name) for entry in response.trace] == [
        ("llm", "scripted"),
        ("tool", "stock"),
        ("llm", "scripted"),
    ]


async def test_a_simple_question_costs_one_model_call() -> None:
    response, model = await play(["Hello."])

    assert response.output == "Hello."
    assert len(model.requests) == 1


async def test_usage_is_summed_over_all_model_calls() -> None:
    usage = Usage(prompt_tokens=10, completion_tokens=5)
    first = ModelReply(
        calls=(ToolCall(id="a", name="stock", arguments='{"article":"x"}'),), usage=usage
    )

    response, _ = await play([first, ModelReply(text="0", usage=usage)], stock)

    assert response.usage.as_json() == {
        "prompt_tokens": 20,
        "completion_tokens": 10,
        "total_tokens": 30,
    }


async def test_reading_calls_of_a_turn_run_beside_each_other_and_answer_in_call_order() -> None:
    both_there = anyio.Event()
    waiting: list[str] = []

    @tool(effect="read")
    async def fetch(name: str) -> str:
        """Fetch."""
        waiting.append(name)
        if len(waiting) == 2:
            both_there.set()
        await both_there.wait()
        return name

    replies = [calls(call("fetch", name="slow"), call("fetch", name="fast")), "done"]
    with anyio.fail_after(5):
        _, model = await play(replies, fetch)

    assert tool_texts(model) == ["slow", "fast"]


async def test_calls_that_change_something_run_in_the_order_given() -> None:
    log: list[str] = []

    @tool
    async def send(text: str) -> str:
        """Send."""
        log.append(f"begin {text}")
        await anyio.lowlevel.checkpoint()
        log.append(f"end {text}")
        return text

    replies = [
        calls(call("send", text="a"), call("send", text="b"), call("stock", article="x")),
        "ok",
    ]
    _, model = await play(replies, send, stock)

    assert log == ["begin a", "end a", "begin b", "end b"]
    assert tool_texts(model) == ["a", "b", "0"]


async def test_a_call_in_order_is_begun_only_after_the_one_before_has_its_outcome() -> None:
    @tool
    async def send(text: str) -> str:
        """Send."""
        return text

    watcher = Watcher()
    await play([calls(call("send", text="a"), call("send", text="b")), "ok"], send, watcher=watcher)

    kinds = [
        type(r.event) for r in watcher.records if isinstance(r.event, ToolStarted | ToolReturned)
    ]
    assert kinds == [ToolStarted, ToolReturned, ToolStarted, ToolReturned]


async def test_r027_one_of_three_fails_one_hangs_and_all_have_results_in_call_order() -> None:
    @tool(effect="read")
    async def good() -> str:
        """Works."""
        return "fine"

    @tool(effect="read")
    async def bad() -> str:
        """Raises."""
        raise ValueError("no such shelf")

    @tool(effect="read", timeout_s=0.05)
    async def slow() -> str:
        """Hangs."""
        await anyio.sleep_forever()
        return ""

    replies = [calls(call("good"), call("bad"), call("slow")), "done"]
    response, model = await play(replies, good, bad, slow)

    texts = tool_texts(model)
    assert texts[0] == "fine"
    assert "no such shelf" in texts[1]
    assert "timeout" in texts[2] or "timed out" in texts[2]
    assert [entry.status for entry in response.trace if entry.type == "tool"] == [
        "ok",
        "error",
        "timeout",
    ]


async def test_r009_an_unknown_tool_is_answered_with_the_names_there_are() -> None:
    response, model = await play([call("stok", article="lamp"), "sorry"], stock)

    assert "stock" in tool_texts(model)[0]
    assert response.status == "succeeded"


async def test_r009_a_model_that_never_finds_the_name_ends_at_the_step_limit() -> None:
    replies = [call("stok") for _ in range(3)]

    response, _ = await play(replies, stock, limits=Limits(max_steps=3))

    assert response.status == "partial"
    assert response.error is not None
    assert "max_steps" in response.error.message


@pytest.mark.parametrize(
    "sent", [["", "", ""], ["x", "x", "y"], ["a", "b", "c"]], ids=["empty", "repeated", "unique"]
)
async def test_r010_each_call_has_one_id_that_its_result_repeats(sent: list[str]) -> None:
    wanted = tuple(
        ToolCall(id=id_, name="stock", arguments=json.dumps({"article": f"a{n}"}))
        for n, id_ in enumerate(sent)
    )

    _, model = await play([ModelReply(calls=wanted), "ok"], stock)

    messages = model.requests[-1].messages
    asked = next(m for m in messages if isinstance(m, AssistantMessage)).calls
    answered = [m.call_id for m in messages if isinstance(m, ToolMessage)]
    assert [item.id for item in asked] == answered
    assert len(set(answered)) == 3
    assert all(
        mine == theirs
        for mine, theirs in zip(answered, sent, strict=True)
        if sent.count(theirs) == 1 and theirs
    )


async def test_r010_an_id_used_in_an_earlier_turn_is_replaced() -> None:
    again = ModelReply(calls=(ToolCall(id="call_0", name="stock", arguments='{"article":"x"}'),))

    _, model = await play([again, again, "ok"], stock)

    answered = [m.call_id for m in model.requests[-1].messages if isinstance(m, ToolMessage)]
    assert answered[0] == "call_0"
    assert len(set(answered)) == 2


class TestFinishReasonAndContentDisagree:
    async def test_r013a_stop_with_a_call_runs_the_call(self) -> None:
        reply = ModelReply(
            calls=(ToolCall(id="a", name="stock", arguments='{"article":"lamp"}'),),
            finish_reason="stop",
        )
        _, model = await play([reply, "12"], stock)
        assert tool_texts(model) == ["12"]

    async def test_r013b_tool_calls_without_calls_is_asked_once_more(self) -> None:
        response, model = await play([ModelReply(finish_reason="tool_calls"), "Now: 12."])
        assert response.output == "Now: 12."
        assert isinstance(model.requests[-1].messages[-1], UserMessage)

    async def test_r013b_an_answer_that_stays_empty_is_told(self) -> None:
        response, _ = await play([ModelReply(finish_reason="tool_calls"), ModelReply(text="  ")])
        assert response.status == "failed"
        assert response.error is not None
        assert response.error.code == "no_answer"

    async def test_r013c_an_unknown_reason_works(self) -> None:
        response, _ = await play([ModelReply(text="fine", finish_reason="unknown")])
        assert response.output == "fine"

    async def test_r013d_a_filtered_reply_is_its_own_fault(self) -> None:
        response, _ = await play([ModelReply(finish_reason="content_filter")])
        assert response.status == "failed"
        assert response.error is not None
        assert response.error.code == "content_filter"


async def test_the_reminder_after_an_empty_reply_is_not_left_in_the_conversation() -> None:
    replies = [ModelReply(text=""), call("stock", article="lamp"), "12"]

    _, model = await play(replies, stock)

    assert sum(isinstance(m, UserMessage) for m in model.requests[-1].messages) == 1


async def test_r008_no_call_of_a_reply_cut_at_the_output_limit_runs() -> None:
    ran: list[str] = []

    @tool(effect="read")
    async def look(name: str) -> str:
        """Look."""
        ran.append(name)
        return name

    cut = ModelReply(
        calls=calls(call("look", name="a"), call("look", name="b")).calls, finish_reason="length"
    )
    _, model = await play([cut, "ok"], look)

    assert ran == []
    assert len(tool_texts(model)) == 2


class TestBounds:
    async def test_max_steps_ends_with_what_is_known_so_far(self) -> None:
        said = ModelReply(
            text="12 lamps so far",
            calls=(ToolCall(id="a", name="stock", arguments='{"article":"lamp"}'),),
        )
        response, _ = await play([said, said], stock, limits=Limits(max_steps=2))
        assert (response.status, response.output) == ("partial", "12 lamps so far")

    async def test_without_words_the_last_results_are_what_is_known(self) -> None:
        response, _ = await play([call("stock", article="lamp")], stock, limits=Limits(max_steps=1))
        assert response.output == "stock: 12"

    async def test_max_tokens_stops_before_the_next_model_call(self) -> None:
        reply = ModelReply(
            calls=(ToolCall(id="a", name="stock", arguments='{"article":"x"}'),),
            usage=Usage(prompt_tokens=2_980, completion_tokens=20),
        )
        response, model = await play([reply, "never"], stock, limits=Limits(max_tokens=5_000))
        assert response.status == "partial"
        assert len(model.requests) == 1

    async def test_max_model_calls_counts_repairs_too(self) -> None:
        response, model = await play([ModelReply(), "x"], limits=Limits(max_model_calls=1))
        assert response.status == "partial"
        assert len(model.requests) == 1

    async def test_max_tool_calls_lets_the_first_ones_through(self) -> None:
        watcher = Watcher()
        three = calls(*(call("stock", article=f"a{n}") for n in range(3)))
        response, _ = await play([three], stock, watcher=watcher, limits=Limits(max_tool_calls=2))
        kinds = [type(r.event) for r in watcher.records]
        assert response.status == "partial"
        assert kinds.count(ToolReturned) == 2
        assert kinds.count(ToolFailed) == 1

    async def test_max_seconds_ends_a_model_that_does_not_answer(self) -> None:
        class Hanging(ScriptedModel):
            async def reply(self, request: ModelRequest) -> ModelReply:
                await anyio.sleep_forever()
                raise AssertionError

        agent = Agent(model=Hanging([]), limits=Limits(max_seconds=0.05))
        with anyio.fail_after(5):
            response = await agent.run("hello")
        assert response.status == "partial"
        assert response.error is not None
        assert "max_seconds" in response.error.message

    async def test_a_repair_is_bound_by_everything_but_steps(self) -> None:
        limits = Limits(max_steps=1, max_model_calls=1)
        response, model = await play(["", "never"], limits=limits)
        assert response.status == "partial"
        assert len(model.requests) == 1

    async def test_no_call_is_begun_when_the_time_is_over(self) -> None:
        clock = FakeClock()
        ran: list[str] = []

        @tool
        async def send(text: str) -> str:
            """Send."""
            ran.append(text)
            clock.advance(20)
            return "sent"

        three = calls(*(call("send", text=text) for text in "abc"))
        agent = Agent(model=ScriptedModel([three]), tools=[send], limits=Limits(max_seconds=30))
        async with Hermes("memory://", clock=clock) as app:
            response = await app.run(agent, "send")
        assert ran == ["a", "b"]
        assert response.status == "partial"
        assert [entry.status for entry in response.trace] == ["ok", "ok", "ok", "refused"]

    async def test_max_seconds_counts_time_at_work(self) -> None:
        clock = FakeClock()

        @tool(effect="read")
        async def wait() -> str:
            """Wait."""
            clock.advance(20)
            return "waited"

        model = ScriptedModel([call("wait"), call("wait"), "never"])
        agent = Agent(model=model, tools=[wait], limits=Limits(max_seconds=30))
        async with Hermes("memory://", clock=clock) as app:
            response = await app.run(agent, "wait")
        assert response.status == "partial"
        assert len(model.requests) == 2


class TestVariables:
    async def test_what_a_tool_sets_the_next_one_reads(self) -> None:
        @tool(effect="read")
        async def remember(context: ToolContext, value: str) -> str:
            """Remember."""
            context.variables["seen"] = value
            return "ok"

        @tool(effect="read")
        async def recall(context: ToolContext) -> object:
            """Recall."""
            return context.variables["seen"]

        replies = [call("remember", value="北京"), call("recall"), "done"]
        _, model = await play(replies, remember, recall)
        assert tool_texts(model) == ["ok", "北京"]
        assert model.requests[-1].variables == {"seen": "北京"}

    async def test_a_list_changed_in_place_changes_nothing(self) -> None:
        @tool(effect="read")
        async def add(context: ToolContext) -> str:
            """Add."""
            seen = cast("list[str]", context.variables["seen"])
            seen.append("x")
            return "ok"

        given: dict[str, object] = {"seen": ["a"]}
        model = ScriptedModel([call("add"), "done"])
        async with Hermes("memory://") as app:
            await app.run(Agent(model=model, tools=[add]), "add", variables=given)
        assert given == {"seen": ["a"]}
        assert model.requests[-1].variables == {"seen": ["a"]}

    async def test_a_tool_that_fails_has_set_nothing(self) -> None:
        @tool(effect="read")
        async def half(context: ToolContext) -> str:
            """Fail half-way."""
            context.variables["seen"] = 1
            raise ToolError("broken")

        _, model = await play([call("half"), "sorry"], half)
        assert dict(model.requests[-1].variables) == {}


async def test_a_tool_is_told_what_was_asked_and_where_the_task_stands() -> None:
    seen: list[ToolContext] = []

    @tool(effect="read")
    async def look(context: ToolContext) -> str:
        """Look."""
        seen.append(context)
        context.progress("half done")
        return "ok"

    watcher = Watcher()
    response, _ = await play([call("look"), "done"], look, watcher=watcher)

    context = seen[0]
    assert context.request.input == "count the lamps"
    assert context.task.step == 1
    assert context.idempotency_key == f"{response.task_id}/turn1/tool1"
    assert isinstance(context.history[-1], AssistantMessage)
    await anyio.lowlevel.checkpoint()
    assert context.cancelled


async def test_progress_and_stream_reach_the_observers() -> None:
    @tool(effect="read")
    async def look(context: ToolContext) -> str:
        """Look."""
        context.progress("half done")
        await anyio.lowlevel.checkpoint()
        return "ok"

    watcher = Watcher()
    model = ScriptedModel([call("look"), "All is well."])
    async with Hermes("memory://") as app:
        from hermes.app import RunOptions

        options = RunOptions(stream=True, observers=(watcher,))
        await app.run(Agent(model=model, tools=[look]), "look", options=options)

    assert watcher.words == ["half done"]
    assert "".join(watcher.deltas) == "All is well."


class TestRequiredTools:
    async def test_an_end_before_they_succeeded_goes_back(self) -> None:
        replies = ["Done!", call("stock", article="lamp"), "Really done."]
        response, model = await play(replies, stock, required_tools=["stock"])
        assert response.output == "Really done."
        assert "stock" in getattr(model.requests[1].messages[-1], "text", "")

    async def test_a_name_that_no_tool_has_is_refused_before_the_start(self) -> None:
        with pytest.raises(ConfigError, match="did you mean `stock`"):
            await play([], stock, required_tools=["stok"])

    async def test_a_model_that_never_calls_them_ends_as_partial(self) -> None:
        response, model = await play(["Done!"] * 6, stock, required_tools=["stock"])
        assert response.status == "partial"
        assert response.error is not None
        assert response.error.code == "required_tools"
        assert len(model.requests) == 6


class TestOutputSchema:
    SCHEMA = {
        "type": "object",
        "properties": {"count": {"type": "integer"}},
        "required": ["count"],
        "additionalProperties": False,
    }

    async def test_the_output_is_the_object(self) -> None:
        response, _ = await play(['```json\n{"count": 12}\n```'], output_schema=self.SCHEMA)
        assert response.output == {"count": 12}

    async def test_the_model_is_told_the_schema(self) -> None:
        _, model = await play(['{"count": 12}'], output_schema=self.SCHEMA)
        assert '"count"' in getattr(model.requests[0].messages[0], "text", "")

    async def test_an_answer_that_does_not_fit_goes_back_with_the_reason(self) -> None:
        response, model = await play(["twelve", '{"count": 12}'], output_schema=self.SCHEMA)
        assert response.output == {"count": 12}
        assert "output schema" in getattr(model.requests[1].messages[-1], "text", "")


async def test_a_long_result_is_cut_and_read_more_opens_the_rest() -> None:
    text = "".join(f"行{n}\n" for n in range(20_000))

    @tool(effect="read")
    async def dump() -> str:
        """Dump."""
        return text

    def read_on(request: ModelRequest) -> ModelReply:
        shown = getattr(request.messages[-1], "text", "")
        assert len(shown) < 20_000
        handle = shown.split('handle="')[1].split('"')[0]
        return calls(call("read_more", handle=handle, offset=50_000, length=30))

    _, model = await play([call("dump"), read_on, "done"], dump)

    assert text[50_000:50_020] in tool_texts(model)[-1]


async def test_an_artifact_can_be_read_back_by_its_handle() -> None:
    @tool(effect="read")
    async def keep(context: ToolContext) -> str:
        """Keep."""
        return context.artifact("notes.txt", "the whole story")

    def read_on(request: ModelRequest) -> ModelReply:
        handle = getattr(request.messages[-1], "text", "")
        return calls(call("read_more", handle=handle))

    _, model = await play([call("keep"), read_on, "done"], keep)

    assert "the whole story" in tool_texts(model)[-1]


async def test_a_session_shows_a_task_what_was_said_before() -> None:
    model = ScriptedModel(["Nice to meet you, Ann.", "You are Ann."])
    agent = Agent(model=model)
    async with Hermes("memory://") as app:
        await app.run(agent, "I am Ann.", session_id="s")
        await app.run(agent, "Who am I?", session_id="s")

    texts = [getattr(m, "text", "") for m in model.requests[-1].messages[1:]]
    assert texts == ["I am Ann.", "Nice to meet you, Ann.", "Who am I?"]


async def test_the_intent_of_a_model_call_holds_the_recipe_and_not_the_text() -> None:
    watcher = Watcher()
    await play([call("stock", article="lamp"), "12"], stock, watcher=watcher)

    intents = [r.event for r in watcher.records if isinstance(r.event, ModelRequested)]
    assert [item.history for item in intents] == [2, 4]
    assert intents[0].prompt == intents[1].prompt


async def test_after_a_fault_in_the_model_the_same_process_can_go_on() -> None:
    async with Hermes("memory://") as app:
        with pytest.raises(RuntimeError):
            await app.run(Agent(model=ScriptedModel([RuntimeError("bug")])), "go", dedupe_key="k")
        again = await app.run(Agent(model=ScriptedModel(["fine"])), "go", dedupe_key="k")
    assert again.output == "fine"


async def test_an_observer_that_fails_stops_nothing() -> None:
    class Broken(Watcher):
        def recorded(self, record: Recorded) -> None:
            raise BrokenPipeError

    response, _ = await play(["fine"], watcher=Broken())
    assert response.output == "fine"


async def test_two_tools_of_one_name_are_refused() -> None:
    @tool(effect="read", name="stock")
    async def other() -> str:
        """Other."""
        return ""

    with pytest.raises(ToolDefinitionError, match="stock"):
        await play([], stock, other)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 65])
def test_a_name_that_cannot_name_a_queue_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="agent name"):
        Agent(name=name)


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="output_schema"):
        Agent(output_schema={"type": "strng"})


@pytest.mark.parametrize("given", [None, 5, b"x", []])
async def test_input_that_is_no_text_or_object_is_refused(given: object) -> None:
    with pytest.raises(InputError, match="text or an object"):
        await Agent(model=ScriptedModel([])).run(given)  # pyright: ignore[reportArgumentType]  # that is the point


@pytest.mark.parametrize(
    "limits",
    [{"max_seconds": float("nan")}, {"max_tokens": True}, {"max_steps": "3"}, {"max_steps": 0}],
    ids=str,
)
def test_a_bound_that_is_none_is_refused(limits: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Limits(**limits)  # pyright: ignore[reportArgumentType]  # that is the point


@pytest.mark.parametrize(
    "raised",
    [KeyboardInterrupt(), BaseExceptionGroup("g", [KeyboardInterrupt()]), GeneratorExit()],
    ids=lambda exc: type(exc).__name__,
)
async def test_whatever_a_plain_tool_raises_is_its_result(raised: BaseException) -> None:
    @tool(effect="read")
    def bad() -> str:
        """Raise."""
        raise raised

    response, _ = await play([call("bad"), "sorry"], bad)
    assert response.output == "sorry"
    assert response.trace[1].status == "error"
