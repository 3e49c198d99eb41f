"""`hermes resume` after the files have changed."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.shop import RUN, Cli


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def in_doubt(cli: Cli, workdir: Path) -> None:
    """A payment that nobody knows of; then its step gets another argument and its tool a name."""
    assert cli("run", "pay", *RUN, "--quiet").code == 3
    change(workdir / "tools.py", "@tool(timeout_s=0.05)\ndef pay()", "@tool\ndef pay_out()")
    change(workdir / "rules.yaml", "call: pay", "call: pay_out")


def test_what_differs_is_told_and_nothing_is_done(cli: Cli, workdir: Path) -> None:
    in_doubt(cli, workdir)
    before = cli("trace", "last", "--format", "jsonl").out
    result = cli("resume", "last", "--in-doubt", "again", "--json")
    assert result.code == 1
    for line in ("tool:pay: gone (did you mean `tool:pay_out`?)", "playbook:pay_out: new"):
        assert line in result.err
    assert "--accept-changes" in result.err
    error = result.value["error"]
    assert isinstance(error, dict)
    assert error["code"] == "drift"
    assert "task.resumed" not in cli("trace", "last", "--format", "jsonl").out
    assert cli("trace", "last", "--format", "jsonl").out.startswith(before.splitlines()[0])


def test_with_accept_changes_it_goes_on_and_a_new_step_is_made(cli: Cli, workdir: Path) -> None:
    in_doubt(cli, workdir)
    refused = cli("resume", "last", "--in-doubt", "done")
    assert "without a migration that renames its tool, that step is made anew" in refused.err
    result = cli("resume", "last", "--in-doubt", "done", "--accept-changes", "--json")
    assert (result.code, result.value["output"]) == (0, "paid"), result.err
    assert "changed, accepted by person: tool:pay: gone" in result.err


def test_a_playbook_given_on_purpose_is_accepted(cli: Cli, workdir: Path) -> None:
    assert cli("run", "pay", *RUN, "--quiet").code == 3
    rules = (workdir / "rules.yaml").read_text(encoding="utf-8")
    (workdir / "new.yaml").write_text(rules.replace('answer: "{{ x }}"', 'answer: "new {{ x }}"'))
    result = cli("resume", "last", "--in-doubt", "done", "--playbook", "new.yaml", "--json")
    assert result.code == 0
    assert str(result.value["output"]).startswith("new ")
    record = cli("trace", "last", "--format", "jsonl").out
    assert '"by":"the choice of a model"' in record
