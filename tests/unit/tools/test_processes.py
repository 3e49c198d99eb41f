"""Programs that a tool runs: their output, their end, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from hermes.errors import NotDone, ToolError
from hermes.tools.process_guard import descendants
from hermes.tools.processes import Guarded, ProcessTimeout, run_process

CROWD = """
sleep 600 &
setsid sleep 600 &
(setsid sh -c 'trap "" TERM HUP; sleep 600' &)
sh -c 'trap "" TERM; while :; do sleep 600; done' &
echo started
"""


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """What every process that a test starts has in its environment."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv("MARK_OF_THE_TEST", mark)
    return mark


def left(mark: str) -> list[str]:
    """The marked processes that live, whoever is their parent, and our own that nobody took in."""
    found = list(map(str, descendants(os.getpid())))
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark.encode() in environ.read_bytes():
                found.append(environ.with_name("cmdline").read_text())
    return found


async def test_output_and_exit_code_come_back() -> None:
    result = await run_process(
        [sys.executable, "-c", "import sys; print('灯'); print('!', file=sys.stderr); sys.exit(3)"],
        timeout_s=20,
    )
    assert (result.exit_code, result.stdout, result.stderr) == (3, "灯\n", "!\n")
    assert (result.stdout_bytes, result.stderr_bytes) == (4, 2)


async def test_a_text_is_a_command_line_with_folder_and_environment(tmp_path: Path) -> None:
    result = await run_process("pwd; echo $COLOUR", timeout_s=20, cwd=tmp_path, env={"COLOUR": "x"})
    assert result.stdout == f"{tmp_path}\nx\n"


async def test_the_environment_is_the_given_one_and_no_more() -> None:
    result = await run_process(["/usr/bin/env"], timeout_s=20, env={"ONLY": "this"})
    assert result.stdout == "ONLY=this\n"


async def test_input_of_any_size_is_fed_while_output_is_read() -> None:
    data = "0123456789" * 100_000
    result = await run_process(["cat"], timeout_s=20, input=data, limit_bytes=2_000_000)
    assert result.stdout == data


async def test_a_program_that_does_not_read_its_input_is_no_fault() -> None:
    result = await run_process(["true"], timeout_s=20, input=b"x" * 1_000_000)
    assert result.exit_code == 0


async def test_long_output_keeps_its_head_and_tail_and_says_what_is_missing() -> None:
    result = await run_process("seq 1 1000000", timeout_s=20, limit_bytes=40)
    assert result.stdout_bytes == 6_888_896
    head, note, tail = result.stdout.split("\n[… ")[0], "6,888,856 bytes left out", "1000000\n"
    assert head.startswith("1\n2\n3\n")
    assert note in result.stdout
    assert result.stdout.endswith(tail)


async def test_a_cut_never_goes_through_a_character() -> None:
    result = await run_process("printf '灯灯灯灯灯灯灯灯'", timeout_s=20, limit_bytes=8)
    assert result.stdout == "灯\n[… 16 bytes left out …]\n灯"


async def test_a_program_that_closes_its_output_is_waited_for() -> None:
    result = await run_process("exec >&- 2>&-; sleep 0.2; exit 4", timeout_s=20)
    assert result.exit_code == 4


async def test_a_signal_is_a_negative_exit_code() -> None:
    assert (await run_process("kill -9 $$", timeout_s=20)).exit_code == -signal.SIGKILL


async def test_check_raises_with_the_end_of_what_the_program_said() -> None:
    result = await run_process("echo no such lamp >&2; exit 2", timeout_s=20)
    with pytest.raises(ToolError, match="ended with exit code 2: no such lamp"):
        result.check()


@pytest.mark.parametrize(
    ("args", "cwd"),
    [(["no-such-program"], None), ([], None), (["true"], "/no/such/folder"), (["/etc"], None)],
    ids=["no program", "no words", "no folder", "a folder"],
)
async def test_what_cannot_be_started_was_surely_not_done(args: list[str], cwd: str | None) -> None:
    with pytest.raises(NotDone):
        await run_process(args, timeout_s=20, cwd=cwd)


