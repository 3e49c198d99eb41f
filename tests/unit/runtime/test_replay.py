"""A replay decides as the record says, or shows where the present program would not."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from hermes import Agent, Hermes, Limits, Tool, ToolContext, ToolError, tool
from hermes.core.events import ToolFailed
from hermes.errors import InputError, ModelError
from hermes.runtime.replay import Replayed
from hermes.store import TaskQuery
from hermes.testing import Scripted, ScriptedModel, call, calls
from hermes.tools import Question
from tests.unit.agents.broken import break_off, named, playbook, scripted


async def run(path: Path, agent: Agent, goal: str = "go", **variables: object) -> str:
    async with Hermes(f"sqlite:///{path}") as app:
        return (await app.run(agent, goal, variables=variables)).task_id


async def replay(path: Path, task: str, agent: Agent) -> Replayed:
    async with Hermes(f"sqlite:///{path}") as app:
        before = await app.store.events(task)
        found = await app.replay(task, agent)
        assert await app.store.events(task) == before
    return found


def same(found: Replayed) -> bool:
    return found.difference is None


async def test_an_unchanged_program_decides_the_same_and_does_nothing(tmp_path: Path) -> None:
    done: list[str] = []
    tools = [named("look", done), named("pay", done, effect="unsafe")]
    replies: list[Scripted] = [
        calls(call("look", what="a"), call("look", what="b")),
        calls(call("pay"), call("nothing"), call("look", number=1)),
        "",
        "Done.",
    ]
    task = await run(tmp_path / "j.db", Agent(model=ScriptedModel(replies), tools=tools))
    made = list(done)
    found = await replay(tmp_path / "j.db", task, Agent(model=scripted(), tools=tools))
    assert (same(found), found.is_whole, found.changes, done) == (True, True, (), made)
    # Four requests, three calls that ran, two that were refused, the end.
    assert found.decisions == 10


async def test_a_changed_prompt_is_found_at_the_first_request(tmp_path: Path) -> None:
    task = await run(tmp_path / "j.db", Agent(instructions="A", model=scripted("ok")))
    found = await replay(tmp_path / "j.db", task, Agent(instructions="B", model=scripted()))
    assert found.difference is not None
    assert (found.difference.path, found.difference.what) == ("/turn1/model1", "request: prompt")
    assert found.difference.then != found.difference.now
    assert [line.partition(":")[0] for line in found.changes] == ["prompt"]


async def test_other_arguments_than_a_tool_takes_now_are_found(tmp_path: Path) -> None:
    tools = [named("look", [])]
    task = await run(
        tmp_path / "j.db", Agent(model=scripted(call("look", what="x"), "ok"), tools=tools)
    )

    @tool(effect="read", description="Do it.")
    async def look(number: int) -> str:
        return "seen"

    found = await replay(tmp_path / "j.db", task, Agent(model=scripted(), tools=[look]))
    assert found.difference is not None
    assert found.difference.what == "request: tools"
    assert any(line.startswith("tool:look: changed") for line in found.changes)


async def test_a_playbook_decides_anew(tmp_path: Path) -> None:
    done: list[str] = []
    tools = [named("a", done), named("b", done)]
    book = playbook(tmp_path, "[{call: a}, {call: b, with: {what: '{{ vars.x }}'}}]")
    task = await run(tmp_path / "j.db", Agent(model=book, tools=tools), x="1")
    assert same(await replay(tmp_path / "j.db", task, Agent(model=book, tools=tools)))
    playbook(tmp_path, "[{call: a}, {call: b, with: {what: '{{ vars.x }}!'}}]")
    found = await replay(tmp_path / "j.db", task, Agent(model=book, tools=tools))
    assert found.difference is not None
    assert (found.difference.path, found.difference.what) == ("/turn2/model1", "reply: calls")
    assert found.difference.then == [{"tool": "b", "arguments": {"what": "1"}}]
    assert found.difference.now == [{"tool": "b", "arguments": {"what": "1!"}}]
    assert done == ["a", "b 1"]


@pytest.mark.parametrize(
    ("steps", "path", "what"),
    [
        ("[{call: b}, {call: a}]", "/turn1/model1", "reply: calls"),
        ("[{call: a}]", "/turn2/model1", "reply: calls"),
        ("[{call: a}, {call: b}, {call: a}]", "/turn3/model1", "reply: calls"),
    ],
)
async def test_steps_in_another_order_more_or_fewer_are_found(
    tmp_path: Path, steps: str, path: str, what: str
) -> None:
    tools = [named("a", []), named("b", [])]
    book = playbook(tmp_path, "[{call: a}, {call: b}]")
    task = await run(tmp_path / "j.db", Agent(model=book, tools=tools))
    playbook(tmp_path, steps)
    found = await replay(tmp_path / "j.db", task, Agent(model=book, tools=tools))
    assert found.difference is not None
    assert (found.difference.path, found.difference.what) == (path, what)


async def test_variables_that_tools_set_are_those_of_the_record(tmp_path: Path) -> None:
    @tool(effect="unsafe")
    async def draw(context: ToolContext) -> str:
        """Draw a number."""
        context.variables["drawn"] = id(context)  # never the same
        return "drawn"

    tools = [draw, named("look", [])]
    book = playbook(tmp_path, "[{call: draw}, {call: look, with: {what: 'n{{ vars.drawn }}'}}]")
    task = await run(tmp_path / "j.db", Agent(model=book, tools=tools))
    assert same(await replay(tmp_path / "j.db", task, Agent(model=book, tools=tools)))


async def test_failures_are_those_of_the_record(tmp_path: Path) -> None:
    @tool(effect="read")
    async def broken() -> str:
        """Fail."""
        raise ToolError("no paper", code="paper")

    failing = ModelError("out of order", code="server")
    agent = Agent(model=scripted(call("broken"), failing), tools=[broken])
    task = await run(tmp_path / "j.db", agent)
    found = await replay(tmp_path / "j.db", task, Agent(model=scripted(), tools=[broken]))
    assert (same(found), found.is_whole) == (True, True)


async def test_a_bound_that_was_reached_is_reached_again(tmp_path: Path) -> None:
    tools = [named("look", [])]
    agent = Agent(
        model=scripted(call("look"), call("look")), tools=tools, limits=Limits(max_steps=2)
    )
    task = await run(tmp_path / "j.db", agent)
    found = await replay(tmp_path / "j.db", task, Agent(model=scripted(), tools=tools))
    assert (same(found), found.is_whole, found.decisions) == (True, True, 6)


@pytest.mark.parametrize(
    "at", ["model.requested", "model.replied", "tool.started", "tool.returned"]
)
async def test_a_task_that_broke_off_is_replayed_as_far_as_it_went(tmp_path: Path, at: str) -> None:
    tools = [named("look", []), named("pay", [], effect="unsafe")]
    agent = Agent(model=scripted(calls(call("look"), call("pay")), "ok"), tools=tools)
    task = await break_off(tmp_path / "j.db", agent, at=at)
    found = await replay(tmp_path / "j.db", task, Agent(model=scripted(), tools=tools))
    assert (same(found), found.is_whole) == (True, False)
    assert found.decisions >= 1


async def test_a_resumed_task_is_replayed_whole(tmp_path: Path) -> None:
    tools = [named("look", [])]
    agent = Agent(model=scripted(call("look")), tools=tools)
    task = await break_off(tmp_path / "j.db", agent, at="tool.started")
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        await app.resume(task, Agent(model=scripted("ok"), tools=tools))
    found = await replay(tmp_path / "j.db", task, Agent(model=scripted(), tools=tools))
    assert (same(found), found.is_whole, found.decisions) == (True, True, 4)


@tool(effect="read")
async def ask() -> Question:
    """Ask a person."""
    return Question(text="Which one?")


@pytest.mark.parametrize("answered", [False, True])
async def test_a_question_to_a_person_is_part_of_the_record(tmp_path: Path, answered: bool) -> None:
    tools = [ask, named("look", [])]
    replies: list[Scripted] = [call("ask"), call("look"), "ok"]
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        waiting = await app.run(Agent(model=ScriptedModel(replies[:1]), tools=tools), "go")
        assert waiting.status == "waiting"
        if answered:
            [review] = await app.store.reviews()
            await app.store.decide(review.review_id, "answer", answer="red", by="me")
            done = await app.resume(
                waiting.task_id, Agent(model=ScriptedModel(replies[1:]), tools=tools)
            )
            assert done.status == "succeeded"
    found = await replay(tmp_path / "j.db", waiting.task_id, Agent(model=scripted(), tools=tools))
    assert (same(found), found.is_whole) == (True, answered)


@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_a_call_that_needed_leave_is_replayed_without_asking(
    tmp_path: Path, decision: str
) -> None:
    done: list[str] = []

    @tool(effect="unsafe", requires_approval=True)
    async def pay() -> str:
        """Pay."""
        done.append("pay")
        return "paid"

    tools = [pay, named("look", [])]
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        agent = Agent(model=scripted(calls(call("look"), call("pay"))), tools=tools)
        waiting = await app.run(agent, "go")
        [review] = await app.store.reviews()
        await app.store.decide(review.review_id, decision, by="me")  # pyright: ignore[reportArgumentType]  # one of the words
        await app.resume(waiting.task_id, Agent(model=scripted("ok"), tools=tools))
    made = list(done)
    found = await replay(tmp_path / "j.db", waiting.task_id, Agent(model=scripted(), tools=tools))
    assert (same(found), found.is_whole, done) == (True, True, made)


async def test_a_deed_that_was_done_before_is_not_a_decision(tmp_path: Path) -> None:
    done: list[str] = []

    @tool(effect="unsafe", key=lambda arguments: "once")
    async def pay(what: str) -> str:
        """Pay."""
        done.append(what)
        return f"paid {what}"

    replies: list[Scripted] = [call("pay", what="a"), call("pay", what="A"), "ok"]
    task = await run(tmp_path / "j.db", Agent(model=ScriptedModel(replies), tools=[pay]))
    assert done == ["a"]
    found = await replay(tmp_path / "j.db", task, Agent(model=scripted(), tools=[pay]))
    assert (same(found), found.is_whole, done) == (True, True, ["a"])


async def test_a_session_is_shown_what_it_was_shown(tmp_path: Path) -> None:
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        for goal in ("first", "second", "third"):
            await app.run(Agent(model=scripted(f"answer to {goal}")), goal, session_id="s")
        tasks = await app.store.tasks(TaskQuery())
        for task in tasks:
            assert same(await app.replay(task.task_id, Agent(model=scripted())))


async def test_a_cancelled_task_is_replayed_as_far_as_it_went(tmp_path: Path) -> None:
    started = anyio.Event()

    @tool(effect="read")
    async def hang() -> str:
        """Hang."""
        started.set()
        await anyio.sleep_forever()
        return ""

    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        async with anyio.create_task_group() as group:

            async def run_it() -> None:
                await app.run(Agent(model=scripted(call("hang")), tools=[hang]), "go")

            group.start_soon(run_it)
            await started.wait()
            group.cancel_scope.cancel()
        [task] = await app.store.tasks(TaskQuery())
        assert task.state == "cancelled"
        found = await app.replay(task.task_id, Agent(model=scripted(), tools=[hang]))
    assert (same(found), found.is_whole) == (True, False)


async def test_a_task_that_nobody_began_has_nothing_to_replay(tmp_path: Path) -> None:
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        task = await app.submit(Agent(model=scripted()), "go")
        with pytest.raises(InputError, match="never begun"):
            await app.replay(task, Agent(model=scripted()))


async def test_a_program_that_changed_on_the_way_is_told(tmp_path: Path) -> None:
    agent = Agent(instructions="A", model=scripted(call("nothing")))
    task = await break_off(tmp_path / "j.db", agent, at="tool.failed")
    now = Agent(instructions="B", model=scripted("ok"))
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        await app.resume(task, now, accept_changes=True)
    found = await replay(tmp_path / "j.db", task, now)
    assert found.difference is not None
    assert (found.difference.path, found.changes) == ("/turn1/model1", ())
    assert [line.partition(":")[0] for line in found.accepted] == ["prompt"]
    assert found.accepted[0].endswith("(accepted by person)")


def script(done: list[str]) -> tuple[list[Scripted], list[Tool]]:
    """Calls beside each other and in order, refused and failing ones, and a repair."""

    @tool(effect="read")
    async def broken() -> str:
        """Fail."""
        raise ToolError("no paper")

    replies: list[Scripted] = [
        calls(call("look", what="a"), call("look", what="b"), call("nothing")),
        calls(call("put", what="c"), call("broken"), call("look", what="d")),
        "",
        call("look", number=1),
        "Done.",
    ]
    return replies, [named("look", done), named("put", done, effect="idempotent"), broken]


async def test_wherever_a_run_broke_off_its_replay_is_the_same(tmp_path: Path) -> None:
    points = 0
    for event in range(4, 100):
        replies, tools = script([])
        path = tmp_path / f"{event}.db"
        agent = Agent(model=ScriptedModel(replies), tools=tools)
        task = await break_off(path, agent, at="", nth=event)
        async with Hermes(f"sqlite:///{path}") as app:
            half = await app.replay(task, Agent(model=scripted(), tools=tools))
            if (await app.store.task(task)).state.is_terminal:
                break
            assert (event, half.difference, half.is_whole) == (event, None, False)
            replied = [r for r in await app.store.events(task) if r.event.type == "model.replied"]
            left = ScriptedModel(replies[len(replied) :])
            await app.resume(task, Agent(model=left, tools=tools))
            whole = await app.replay(task, Agent(model=scripted(), tools=tools))
        assert (event, whole.difference, whole.is_whole) == (event, None, True)
        assert whole.decisions == 13
        points += 1
    assert points >= 20


async def test_a_call_that_still_waits_beside_others_is_no_difference(tmp_path: Path) -> None:
    @tool(effect="read", requires_approval=True)
    async def peek() -> str:
        """Peek."""
        return "seen"

    tools = [peek]
    agent = Agent(model=scripted(calls(call("peek"), call("nothing"))), tools=tools)
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        waiting = await app.run(agent, "go")
        begun = [r.event for r in await app.store.events(waiting.task_id)]
    assert [e.path for e in begun if isinstance(e, ToolFailed)] == ["/turn1/tool2"]
    found = await replay(tmp_path / "j.db", waiting.task_id, Agent(model=scripted(), tools=tools))
    assert (same(found), found.is_whole, found.decisions) == (True, False, 2)
