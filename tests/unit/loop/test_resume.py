"""A run that breaks off anywhere goes on as if nothing had happened."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import anyio
import pytest

from hermes import Agent, Hermes, ToolContext, tool
from hermes.app import RunOptions
from hermes.core.events import Recorded, TaskSettled, ToolInDoubt
from hermes.core.request import AgentResponse
from hermes.core.task import TaskState
from hermes.errors import DriftError, InputError
from hermes.store import TaskQuery
from hermes.testing import Scripted, ScriptedModel, call, calls
from hermes.tools import Tool


class Crash(BaseException):
    """Stands for the death of the process."""


class Bomb:
    """Goes off after the n-th commit that it is told of."""

    def __init__(self, commits: int) -> None:
        self.left = commits
        self._last = 0

    def recorded(self, record: Recorded) -> None:
        self.left -= 1
        if self.left == 0:
            raise Crash

    def delta(self, text: str, *, reasoning: bool = False) -> None:
        pass

    def progress(self, path: str, text: str) -> None:
        pass


def script(done: Counter[str]) -> tuple[list[Scripted], list[Tool]]:
    """Four turns with reading, keyed and in-order calls; `done` counts effects by key."""

    @tool(effect="read")
    async def look(name: str) -> str:
        """Look."""
        done[f"look {name}"] += 1
        return f"saw {name}"

    @tool(effect="idempotent")
    async def put(name: str, context: ToolContext) -> str:
        """Put."""
        done[f"put {name} {context.idempotency_key.partition('/')[2]}"] += 1
        context.variables["last"] = name
        return "put"

    replies: list[Scripted] = [
        calls(call("look", name="a"), call("look", name="b")),
        call("put", name="c"),
        calls(call("look", name="d"), call("nothing")),
        "All done.",
    ]
    return replies, [look, put]


async def run_to_the_end(path: Path, bomb: int, done: Counter[str]) -> AgentResponse | None:
    replies, tools = script(done)
    agent = Agent(name="a", model=ScriptedModel(replies), tools=tools)
    async with Hermes(f"sqlite:///{path}") as app:
        return await app.run(agent, "go", options=RunOptions(observers=[Bomb(bomb)]))


async def resume(path: Path, done: Counter[str]) -> AgentResponse:
    """Go on with the model at the reply that the journal lacks."""
    replies, tools = script(done)
    async with Hermes(f"sqlite:///{path}") as app:
        [task] = await app.store.tasks(TaskQuery())
        records = await app.store.events(task.task_id)
        replied = sum(record.event.type == "model.replied" for record in records)
        agent = Agent(name="a", model=ScriptedModel(replies[replied:]), tools=tools)
        return await app.resume(task.task_id, agent)


async def test_a_run_that_breaks_off_after_any_event_ends_the_same(tmp_path: Path) -> None:
    whole: Counter[str] = Counter()
    clean = await run_to_the_end(tmp_path / "clean.db", 10**6, whole)
    assert clean is not None
    assert clean.status == "succeeded"

    points = 0
    for bomb in range(1, 200):
        done: Counter[str] = Counter()
        path = tmp_path / f"{bomb}.db"
        try:
            await run_to_the_end(path, bomb, done)
        except (Crash, BaseExceptionGroup):
            points += 1
        else:
            break
        response = await resume(path, done)
        assert (response.status, response.output) == ("succeeded", "All done.")
        assert set(done) == set(whole)
        assert all(count <= 2 for count in done.values())
        assert [e.name for e in response.trace] == [e.name for e in clean.trace]
    assert points >= 15


async def test_a_finished_call_is_never_made_again(tmp_path: Path) -> None:
    done: Counter[str] = Counter()
    with pytest.raises(Crash):
        await run_to_the_end(tmp_path / "j.db", 14, done)
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        [task] = await app.store.tasks(TaskQuery())
        records = await app.store.events(task.task_id)
    finished = {r.event.path for r in records if r.event.type == "tool.returned"}
    assert "/turn2/tool1" in finished

    await resume(tmp_path / "j.db", done)

    assert done["put c turn2/tool1"] == 1


async def break_off_inside(path: Path, effect: str, ran: list[str]) -> Agent:
    @tool(effect=effect, name="pay")  # pyright: ignore[reportArgumentType]  # one of the effect classes
    async def pay(amount: int) -> str:
        """Pay."""
        ran.append(f"pay {amount}")
        if len(ran) == 1:
            raise Crash
        return "paid"

    agent = Agent(name="a", model=ScriptedModel([call("pay", amount=5)]), tools=[pay])
    with pytest.raises(BaseException) as caught:
        async with Hermes(f"sqlite:///{path}") as app:
            await app.run(agent, "pay 5")
    assert caught.group_contains(Crash) if isinstance(caught.value, BaseExceptionGroup) else True
    return Agent(name="a", model=ScriptedModel(["Paid."]), tools=[pay])


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_an_open_call_that_may_be_repeated_is(tmp_path: Path, effect: str) -> None:
    ran: list[str] = []
    agent = await break_off_inside(tmp_path / "j.db", effect, ran)
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        [task] = await app.store.tasks(TaskQuery())
        response = await app.resume(task.task_id, agent)
    assert response.output == "Paid."
    assert ran == ["pay 5", "pay 5"]


class TestInDoubt:
    async def test_an_open_unsafe_call_waits_for_a_person(self, tmp_path: Path) -> None:
        ran: list[str] = []
        agent = await break_off_inside(tmp_path / "j.db", "unsafe", ran)
        async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
            [task] = await app.store.tasks(TaskQuery())
            response = await app.resume(task.task_id, agent)
            assert response.status == "waiting"
            assert [(item.kind, item.path, item.name) for item in response.pending] == [
                ("in_doubt", "/turn1/tool1", "pay")
            ]
            again = await app.resume(task.task_id, agent)
            assert again.status == "waiting"
        assert ran == ["pay 5"]

    @pytest.mark.parametrize(("decision", "runs"), [("done", 1), ("again", 2)])
    async def test_a_decision_lets_it_go_on(self, tmp_path: Path, decision: str, runs: int) -> None:
        ran: list[str] = []
        agent = await break_off_inside(tmp_path / "j.db", "unsafe", ran)
        async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
            [task] = await app.store.tasks(TaskQuery())
            await app.resume(task.task_id, agent)
            response = await app.resume(task.task_id, agent, decision=decision)  # pyright: ignore[reportArgumentType]  # one of the two
        assert (response.status, response.output) == ("succeeded", "Paid.")
        assert len(ran) == runs

    @pytest.mark.parametrize(("decision", "runs"), [("done", 1), ("again", 2)])
    async def test_a_decision_may_come_with_the_first_resume(
        self, tmp_path: Path, decision: str, runs: int
    ) -> None:
        ran: list[str] = []
        agent = await break_off_inside(tmp_path / "j.db", "unsafe", ran)
        async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
            [task] = await app.store.tasks(TaskQuery())
            response = await app.resume(task.task_id, agent, decision=decision)  # pyright: ignore[reportArgumentType]  # one of the two
        assert response.output == "Paid."
        assert len(ran) == runs

    async def test_a_decision_holds_for_one_more_try_only(self, tmp_path: Path) -> None:
        ran: list[str] = []
        url = f"sqlite:///{tmp_path}/j.db"
        agent = await break_off_inside(tmp_path / "j.db", "unsafe", ran)

        @tool(name="pay")
        async def pay(amount: int) -> str:
            """Pay."""
            ran.append("again")
            raise Crash

        breaking = Agent(name="a", model=ScriptedModel([]), tools=[pay])
        async with Hermes(url) as app:
            [task] = await app.store.tasks(TaskQuery())
        with pytest.raises(Crash):
            async with Hermes(url) as app:
                await app.resume(task.task_id, breaking, decision="again")
        async with Hermes(url) as app:
            response = await app.resume(task.task_id, agent)
        assert response.status == "waiting"
        assert ran == ["pay 5", "again"]

    async def test_a_decision_where_nothing_is_in_doubt_is_refused(self, tmp_path: Path) -> None:
        agent = await break_off_inside(tmp_path / "j.db", "read", [])
        async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
            [task] = await app.store.tasks(TaskQuery())
            with pytest.raises(InputError, match="no call in doubt"):
                await app.resume(task.task_id, agent, decision="again")
            assert (await app.resume(task.task_id, agent)).output == "Paid."

    async def test_an_unsafe_call_that_times_out_waits_and_is_not_told_to_the_model(self) -> None:
        @tool(timeout_s=0.05)
        async def pay() -> str:
            """Pay."""
            await anyio.sleep_forever()
            return ""

        model = ScriptedModel([call("pay")])
        response = await Agent(model=model, tools=[pay]).run("pay")
        assert response.status == "waiting"
        assert len(model.requests) == 1

    async def test_a_decision_on_a_settled_task_changes_nothing(self, tmp_path: Path) -> None:
        async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
            first = await app.run(Agent(model=ScriptedModel(["hi"])), "hello")
            second = await app.resume(
                first.task_id, Agent(model=ScriptedModel([])), decision="again"
            )
        assert (second.status, second.output) == ("succeeded", "hi")


async def test_a_begun_call_that_would_now_be_read_differently_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a version of Hermes that reads arguments in another way."""
    ran: list[str] = []
    agent = await break_off_inside(tmp_path / "j.db", "read", ran)

    def digest(_: object) -> str:
        return "other"

    monkeypatch.setattr("hermes.tools.runner.digest", digest)
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        [task] = await app.store.tasks(TaskQuery())
        response = await app.resume(task.task_id, agent)
    assert [entry.status for entry in response.trace if entry.name == "pay"] == ["refused"]
    assert ran == ["pay 5"]


