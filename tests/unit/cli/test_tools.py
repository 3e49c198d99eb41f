"""`hermes tools`: list, show, call, lint and health."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from tests.unit.cli.shop import Cli

MINE = '''
from pathlib import Path
from typing import Annotated, Literal
from pydantic import Field
from hermes import tool, ToolContext, ToolError
from hermes.tools import Question

@tool(effect="read", retries=2, concurrency=3, untrusted_output=True, health=lambda: True)
def weather(
    city: str,
    unit: Literal["celsius", "fahrenheit"] = "celsius",
    days: Annotated[int, Field(ge=1, le=7)] = 1,
) -> str:
    """Tell the weather of a city.

    Args:
        city: Its name, for example 北京.
        unit: Of the temperature.
        days: How many days.
    """
    return f"{city} 23 {unit}, {days}"

@tool
def purge(folder: str, ctx: ToolContext, dry_run: bool = False) -> str:
    """Remove a folder with all that is in it."""
    if dry_run:
        return f"would remove {folder}"
    Path("purged").write_text(folder)
    ctx.progress("removing")
    ctx.artifact("list.txt", "a, b")
    ctx.variables["last"] = folder
    print("noise")
    return f"removed {folder}"

@tool(effect="idempotent", key="{name}")
def save(name: str) -> str:
    """Save something under a name."""
    Path("saved").write_text(name)
    return "saved"

@tool(effect="read", requires_approval=lambda args: args["name"] == "secret")
def look(name: str) -> dict[str, object]:
    """Look something up by its name."""
    return {"name": name}

@tool(effect="read", health=lambda: "the shelf is empty")
def fail() -> str:
    """Fail in any case, whatever is asked."""
    raise ToolError("the shelf is empty", hint="fill it")

@tool
def hang() -> str:
    """Give no answer that one could rely on."""
    raise TimeoutError

@tool(effect="read")
def ask() -> Question:
    """Ask somebody what is to be done now."""
    return Question(text="which?")

@tool(effect="read", group="mine")
def grouped() -> str:
    """Do what only a group may do here."""
    return "x"
'''


@pytest.fixture
def files(workdir: Path) -> tuple[str, str]:
    (workdir / "mine.py").write_text(MINE, encoding="utf-8")
    return "--tools", "mine.py"


class TestList:
    def test_it_is_what_the_bare_command_prints(self, cli: Cli, files: tuple[str, str]) -> None:
        for words in ((), ("--json",)):
            bare, named = cli("tools", *files, *words), cli("tools", "list", *files, *words)
            assert (bare.code, bare.out) == (named.code, named.out)
            assert "weather" in bare.out

    def test_options_may_stand_before_the_command(self, cli: Cli, files: tuple[str, str]) -> None:
        before, after = cli("tools", *files, "--json", "list"), cli("tools", "list", *files)
        assert [t["name"] for t in cast("list[dict[str, object]]", before.value["tools"])]
        assert before.out != after.out

    def test_no_journal_is_made(self, cli: Cli, workdir: Path, files: tuple[str, str]) -> None:
        cli("tools", *files)
        cli("tools", "call", "look", "--args", '{"name": "x"}', *files)
        assert not (workdir / ".hermes").exists()


class TestShow:
    def test_it_tells_parameters_and_bounds(self, cli: Cli, files: tuple[str, str]) -> None:
        result = cli("tools", "show", "weather", *files)
        assert result.code == 0
        assert "Tell the weather of a city." in result.out
        rows = {line.split()[0]: " ".join(line.split()) for line in result.out.splitlines() if line}
        assert rows["city"] == "city string yes Its name, for example 北京."
        assert '"celsius", "fahrenheit"' in rows["unit"]
        assert rows["days"] == "days integer no: 1 from 1, to 7 How many days."
        assert rows["timeout"] == "timeout 30 s"
        assert rows["retries"] == "retries 2 more tries"
        assert "3 calls" in rows["at"]
        assert "not trusted" in rows["output"]
        assert "mine.py" in rows["from"]

    def test_it_knows_tools_that_are_off_and_built_in_ones(
        self, cli: Cli, files: tuple[str, str]
    ) -> None:
        assert "mine: off" in cli("tools", "show", "grouped", *files).out
        assert "Hermes" in cli("tools", "show", "read_more").out

    def test_as_json(self, cli: Cli, files: tuple[str, str]) -> None:
        value = cli("tools", "show", "purge", "--json", *files).value
        assert (value["preview"], value["effect"], value["enabled"]) == ("dry_run", "unsafe", True)
        value = cli("tools", "show", "look", "--json", *files).value
        assert value["requires_approval"] == "by_arguments"

    def test_an_unknown_name_is_a_usage_error(self, cli: Cli, files: tuple[str, str]) -> None:
        result = cli("tools", "show", "wether", *files)
        assert (result.code, result.out) == (2, "")
        assert "did you mean `weather`" in result.err


class TestCall:
    def test_words_of_a_tool_command_no_terminal(self, cli: Cli, workdir: Path) -> None:
        (workdir / "loud.py").write_text(
            "from hermes import tool\n"
            "@tool(effect='read', health=lambda: 'ill\\x1b[2J')\n"
            "def loud(ctx: __import__('hermes').ToolContext) -> str:\n"
            '    """Shout."""\n'
            "    ctx.progress('on\\x1b]0;mine\\x07')\n"
            "    raise RuntimeError('no\\x1b[31m way')\n"
        )
        called = cli("tools", "call", "loud", "--tools", "loud.py")
        assert (called.code, "no\ufffd[31m way" in called.err) == (1, True)
        told = called.err + cli("tools", "health", "loud", "--tools", "loud.py").err
        assert "ill\ufffd[2J" in told
        assert "\x1b" not in told

    def test_a_reading_tool_is_called_and_repairs_are_told(
        self, cli: Cli, files: tuple[str, str]
    ) -> None:
        result = cli("tools", "call", "weather", "--args", "{'city': '北京', 'days': '2'}", *files)
        assert (result.code, result.out) == (0, "北京 23 celsius, 2\n")
        assert 'repaired: days: "2" → 2' in result.err

    def test_what_changes_something_is_only_previewed(
        self, cli: Cli, workdir: Path, files: tuple[str, str]
    ) -> None:
        result = cli("tools", "call", "purge", "--args", '{"folder": "/x"}', *files)
        assert (result.code, result.out) == (0, "would remove /x\n")
        assert 'not made: purge {"folder":"/x"} (its effect is unsafe)' in result.err
        assert "--yes" in result.err
        assert not (workdir / "purged").exists()

    def test_without_a_preview_it_says_what_it_would_call(
        self, cli: Cli, workdir: Path, files: tuple[str, str]
    ) -> None:
        result = cli("tools", "call", "save", "--args", '{"name": "x"}', *files)
        assert (result.code, result.out) == (0, "")
        assert 'not made: save {"name":"x"}' in result.err
        assert not (workdir / "saved").exists()

    def test_yes_makes_the_call(self, cli: Cli, workdir: Path, files: tuple[str, str]) -> None:
        words = ("tools", "call", "purge", "--args", '{"folder": "/x"}', "--yes", *files)
        result = cli(*words)
        assert (result.code, result.out) == (0, "removed /x\n")
        assert "removing" in result.err
        assert "artifact list.txt (4 bytes) is kept only in a task" in result.err
        assert (workdir / "purged").read_text() == "/x"
        value = cli(*words, "--json").value
        assert (value["ran"], value["variables"]) == (True, {"last": "/x"})
        assert value["artifacts"] == [{"name": "list.txt", "size_bytes": 4}]

    def test_a_business_key_that_is_not_claimed_is_told(
        self, cli: Cli, files: tuple[str, str]
    ) -> None:
        result = cli("tools", "call", "save", "--args", '{"name": "x"}', "--yes", *files)
        assert "business key is not claimed" in result.err

    def test_a_call_that_needs_leave_needs_yes(self, cli: Cli, files: tuple[str, str]) -> None:
        secret = ("tools", "call", "look", "--args", '{"name": "secret"}', *files, "--json")
        assert cli(*secret).value["why_not"] == ["this tool asks before such a call"]
        assert cli(*secret).value["result"] is None
        assert cli(*secret, "--yes").value["ran"]
        assert cli(*(word.replace("secret", "open") for word in secret)).value["ran"]

    @pytest.mark.parametrize(
        ("name", "args", "code", "status"),
        [
            ("weather", "{}", 2, "refused"),
            ("weather", '{"city": "x", "days": 9}', 2, "refused"),
            ("weather", "no json", 2, "refused"),
            ("fail", "{}", 1, "error"),
            ("hang", "{}", 3, "in_doubt"),
            ("ask", "{}", 3, "waiting"),
            ("look", '{"name": "x"}', 0, "ok"),
        ],
    )
    def test_exit_codes(
        self, cli: Cli, files: tuple[str, str], name: str, args: str, code: int, status: str
    ) -> None:
        words = ("tools", "call", name, "--args", args, "--yes", *files)
        assert cli(*words).code == code
        result = cli(*words, "--json")
        assert result.code == code
        told = cast("dict[str, object]", result.value["result"])
        assert told["status"] == status
        assert result.value["ran"] is (status != "refused")

    def test_an_error_says_what_to_do(self, cli: Cli, files: tuple[str, str]) -> None:
        result = cli("tools", "call", "fail", *files)
        assert result.out == ""
        assert "error: the shelf is empty\nnext: fill it" in result.err

    def test_a_tool_that_is_off_is_not_called(
        self, cli: Cli, files: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        result = cli("tools", "call", "grouped", *files)
        assert result.code == 2
        assert "TOOL_ENABLED_GROUPS=mine" in result.err
        monkeypatch.setenv("TOOL_ENABLED_GROUPS", "mine")
        assert cli("tools", "call", "grouped", *files).out == "x\n"

    def test_in_a_process_of_its_own_stdout_holds_the_result_alone(
        self, workdir: Path, files: tuple[str, str]
    ) -> None:
        words = [sys.executable, "-m", "hermes", "tools", "call", "purge", "--yes", "--json"]
        done = subprocess.run(
            [*words, "--args", "-", *files],
            input='{"folder": "/x"}',
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=workdir,
            env={**os.environ, "PYTHONUTF8": "1"},
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["result"]["content"] == "removed /x"
        assert "noise" in done.stderr
        assert sorted(path.name for path in workdir.iterdir()) == ["mine.py", "purged"]


class TestLint:
    def test_errors_are_told_with_place_and_what_to_write(
        self, cli: Cli, files: tuple[str, str]
    ) -> None:
        result = cli("tools", "lint", *files)
        assert result.code == 1
        assert "purge" in result.out
        assert "error    folder has no description  [parameter]" in result.out
        assert "mine.py:" in result.out
        assert result.out.splitlines()[-1].startswith("8 tools, ")

    def test_names_choose_and_warnings_alone_are_no_failure_but_with_strict(
        self, cli: Cli, files: tuple[str, str]
    ) -> None:
        result = cli("tools", "lint", "weather", "--json", *files)
        assert (result.code, result.value["ok"], result.value["tools"]) == (0, True, ["weather"])
        found = cast("list[dict[str, object]]", result.value["findings"])
        assert {item["level"] for item in found} == {"warning"}
        assert cli("tools", "lint", "weather", "--strict", *files).code == 1

    def test_without_files_the_built_in_ones_are_checked(self, cli: Cli) -> None:
        result = cli("tools", "lint", "--json")
        assert "read_more" in cast("list[str]", result.value["tools"])
        errors = [
            item
            for item in cast("list[dict[str, object]]", result.value["findings"])
            if item["level"] == "error"
        ]
        assert (result.code, errors) == (0, [])

    def test_an_unknown_name_is_a_usage_error(self, cli: Cli, files: tuple[str, str]) -> None:
        assert cli("tools", "lint", "wether", *files).code == 2


class TestHealth:
    def test_broken_tools_are_named(self, cli: Cli, files: tuple[str, str]) -> None:
        result = cli("tools", "health", *files)
        assert result.code == 1
        rows = {line.split()[0]: line.split()[1] for line in result.out.splitlines()}
        assert (rows["weather"], rows["fail"], rows["look"]) == ("ok", "broken", "unknown")
        assert result.err == "error: fail: the shelf is empty\n"

    def test_names_choose(self, cli: Cli, files: tuple[str, str]) -> None:
        result = cli("tools", "health", "weather", "look", "--json", *files)
        assert (result.code, result.value["ok"]) == (0, True)
        told = cast("list[dict[str, object]]", result.value["tools"])
        assert [(item["name"], item["health"]) for item in told] == [
            ("weather", "ok"),
            ("look", "unknown"),
        ]

    def test_a_hanging_check_is_broken_within_its_time(
        self, cli: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HERMES_HEALTH_TIMEOUT_S", "0.05")
        (workdir / "slow.py").write_text(
            "import time\nfrom hermes import tool\n"
            "@tool(health=lambda: time.sleep(0.5))\ndef slow() -> str:\n"
            '    """Be slow."""\n    return ""\n'
        )
        result = cli("tools", "health", "slow", "--tools", "slow.py")
        assert result.code == 1
        assert "no answer within 0.05 s" in result.err
