"""Tools that do not work: kept from the model, refused, tried by one call, and told of once."""

from __future__ import annotations

import logging
from pathlib import Path

import anyio
import pytest

from hermes import Agent, Hermes, ToolError, tool
from hermes.config import Settings
from hermes.core.budget import Limits
from hermes.core.events import ModelRequested, ToolFailed, ToolStarted
from hermes.models import ModelReply, ModelRequest, open_model
from hermes.testing import FakeClock, ScriptedModel, call, calls
from hermes.tools import Tool
from tests.unit.loop.resilient import COOLDOWN_S, Shift, notices, offered, told
from tests.unit.loop.stage import Stage, staged

UNBOUND = Limits(max_steps=None, max_tool_failures=None)


class Service:
    """What lies outside; down until it is not."""

    def __init__(self) -> None:
        self.is_up, self.asked = False, 0

    def tool(self) -> Tool:
        @tool(effect="read")
        async def look() -> str:
            """Look."""
            self.asked += 1
            await anyio.lowlevel.checkpoint()
            if not self.is_up:
                raise ToolError("down", retryable=True)
            return "seen"

        return look


async def opened(shift: Shift, service: Service) -> None:
    """Have the breaker open, by calls of one run."""
    await shift.run([calls(*[call("look")] * 5), "No."], service.tool(), limits=UNBOUND)
    assert service.asked == 5


async def test_an_open_breaker_hides_the_tool_from_runs_and_each_is_told_once(
    stage: Stage,
) -> None:
    shift, service = Shift(stage), Service()
    await opened(shift, service)

    @tool(effect="read")
    async def other() -> str:
        """Other."""
        return "fine"

    response, model = await shift.run(
        [call("other"), call("other"), "Done."], service.tool(), other
    )
    assert all("look" not in offered(model, n) and "other" in offered(model, n) for n in range(3))
    [notice] = notices(model)
    assert notices(model, 0) == [notice]
    assert "look cannot be called for now: it failed 5 times in a row" in notice
    asked = await stage.events(response.task_id, ModelRequested)
    assert [event.hidden for event in asked] == [("look",)] * 3
    assert [bool(event.notice) for event in asked] == [True, False, False]
    assert [event.history for event in asked] == [len(r.messages) for r in model.requests]


async def test_a_call_of_a_hidden_tool_is_refused_and_never_begun(stage: Stage) -> None:
    shift, service = Shift(stage), Service()
    await opened(shift, service)
    response, model = await shift.run([call("look"), "No."], service.tool())
    [failed] = await stage.events(response.task_id, ToolFailed)
    assert (failed.status, failed.error.code) == ("refused", "unavailable")
    assert "look is not available" in told(model)[0]
    assert await stage.events(response.task_id, ToolStarted) == []
    assert service.asked == 5


