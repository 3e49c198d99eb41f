"""A declared migration takes tasks of an older version over, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes import Agent, Hermes, Tool, tool
from hermes.agents import Migration, load_agent
from hermes.agents.migrations import lineage
from hermes.app import RunOptions
from hermes.core.chat import AssistantMessage, ToolMessage
from hermes.core.events import TaskResumed, ToolFailed, ToolReturned, ToolStarted, VariableSet
from hermes.errors import ConfigError, DriftError
from hermes.testing import ScriptedModel, call, calls
from tests.unit.agents.broken import Bomb, Crash, break_off, events, named, playbook, scripted


def move(then: str, now: str, **renames: str) -> Migration:
    return Migration(from_version=then, to_version=now, rename_tools=renames)


class TestLineage:
    def test_migrations_are_followed_one_after_the_other(self) -> None:
        found = lineage([move("2", "3"), move("1", "2")], "1", "3")
        assert found is not None
        assert str(found) == "migration 1 → 2 → 3"

    def test_without_a_way_there_is_none(self) -> None:
        assert lineage([move("1", "2")], "1", "3") is None
        assert lineage([move("1", "2"), move("2", "1")], "1", "3") is None

    def test_a_tool_renamed_twice_is_found_by_each_former_name(self) -> None:
        found = lineage([move("1", "2", a="b"), move("2", "3", b="c")], "1", "3")
        assert found is not None
        assert found.renames == {"a": "c", "b": "c"}

    def test_a_tool_renamed_back_has_its_name(self) -> None:
        found = lineage([move("1", "2", a="b"), move("2", "3", b="a")], "1", "3")
        assert found is not None
        assert found.renames == {"b": "a"}


class TestFile:
    def test_an_agent_file_declares_version_and_migrations(self, tmp_path: Path) -> None:
        (tmp_path / "agent.toml").write_text(
            'name = "a"\nversion = "2"\n[[migrations]]\nfrom = "1"\nto = "2"\n'
            'rename_tools = {old = "new"}\nremove_tools = ["x"]\nvariables = {region = "eu"}\n'
        )
        agent = load_agent(tmp_path / "agent.toml")
        assert agent.version == "2"
        assert agent.migrations == (
            Migration(
                from_version="1",
                to_version="2",
                rename_tools={"old": "new"},
                remove_tools=("x",),
                variables={"region": "eu"},
            ),
        )

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ('form = "1"\nto = "2"', "`migrations.0.form`; did you mean `from`"),
            ('from = "1"\nto = "1"', "from version '1' to itself"),
            (
                'from = "1"\nto = "2"\n[[migrations]]\nfrom = "1"\nto = "3"',
                "two migrations begin at version '1'",
            ),
        ],
    )
    def test_a_wrong_one_is_refused(self, tmp_path: Path, text: str, words: str) -> None:
        (tmp_path / "agent.toml").write_text(f'name = "a"\n[[migrations]]\n{text}\n')
        with pytest.raises(ConfigError, match=words):
            load_agent(tmp_path / "agent.toml")


async def test_a_migration_accepts_what_differs_and_says_so(tmp_path: Path) -> None:
    old = Agent(instructions="A", version="1", model=scripted(call("nothing")))
    task = await break_off(tmp_path / "j.db", old, at="tool.failed")
    new = Agent(
        instructions="B",
        version="2",
        model=scripted("ok"),
        migrations=[Migration(from_version="1", to_version="2", variables={"region": "eu"})],
    )
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        assert (await app.resume(task, new)).status == "succeeded"
    found = await events(tmp_path / "j.db", task)
    [resumed] = [event for event in found if isinstance(event, TaskResumed)]
    assert resumed.by == "migration 1 → 2"
    assert [line.partition(":")[0] for line in resumed.accepted] == ["prompt", "version"]
    assert [(e.name, e.value) for e in found if isinstance(e, VariableSet)] == [("region", "eu")]


async def test_a_version_without_a_migration_stops(tmp_path: Path) -> None:
    task = await break_off(
        tmp_path / "j.db",
        Agent(version="1", model=scripted(call("nothing"))),
        at="tool.failed",
    )
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        new = Agent(version="3", model=scripted(), migrations=[move("1", "2")])
        with pytest.raises(DriftError, match="version: then '1', now '3'") as caught:
            await app.resume(task, new)
    assert "declare a migration from version '1' to '3'" in str(caught.value)


async def test_a_variable_that_the_task_has_is_left_alone(tmp_path: Path) -> None:
    old = Agent(version="1", model=scripted(call("nothing")))
    task = await break_off(tmp_path / "j.db", old, at="tool.failed", region="us")
    migration = Migration(from_version="1", to_version="2", variables={"region": "eu"})
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        new = Agent(version="2", model=scripted("ok"), migrations=[migration])
        assert (await app.resume(task, new)).status == "succeeded"
    found = await events(tmp_path / "j.db", task)
    assert not [event for event in found if isinstance(event, VariableSet)]


async def test_a_tool_that_the_migration_forgets_stops(tmp_path: Path) -> None:
    done: list[str] = []
    old = Agent(
        version="1",
        model=scripted(call("nothing")),
        tools=[named("kept", done), named("said", done), named("forgotten", done)],
    )
    task = await break_off(tmp_path / "j.db", old, at="tool.failed")
    migration = Migration(from_version="1", to_version="2", remove_tools=("said",))
    new = Agent(
        version="2", model=scripted("ok"), tools=[named("kept", done)], migrations=[migration]
    )
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        with pytest.raises(DriftError) as caught:
            await app.resume(task, new)
    assert caught.value.differences == ("tool:forgotten: gone",)


async def test_an_open_call_goes_on_with_the_renamed_tool(tmp_path: Path) -> None:
    done: list[str] = []
    old = Agent(version="1", model=scripted(call("look", what="x")), tools=[named("look", done)])
    task = await break_off(tmp_path / "j.db", old, at="tool.started")
    model = ScriptedModel(["ok"])
    new = Agent(
        version="2",
        model=model,
        tools=[named("watch", done)],
        required_tools=["watch"],
        migrations=[move("1", "2", look="watch")],
    )
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        assert (await app.resume(task, new)).status == "succeeded"
    assert done == ["watch x"]
    found = await events(tmp_path / "j.db", task)
    assert [e.name for e in found if isinstance(e, ToolStarted | ToolReturned)] == ["look", "look"]
    # The model knows the tool by its present name alone.
    [_, _, asked, result] = model.requests[0].messages
    assert isinstance(asked, AssistantMessage)
    assert isinstance(result, ToolMessage)
    assert ([one.name for one in asked.calls], result.name) == (["watch"], "watch")
    assert [spec.name for spec in model.requests[0].tools].count("look") == 0


async def test_a_required_tool_that_succeeded_under_its_former_name_has(tmp_path: Path) -> None:
    done: list[str] = []
    old = Agent(version="1", model=scripted(call("look")), tools=[named("look", done)])
    task = await break_off(tmp_path / "j.db", old, at="tool.returned")
    new = Agent(
        version="2",
        model=scripted("ok"),
        tools=[named("watch", done)],
        required_tools=["watch"],
        migrations=[move("1", "2", look="watch")],
    )
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        assert (await app.resume(task, new)).status == "succeeded"
    assert done == ["look"]


async def test_an_open_call_of_a_removed_tool_is_refused(tmp_path: Path) -> None:
    done: list[str] = []
    old = Agent(
        version="1",
        model=scripted(calls(call("look"), call("pay"))),
        tools=[named("look", done), named("pay", done, effect="unsafe")],
    )
    task = await break_off(tmp_path / "j.db", old, at="tool.started")
    migration = Migration(from_version="1", to_version="2", remove_tools=("look", "pay"))
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        new = Agent(version="2", model=scripted("ok"), migrations=[migration])
        assert (await app.resume(task, new)).status == "succeeded"
    assert done == []
    found = await events(tmp_path / "j.db", task)
    refused = [(e.path, e.error.code) for e in found if isinstance(e, ToolFailed)]
    assert refused == [("/turn1/tool1", "removed"), ("/turn1/tool2", "removed")]


@pytest.mark.parametrize(
    ("steps", "migration", "made"),
    [
        pytest.param(
            "[{call: a}, {call: b}, {call: n}]",
            Migration(from_version="1", to_version="2"),
            ["a", "b", "n"],
            id="a step inserted after",
        ),
        pytest.param(
            "[{call: n}, {call: a}, {call: b}]",
            Migration(from_version="1", to_version="2"),
            ["a", "b"],
            id="a step inserted before",
        ),
        pytest.param(
            "[{call: n}, {call: b}]",
            move("1", "2", a="n"),
            ["a", "b"],
            id="the made step renamed",
        ),
        pytest.param(
            "[{call: a}, {call: n}]",
            move("1", "2", b="n"),
            ["a", "n"],
            id="the next step renamed",
        ),
        pytest.param(
            "[{call: b}]",
            Migration(from_version="1", to_version="2", remove_tools=("a",)),
            ["a", "b"],
            id="the made step removed",
        ),
        pytest.param(
            "[{call: a}]",
            Migration(from_version="1", to_version="2", remove_tools=("b",)),
            ["a"],
            id="the next step removed",
        ),
        pytest.param(
            "[{call: a}, {call: b, with: {what: '{{ vars.region }}'}}]",
            Migration(from_version="1", to_version="2", variables={"region": "eu"}),
            ["a", "b eu"],
            id="a variable needed",
        ),
    ],
)
async def test_a_playbook_goes_on_at_the_right_step(
    tmp_path: Path, steps: str, migration: Migration, made: list[str]
) -> None:
    done: list[str] = []
    book = playbook(tmp_path, "[{call: a}, {call: b}]")
    old = Agent(version="1", model=book, tools=[named("a", done), named("b", done)])
    task = await break_off(tmp_path / "j.db", old, at="tool.returned")
    playbook(tmp_path, steps)
    present = {name for name in "abn" if f"call: {name}" in steps}
    new = Agent(
        version="2",
        model=book,
        tools=[named(name, done) for name in sorted(present)],
        migrations=[migration],
    )
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        assert (await app.resume(task, new)).output == "ok"
    assert done == made


async def test_a_former_name_holds_for_every_later_resume(tmp_path: Path) -> None:
    """The renamed step was made in version 1; the second resume is one of version 2 alone."""
    done: list[str] = []
    book = playbook(tmp_path, "[{call: a}, {call: b}, {call: c}]")
    tools = [named(name, done) for name in "abc"]
    task = await break_off(
        tmp_path / "j.db", Agent(version="1", model=book, tools=tools), at="tool.returned"
    )
    playbook(tmp_path, "[{call: n}, {call: b}, {call: c}]")

    new = Agent(
        version="2",
        model=book,
        tools=[named("n", done), named("b", done), named("c", done)],
        migrations=[move("1", "2", a="n")],
    )
    with pytest.raises((Crash, BaseExceptionGroup)):
        async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
            await app.resume(task, new, options=RunOptions(observers=[Bomb("tool.returned")]))
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        assert (await app.resume(task, new)).output == "ok"
    assert done == ["a", "b", "c"]


async def test_a_deed_done_under_a_former_name_is_not_done_again(tmp_path: Path) -> None:
    done: list[str] = []

    def keyed(name: str) -> Tool:
        @tool(name=name, effect="unsafe", key=lambda arguments: "invoice 7")
        async def run(what: str = "") -> str:
            """Pay."""
            done.append(f"{name} {what}")
            return "paid"

        return run

    old = Agent(version="1", model=scripted(call("pay", what="a")), tools=[keyed("pay")])
    task = await break_off(tmp_path / "j.db", old, at="tool.returned")
    new = Agent(
        version="2",
        model=scripted(call("charge", what="b"), "ok"),
        tools=[keyed("charge")],
        migrations=[move("1", "2", pay="charge")],
    )
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        assert (await app.resume(task, new)).status == "succeeded"
    assert done == ["pay a"]
