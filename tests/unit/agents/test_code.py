"""A changed program is told from the one of the record, and only a person lets it go on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes import Agent, Hermes, tool
from hermes.agents.code import drifts, manifest
from hermes.agents.definition import AgentDefinition
from hermes.core.events import TaskResumed, TaskStarted, ToolFailed, ToolInDoubt
from hermes.errors import DriftError
from hermes.models import open_model
from hermes.store.driver import connect
from hermes.testing import ScriptedModel, call
from tests.unit.agents.broken import break_off, events, named, playbook, scripted


def code(agent: AgentDefinition, model: str = "m", goal: str = "go") -> dict[str, str]:
    opened = open_model(model) if model.startswith("playbook:") else model
    return manifest(agent, agent.registry(()), opened, goal=goal)


def test_a_manifest_names_every_part_that_a_run_depends_on() -> None:
    agent = AgentDefinition(
        instructions="Pay.",
        tools=(named("pay", []),),
        output_schema={"type": "object"},
        required_tools=("pay",),
        version="3",
    )
    found = code(agent)
    assert set(found) == {
        "prompt",
        "rules",
        "model",
        "version",
        "output_schema",
        "required_tools",
        "tool:pay",
    }
    assert (found["model"], found["version"], found["required_tools"]) == ("m", "3", "pay")


THEN = {"prompt": "0" * 16, "rules": "1" * 16, "model": "m", "tool:pay": "2" * 16}


@pytest.mark.parametrize(
    ("now", "lines"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({"tool:look": "3" * 16}, [], id="a tool more"),
        pytest.param({"rules": "4" * 16}, [], id="other words of Hermes"),
        pytest.param({"model": "n"}, ["model: then 'm', now 'n'"], id="model"),
        pytest.param({"version": "2"}, ["version: new, now '2'"], id="a version"),
        pytest.param(
            {"prompt": "5" * 16},
            ["prompt: changed (then 0000000000000000, now 5555555555555555)"],
            id="prompt",
        ),
        pytest.param({"tool:pay": None}, ["tool:pay: gone"], id="a tool less"),
        pytest.param(
            {"tool:pay": None, "tool:pay_out": "2" * 16},
            ["tool:pay: gone (did you mean `tool:pay_out`?)"],
            id="a tool renamed",
        ),
    ],
)
def test_a_difference_is_named_with_then_and_now(
    now: Mapping[str, str | None], lines: list[str]
) -> None:
    present = {name: value for name, value in {**THEN, **now}.items() if value is not None}
    assert list(map(str, drifts(THEN, present))) == lines


def differences(folder: Path, then: str, now: str, goal: str = "go") -> list[str]:
    """Names of what differs between two sets of rules."""
    found: list[dict[str, str]] = []
    for rules in (then, now):
        (folder / "rules.yaml").write_text(f"playbook: 1\nname: b\nrules:\n{rules}")
        found.append(code(AgentDefinition(), f"playbook:{folder}/rules.yaml", goal))
    return [drift.name for drift in drifts(*found)]


RULE = "  - {name: go, when: {all: [go]}, answer: ok, steps: [{call: a}, {call: b}]}\n"


@pytest.mark.parametrize(
    ("now", "names"),
    [
        pytest.param(
            RULE.replace("[{call: a}", "[{call: a}, {call: c}"),
            ["playbook.steps", "playbook:c"],
            id="inserted",
        ),
        pytest.param(
            RULE.replace("{call: a}, ", ""), ["playbook.steps", "playbook:a"], id="removed"
        ),
        pytest.param(
            RULE.replace("{call: a}", "{call: a, with: {x: 1}}"), ["playbook:a"], id="changed"
        ),
        pytest.param(
            RULE.replace("{call: a}", "{call: a, with: {x: '{{ vars.region }}'}}"),
            ["playbook:a", "playbook.variables"],
            id="a variable more",
        ),
        pytest.param(RULE.replace("answer: ok", "answer: done"), ["playbook.answer"], id="answer"),
        pytest.param(RULE.replace("name: go", "name: gone"), ["playbook.rule"], id="another rule"),
        pytest.param(RULE + "  - {name: else, answer: ok}\n", [], id="a rule of other goals"),
    ],
)
def test_a_changed_playbook_names_the_step(tmp_path: Path, now: str, names: list[str]) -> None:
    assert differences(tmp_path, RULE, now) == names


def as_written_before(path: Path) -> None:
    """Take the manifests out of a journal: version 0.1.0 had none."""
    journal = connect(str(path))
    journal.execute(
        "UPDATE event SET data = CAST(json_remove(CAST(data AS TEXT), '$.code') AS BLOB), "
        "version = 1 WHERE type = 'task.started'"
    )
    journal.close()


class TestResume:
    async def test_a_changed_program_stops_before_anything_is_written(self, tmp_path: Path) -> None:
        done: list[str] = []
        tools = [named("look", done)]
        agent = Agent(instructions="Be quick.", model=scripted(call("look")), tools=tools)
        task = await break_off(tmp_path / "j.db", agent, at="tool.returned")
        before = await events(tmp_path / "j.db", task)
        changed = Agent(instructions="Be slow.", model=scripted("never"), tools=tools)
        async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
            with pytest.raises(DriftError, match="--accept-changes") as caught:
                await app.resume(task, changed)
        assert len(caught.value.differences) == 1
        assert caught.value.differences[0].startswith("prompt: changed (then ")
        assert await events(tmp_path / "j.db", task) == before

    async def test_accepted_changes_are_recorded_and_hold_from_then_on(
        self, tmp_path: Path
    ) -> None:
        done: list[str] = []
        old = Agent(model=scripted(call("look")), tools=[named("look", done), named("x", done)])
        task = await break_off(tmp_path / "j.db", old, at="tool.returned")
        model = ScriptedModel([call("look"), RuntimeError("dead")])
        new = Agent(model=model, tools=[named("look", done)])
        async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
            with pytest.raises(RuntimeError):
                await app.resume(task, new, accept_changes=True)
            response = await app.resume(
                task, Agent(model=scripted("ok"), tools=[named("look", done)])
            )
        assert (response.status, done) == ("succeeded", ["look", "look"])
        first, second = (
            event
            for event in await events(tmp_path / "j.db", task)
            if isinstance(event, TaskResumed)
        )
        assert (first.accepted, first.by) == (("tool:x: gone",), "person")
        assert "tool:x" not in first.code
        assert (second.accepted, second.code) == ((), {})

    async def test_a_tool_more_is_recorded_and_stops_nobody(self, tmp_path: Path) -> None:
        done: list[str] = []
        old = Agent(model=scripted(call("look")), tools=[named("look", done)])
        task = await break_off(tmp_path / "j.db", old, at="tool.returned")
        new = Agent(model=scripted("ok"), tools=[named("look", done), named("more", done)])
        async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
            assert (await app.resume(task, new)).status == "succeeded"
        [resumed] = [e for e in await events(tmp_path / "j.db", task) if isinstance(e, TaskResumed)]
        assert ("tool:more" in resumed.code, resumed.accepted) == (True, ())

    async def test_a_record_without_a_manifest_is_resumed(self, tmp_path: Path) -> None:
        old = Agent(model=scripted(call("look")), tools=[named("look", [])])
        task = await break_off(tmp_path / "j.db", old, at="tool.returned")
        as_written_before(tmp_path / "j.db")
        new = Agent(instructions="Other.", model=scripted("ok"), tools=[named("look", [])])
        async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
            assert (await app.resume(task, new)).status == "succeeded"
        found = await events(tmp_path / "j.db", task)
        assert [e.code for e in found if isinstance(e, TaskStarted)] == [{}]
        assert all(e.code for e in found if isinstance(e, TaskResumed))


class TestOpenCalls:
    async def test_a_call_whose_tool_is_gone_is_refused(self, tmp_path: Path) -> None:
        old = Agent(model=scripted(call("look")), tools=[named("look", [])])
        task = await break_off(tmp_path / "j.db", old, at="tool.started")
        async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
            new = Agent(model=scripted("ok"))
            assert (await app.resume(task, new, accept_changes=True)).status == "succeeded"
        [failed] = [e for e in await events(tmp_path / "j.db", task) if isinstance(e, ToolFailed)]
        assert (failed.path, failed.status, failed.error.code) == (
            "/turn1/tool1",
            "refused",
            "removed",
        )
        assert "'look' was removed" in failed.error.message

    async def test_a_call_whose_arguments_no_longer_fit_is_refused(self, tmp_path: Path) -> None:
        old = Agent(model=scripted(call("look", what="x")), tools=[named("look", [])])
        task = await break_off(tmp_path / "j.db", old, at="tool.started")

        @tool(effect="read")
        async def look(number: int) -> str:
            """Look."""
            return "seen"

        async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
            new = Agent(model=scripted("ok"), tools=[look])
            assert (await app.resume(task, new, accept_changes=True)).status == "succeeded"
        [failed] = [e for e in await events(tmp_path / "j.db", task) if isinstance(e, ToolFailed)]
        assert (failed.error.code, "`number`" in failed.error.message) == ("removed", True)

    @pytest.mark.parametrize(("decision", "kind"), [("done", None), ("again", "removed")])
    async def test_an_unsafe_call_stays_in_doubt_though_its_tool_is_gone(
        self, tmp_path: Path, decision: str, kind: str | None
    ) -> None:
        done: list[str] = []
        old = Agent(model=scripted(call("pay")), tools=[named("pay", done, effect="unsafe")])
        task = await break_off(tmp_path / "j.db", old, at="tool.started")
        async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
            waiting = await app.resume(task, Agent(model=scripted()), accept_changes=True)
            assert [item.kind for item in waiting.pending] == ["in_doubt"]
            response = await app.resume(
                task,
                Agent(model=scripted("ok")),
                decision=decision,  # pyright: ignore[reportArgumentType]  # one of the two words
            )
        assert (response.status, done) == ("succeeded", [])
        found = await events(tmp_path / "j.db", task)
        assert sum(isinstance(event, ToolInDoubt) for event in found) == 1
        failed = [event.error.code for event in found if isinstance(event, ToolFailed)]
        assert failed == ([kind] if kind else [])


class TestPlaybook:
    async def test_a_step_more_before_the_present_one_is_not_made(self, tmp_path: Path) -> None:
        done: list[str] = []
        tools = [named(name, done) for name in ("a", "b", "c")]
        book = playbook(tmp_path, "[{call: a}, {call: b}]")
        task = await break_off(
            tmp_path / "j.db", Agent(model=book, tools=tools), at="tool.returned"
        )
        playbook(tmp_path, "[{call: c}, {call: a}, {call: b}]")
        async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
            agent = Agent(model=book, tools=tools)
            with pytest.raises(DriftError, match=r"playbook.steps: then 'a, b', now 'c, a, b'"):
                await app.resume(task, agent)
            response = await app.resume(task, agent, accept_changes=True)
        assert (response.output, done) == ("ok", ["a", "b"])

    async def test_a_step_that_is_gone_is_passed_over(self, tmp_path: Path) -> None:
        done: list[str] = []
        tools = [named(name, done) for name in ("a", "b", "c")]
        book = playbook(tmp_path, "[{call: a}, {call: b}, {call: c}]")
        agent = Agent(model=book, tools=tools)
        task = await break_off(tmp_path / "j.db", agent, at="tool.returned", nth=2)
        playbook(tmp_path, "[{call: b}, {call: c}]")
        async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
            response = await app.resume(task, Agent(model=book, tools=tools), accept_changes=True)
        assert (response.output, done) == ("ok", ["a", "b", "c"])
