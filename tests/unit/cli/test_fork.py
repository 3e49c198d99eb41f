"""`hermes fork`: a new task from a step of another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.shop import RUN, Cli


def test_a_fork_goes_on_and_tells_where_it_comes_from(cli: Cli) -> None:
    first = cli("run", "look", *RUN, "--json").value
    result = cli("fork", "last", "--at", "/turn2", "--json")
    assert (result.code, result.value["output"]) == (0, "saw lamp")
    assert result.value["task_id"] != first["task_id"]
    assert f"goes on from {first['task_id']} at /turn2 with 2 recorded calls" in result.err


def test_a_result_may_be_changed_by_word_or_by_file(cli: Cli, workdir: Path) -> None:
    task = str(cli("run", "look", *RUN, "--json").value["task_id"])
    word = cli("fork", task, "--at", "2", "--edit-result", "/turn1/tool1=saw nothing", "--json")
    assert word.value["output"] == "saw nothing"
    (workdir / "result.txt").write_text("saw 你", encoding="utf-8")
    file = cli("fork", task, "--at", "2", "--edit-result", "turn1/tool1=@result.txt", "--json")
    assert file.value["output"] == "saw 你"


def test_a_value_that_looks_like_json_and_is_none_is_taken_as_text_and_told(cli: Cli) -> None:
    cli("run", "look", *RUN, "--quiet")
    result = cli("fork", "last", "--at", "2", "--edit-result", '/turn1/tool1={"a": 1', "--json")
    assert result.value["output"] == '{"a": 1'
    assert """note: '{"a": 1' is no JSON and taken as text""" in result.err


@pytest.mark.parametrize("words", [("fork", "last", "--at", "1"), ("retry", "last")])
@pytest.mark.parametrize("detach", [(), ("--detach",)])
def test_an_agent_that_cannot_go_on_makes_no_task(
    cli: Cli, workdir: Path, words: tuple[str, ...], detach: tuple[str, ...]
) -> None:
    cli("run", "look", *RUN, "--quiet")
    (workdir / "rules.yaml").write_text("rules: [")
    result = cli(*words, *detach, "--json")
    assert (result.code, "is not YAML" in result.err) == (2, True)
    tasks = cli("tasks", "--json").value["tasks"]
    assert isinstance(tasks, list)
    assert len(tasks) == 1  # pyright: ignore[reportUnknownArgumentType]  # plain JSON


def test_a_file_of_the_record_that_is_gone_is_named_with_a_way_out(cli: Cli, workdir: Path) -> None:
    cli("run", "look", *RUN, "--quiet")
    (workdir / "rules.yaml").rename(workdir / "moved.yaml")
    for words in (("fork", "last", "--at", "1"), ("replay", "last"), ("retry", "last")):
        result = cli(*words)
        assert result.code == 2
        assert "rules.yaml: is gone, and the task was started with it" in result.err
        assert "--playbook FILE" in result.err
    assert cli("replay", "last", "--playbook", "moved.yaml").code == 0


def test_a_task_that_is_not_there_is_told_with_a_next_step(cli: Cli) -> None:
    cli("run", "look", *RUN, "--quiet")
    for wanted in ("zz", "zzzzzz"):
        assert f"no task '{wanted}' (`hermes tasks` lists them)" in cli("replay", wanted).err


def test_a_variable_may_be_set(cli: Cli) -> None:
    cli("run", "look", *RUN, "--quiet")
    result = cli("fork", "last", "--at", "1", "--set", "what=desk", "--json")
    assert result.value["output"] == "saw desk"


def test_another_playbook_goes_on_and_is_kept_with_the_task(cli: Cli, workdir: Path) -> None:
    cli("run", "look", *RUN, "--quiet")
    rules = (workdir / "rules.yaml").read_text(encoding="utf-8")
    (workdir / "new.yaml").write_text(
        rules.replace('answer: "{{ seen }}"', 'answer: "new {{ seen }}"'), encoding="utf-8"
    )
    result = cli("fork", "last", "--at", "2", "--playbook", "new.yaml", "--json")
    assert result.value["output"] == "new saw lamp"
    assert "changed: playbook.answer" in result.err
    assert cli("replay", "last").code == 0


def test_detached_it_is_left_to_a_worker(cli: Cli) -> None:
    cli("run", "look", *RUN, "--quiet")
    made = cli("fork", "last", "--at", "2", "--detach", "--quiet")
    task = made.out.strip()
    assert made.code == 0
    assert cli("show", task, "--json").value["status"] == "processing"
    assert cli("worker", "--once").code == 0
    assert cli("show", task, "--json").value["status"] == "succeeded"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--at", "9"), "no step /turn9"),
        (("--at", "here"), "is no step path"),
        (("--at", "/turn2/compact1"), "/turn2 comes after the summary, /turn1 before it"),
        (("--at", "2", "--set", "x"), "--set takes K=V"),
        (("--at", "2", "--edit-result", "x"), "--edit-result takes PATH=JSON"),
        (("--at", "2", "--edit-result", "/turn1/tool1=@none"), "none cannot be read"),
        (("--at", "2", "--edit-result", "/turn5/tool1=1"), "does not come before"),
    ],
)
def test_a_wrong_wish_makes_no_task(cli: Cli, words: tuple[str, ...], text: str) -> None:
    cli("run", "look", *RUN, "--quiet")
    result = cli("fork", "last", *words)
    assert (result.code, text in result.err) == (2, True), result.err
    tasks = cli("tasks", "--json").value["tasks"]
    assert isinstance(tasks, list)
    assert len(tasks) == 1  # pyright: ignore[reportUnknownArgumentType]  # plain JSON
