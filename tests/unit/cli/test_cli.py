"""The command as its user meets it: results on stdout, the rest on stderr, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from tests.unit.cli.shop import RUN, Cli


class TestRun:
    def test_the_answer_is_on_stdout_and_the_rest_on_stderr(self, cli: Cli) -> None:
        result = cli("run", "look", *RUN)
        assert (result.code, result.out) == (0, "saw lamp\n")
        assert "look: ok" in result.err
        assert "succeeded" in result.err

    def test_quiet_shows_the_result_alone(self, cli: Cli) -> None:
        result = cli("run", "look", *RUN, "--quiet")
        assert (result.out, result.err) == ("saw lamp\n", "")

    def test_json_is_one_value_with_the_documented_keys(self, cli: Cli) -> None:
        result = cli("run", "look", *RUN, "--json", "--var", "what=灯")
        assert result.code == 0
        assert list(result.value) == [
            "task_id", "status", "output", "error", "usage", "cost", "trace", "pending",
        ]  # fmt: skip
        assert result.value["output"] == "saw 灯"
        assert "灯" in result.out

    def test_a_failed_step_fails_the_run_with_one_line(self, cli: Cli) -> None:
        result = cli("run", "fail", *RUN)
        assert result.code == 1
        assert "the shelf is empty" in result.err
        assert "Traceback" not in result.err

    def test_an_unsafe_call_that_hangs_waits_for_a_person(self, cli: Cli) -> None:
        result = cli("run", "pay", *RUN, "--json")
        assert result.code == 3
        assert result.value["status"] == "waiting"
        assert "hermes review done review_" in result.err

    def test_a_decision_ends_the_wait(self, cli: Cli) -> None:
        cli("run", "pay", *RUN)
        result = cli("resume", "last", "--in-doubt", "done", "--json")
        assert (result.code, result.value["status"]) == (0, "succeeded")

    def test_the_step_limit_ends_in_partial_and_3(self, cli: Cli) -> None:
        result = cli("run", "look", *RUN, "--max-steps", "1", "--json")
        assert (result.code, result.value["status"]) == (3, "partial")

    def test_a_goal_can_come_from_stdin(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        import io

        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"look\n")))
        assert cli("run", "-", *RUN, "--quiet").out == "saw lamp\n"

    def test_resume_of_a_settled_task_reports_it_again(self, cli: Cli) -> None:
        first = cli("run", "look", *RUN, "--json")
        second = cli("resume", str(first.value["task_id"]), "--json")
        assert second.value == first.value


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("run", "hello"), "MODEL_NAME"),
        (("run", "", *RUN), "goal is empty"),
        (("run", "x", "--agent", "none.toml"), "none.toml"),
        (("run", "x", "--playbook", "none.yaml"), "none.yaml"),
        (("run", "x", "--tools", "none.py"), "none.py"),
        (("run", "x", *RUN, "--var", "novalue"), "K=V"),
        (("run", "x", "--playbook", "rules.yaml", "--model", "m"), "--model"),
        (("resume", "last"), "no journal at"),
        (("trace",), "TASK or --session"),
        (("trace", "last", "--format", "timelin"), "did you mean `timeline`"),
        (("tasks", "--status", "failled"), "did you mean `failed`"),
        (("run", "x", "--max-steps", "0"), "--max-steps"),
        (("nonsense",), "nonsense"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(cli: Cli, words: tuple[str, ...], says: str) -> None:
    result = cli(*words)
    assert result.code == 2
    assert says in result.err
    assert result.out == ""
    assert "Traceback" not in result.err


def test_debug_shows_where(cli: Cli) -> None:
    assert "Traceback" in cli("run", "x", "--agent", "none.toml", "--debug").err


def test_an_unreachable_model_is_one_line_and_a_task_that_show_explains(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_NAME", "qwen")
    monkeypatch.setenv("API_BASE", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("HERMES_MODEL_ATTEMPTS", "1")
    result = cli("run", "hello", "--quiet")
    assert result.code == 1
    assert "127.0.0.1" in result.err
    shown = cli("show", "last")
    assert "failed" in shown.out
    assert "127.0.0.1" in shown.out


class TestViews:
    def test_tasks_lists_the_newest_first(self, cli: Cli) -> None:
        cli("run", "look", *RUN, "--quiet")
        cli("run", "你好", *RUN, "--quiet", "--session", "s1")
        found = cast("list[dict[str, object]]", cli("tasks", "--json").value["tasks"])
        assert [task["goal"] for task in found] == ["你好", "look"]
        text = cli("tasks").out
        assert "你好" in text
        assert cli("tasks", "--session", "s1", "--json").out.count("task_id") == 1
        assert "no tasks" in cli("tasks", "--status", "failed").out

    def test_trace_draws_bars_and_prints_the_raw_record(self, cli: Cli) -> None:
        cli("run", "look", *RUN, "--quiet")
        drawn = cli("trace", "last").out
        assert "look" in drawn
        assert "ok" in drawn
        lines = cli("trace", "last", "--format", "jsonl").out.splitlines()
        types = [json.loads(line)["type"] for line in lines]
        assert types[0] == "task.created"
        assert "model.replied" in types
        assert "tool.returned" in types
        value = cli("trace", "last", "--json").value
        assert isinstance(value["trace"], list)

    def test_trace_of_a_session_holds_all_its_tasks(self, cli: Cli) -> None:
        cli("run", "look", *RUN, "--quiet", "--session", "s1")
        cli("run", "hello", *RUN, "--quiet", "--session", "s1")
        found = cli("trace", "--session", "s1", "--format", "json").value["tasks"]
        tasks = cast("list[dict[str, object]]", found)
        listed = cast("list[dict[str, object]]", cli("tasks", "--json").value["tasks"])
        assert [task["task_id"] for task in tasks] == [task["task_id"] for task in listed]
        assert cli("trace", "--session", "s1", "--json").value["tasks"] == tasks
        raw = cli("trace", "--session", "s1", "--format", "jsonl").out.splitlines()
        assert sum(json.loads(line)["type"] == "task.settled" for line in raw) == 2

    def test_show_tells_how_it_ended(self, cli: Cli) -> None:
        task_id = cli("run", "look", *RUN, "--json").value["task_id"]
        assert "saw lamp" in cli("show", str(task_id)[-8:]).out
        assert cli("show", "last", "--json").value["agent"] == "agent"

    @pytest.mark.parametrize(
        "words", [("show", "last"), ("trace", "last"), ("trace", "--session", "s")]
    )
    def test_without_a_journal_a_view_says_where_it_looked_and_makes_none(
        self, cli: Cli, workdir: Path, words: tuple[str, ...]
    ) -> None:
        result = cli(*words)
        assert (result.code, result.out) == (2, "")
        assert f"no journal at {workdir}/.hermes/hermes.db" in result.err
        assert "`hermes run`" in result.err
        assert not (workdir / ".hermes").exists()

    def test_without_a_journal_the_list_is_empty_and_none_is_made(
        self, cli: Cli, workdir: Path
    ) -> None:
        result = cli("tasks", "--json")
        assert (result.code, result.value) == (0, {"tasks": []})
        assert f"no journal at {workdir}/.hermes/hermes.db" in result.err
        assert "no tasks" in cli("tasks").out
        assert not (workdir / ".hermes").exists()

    def test_a_task_that_is_not_there_is_named(self, cli: Cli) -> None:
        cli("run", "look", *RUN, "--quiet")
        result = cli("show", "task_nowhere")
        assert (result.code, result.out) == (2, "")
        assert "task_nowhere" in result.err

    def test_tools_say_group_and_effect(self, cli: Cli) -> None:
        text = cli("tools", "--tools", "tools.py").out
        assert "read_more" in text
        assert "unsafe" in text
        found = cast("list[dict[str, object]]", cli("tools", "--json").value["tools"])
        assert found[0]["name"] == "read_more"


class TestInit:
    def test_the_starter_runs_at_once(
        self, cli: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert cli("init", "my agent").code == 0
        monkeypatch.chdir(workdir / "my agent")
        result = cli("run", "What is the weather in Beijing?", "--agent", "agent.toml", "--quiet")
        assert result.out == "Beijing: sunny, 23 degrees.\n"
        assert ".env" in (workdir / "my agent" / ".gitignore").read_text().splitlines()
        tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        done = subprocess.run(tests, capture_output=True, text=True, check=False)
        assert "2 passed" in done.stdout, done.stdout

    def test_json_names_what_was_written(self, cli: Cli, workdir: Path) -> None:
        value = cli("init", "new", "--json").value
        assert value["folder"] == "new"
        files = cast("list[str]", value["files"])
        assert sorted(files) == sorted(path.name for path in (workdir / "new").iterdir())

    def test_nothing_that_is_there_is_overwritten(self, cli: Cli, workdir: Path) -> None:
        (workdir / "x").mkdir()
        (workdir / "x" / "tools.py").write_text("mine")
        result = cli("init", "x")
        assert result.code == 2
        assert "tools.py" in result.err
        assert [path.name for path in (workdir / "x").iterdir()] == ["tools.py"]