async def test_after_the_cool_down_one_probe_brings_it_back_and_the_model_is_told(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    shift, service = Shift(stage), Service()
    caplog.set_level(logging.INFO, "hermes.tool")
    await opened(shift, service)

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        stage.clock.advance(COOLDOWN_S)
        service.is_up = True
        return "waited"

    response, model = await shift.run(
        [call("wait"), call("look"), call("look"), "Seen."], service.tool(), wait
    )
    assert (response.status, service.asked) == ("succeeded", 7)
    assert ["look" in offered(model, n) for n in range(4)] == [False, True, True, True]
    assert [len(notices(model, n)) for n in range(4)] == [1, 2, 2, 2]
    assert "look can be called again" in notices(model)[1]
    fields = [(vars(r).get("hermes", {}), r.levelname) for r in caplog.records]
    conditions = [
        (f["event"], level) for f, level in fields if f.get("tool") == "look" and "task_id" not in f
    ]
    assert conditions == [("tool.broken", "WARNING"), ("tool.works", "INFO")]


async def test_fifty_runs_at_once_let_one_probe_through() -> None:
    async with staged("memory://") as stage:
        shift, service = Shift(stage), Service()
        await opened(shift, service)
        stage.clock.advance(COOLDOWN_S)
        service.is_up = True
        go_on = anyio.Event()
        codes: list[str] = []
        at_work = 0

        @tool(effect="read")
        async def look() -> str:
            """Look."""
            nonlocal at_work
            at_work += 1
            service.asked += 1
            await go_on.wait()
            return "seen"

        assert look.fingerprint == service.tool().fingerprint

        async def one() -> None:
            response, _ = await shift.run([call("look"), "Done."], look)
            failed = await stage.events(response.task_id, ToolFailed)
            codes.extend(event.error.code for event in failed)

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(one)
            await anyio.wait_all_tasks_blocked()
            assert at_work == 1
            go_on.set()
        assert codes == ["unavailable"] * 49
        response, _ = await shift.run([call("look"), "Done."], look)
        assert (response.status, at_work) == ("succeeded", 2)


async def test_a_refusal_says_when_the_tool_is_tried_again(stage: Stage) -> None:
    shift, service = Shift(stage), Service()
    await opened(shift, service)
    stage.clock.advance(10)
    fault = shift.guard.refusal(service.tool())
    assert fault is not None
    assert (fault.code, fault.retryable) == ("unavailable", True)
    assert "look is not available: it failed 5 times in a row; nothing was run" in fault.message
    assert "it is tried again in 20 s" in fault.hint


async def test_a_call_after_the_one_that_opened_it_is_not_begun(stage: Stage) -> None:
    shift = Shift(stage)

    @tool
    async def send() -> str:
        """Send."""
        raise ToolError("down", retryable=True)

    seven = calls(*[call("send")] * 7)
    response, _ = await shift.run([seven, "No."], send, limits=UNBOUND)
    assert len(await stage.events(response.task_id, ToolStarted)) == 5
    failed = await stage.events(response.task_id, ToolFailed)
    assert [event.error.code for event in failed] == ["failed"] * 5 + ["unavailable"] * 2


async def test_runs_of_one_application_share_what_is_known() -> None:
    service = Service()

    def agent(model: ScriptedModel) -> Agent:
        return Agent(model=model, tools=[service.tool()], limits=UNBOUND)

    async with Hermes("memory://", clock=FakeClock()) as app:
        await app.run(agent(ScriptedModel([calls(*[call("look")] * 5), "No."])), "go")
        second = ScriptedModel(["No."])
        await app.run(agent(second), "go")
    assert "look" not in offered(second)


async def test_the_settings_say_when_a_tool_counts_as_broken() -> None:
    service, clock = Service(), FakeClock()
    settings = Settings.model_validate({"breaker_failures": 2, "breaker_cooldown_s": 5})
    script = [call("look"), call("look"), call("look"), "No."]
    model = ScriptedModel(script)
    async with Hermes("memory://", clock=clock, settings=settings) as app:
        await app.run(Agent(model=model, tools=[service.tool()], limits=UNBOUND), "go")
        assert service.asked == 2
        clock.advance(5)
        third = ScriptedModel(["No."])
        await app.run(Agent(model=third, tools=[service.tool()]), "go")
    assert "look" in offered(third)


async def test_failures_of_arguments_and_of_business_open_nothing(stage: Stage) -> None:
    shift = Shift(stage)

    @tool(effect="read")
    async def look(number: int) -> str:
        """Look."""
        raise ToolError("no such number")

    wrong = [call("look", number="x")] * 6
    right = [call("look", number=1)] * 6
    await shift.run([*wrong, *right, "No."], look, limits=UNBOUND)
    assert shift.guard.refusal(look) is None


async def test_answers_that_do_not_come_in_time_open_it(stage: Stage) -> None:
    shift = Shift(stage)

    @tool(effect="read", timeout_s=0.001)
    async def look() -> str:
        """Look."""
        await anyio.sleep_forever()
        return ""

    await shift.run([calls(*[call("look")] * 5), "No."], look)
    assert shift.guard.refusal(look) is not None


async def test_calls_that_got_less_than_their_time_say_nothing_of_the_tool(stage: Stage) -> None:
    shift = Shift(stage)

    @tool(effect="read", timeout_s=60)
    async def look() -> str:
        """Look."""
        await anyio.sleep_forever()
        return ""

    short = Limits(max_seconds=0.001)
    for _ in range(6):
        await shift.run([call("look"), "No."], look, limits=short)
    assert shift.guard.refusal(look) is None


async def test_a_cancelled_run_is_no_failure_of_its_tool(stage: Stage) -> None:
    shift = Shift(stage)
    began = anyio.Event()

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        began.set()
        await anyio.sleep_forever()
        return ""

    for _ in range(6):
        began = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(shift.run, [call("look"), "No."], look)
            await began.wait()
            group.cancel_scope.cancel()
    assert shift.guard.refusal(look) is None


async def test_an_unsafe_call_without_an_answer_counts_as_well(stage: Stage) -> None:
    shift = Shift(stage)

    @tool
    async def pay() -> str:
        """Pay."""
        raise TimeoutError

    for _ in range(5):
        response, _ = await shift.run([call("pay"), "No."], pay)
        assert response.status == "waiting"  # in doubt: a person is asked
    assert shift.guard.refusal(pay) is not None


async def test_a_health_check_hides_a_tool_until_it_is_well(stage: Stage) -> None:
    shift, well = Shift(stage), [False]

    @tool(effect="read", health=lambda: well[0] or "the disk is full")
    async def save() -> str:
        """Save."""
        return "saved"

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        stage.clock.advance(30)
        well[0] = True
        return "waited"

    _, model = await shift.run([call("wait"), call("save"), "Done."], save, wait)
    assert ["save" in offered(model, n) for n in range(3)] == [False, True, True]
    assert "save cannot be called for now: the disk is full" in notices(model)[0]
    assert told(model) == ["waited", "saved"]


async def test_a_run_that_is_resumed_offers_what_the_intent_says(stage: Stage) -> None:
    shift, service = Shift(stage), Service()
    await opened(shift, service)

    class Death(BaseException):
        pass

    class Dead(ScriptedModel):
        async def reply(self, request: ModelRequest) -> ModelReply:
            raise Death

    task_id = await stage.submit()
    with pytest.raises(Death):
        await shift.carry(task_id, Dead([]), service.tool())
    await stage.crash()
    again, model = Shift(stage), ScriptedModel(["Done."])
    await again.carry(task_id, model, service.tool())
    assert "look" not in offered(model)
    assert len(notices(model)) == 1


async def test_a_program_is_not_kept_from_its_tools_but_refused(
    stage: Stage, tmp_path: Path
) -> None:
    shift, service = Shift(stage), Service()
    await opened(shift, service)
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "playbook: 1\nname: p\nrules:\n"
        "  - name: all\n    when: {any: [go]}\n"
        "    steps:\n      - {call: look, as: found, on_error: continue}\n"
        "    answer: '{{ found.error.code }}'\n"
    )
    response, _ = await shift.run([], service.tool(), model=open_model(f"playbook:{rules}"))
    assert response.output == "unavailable"


