"""R036: ten tasks are paused, the next version is deployed, and the tasks go on or say why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from hermes import Agent, Hermes, Tool, tool
from hermes.agents import Migration
from hermes.core.events import SCHEMA_VERSION
from hermes.core.task import TaskState
from hermes.errors import CodecError, DriftError
from hermes.store import TaskQuery
from hermes.store.driver import connect
from hermes.tools import Question
from tests.unit.agents.broken import break_off

TASKS = 10
STEPS = ("look", "ask", "pay", "tell")
ANSWER = "{{ paid }}"


@tool(effect="read")
async def ask() -> Question:
    """Ask a person."""
    return Question(text="May I?")


@dataclass(frozen=True)
class Version:
    """One state of the program: a playbook, its tools, and what its author declares."""

    number: str
    steps: Sequence[str] = STEPS
    arguments: str = "who: '{{ goal }}'"
    migrations: Sequence[Migration] = ()
    done: list[str] = field(default_factory=list[str])

    def deploy(self, folder: Path) -> Agent:
        path = folder / "rules.yaml"
        steps = "\n".join(f"      - {self.step(name)}" for name in self.steps)
        path.write_text(
            f"playbook: 1\nname: shop\nrules:\n  - name: buy\n    steps:\n{steps}\n"
            f'    answer: "{ANSWER}"\n'
        )
        return Agent(
            name="shop",
            version=self.number,
            model=f"playbook:{path}",
            tools=[self.tool(name) for name in self.steps],
            migrations=self.migrations,
        )

    def step(self, name: str) -> str:
        if name in ("pay", "charge"):
            return f"{{call: {name}, with: {{{self.arguments}}}, as: paid}}"
        return f"{{call: {name}}}"

    def tool(self, name: str) -> Tool:
        if name == "ask":
            return ask

        @tool(name=name, effect="unsafe")
        async def run(who: str = "", where: str = "") -> str:
            """Do it."""
            self.done.append(f"{name} {who} {where}".strip())
            return f"{name} {who} {where}".strip()

        return run


def step(**changes: object) -> Migration:
    return replace(Migration(from_version="1", to_version="2"), **changes)


CASES = {
    "a step inserted": (
        Version(number="2", steps=("look", "ask", "check", "pay", "tell")),
        step(),
        ["playbook.steps: then 'look, ask, pay, tell', now 'look, ask, check, pay, tell'"],
        ["check", "pay {}", "tell"],
        "pay {}",
    ),
    "a step renamed": (
        Version(number="2", steps=("look", "ask", "charge", "tell")),
        step(rename_tools={"pay": "charge"}),
        ["tool:pay: gone", "playbook:pay: gone", "playbook:charge: new"],
        ["charge {}", "tell"],
        "charge {}",
    ),
    "the step that waits renamed after the one before it": (
        Version(number="2", steps=("view", "ask", "pay", "tell")),
        step(rename_tools={"look": "view"}),
        ["tool:look: gone", "playbook:look: gone", "playbook:view: new"],
        ["pay {}", "tell"],
        "pay {}",
    ),
    "a variable needed": (
        Version(number="2", arguments="who: '{{ goal }}', where: '{{ vars.region }}'"),
        step(variables={"region": "eu"}),
        ["playbook:pay: changed", "playbook.variables: new, now 'region'"],
        ["pay {} eu", "tell"],
        "pay {} eu",
    ),
    "a step and its tool removed": (
        Version(number="2", steps=("ask", "pay")),
        step(remove_tools=("look", "tell")),
        ["tool:look: gone", "tool:tell: gone", "playbook:tell: gone"],
        ["pay {}"],
        "pay {}",
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def pause(folder: Path) -> list[str]:
    """Ten tasks of version 1 that wait for a person."""
    agent = Version(number="1").deploy(folder)
    async with Hermes(f"sqlite:///{folder}/j.db") as app:
        for number in range(TASKS):
            assert (await app.run(agent, f"task{number}")).status == "waiting"
    return await all_tasks(folder)


async def all_tasks(folder: Path) -> list[str]:
    async with Hermes(f"sqlite:///{folder}/j.db") as app:
        found = await app.store.tasks(TaskQuery(limit=100))
    return [task.task_id for task in reversed(found)]


async def answer(app: Hermes) -> None:
    for review in await app.store.reviews():
        await app.store.decide(review.review_id, "answer", answer="yes", by="me")


async def test_by_a_declared_migration_each_goes_on_at_the_right_step(
    tmp_path: Path, case: str
) -> None:
    version, migration, _, made, output = CASES[case]
    tasks = await pause(tmp_path)
    version = replace(version, migrations=[migration], done=[])
    agent = version.deploy(tmp_path)
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        await answer(app)
        for number, task in enumerate(tasks):
            version.done.clear()
            response = await app.resume(task, agent)
            goal = f"task{number}"
            assert (response.status, response.output) == ("succeeded", output.format(goal))
            assert version.done == [line.format(goal) for line in made]


async def test_without_one_each_stops_and_names_what_differs(tmp_path: Path, case: str) -> None:
    version, _, lines, _, _ = CASES[case]
    tasks = await pause(tmp_path)
    version = replace(version, done=[])
    agent = version.deploy(tmp_path)
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        await answer(app)
        for task in tasks:
            with pytest.raises(DriftError) as caught:
                await app.resume(task, agent)
            for line in ["version: then '1', now '2'", *lines]:
                assert line in str(caught.value)
    assert version.done == []
    before = Version(number="1", done=[])
    agent = before.deploy(tmp_path)
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        for task in tasks:
            assert (await app.resume(task, agent)).status == "succeeded"
    assert len(before.done) == 2 * TASKS


async def test_what_broke_off_goes_on_as_well(tmp_path: Path, case: str) -> None:
    version, migration, lines, _, output = CASES[case]
    version = replace(version, migrations=[migration], done=[])
    task = await break_off(
        tmp_path / "j.db", Version(number="1").deploy(tmp_path), at="tool.returned", goal="task0"
    )
    undeclared = replace(version, migrations=()).deploy(tmp_path)
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        with pytest.raises(DriftError) as caught:
            await app.resume(task, undeclared)
        assert all(line in str(caught.value) for line in lines)
        agent = version.deploy(tmp_path)
        assert (await app.resume(task, agent)).status == "waiting"
        await answer(app)
        assert (await app.resume(task, agent)).output == output.format("task0")
    assert "look" not in version.done


async def test_a_worker_puts_what_differs_before_a_person(tmp_path: Path) -> None:
    version, migration, *_ = CASES["a step renamed"]
    tasks = await pause(tmp_path)
    agent = replace(version, done=[]).deploy(tmp_path)

    async def is_over() -> bool:
        return True

    async with Hermes(f"sqlite:///{tmp_path}/j.db", agents=[agent]) as app:
        await answer(app)
        await app.worker().run(is_over)
        reviews = await app.store.reviews()
        assert sorted(review.task_id for review in reviews) == sorted(tasks)
        for review in reviews:
            assert review.reason == "dead_letter"
            assert "tool:pay: gone" in review.text + str(review.data)
    agent = replace(version, migrations=[migration], done=[]).deploy(tmp_path)
    async with Hermes(f"sqlite:///{tmp_path}/j.db", agents=[agent]) as app:
        for review in reviews:
            await app.store.decide(review.review_id, "retry", by="me")
        await app.worker().run(is_over)
        for task in tasks:
            assert (await app.store.task(task)).state == TaskState.SUCCEEDED


async def test_a_person_may_accept_what_differs(tmp_path: Path) -> None:
    version, *_ = CASES["a step inserted"]
    tasks = await pause(tmp_path)
    version = replace(version, done=[])
    agent = version.deploy(tmp_path)
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        await answer(app)
        for task in tasks:
            response = await app.resume(task, agent, accept_changes=True)
            assert response.status == "succeeded"
    assert version.done.count("check") == TASKS


async def test_a_person_may_accept_what_a_worker_put_before_them(tmp_path: Path) -> None:
    version, *_ = CASES["a step inserted"]
    task, *_ = await pause(tmp_path)
    version = replace(version, done=[])
    agent = version.deploy(tmp_path)

    async def is_over() -> bool:
        return True

    async with Hermes(f"sqlite:///{tmp_path}/j.db", agents=[agent]) as app:
        await answer(app)
        await app.worker().run(is_over)
        response = await app.resume(task, agent, accept_changes=True)
        assert (response.status, version.done[0]) == ("succeeded", "check")
        assert task not in [review.task_id for review in await app.store.reviews()]


async def test_the_version_before_does_not_go_on_with_tasks_of_the_next(tmp_path: Path) -> None:
    version, migration, *_ = CASES["a step inserted"]
    task = await break_off(
        tmp_path / "j.db", Version(number="1").deploy(tmp_path), at="tool.returned"
    )
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        agent = replace(version, migrations=[migration], done=[]).deploy(tmp_path)
        assert (await app.resume(task, agent)).status == "waiting"
        await answer(app)
        with pytest.raises(DriftError, match="version: then '2', now '1'"):
            await app.resume(task, Version(number="1").deploy(tmp_path))


async def test_older_code_refuses_newer_data(tmp_path: Path) -> None:
    [task, *_] = await pause(tmp_path)
    journal = connect(f"{tmp_path}/j.db")
    journal.execute(
        "UPDATE event SET version = ? WHERE type = 'task.waiting'", (SCHEMA_VERSION + 1,)
    )
    journal.close()
    agent = Version(number="1", done=[]).deploy(tmp_path)
    async with Hermes(f"sqlite:///{tmp_path}/j.db") as app:
        await answer(app)
        with pytest.raises(CodecError, match="upgrade Hermes"):
            await app.resume(task, agent)
