import json
import os
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import cast

import pytest

from hermes.errors import NotDone, ToolError
from hermes.tools import BuiltinOptions, ProcessTimeout, Tool, builtin_tools


def shell(folder: Path, *programs: str, **more: object) -> Tool:
    options = BuiltinOptions(workspace=folder, shell_programs=programs, **more)  # pyright: ignore[reportArgumentType]  # each test knows its own
    (found,) = builtin_tools(["shell"], options=options)
    return found


async def run(tool: Tool, **arguments: object) -> dict[str, object]:
    return await cast("Awaitable[dict[str, object]]", tool(**arguments))


async def test_each_argument_arrives_as_it_is_written(workdir: Path) -> None:
    arguments = ["*", "$HOME", "; rm -rf /", "a b", "退款 > x", "", "`id`"]
    code = "import sys, json; print(json.dumps(sys.argv[1:]))"

    done = await run(shell(workdir, sys.executable), argv=[sys.executable, "-c", code, *arguments])

    assert done["exit_code"] == 0
    assert json.loads(str(done["stdout"])) == arguments
    assert os.listdir(workdir) == []


async def test_nothing_is_allowed_unless_it_is_named(workdir: Path) -> None:
    tool = shell(workdir)

    with pytest.raises(ToolError, match="'ls' is not allowed") as caught:
        await run(tool, argv=["ls"])

    assert "HERMES_SHELL_PROGRAMS allows: none" in caught.value.hint
    assert tool.health is not None
    assert tool.health() == "HERMES_SHELL_PROGRAMS names no program"


@pytest.mark.parametrize("name", ["/bin/cat", "./cat", "cat ", "CAT", "../bin/cat"])
async def test_a_program_is_allowed_by_its_exact_name_alone(workdir: Path, name: str) -> None:
    with pytest.raises(ToolError) as caught:
        await run(shell(workdir, "cat"), argv=[name, "/etc/hostname"])

    assert caught.value.code == "not_allowed"


async def test_a_relative_path_in_the_setting_allows_nothing(workdir: Path) -> None:
    with pytest.raises(ToolError, match="neither a name nor an absolute path"):
        await run(shell(workdir, "./cat"), argv=["./cat"])


async def test_a_command_line_in_one_piece_is_told_how_to_be_written(workdir: Path) -> None:
    with pytest.raises(ToolError) as caught:
        await run(shell(workdir, "cat"), argv=["cat a.txt"])

    assert "each argument as an item of its own" in caught.value.hint


async def test_a_program_in_the_workspace_does_not_stand_in_for_a_real_one(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = workdir / "bin" / "echo"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho fake\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:.:{os.environ['PATH']}")

    done = await run(shell(workdir, "echo"), argv=["echo", "真的"])

    assert done["stdout"] == "真的\n"


async def test_a_program_that_is_not_installed_is_said_and_surely_not_run(workdir: Path) -> None:
    with pytest.raises(NotDone, match="'no-such-program' is not installed"):
        await run(shell(workdir, "no-such-program"), argv=["no-such-program"])


async def test_it_runs_in_a_folder_of_the_workspace(workdir: Path) -> None:
    (workdir / "报告").mkdir()
    (workdir / "out").symlink_to("/etc")
    tool = shell(workdir, "pwd")

    assert (await run(tool, argv=["pwd"], cwd="报告"))["stdout"] == f"{workdir.resolve()}/报告\n"
    for cwd in ("..", "/etc", "out", "报告/../../x"):
        with pytest.raises(ToolError) as caught:
            await run(tool, argv=["pwd"], cwd=cwd)
        assert caught.value.code == "outside"


async def test_keys_of_the_environment_are_not_passed_on(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("API_KEY", "OPENAI_API_KEY", "HERMES_SMTP_URL", "AWS_SECRET_ACCESS_KEY", "DB_URL"):
        monkeypatch.setenv(name, "SECRET-7731")
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    tool = shell(workdir, "env", shell_env=("JAVA_HOME",))

    said = str((await run(tool, argv=["env"]))["stdout"])

    assert "SECRET-7731" not in said
    assert "JAVA_HOME=/opt/java" in said
    assert "PATH=" in said


async def test_input_output_and_exit_code_come_back(workdir: Path) -> None:
    code = "cat; echo 出错 >&2; exit 3"

    done = await run(shell(workdir, "sh"), argv=["sh", "-c", code], stdin="退款")

    assert done == {"exit_code": 3, "stdout": "退款", "stderr": "出错\n"}


async def test_long_output_is_kept_in_its_head_and_tail(workdir: Path) -> None:
    code = "print('开' * 200_000, '末')"

    done = await run(shell(workdir, sys.executable), argv=[sys.executable, "-c", code])

    said = str(done["stdout"])
    assert said.startswith("开")
    assert said.endswith("末\n")
    assert "bytes left out" in said
    assert len(said.encode()) < 210_000


async def test_what_takes_too_long_is_ended_with_all_it_started(workdir: Path) -> None:
    code = "echo 开始; (setsid sh -c 'sleep 60; touch late') & sleep 60"

    with pytest.raises(ProcessTimeout, match="did not end within 1 s; its last words: 开始"):
        await run(shell(workdir, "sh"), argv=["sh", "-c", code], timeout_s=1)

    mine = f"{workdir.resolve()}"
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and _cwd(pid) == mine]
    assert os.listdir(workdir) == []


def _cwd(pid: str) -> str:
    if int(pid) == os.getpid():
        return ""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


@pytest.mark.parametrize("argument", ["a\0b", "\udce9", "x" * 99_000])
async def test_an_argument_that_cannot_be_passed_is_refused(workdir: Path, argument: str) -> None:
    with pytest.raises(NotDone):
        await run(shell(workdir, "echo"), argv=["echo", argument, argument])


def test_a_person_is_asked_and_sees_the_quoted_command(workdir: Path) -> None:
    tool = shell(workdir, "cat")
    assert tool.preview is not None
    assert tool.requires_approval is True
    assert (tool.effect, tool.untrusted, tool.outbound) == ("unsafe", True, True)

    shown = str(tool.preview(argv=["cat", "a b", "退款.md"], cwd="报告", stdin="x"))

    assert shown.startswith("in '报告', at most 60 s, with 1 characters on standard input: /")
    assert shown.endswith("/cat 'a b' 退款.md") or shown.endswith("/cat 'a b' '退款.md'")


def test_asking_can_be_switched_off(workdir: Path) -> None:
    assert shell(workdir, "cat", shell_approval="never").requires_approval is False