async def test_a_replay_has_no_breaker_of_its_own() -> None:
    clock, service = FakeClock(), Service()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        clock.advance(5)  # less than a lease
        return "waited"

    def agent(model: ScriptedModel) -> Agent:
        return Agent(name="a", model=model, tools=[service.tool(), wait], limits=UNBOUND)

    settings = Settings.model_validate({"breaker_cooldown_s": 5})
    async with Hermes("memory://", clock=clock, settings=settings) as app:
        script = [calls(*[call("look")] * 5), call("wait"), call("look"), "No."]
        response = await app.run(agent(ScriptedModel(script)), "go")
        assert service.asked == 6
        replayed = await app.replay(response.task_id, agent(ScriptedModel([])))
    assert (replayed.difference, replayed.is_whole) == (None, True)


@pytest.mark.parametrize("broken", ["hidden", "half way"])
async def test_a_replay_offers_and_tells_what_the_record_says(broken: str) -> None:
    clock = FakeClock()
    service = Service()

    @tool(effect="read", health=lambda: "it is down" if broken == "hidden" else True)
    async def save() -> str:
        """Save."""
        return "saved"

    def agent(model: ScriptedModel) -> Agent:
        return Agent(
            name="a", model=model, tools=[service.tool(), save], limits=Limits(max_tool_failures=9)
        )

    async with Hermes("memory://", clock=clock) as app:
        script = [calls(*[call("look")] * 6), call("save"), call("look"), "Done."]
        response = await app.run(agent(ScriptedModel(script)), "go")
        replayed = await app.replay(response.task_id, agent(ScriptedModel([])))
    assert (replayed.difference, replayed.is_whole) == (None, True)
