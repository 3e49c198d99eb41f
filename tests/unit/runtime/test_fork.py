"""A fork has the record of another task up to a step, and goes on by itself from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes import Agent, Hermes, Limits, ToolContext, tool
from hermes.core.events import TaskResumed, ToolReturned, ToolStarted
from hermes.errors import InputError, NotFoundError
from hermes.loop import RunState
from hermes.runtime.diff import diff
from hermes.runtime.fork import Changes, Forked, Step
from hermes.store import TaskQuery
from hermes.testing import Scripted, ScriptedModel, call, calls
from hermes.tools import Child, Children
from tests.unit.agents.broken import break_off, events, named, playbook, scripted


async def run(path: Path, agent: Agent, goal: str = "go", **variables: object) -> str:
    async with Hermes(f"sqlite:///{path}") as app:
        return (await app.run(agent, goal, variables=variables)).task_id


async def fork(
    path: Path,
    task: str,
    agent: Agent,
    at: str,
    *,
    results: dict[str, object] | None = None,
    **variables: object,
) -> Forked:
    changes = Changes(variables=variables, results=results or {})
    async with Hermes(f"sqlite:///{path}") as app:
        return await app.fork(task, agent, at=at, changes=changes)


async def carry(path: Path, task: str, agent: Agent) -> object:
    async with Hermes(f"sqlite:///{path}") as app:
        response = await app.resume(task, agent)
        assert (response.status, response.error) == ("succeeded", None)
        return response.output


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/turn3/tool1", "/turn3/tool1"),
        ("turn3/tool12", "/turn3/tool12"),
        ("turn3", "/turn3"),
        ("3", "/turn3"),
        ("/turn3/model1", "/turn3"),
        ("/turn3/model2", "/turn3/model2"),
    ],
)
def test_a_step_is_written_long_or_short(text: str, path: str) -> None:
    assert str(Step.of(text)) == path


@pytest.mark.parametrize("text", ["", "0", "turn", "/turn1/tool0", "/turn1/look", "tool1", "-1"])
def test_what_is_no_step_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no step path"):
        Step.of(text)


class Shop:
    """Three turns: look, pay, look; `done` holds every call that was really made."""

    def __init__(self, path: Path) -> None:
        self.path, self.done = path, list[str]()

        @tool(effect="unsafe", key=lambda arguments: "once")
        async def pay(what: str = "") -> str:
            """Pay."""
            self.done.append(f"pay {what}".strip())
            return "paid"

        self.tools = [named("look", self.done), pay]

    def agent(self, *replies: object, instructions: str = "") -> Agent:
        model = ScriptedModel(replies)  # pyright: ignore[reportArgumentType]  # written below
        return Agent(model=model, tools=self.tools, instructions=instructions)

    async def first(self) -> str:
        agent = self.agent(
            calls(call("look", what="a"), call("look", what="b")), call("pay", what="c"), "Paid."
        )
        task = await run(self.path, agent)
        assert self.done == ["look a", "look b", "pay c"]
        self.done.clear()
        return task


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "j.db")


async def test_what_came_before_is_not_done_again(shop: Shop) -> None:
    task = await shop.first()
    made = await fork(shop.path, task, shop.agent(), "/turn3")
    assert (made.copied, made.again, made.accepted) == (5, (), ())
    model = ScriptedModel(["Otherwise."])
    assert (
        await carry(shop.path, made.task_id, Agent(model=model, tools=shop.tools)) == "Otherwise."
    )
    assert shop.done == []
    texts = [getattr(message, "text", "") for message in model.requests[0].messages]
    assert texts[-4:] == ["look done", "look done", "", "paid"]


async def test_the_new_task_says_where_it_comes_from_and_is_its_own(shop: Shop) -> None:
    task = await shop.first()
    made = await fork(shop.path, task, shop.agent(), "3")
    async with Hermes(f"sqlite:///{shop.path}") as app:
        old, new = await app.store.task(task), await app.store.task(made.task_id)
        ids = [
            {record.event_id for record in await app.store.events(name)}
            for name in (task, made.task_id)
        ]
    assert (new.spec.fork_of, new.spec.retry_of, old.spec.fork_of) == (f"{task}@/turn3", None, None)
    assert new.trace_id != old.trace_id
    assert not ids[0] & ids[1]


async def test_a_call_in_the_middle_of_a_turn_is_where_it_begins(shop: Shop) -> None:
    task = await shop.first()
    made = await fork(shop.path, task, shop.agent(), "/turn1/tool2")
    assert made.again == ("/turn2/tool1 pay (unsafe)",)
    await carry(shop.path, made.task_id, shop.agent("Done."))
    assert shop.done == ["look b"]


async def test_its_business_keys_are_not_claimed_again(shop: Shop) -> None:
    task = await shop.first()
    made = await fork(shop.path, task, shop.agent(), "3")
    await carry(shop.path, made.task_id, shop.agent("ok"))
    found = await events(shop.path, made.task_id)
    assert [event.scope for event in found if isinstance(event, ToolStarted)][2] == task
    async with Hermes(f"sqlite:///{shop.path}") as app:
        assert await app.store.effect(made.task_id, "pay", "once") is None
        row = await app.store.effect(task, "pay", "once")
        assert row is not None
        assert row.task_id == task


async def test_a_deed_that_it_has_from_the_other_is_not_done_again_in_other_words(
    shop: Shop,
) -> None:
    task = await shop.first()
    made = await fork(shop.path, task, shop.agent(), "3")
    await carry(shop.path, made.task_id, shop.agent(call("pay", what="in other words"), "ok"))
    assert shop.done == []
    last = [e for e in await events(shop.path, made.task_id) if isinstance(e, ToolReturned)][-1]
    assert "the same pay (once) was done at /turn2/tool1" in last.content
    assert last.content.endswith("paid")


async def test_a_deed_that_comes_after_the_step_is_done_anew(shop: Shop) -> None:
    task = await shop.first()
    made = await fork(shop.path, task, shop.agent(), "2")
    await carry(shop.path, made.task_id, shop.agent(call("pay", what="d"), "ok"))
    assert shop.done == ["pay d"]


async def test_a_changed_result_is_what_the_model_reads(shop: Shop) -> None:
    task = await shop.first()
    results: dict[str, object] = {"turn1/tool2": {"price": 3}}
    made = await fork(shop.path, task, shop.agent(), "/turn2", results=results)
    model = ScriptedModel(["ok"])
    await carry(shop.path, made.task_id, Agent(model=model, tools=shop.tools))
    texts = [getattr(message, "text", "") for message in model.requests[0].messages]
    assert texts[-2:] == ["look done", '{"price":3}']


@pytest.mark.parametrize("path", ["/turn2/tool1", "/turn9/tool1", "/turn1/tool3"])
async def test_only_an_earlier_call_has_a_result_to_change(shop: Shop, path: str) -> None:
    task = await shop.first()
    with pytest.raises(InputError, match="does not come before /turn2.*/turn1/tool1, /turn1/tool2"):
        await fork(shop.path, task, shop.agent(), "/turn2", results={path: 1})


async def test_variables_are_set_before_it_goes_on(tmp_path: Path) -> None:
    seen: list[object] = []

    @tool(effect="read")
    async def look(context: ToolContext) -> str:
        """Look."""
        seen.append(dict(context.variables))
        return "seen"

    agent = Agent(model=scripted(call("look"), call("look"), "ok"), tools=[look])
    task = await run(tmp_path / "j.db", agent, region="eu", kept=1)
    made = await fork(tmp_path / "j.db", task, agent, "2", region="us", more=[1])
    await carry(
        tmp_path / "j.db", made.task_id, Agent(model=scripted(call("look"), "ok"), tools=[look])
    )
    assert seen[-1] == {"region": "us", "kept": 1, "more": [1]}


async def test_a_changed_program_is_accepted_and_noted(shop: Shop) -> None:
    task = await shop.first()
    now = shop.agent("ok", instructions="Be brief.")
    made = await fork(shop.path, task, now, "/turn2")
    assert [line.partition(":")[0] for line in made.accepted] == ["prompt"]
    await carry(shop.path, made.task_id, now)
    found = await events(shop.path, made.task_id)
    first, second = (event for event in found if isinstance(event, TaskResumed))
    assert (first.by, first.accepted) == ("fork", made.accepted)
    assert second.accepted == ()


async def test_a_corrected_playbook_goes_on_at_the_step(tmp_path: Path) -> None:
    done: list[str] = []
    tools = [named("a", done), named("b", done)]
    book = playbook(tmp_path, "[{call: a}, {call: b, with: {what: wrong}}]")
    agent = Agent(model=book, tools=tools)
    task = await run(tmp_path / "j.db", agent)
    playbook(tmp_path, "[{call: a}, {call: b, with: {what: right}}]")
    made = await fork(tmp_path / "j.db", task, agent, "2")
    assert await carry(tmp_path / "j.db", made.task_id, agent) == "ok"
    assert done == ["a", "b wrong", "b right"]
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        assert (await app.replay(made.task_id, agent)).difference is None


class TestOpenCalls:
    async def broken(self, shop: Shop) -> str:
        agent = shop.agent(calls(call("look", what="a"), call("pay", what="c")))
        return await break_off(shop.path, agent, at="tool.started", nth=2)

    async def test_a_call_that_may_have_taken_place_is_not_made_anew(self, shop: Shop) -> None:
        task = await self.broken(shop)
        with pytest.raises(
            InputError, match=r"/turn1/tool2 \(pay, unsafe\).*might take place twice"
        ):
            await fork(shop.path, task, shop.agent(), "/turn1/tool2")

    async def test_a_call_without_an_outcome_may_not_come_before(self, shop: Shop) -> None:
        agent = shop.agent(calls(call("pay", what="c"), call("look", what="a")))
        task = await break_off(shop.path, agent, at="tool.started")
        with pytest.raises(InputError, match=r"/turn1/tool1 \(pay\).*no outcome.*--edit-result"):
            await fork(shop.path, task, shop.agent(), "/turn1/tool2")

    async def test_a_person_may_say_what_it_came_to(self, shop: Shop) -> None:
        agent = shop.agent(calls(call("pay", what="c"), call("look", what="a")))
        task = await break_off(shop.path, agent, at="tool.started")
        shop.done.clear()
        results: dict[str, object] = {"/turn1/tool1": "paid by hand"}
        made = await fork(shop.path, task, shop.agent(), "/turn1/tool2", results=results)
        await carry(shop.path, made.task_id, shop.agent("ok"))
        assert shop.done == ["look a"]

    async def test_a_step_that_is_not_there_is_named_with_those_that_are(self, shop: Shop) -> None:
        task = await shop.first()
        with pytest.raises(InputError, match="no step /turn7.*its turns are 1 to 3"):
            await fork(shop.path, task, shop.agent(), "7")

    async def test_of_an_unknown_task_there_is_no_fork(self, shop: Shop) -> None:
        with pytest.raises(NotFoundError):
            await fork(shop.path, "task_x", shop.agent(), "1")


@pytest.mark.parametrize("turn", [1, 2, 3])
async def test_a_fork_at_any_turn_has_the_state_of_the_other_there(shop: Shop, turn: int) -> None:
    task = await shop.first()
    made = await fork(shop.path, task, shop.agent(), str(turn))
    old = await events(shop.path, task)
    cut = next(
        place
        for place, event in enumerate(old)
        if getattr(event, "path", "") == f"/turn{turn}/model1"
    )
    then, now = RunState.of(old[:cut]), RunState.of(await events(shop.path, made.task_id))
    assert (now.messages, now.turn, now.succeeded) == (then.messages, then.turn, then.succeeded)


async def test_limits_may_be_others(shop: Shop) -> None:
    task = await shop.first()
    async with Hermes(f"sqlite:///{shop.path}") as app:
        made = await app.fork(
            task, shop.agent(), at="2", changes=Changes(limits=Limits(max_steps=1))
        )
        response = await app.resume(made.task_id, shop.agent())
    assert response.error is not None
    assert response.error.code == "budget"


async def test_from_every_step_on_a_fork_comes_to_the_same_end(tmp_path: Path) -> None:
    done: list[str] = []
    tools = [named("look", done), named("put", done, effect="unsafe")]
    replies: list[Scripted] = [
        calls(call("look", what="a"), call("put", what="b"), call("look", what="c")),
        "",
        call("put", what="d"),
        calls(call("look", what="e"), call("nothing")),
        "Done.",
    ]
    paths = {"/turn1": 0, "/turn1/tool1": 1, "/turn1/tool2": 1, "/turn1/tool3": 1, "/turn2": 1}
    paths |= {"/turn2/model2": 2, "/turn2/tool1": 3, "/turn3": 3, "/turn3/tool2": 4, "/turn4": 4}
    task = await run(tmp_path / "j.db", Agent(model=ScriptedModel(replies), tools=tools))
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        first = await app.store.events(task)
        for path, replied in paths.items():
            agent = Agent(model=ScriptedModel(replies[replied:]), tools=tools)
            made = await app.fork(task, agent, at=path, changes=Changes())
            response = await app.resume(made.task_id, agent)
            assert (path, response.output) == (path, "Done.")
            there = diff(first, await app.store.events(made.task_id))
            assert (path, there.is_same) == (path, True)
            again = await app.replay(made.task_id, agent)
            assert (path, again.difference) == (path, None)


async def test_children_that_a_call_before_it_had_are_not_made_again(tmp_path: Path) -> None:
    @tool(effect="read")
    async def hand_on() -> Children:
        """Hand work on."""
        return Children(tasks=[Child(goal="one"), Child(goal="two")])

    def agent(*replies: Scripted) -> Agent:
        return Agent(model=ScriptedModel(replies), tools=[hand_on])

    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        first = await app.run(agent(call("hand_on"), "child", "child", "Done."), "go")
        assert first.output == "Done."
        before = len(await app.store.tasks(TaskQuery()))
        made = await app.fork(first.task_id, agent(), at="2", changes=Changes())
        model = ScriptedModel(["Otherwise."])
        response = await app.resume(made.task_id, Agent(model=model, tools=[hand_on]))
        assert response.output == "Otherwise."
        assert len(await app.store.tasks(TaskQuery())) == before + 1
    assert '"output":"child"' in getattr(model.requests[0].messages[-1], "text", "")


async def test_another_agent_does_not_go_on_with_it(shop: Shop) -> None:
    task = await shop.first()
    other = Agent(name="other", model=scripted(), tools=shop.tools)
    async with Hermes(f"sqlite:///{shop.path}") as app:
        for attempt in (
            app.fork(task, other, at="1", changes=Changes()),
            app.retry(task, other),
            app.replay(task, other),
        ):
            with pytest.raises(InputError, match="is of agent 'agent', not 'other'"):
                await attempt
        assert len(await app.store.tasks(TaskQuery())) == 1
