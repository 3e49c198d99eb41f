"""`hermes replay`: exit 0 where the program decides as before, 1 with what differs."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.shop import RUN, Cli


def test_the_same_program_decides_the_same(cli: Cli) -> None:
    cli("run", "look", *RUN, "--quiet")
    result = cli("replay", "last")
    assert result.code == 0
    assert "the same to its end: 6 decisions" in result.out


def test_a_changed_playbook_is_shown_with_then_and_now(cli: Cli, workdir: Path) -> None:
    cli("run", "look", *RUN, "--quiet")
    rules = workdir / "rules.yaml"
    rules.write_text(rules.read_text(encoding="utf-8").replace("lamp", "desk"), encoding="utf-8")
    result = cli("replay", "last")
    assert result.code == 1
    assert "1 decision the same, then at /turn1/model1 another reply: calls" in result.out
    assert 'then  [{"tool":"look","arguments":{"name":"lamp"}}]' in result.out
    assert 'now   [{"tool":"look","arguments":{"name":"desk"}}]' in result.out
    assert "playbook:look: changed" in result.out


def test_json_is_one_value(cli: Cli) -> None:
    cli("run", "fail", *RUN, "--quiet")
    result = cli("replay", "last", "--json")
    assert (result.code, result.value["same"], result.value["whole"]) == (0, True, True)
    assert (result.value["difference"], result.value["program"]) == (None, [])


def test_another_playbook_may_be_tried_on_the_record(cli: Cli, workdir: Path) -> None:
    cli("run", "look", *RUN, "--quiet")
    (workdir / "other.yaml").write_text("playbook: 1\nname: other\nrules:\n - {name: x, answer: y}")
    result = cli("replay", "last", "--playbook", "other.yaml", "--json")
    assert (result.code, result.value["same"]) == (1, False)


def test_nothing_is_asked_where_a_model_decided(cli: Cli, workdir: Path) -> None:
    """The model's server is down, and its address is not even known."""
    result = cli("run", "hi", "--model", "gone", "--json")
    assert result.code == 2
    (workdir / ".env").write_text("API_BASE=http://127.0.0.1:9/v1\n")
    cli("run", "hi", "--model", "gone", "--quiet")
    (workdir / ".env").unlink()
    result = cli("replay", "last", "--json")
    assert (result.code, result.value["same"]) == (0, True)


def test_without_a_journal_there_is_nothing(cli: Cli) -> None:
    assert cli("replay", "last").code == 2
