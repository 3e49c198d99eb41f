"""Readers that leave, terminals that can do little, encodings that hold little."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from hermes.cli.live import PlainScreen, Screen, TerminalScreen
from tests.unit.cli.shop import RUN, Cli, Result

LOOK = ("run", "look", *RUN, "--var", "what=灯…◆")


def hermes(
    *words: str,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    env: Mapping[str, str] | None = None,
) -> Result:
    done = subprocess.run(
        [sys.executable, "-m", "hermes", *words],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        env=os.environ | (env or {}),
        check=False,
        timeout=60,
    )
    return Result(done.returncode, (done.stdout or b"").decode(), (done.stderr or b"").decode())


@pytest.fixture
def no_reader() -> Iterator[int]:
    """The writing end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.usefixtures("cli")
class TestNobodyReads:
    def test_a_run_goes_on_without_a_reader_of_its_progress(self, no_reader: int) -> None:
        result = hermes(*LOOK, stderr=no_reader)
        assert (result.code, result.out) == (0, "saw 灯…◆\n")

    def test_a_run_keeps_its_exit_code_without_a_reader_of_its_result(self, no_reader: int) -> None:
        result = hermes("run", "look", *RUN, "--max-steps", "1", "--json", stdout=no_reader)
        assert result.code == 3
        assert "partial" in result.err
        assert "Error" not in result.err

    @pytest.mark.parametrize(
        "words",
        [("tasks",), ("show", "last"), ("trace", "last", "--format", "jsonl"), ("--help",)],
    )
    def test_a_list_without_a_reader_is_no_fault(
        self, cli: Cli, no_reader: int, words: tuple[str, ...]
    ) -> None:
        cli("run", "look", *RUN)
        result = hermes(*words, stdout=no_reader)
        assert (result.code, result.err) == (0, "")

    @pytest.mark.parametrize("words", [("show", "last"), ("nonsense",), ("tasks", "--debug")])
    def test_a_fault_keeps_its_exit_code_without_a_reader(
        self, no_reader: int, workdir: Path, words: tuple[str, ...]
    ) -> None:
        (workdir / "hermes.toml").write_text("max_step = 1")
        assert hermes(*words, stderr=no_reader).code == 2

    def test_a_result_that_cannot_be_written_is_a_fault(self, cli: Cli) -> None:
        cli("run", "look", *RUN)
        with open("/dev/full", "wb") as full:
            result = hermes("tasks", "--json", stdout=full.fileno())
        assert result.code == 1
        assert result.err == "error: stdout cannot be written: No space left on device\n"

    @pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
    def test_a_stream_may_be_closed_from_the_start(self, closed: str) -> None:
        shell = f'exec "$0" -m hermes "$@" {closed}'
        words = ["sh", "-c", shell, sys.executable, *LOOK]
        assert subprocess.run(words, capture_output=True, check=False, timeout=60).returncode == 0


class Broken(io.StringIO):
    """A terminal whose other end is gone."""

    def write(self, text: str, /) -> int:
        raise OSError(5, "Input/output error")

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [PlainScreen, TerminalScreen])
def test_a_screen_whose_reader_has_left_is_silent(kind: type[PlainScreen | TerminalScreen]) -> None:
    stream = Broken()
    screen: Screen = kind(stream)
    screen.line("one")
    screen.status("two")
    screen.close()
    assert stream.isatty()


@pytest.mark.usefixtures("cli")
class TestPlainTerminals:
    @pytest.mark.parametrize(
        "env",
        [
            {"PYTHONIOENCODING": "ascii"},
            {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        ],
    )
    def test_a_character_that_cannot_be_shown_becomes_a_question_mark(
        self, env: dict[str, str]
    ) -> None:
        result = hermes("run", "hello", *RUN, env=env)
        assert (result.code, result.out) == (0, "??\n")
        assert result.err.isascii()
        assert "succeeded ? 1 turn ? " in result.err
        assert hermes("trace", "last", env=env).code == 0
        assert hermes("tasks", env=env).code == 0

    def test_json_loses_no_character(self) -> None:
        result = hermes(*LOOK, "--json", env={"PYTHONIOENCODING": "ascii"})
        assert result.out.isascii()
        assert json.loads(result.out)["output"] == "saw 灯…◆"

    @pytest.mark.parametrize(
        ("env", "columns", "is_live"),
        [
            ({"TERM": "xterm"}, 80, True),
            ({"TERM": "xterm"}, 3, True),
            ({"TERM": "xterm", "NO_COLOR": "1"}, 80, True),
            ({"TERM": "xterm", "PYTHONIOENCODING": "ascii"}, 80, True),
            ({"TERM": "dumb"}, 80, False),
        ],
        ids=["usual", "narrow", "no-color", "ascii", "dumb"],
    )
    def test_a_terminal_shows_a_status_only_where_it_can(
        self, env: dict[str, str], columns: int, is_live: bool
    ) -> None:
        result, shown = on_terminal(*LOOK, env=env, columns=columns)
        assert result.code == 0
        assert "look: ok" in shown
        assert ("\x1b[?25l" in shown) == is_live
        if "NO_COLOR" in env:
            assert "\x1b[3" not in shown


def on_terminal(*words: str, env: Mapping[str, str], columns: int) -> tuple[Result, str]:
    """Run with stderr on a terminal; the result, and what the terminal got."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    result = hermes(*words, stderr=theirs, env=env)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65_536):
            shown += piece
    except OSError:  # Linux says so when the last writer has gone
        pass
    os.close(ours)
    return result, shown.decode()
