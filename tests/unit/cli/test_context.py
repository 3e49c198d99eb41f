"""`hermes context`: what the model was sent, in words and as JSON."""

from __future__ import annotations

from pathlib import Path

from hermes.core import json
from tests.unit.cli.shop import RUN, Cli


def test_the_last_call_is_shown_with_its_parts(cli: Cli) -> None:
    cli("run", "look", *RUN, "--quiet")
    result = cli("context", "last")

    assert result.code == 0
    assert "/turn2/model1" in result.out
    assert "== system\n[system]\n" in result.out
    assert "== goal\n[user]\nlook" in result.out
    assert "[assistant]\ncalls look " in result.out
    assert "saw lamp" in result.out
    assert "note:" not in result.out
    for name in ("system", "goal", "recent turns", "tools", "all"):
        assert f"\n{name} " in result.out


def test_another_call_is_shown_by_its_path(cli: Cli) -> None:
    cli("run", "look", *RUN, "--quiet")
    result = cli("context", "last", "--at", "/turn1", "--json")
    tokens = json.as_object(result.value["tokens"])
    messages = json.as_list(result.value["messages"])

    assert (result.code, result.value["path"]) == (0, "/turn1/model1")
    assert tokens is not None
    assert {"system", "goal", "tools", "all", "counted_by_provider"} == set(tokens)
    assert messages[-1] == {"part": "goal", "role": "user", "text": "look"}
    assert result.value["differences"] == []


def test_a_call_that_is_not_there_is_told_with_those_that_are(cli: Cli) -> None:
    cli("run", "look", *RUN, "--quiet")
    result = cli("context", "last", "--at", "/turn9")

    assert result.code == 2
    assert "no model call '/turn9'" in result.err
    assert "/turn1/model1, /turn2/model1" in result.err


def test_at_a_tool_call_the_nearest_model_calls_are_told(cli: Cli) -> None:
    cli("run", "look", *RUN, "--quiet")
    result = cli("context", "last", "--at", "/turn1/tool1")

    assert result.code == 2
    assert "is a tool call" in result.err
    assert "only model calls can be shown" in result.err
    assert "/turn1/model1, /turn2/model1" in result.err


def test_a_changed_agent_is_told_and_the_recorded_words_are_shown(cli: Cli, workdir: Path) -> None:
    agent = workdir / "agent.toml"
    agent.write_text('name = "shop"\ninstructions = "Sell lamps."\ntools = ["tools.py"]\n')
    cli("run", "look", "--agent", "agent.toml", "--playbook", "rules.yaml", "--quiet")
    agent.write_text('name = "shop"\ninstructions = "Sell desks."\ntools = ["tools.py"]\n')
    result = cli("context", "last")

    assert result.code == 0
    assert "Sell lamps." in result.out
    assert "Sell desks." not in result.out
    assert "note: the program has changed: " in result.out
