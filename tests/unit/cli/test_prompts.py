"""`hermes prompts`: what is sent, and what a user changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes import Agent, Hermes
from hermes.config import Settings
from hermes.core.chat import SystemMessage, UserMessage
from hermes.errors import DriftError
from hermes.loop.prompts import shipped
from hermes.store import TaskQuery
from hermes.testing import ScriptedModel
from tests.unit.cli.shop import Cli

AGENT = 'name = "clerk"\nrole = "a clerk"\ninstructions = "Answer {briefly}."\n'
ZH_AGENT = 'name = "clerk"\nrole = "店员"\ninstructions = "简短回答。"\n'


def override(folder: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = folder / "mine.toml"
    path.write_text(content, encoding="utf-8")
    monkeypatch.setenv("HERMES_PROMPTS", str(path))
    return path


async def system_of(agent: Agent, model: ScriptedModel, goal: str) -> str:
    async with Hermes("memory://") as app:
        await app.run(agent, goal)
    message = model.requests[0].messages[0]
    assert isinstance(message, SystemMessage)
    return message.text


@pytest.mark.parametrize(("content", "language"), [(AGENT, "en"), (ZH_AGENT, "zh")])
async def test_show_prints_what_is_sent(
    cli: Cli, workdir: Path, content: str, language: str
) -> None:
    (workdir / "agent.toml").write_text(content, encoding="utf-8")
    model = ScriptedModel(["done"])
    role = content.split('"')[3]
    agent = Agent(name="clerk", role=role, instructions=content.split('"')[5], model=model)
    sent = await system_of(agent, model, "?")

    import anyio.to_thread

    shown = await anyio.to_thread.run_sync(lambda: cli("prompts", "show", "agent.toml"))
    assert shown.code == 0
    assert shown.out == sent + "\n"
    assert shown.err == f"system prompt {language}, version 1\n"


def test_show_takes_a_language_and_a_goal(cli: Cli) -> None:
    assert cli("prompts", "show").out.startswith("How you work:")
    assert cli("prompts", "show", "--goal", "今天天气怎么样").out.startswith("工作方式：")
    assert cli("prompts", "show", "--language", "zh").out.startswith("工作方式：")
    assert cli("prompts", "show", "--language", "fr").code == 2


def test_show_says_which_parts_are_a_users(
    cli: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = override(workdir, 'answer = "- One line."', monkeypatch)
    shown = cli("prompts", "show")
    assert shown.out.endswith("- One line.\n")
    assert shown.err == f"system prompt en, version 1, with answer from {path}\n"
    found = json.loads(cli("prompts", "show", "--json").out)
    assert (found["version"], found["overridden"]) == (1, ["answer"])
    assert found["text"] + "\n" == shown.out


def test_diff_shows_each_change_and_leaves_with_1(
    cli: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = cli("prompts", "diff")
    assert (none.code, none.out, none.err) == (0, "", "HERMES_PROMPTS is not set\n")
    path = override(workdir, '[en]\nanswer = "- One line."', monkeypatch)
    found = cli("prompts", "diff")
    assert found.code == 1
    assert found.out.splitlines() == [
        "--- en/answer (version 1)",
        f"+++ en/answer ({path})",
        "@@ -1 +1 @@",
        "-- Answer in prose, in the language of the request.",
        "+- One line.",
    ]
    assert cli("prompts", "diff", "--language", "zh").code == 0
    [part] = json.loads(cli("prompts", "diff", "--json").out)
    assert (part["part"], part["yours"]) == ("answer", "- One line.")


def test_an_override_that_says_the_same_is_no_change(
    cli: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = json.dumps(shipped("en").parts["answer"])
    override(workdir, f"[en]\nanswer = {same}", monkeypatch)
    assert cli("prompts", "diff").code == 0


def test_a_wrong_override_stops_a_run_before_it_begins(
    cli: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    override(workdir, 'anwser = "x"', monkeypatch)
    for words in (("prompts", "show"), ("prompts", "diff")):
        found = cli(*words)
        assert found.code != 0
        assert "did you mean `answer`?" in found.err


def settings(language: str = "auto", prompts: Path | None = None) -> Settings:
    return Settings.model_validate({"prompt_language": language, "prompts": prompts})


async def broken_off(given: Settings) -> str:
    """A task that has begun and did not end; its id."""
    async with Hermes("sqlite:///a.db", settings=given) as app:
        with pytest.raises(RuntimeError):
            await app.run(Agent(model=ScriptedModel([RuntimeError("dead")])), "weather?")
        [task] = await app.store.tasks(TaskQuery())
    return task.task_id


async def test_a_task_that_goes_on_keeps_its_language(workdir: Path) -> None:
    task_id = await broken_off(settings("zh"))
    model = ScriptedModel(["", "fine"])
    async with Hermes("sqlite:///a.db", settings=settings("en")) as app:
        assert (await app.resume(task_id, Agent(model=model))).status == "succeeded"
    rules, last = model.requests[0].messages[0], model.requests[1].messages[-1]
    assert isinstance(rules, SystemMessage)
    assert rules.text == shipped("zh").rules
    assert isinstance(last, UserMessage)
    assert last.text == shipped("zh").parts["empty_reply"]


async def test_a_task_does_not_go_on_with_a_users_other_texts(workdir: Path) -> None:
    path = workdir / "mine.toml"
    path.write_text('answer = "- One line."')
    task_id = await broken_off(settings(prompts=path))
    path.write_text('answer = "- Two lines."')
    async with Hermes("sqlite:///a.db", settings=settings(prompts=path)) as app:
        with pytest.raises(DriftError, match="prompts: changed"):
            await app.resume(task_id, Agent(model=ScriptedModel([])))
    path.write_text('answer = "- One line."')
    model = ScriptedModel(["fine"])
    async with Hermes("sqlite:///a.db", settings=settings(prompts=path)) as app:
        assert (await app.resume(task_id, Agent(model=model))).output == "fine"


async def test_reminders_of_a_run_speak_its_language(workdir: Path) -> None:
    model = ScriptedModel(["", "好"])
    async with Hermes("memory://", settings=settings()) as app:
        await app.run(Agent(model=model), "今天天气怎么样？")
    last = model.requests[1].messages[-1]
    assert isinstance(last, UserMessage)
    assert last.text == shipped("zh").parts["empty_reply"]


async def test_a_task_keeps_its_language_and_is_replayed_in_it(workdir: Path) -> None:
    model = ScriptedModel(["", "好"])
    async with Hermes("sqlite:///a.db", settings=settings("zh")) as app:
        done = await app.run(Agent(model=model), "weather?")
    async with Hermes("sqlite:///a.db", settings=settings("en")) as app:
        again = await app.replay(done.task_id, Agent(model=ScriptedModel([])))
    assert again.difference is None
    assert again.changes == ()


async def test_a_replay_tells_of_prompts_that_are_not_what_they_were(workdir: Path) -> None:
    path = workdir / "mine.toml"
    path.write_text('answer = "- One line."')
    model = ScriptedModel(["fine"])
    async with Hermes("sqlite:///a.db", settings=settings(prompts=path)) as app:
        done = await app.run(Agent(model=model), "weather?")
        assert (await app.replay(done.task_id, Agent(model=ScriptedModel([])))).changes == ()
    async with Hermes("sqlite:///a.db", settings=settings()) as app:
        again = await app.replay(done.task_id, Agent(model=ScriptedModel([])))
    assert again.changes == ("prompts: gone",)
