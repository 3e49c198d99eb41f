"""What the documents show is run, and its output compared."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import AliasChoices
from pytest_examples import CodeExample, EvalExample, find_examples

from hermes.cli.main import ORDER
from hermes.config import Settings
from tests.documents import blocks, play
from tests.postgres import database

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "tests" / "providers" / "server.py"
DOCUMENTS = [ROOT / "README.md", ROOT / "README.zh-CN.md"]
GUIDES = [
    ROOT / "docs" / name
    for name in (
        "promises.md",
        "first-tool.md",
        "surviving-tools.md",
        "dangerous-tools.md",
        "failing-tools.md",
        "budgets.md",
        "postgresql.md",
        "business-systems.md",
        "plugins.md",
        "arguments.md",
        "streaming.md",
        "prompts.md",
        "limits.md",
    )
]
SCRIPT = [
    {
        "calls": [{"name": "add", "arguments": '{"a": 2, "b": 3}'}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5},
    },
    {"text": "2 + 3 is 5.", "usage": {"prompt_tokens": 30, "completion_tokens": 5}},
]


@pytest.fixture
def model(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The three variables, set for a local server."""
    (workdir / "script.json").write_text(json.dumps(SCRIPT))
    server = subprocess.Popen(
        [sys.executable, PROGRAM, "--shape", "openai", "--script", "script.json"],
        cwd=workdir,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    monkeypatch.setenv("MODEL_NAME", "test-model")
    monkeypatch.setenv("API_BASE", server.stdout.readline().strip())
    yield
    server.kill()
    server.communicate()


@pytest.mark.parametrize("example", list(find_examples(*map(str, DOCUMENTS))), ids=str)
@pytest.mark.usefixtures("model")
def test_python_in_the_documents_runs(example: CodeExample, eval_example: EvalExample) -> None:
    eval_example.set_config(line_length=100, ruff_ignore=["D", "T20"])
    eval_example.run_print_check(example)


@pytest.mark.usefixtures("model")
def test_five_lines_write_no_file(workdir: Path) -> None:
    before = sorted(path.name for path in workdir.iterdir())
    code = re.findall(r"```python\n(.*?)```", DOCUMENTS[0].read_text(encoding="utf-8"), re.DOTALL)
    five = next(block for block in code if "run_sync" in block)
    subprocess.run([sys.executable, "-c", five], check=True, cwd=workdir)
    assert sorted(path.name for path in workdir.iterdir()) == before


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_settings_table_names_every_setting(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for name, field in Settings.model_fields.items():
        assert f"`{name}`" in text
        assert isinstance(field.validation_alias, AliasChoices)
        assert f"`{field.validation_alias.choices[0]}`" in text


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_and_exit_code_is_named(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    shown = re.findall(r"^hermes ([a-z]+)", text, re.MULTILINE)
    assert tuple(dict.fromkeys(shown)) == ORDER
    for code in (0, 1, 2, 3, 130):
        assert f"| {code} |" in text


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_what_a_guide_shows_is_what_happens(guide: Path, workdir: Path) -> None:
    if "postgresql://" not in guide.read_text(encoding="utf-8"):
        play(guide, workdir, {})
        return
    with database() as url:
        play(guide, workdir, {"postgresql://hermes@db.example/hermes": url})


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.stem)
def test_a_source_file_that_is_named_exists(page: Path) -> None:
    named = re.findall(r"`([a-z_/]+\.py)`", page.read_text(encoding="utf-8"))
    rooms = {path.name for path in (ROOT / "src/hermes").iterdir() if path.is_dir()}
    inside = [name for name in named if name.partition("/")[0] in rooms and "/" in name]
    assert [name for name in inside if not (ROOT / "src/hermes" / name).exists()] == []


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_a_guide_names_only_files_and_guides_that_exist(guide: Path) -> None:
    text = guide.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (guide.parent / target).exists(), target
    assert any(block.kind == "console" for block in blocks(guide))