async def test_an_open_call_that_would_now_be_another_one_stops_the_resume(tmp_path: Path) -> None:
    await break_off_inside(tmp_path / "j.db", "read", [])

    @tool(effect="read", name="pay")
    async def pay(amount: str) -> str:
        """Pay."""
        return "paid"

    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        [task] = await app.store.tasks(TaskQuery())
        agent = Agent(name="a", model=ScriptedModel([]), tools=[pay])
        with pytest.raises(DriftError, match="tool:pay"):
            await app.resume(task.task_id, agent)
        assert (await app.store.task(task.task_id)).state == TaskState.PROCESSING


class TestCancel:
    async def test_a_cancelled_run_is_settled_as_cancelled(self, tmp_path: Path) -> None:
        started = anyio.Event()

        @tool(effect="read")
        async def hang() -> str:
            """Hang."""
            started.set()
            await anyio.sleep_forever()
            return ""

        async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
            agent = Agent(model=ScriptedModel([call("hang")]), tools=[hang])
            async with anyio.create_task_group() as group:
                group.start_soon(app.run, agent, "hang")
                await started.wait()
                group.cancel_scope.cancel()
            [task] = await app.store.tasks(TaskQuery())
            assert task.state == TaskState.CANCELLED
            assert await app.store.messages() == []

    async def test_an_unsafe_call_under_way_stays_in_doubt(self) -> None:
        started = anyio.Event()

        @tool
        async def pay() -> str:
            """Pay."""
            started.set()
            await anyio.sleep_forever()
            return ""

        async with Hermes("memory://") as app:
            agent = Agent(model=ScriptedModel([call("pay")]), tools=[pay])
            async with anyio.create_task_group() as group:
                group.start_soon(app.run, agent, "pay")
                await started.wait()
                group.cancel_scope.cancel()
            [task] = await app.store.tasks(TaskQuery())
            kinds = [type(r.event) for r in await app.store.events(task.task_id)]
        assert task.status.error is not None
        assert "pay was running" in task.status.error.message
        assert ToolInDoubt in kinds
        assert TaskSettled in kinds


async def test_the_same_dedupe_key_finds_the_first_run(tmp_path: Path) -> None:
    model = ScriptedModel(["first"])
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        one = await app.run(Agent(model=model), "go", dedupe_key="k")
        two = await app.run(Agent(model=model), "go", dedupe_key="k")
    assert one.task_id == two.task_id
    assert two.output == "first"


@pytest.mark.parametrize("goal", ["", "  \n", "a\x00b", "x" * 1_000_001])
async def test_a_goal_that_cannot_be_worked_on_is_refused(goal: str) -> None:
    with pytest.raises(InputError):
        await Agent(model=ScriptedModel([])).run(goal)
