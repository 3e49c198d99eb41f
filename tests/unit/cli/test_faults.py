"""Faults for programs: exactly one object, with the keys of a run's result."""

from __future__ import annotations

from pathlib import Path
from typing import cast
from unittest.mock import ANY

import pytest

from tests.unit.cli.shop import RUN, Cli, Result

NONE_USED = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def fault(result: Result) -> tuple[object, object]:
    """Status and code of a fault, after a look at all that is around them."""
    value = result.value
    error = cast("dict[str, object]", value["error"])
    assert value == {
        "task_id": None, "status": ANY, "output": None, "error": error, "usage": NONE_USED,
        "cost": None, "trace": [], "pending": [],
    }  # fmt: skip
    assert set(error) == {"code", "message", "retryable", "hint"}
    assert result.out.count("\n") == 1
    assert "Traceback" not in result.err
    return value["status"], error["code"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("run", "x", "--agent", "none.toml", "--json"), "config"),
        (("run", "", *RUN, "--json"), "input"),
        (("show", "last", "--json"), "not_found"),
        (("trace", "--json"), "input"),
        (("trace", "last", "--json", "--format", "jsonl"), "input"),
        (("run", "--json"), "usage"),
        (("run", "x", "--nope", "--json"), "usage"),
        (("run", "x", "--json", "--session"), "usage"),
        (("run", "x", "--max-steps", "0", "--json"), "usage"),
        (("nonsense", "--json"), "usage"),
    ],
)
def test_what_the_caller_has_to_change(cli: Cli, words: tuple[str, ...], code: str) -> None:
    result = cli(*words)
    assert (result.code, *fault(result)) == (2, "failed", code)


def test_an_interrupt_before_there_is_a_task(cli: Cli, workdir: Path) -> None:
    (workdir / "slow.py").write_text("raise KeyboardInterrupt")
    result = cli("run", "x", "--tools", "slow.py", "--json")
    assert (result.code, *fault(result)) == (130, "cancelled", "interrupted")
    assert result.err == "interrupted\n"
    assert cli("run", "x", "--tools", "slow.py").out == ""


def test_a_fault_of_hermes_itself(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise LookupError("lost")

    monkeypatch.setattr("hermes.cli.starter.init", broken)
    result = cli("init", "x", "--json")
    assert (result.code, *fault(result)) == (1, "failed", "internal")
    assert "LookupError: lost" in result.err


@pytest.mark.parametrize(
    "words",
    [
        ("run", *RUN, "--agent", "none.toml", "--", "--json"),
        ("run", "x", *RUN, "--agent", "none.toml", "--session", "--json"),
        ("run", "x", *RUN, "--agent", "none.toml", "--session=--json"),
    ],
)
def test_a_word_that_only_looks_like_the_option_is_none(cli: Cli, words: tuple[str, ...]) -> None:
    result = cli(*words)
    assert (result.code, result.out) == (2, "")
    assert "none.toml" in result.err


@pytest.mark.parametrize("goal", ["--json", "--debug"])
def test_a_goal_may_look_like_an_option(cli: Cli, goal: str) -> None:
    assert cli("run", *RUN, "--quiet", "--", goal).out == "你好\n"
    assert f"goal     {goal}" in cli("show", "last").out


def test_json_with_a_value_is_a_usage_error_that_is_json_too(cli: Cli) -> None:
    result = cli("tasks", "--json=1")
    assert result.code == 2
    assert cast("dict[str, object]", result.value["error"])["code"] == "usage"
