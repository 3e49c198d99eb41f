"""The command in a folder with the shop's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.cli import invoke
from tests.unit.cli.shop import PLAYBOOK, TOOLS, Cli, Result


@pytest.fixture
def cli(workdir: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    (workdir / "tools.py").write_text(TOOLS)
    (workdir / "rules.yaml").write_text(PLAYBOOK, encoding="utf-8")

    def run(*words: str) -> Result:
        code = invoke(words)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run
