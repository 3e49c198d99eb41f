"""`hermes diff`: a table for people, one value for programs."""

from __future__ import annotations

from tests.unit.cli.shop import RUN, Cli


def test_two_tasks_are_shown_step_by_step(cli: Cli) -> None:
    first = cli("run", "look", *RUN, "--json").value["task_id"]
    cli("run", "look", *RUN, "--var", "what=desk", "--quiet")
    result = cli("diff", str(first), "last")
    assert result.code == 0
    lines = [line.split() for line in result.out.splitlines()]
    assert ["~", "task", "output", "saw", "lamp", "saw", "desk"] in lines
    assert ["~", "/turn1/tool1", "result", "saw", "lamp", "saw", "desk"] in lines
    assert "< succeeded, 2 turns, 1 tool call, 0 tokens" in result.out


def test_a_task_is_the_same_as_itself(cli: Cli) -> None:
    cli("run", "look", *RUN, "--quiet")
    result = cli("diff", "last", "last")
    assert "the same in every step" in result.out
    assert cli("diff", "last", "last", "--json").value["same"] is True


def test_an_unknown_task_is_a_fault(cli: Cli) -> None:
    cli("run", "look", *RUN, "--quiet")
    assert cli("diff", "last", "task_x").code == 2