async def test_a_timeout_ends_the_whole_tree_and_tells_what_was_said(mark: str) -> None:
    with pytest.raises(ProcessTimeout, match=r"did not end within 0\.5 s") as caught:
        await run_process(f"{CROWD} sleep 600", timeout_s=0.5, cancel_grace_s=0.2)
    assert caught.value.stdout == "started\n"
    assert left(mark) == []


async def test_a_cancelled_call_ends_the_whole_tree(mark: str) -> None:
    began = time.monotonic()
    with anyio.move_on_after(0.5) as scope:
        await run_process(f"{CROWD} sleep 600", timeout_s=None, cancel_grace_s=0.2)
    assert scope.cancelled_caught
    assert left(mark) == []
    assert time.monotonic() - began < 3


async def test_a_guard_that_ends_before_it_reads_the_last_word_is_no_fault() -> None:
    async with await anyio.open_process(["true"]) as process:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with ours, theirs:
            command = Guarded(process, ours)
            ours.send(b"end")
            theirs.send(b"pid 1\nstatus 7\n")
            theirs.close()  # what it did not read makes that a reset
            await command.ended()
            await command.end(grace_s=0)
    assert command.exit_code(["true"]) == 7


async def test_what_a_program_leaves_behind_ends_with_it(mark: str) -> None:
    result = await run_process(CROWD, timeout_s=20, cancel_grace_s=0.2)
    assert (result.exit_code, result.stdout) == (0, "started\n")
    assert left(mark) == []


async def test_a_program_has_the_grace_time_to_tidy_up(tmp_path: Path) -> None:
    tidy = "trap 'sleep 0.1; echo bye > bye; exit' TERM; while :; do sleep 0.02; done"
    with pytest.raises(ProcessTimeout):
        await run_process(tidy, timeout_s=0.3, cwd=tmp_path, cancel_grace_s=5)
    assert (tmp_path / "bye").read_text() == "bye\n"


async def test_a_stopped_program_ends_too(mark: str) -> None:
    with pytest.raises(ProcessTimeout):
        await run_process("kill -STOP $$", timeout_s=0.3, cancel_grace_s=0.2)
    assert left(mark) == []


async def test_a_program_that_signals_its_whole_group_harms_nobody_else() -> None:
    assert (await run_process("kill -9 0", timeout_s=20)).exit_code == -signal.SIGKILL


async def test_many_programs_run_beside_each_other_and_leave_nothing(mark: str) -> None:
    codes: list[int] = []

    async def one(code: int) -> None:
        codes.append((await run_process(f"sleep 600 & exit {code}", timeout_s=20)).exit_code)

    async with anyio.create_task_group() as group:
        for code in range(12):
            group.start_soon(one, code)
    assert sorted(codes) == list(range(12))
    assert left(mark) == []


@pytest.mark.parametrize("native", [True, False], ids=["asyncio", "anyio"])
async def test_a_call_cancelled_at_any_moment_leaves_nothing(mark: str, native: bool) -> None:
    await run_process(["true"], timeout_s=20)
    before = len(os.listdir("/proc/self/fd"))
    for step in range(15):
        call = run_process("sleep 600 & sleep 600", timeout_s=None, cancel_grace_s=0.1)
        if native:
            with suppress(TimeoutError):
                # Later than the start, in whose middle asyncio itself loses what it has opened.
                await asyncio.wait_for(call, 0.1 + step * 0.004)
        else:
            with anyio.move_on_after(step * 0.004):
                await call
            call.close()
    assert left(mark) == []
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_guard_that_is_killed_takes_the_program_along(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match="guard"):
        await run_process("echo $$ > pid; kill -9 $PPID; sleep 600", timeout_s=20, cwd=tmp_path)
    group = int((tmp_path / "pid").read_text())
    with anyio.fail_after(5), pytest.raises(ProcessLookupError):
        await gone(group)


async def gone(group: int) -> None:
    """Wait until a process group is empty: its orphans are taken in by somebody else."""
    while True:
        os.killpg(group, 0)
        await anyio.sleep(0.01)
