"""Agent files: what they say, and what stops the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.agents import load_agent
from hermes.core.budget import Limits
from hermes.errors import ConfigError

TOOLS = '''
from hermes import tool

@tool(effect="read")
def look(name: str) -> str:
    """Look."""
    return name
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path


def write(folder: Path, text: str, name: str = "agent.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_toml_file_says_everything(folder: Path) -> None:
    path = write(
        folder,
        """
        name = "检查员"
        role = "an inspector"
        instructions = "Look."
        tools = ["tools.py", "read_more"]
        groups = ["core"]
        model = "qwen"
        required_tools = ["look"]
        output_schema = {type = "object"}
        [limits]
        max_steps = 3
        """,
    )
    agent = load_agent(path)
    assert agent.name == "检查员"
    assert [tool.name for tool in agent.tools] == ["look", "read_more"]
    assert agent.limits == Limits(max_steps=3)
    assert agent.output_schema == {"type": "object"}
    assert agent.required_tools == ("look",)


def test_yaml_says_the_same(folder: Path) -> None:
    path = write(folder, "name: a\ntools: [tools.py]\nlimits: {max_tokens: 5}\n", "agent.yaml")
    agent = load_agent(path)
    assert agent.limits == Limits(max_steps=None, max_tokens=5) or agent.limits == Limits(
        max_tokens=5
    )
    assert [tool.name for tool in agent.tools] == ["look"]


def test_a_playbook_stands_beside_the_file(folder: Path) -> None:
    agent = load_agent(write(folder, 'name = "a"\nmodel = "playbook:rules.yaml"'))
    assert agent.model == f"playbook:{folder / 'rules.yaml'}"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('name = "a"\ntolls = []', ["`tolls`", "did you mean `tools`"]),
        ('name = "a"\n[limits]\nmax_step = 3', ["`limits.max_step`", "did you mean `max_steps`"]),
        ('name = "a"\n[limits]\nmax_steps = "3"', ["`limits.max_steps`", "'3'"]),
        ('name = "a"\n[limits]\nmax_steps = 0', ["limits.max_steps must be above 0"]),
        (
            'name = "a"\n[limits]\nmax_cost = 1e-300',
            ["limits.max_cost must be at least 0.000000001, got 1e-300"],
        ),
        ('name = "a"\nmax_steps = 3', ["`max_steps`"]),
        ('role = "x"', ["`name`", "required"]),
        ('name = "a"\ntools = ["tool.py"]', ["tool.py"]),
        ('name = "a"\ntools = ["read_mor"]', ["read_mor", "did you mean `read_more`"]),
        ('name = "a"\nrequired_tools = ["look"]', ["required_tools", "look"]),
        ("name = ", ["is not TOML"]),
    ],
)
def test_r083_a_wrong_file_is_refused_with_the_place(
    folder: Path, text: str, parts: list[str]
) -> None:
    path = write(folder, text)
    with pytest.raises(ConfigError) as caught:
        load_agent(path)
    assert "agent.toml" in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere.toml: cannot be read"):
        load_agent(tmp_path / "nowhere.toml")


def test_a_yaml_value_that_is_no_date_is_told_with_its_place(folder: Path) -> None:
    path = write(folder, "name: a\ninstructions: 2026-13-01\n", "agent.yaml")
    with pytest.raises(ConfigError, match=r"agent\.yaml, line 2, column 15: is not YAML"):
        load_agent(path)


def test_a_file_in_another_encoding_is_told(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_bytes('name = "检查"'.encode("gbk"))
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_agent(path)


def test_a_broken_tool_file_is_named_with_its_line(folder: Path) -> None:
    (folder / "tools.py").write_text("import nothing_like_this\n")
    with pytest.raises(ConfigError, match=r"tools\.py") as caught:
        load_agent(write(folder, 'name = "a"\ntools = ["tools.py"]'))
    assert "nothing_like_this" in str(caught.value)


def test_the_digest_follows_what_a_model_is_told(folder: Path) -> None:
    one = load_agent(write(folder, 'name = "a"\ninstructions = "x"'))
    two = load_agent(write(folder, 'name = "a"\ninstructions = "y"'))
    assert one.digest != two.digest
