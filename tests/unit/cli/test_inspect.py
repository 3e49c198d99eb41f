"""`doctor` and `tools`: they see what a run would see."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tests.unit.cli.shop import Cli, Result

GROUPED = '''
from hermes import tool

@tool(group="logs")
def grep() -> str:
    """Mine."""
    return ""
'''


class TestDoctor:
    def test_a_fresh_folder_is_healthy(self, cli: Cli) -> None:
        result = cli("doctor", "--json")
        assert (result.code, result.value["ok"]) == (0, True)

    def test_each_setting_says_where_it_came_from(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AGENT_MAX_ITERATIONS", "7")
        monkeypatch.setenv("API_KEY", "sk-secret")
        result = cli("doctor")
        assert "environment" in result.out
        assert "sk-secret" not in result.out + result.err

    def test_an_unreachable_model_is_named_and_exit_is_1(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MODEL_NAME", "qwen")
        monkeypatch.setenv("API_BASE", "http://127.0.0.1:9/v1")
        result = cli("doctor")
        assert result.code == 1
        assert "model" in result.err

    def test_a_broken_database_is_named(self, cli: Cli, workdir: Path) -> None:
        (workdir / ".hermes").write_text("a file where a folder should be")
        result = cli("doctor")
        assert result.code == 1
        assert "database" in result.err

    def test_a_broken_tool_file_is_named(self, cli: Cli, workdir: Path) -> None:
        (workdir / "bad.py").write_text("def f(:\n")
        result = cli("doctor", "--tools", "bad.py")
        assert result.code == 1
        assert "bad.py" in result.err

    def test_no_journal_is_healthy_and_none_is_made(self, cli: Cli, workdir: Path) -> None:
        result = cli("doctor")
        assert f"none yet: the first run creates {workdir}/.hermes/hermes.db" in result.out
        assert not (workdir / ".hermes").exists()

    def test_a_group_that_does_not_exist_is_a_fault(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TOOL_ENABLED_GROUPS", "core,htp")
        result = cli("doctor")
        assert result.code == 1
        assert "'htp'" in result.err
        assert "did you mean `http`" in result.err

    def test_an_agent_whose_playbook_does_not_load_is_a_fault(
        self, cli: Cli, workdir: Path
    ) -> None:
        (workdir / "agent.toml").write_text('name = "a"\nmodel = "playbook:nope.yaml"')
        result = cli("doctor", "--agent", "agent.toml")
        assert result.code == 1
        assert "error: model: " in result.err
        assert "nope.yaml" in result.err

    def test_an_agent_whose_playbook_loads_is_healthy(self, cli: Cli, workdir: Path) -> None:
        (workdir / "agent.toml").write_text('name = "a"\nmodel = "playbook:rules.yaml"')
        result = cli("doctor", "--agent", "agent.toml")
        assert result.code == 0
        assert "rules.yaml loads" in result.out

    @pytest.mark.parametrize("words", [(), ("--json",)])
    @pytest.mark.parametrize(
        ("name", "url"),
        [
            ("API_BASE", "http://user:xZq9@127.0.0.1:9/v1?token=xZq9"),
            ("API_BASE", "http://user:x/Zq9@127.0.0.1:9/v1"),
            ("API_BASE", "user:xZq9@127.0.0.1:9/v1"),
            ("HERMES_DATABASE_URL", "postgres://user:xZq9@127.0.0.1:9/hermes?password=xZq9"),
            ("HERMES_DATABASE_URL", "mysql://user:xZq9@db/hermes?password=xZq9"),
            ("HERMES_DATABASE_URL", "sqlite:///hermes.db?key=xZq9"),
        ],
    )
    def test_what_is_secret_in_a_url_is_not_shown(
        self,
        cli: Cli,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        url: str,
        words: tuple[str, ...],
    ) -> None:
        monkeypatch.setenv("MODEL_NAME", "qwen")
        monkeypatch.setenv("API_BASE", "http://127.0.0.1:9/v1")
        monkeypatch.setenv(name, url)
        result = cli("doctor", *words)
        assert result.code == 1
        assert "***" in result.out
        for part in ("user:", "Zq9"):
            assert part not in result.out + result.err

    def test_a_url_with_nothing_secret_is_shown_whole(
        self, cli: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        url = f"sqlite:///{workdir}/a@b.db"
        monkeypatch.setenv("HERMES_DATABASE_URL", url)
        assert url in cli("doctor").out


class TestTools:
    def test_on_is_what_a_run_would_have(
        self, cli: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (workdir / "mine.py").write_text(GROUPED)
        off = _enabled(cli("tools", "--json", "--tools", "mine.py"))
        assert off["read_more"] and off["ask_human"] and off["http_get"]
        assert not off["grep"] and not off["get_weather"]
        monkeypatch.setenv("TOOL_ENABLED_GROUPS", "logs")
        on = _enabled(cli("tools", "--json", "--tools", "mine.py"))
        assert on["grep"]

    def test_a_tool_of_ones_own_in_place_of_a_built_in_one_is_listed_once(
        self, cli: Cli, workdir: Path
    ) -> None:
        (workdir / "mine.py").write_text(GROUPED.replace("grep", "read_more"))
        result = cli("tools", "--json", "--tools", "mine.py")
        assert result.out.count('"read_more"') == 1
        assert "Mine." in result.out

    def test_of_two_tools_with_one_name_only_that_of_the_group_is_on(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TOOL_ENABLED_GROUPS", "mock")
        found = cast("list[dict[str, object]]", cli("tools", "--json").value["tools"])
        both = {each["group"]: each["enabled"] for each in found if each["name"] == "get_weather"}
        assert both == {"mock": True, "weather": False}

    def test_a_group_that_does_not_exist_is_refused(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TOOL_ENABLED_GROUPS", "core,htp")
        result = cli("tools")
        assert (result.code, result.out) == (2, "")
        assert "did you mean `http`" in result.err


def _enabled(result: Result) -> dict[str, bool]:
    found = cast("list[dict[str, object]]", result.value["tools"])
    return {str(tool["name"]): bool(tool["enabled"]) for tool in found}
