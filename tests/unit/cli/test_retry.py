"""`hermes retry`: a settled task once more."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.shop import RUN, Cli


def repair(workdir: Path) -> None:
    tools = workdir / "tools.py"
    broken = 'raise ValueError("the shelf is empty")'
    tools.write_text(tools.read_text().replace(broken, 'return "full"'))


def test_a_failed_task_is_tried_again_from_its_beginning(cli: Cli, workdir: Path) -> None:
    first = cli("run", "fail", *RUN, "--json")
    assert first.code == 1
    repair(workdir)
    result = cli("retry", "last", "--json")
    assert (result.code, result.value["output"]) == (0, "never")
    assert f"tries {first.value['task_id']} again" in result.err


def test_or_from_a_step_of_it(cli: Cli, workdir: Path) -> None:
    cli("run", "fail", *RUN, "--quiet")
    repair(workdir)
    result = cli("retry", "last", "--from", "/turn1/tool1", "--json")
    assert (result.code, result.value["output"]) == (0, "never")


def test_a_task_that_waits_is_not_tried_again(cli: Cli) -> None:
    assert cli("run", "pay", *RUN, "--quiet").code == 3
    result = cli("retry", "last")
    assert result.code == 2
    assert "is waiting, so it cannot be tried again" in result.err
    assert "hermes resume" in result.err
