"""The answer on a terminal as it comes, once; in a pipe as ever; as JSON Lines for programs."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import cast

import anyio
import pytest

from hermes.cli.live import Progress, TerminalScreen
from hermes.core.chat import Usage
from hermes.core.clock import SystemClock
from hermes.core.events import (
    Fault,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    Recorded,
    TaskEvent,
)
from tests.providers.server import ProviderServer
from tests.unit.cli.shop import RUN, Cli

ANSWER = "霜降 means “frost descends”: 👩‍👩‍👧 stay in.\nBring é."
ASKED = ModelRequested(path="/turn1/model1", model="m", history=1, prompt="", tools="")
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal(io.StringIO):
    """One that remembers all that was written to it."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def watching(terminal: Terminal, *, reasoning: bool = False) -> Progress:
    return Progress(TerminalScreen(terminal), text=True, reasoning=reasoning)


def record(event: TaskEvent) -> Recorded:
    return Recorded(
        event_id="0" * 32, task_id="t", seq=1, event=event, at=SystemClock().now(), trace_id="0"
    )


def replied(text: str) -> Recorded:
    return record(ModelReplied(path="/turn1/model1", text=text, usage=Usage(), duration_s=0.1))


def shown(text: str) -> str:
    """What is left on a terminal: lines that were drawn over are gone."""
    lines, row = [""], 0
    for piece in re.split(r"(\n|\r|\x1b\[[0-9;?]*[A-Za-z])", text.replace("\r\n", "\n")):
        if piece == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif piece == "\x1b[1A":
            row -= 1
        elif piece in ("\r", "\x1b[2K"):
            lines[row] = ""
        elif not _CODES.fullmatch(piece):
            lines[row] += piece
    return "\n".join(lines)


def test_text_comes_piece_by_piece_and_its_line_ends_with_the_reply(terminal: Terminal) -> None:
    progress = watching(terminal)
    progress.recorded(record(ASKED))
    for letter in ANSWER:
        progress.delta(letter)
    assert shown(terminal.getvalue()).endswith(ANSWER)
    progress.recorded(replied(ANSWER))
    progress.close()
    assert f"{ANSWER}\nturn 1: answers" in shown(terminal.getvalue())
    assert progress.spoken.has_shown(ANSWER)
    assert not progress.spoken.has_shown(ANSWER + "!")
    assert not progress.spoken.has_shown({"a": 1})


def test_a_structured_answer_that_was_shown_is_known_by_its_value(terminal: Terminal) -> None:
    progress = watching(terminal)
    progress.recorded(record(ASKED))
    progress.delta('{"a":\n  1}')
    progress.close()
    assert progress.spoken.has_shown({"a": 1})
    assert not progress.spoken.has_shown({"a": 2})


@pytest.mark.parametrize("wanted", [True, False])
def test_reasoning_is_shown_dimmed_where_it_is_wanted(terminal: Terminal, wanted: bool) -> None:
    progress = watching(terminal, reasoning=wanted)
    progress.recorded(record(ASKED))
    progress.delta("secret thought", reasoning=True)
    progress.delta("\n\nThe answer.")
    progress.recorded(replied("The answer."))
    progress.close()
    assert ("\x1b[2msecret thought\x1b[0m\n" in terminal.getvalue()) == wanted
    assert "\nThe answer.\n" in "\n" + shown(terminal.getvalue())
    assert progress.spoken.has_shown("The answer.")


def test_a_reply_that_is_tried_again_says_so_and_begins_anew(terminal: Terminal) -> None:
    progress = watching(terminal)
    progress.recorded(record(ASKED))
    progress.delta("Half an ans")
    fault = Fault(code="stream", message="the line broke")
    progress.recorded(
        record(
            ModelRetried(path="/turn1/model1", model="a", error=fault, attempt=1, next_model="b")
        )
    )
    progress.delta("The answer.")
    progress.recorded(replied("The answer."))
    progress.close()
    text = shown(terminal.getvalue())
    again = "turn 1: a failed: the line broke; asking b; the answer begins anew"
    assert f"Half an ans\n{again}\nThe answer.\n" in text
    assert progress.spoken.has_shown("The answer.")


def test_a_reply_that_fails_leaves_its_text_marked_as_a_part(terminal: Terminal) -> None:
    progress = watching(terminal)
    progress.recorded(record(ASKED))
    progress.delta("Half an ans")
    fault = Fault(code="quota", message="quota exceeded")
    failed = ModelFailed(
        path="/turn1/model1", error=fault, partial_text="Half an ans", duration_s=0.1
    )
    progress.recorded(record(failed))
    progress.close()
    assert "Half an ans\nturn 1: the model failed: quota exceeded; the text above" in shown(
        terminal.getvalue()
    )


def test_a_model_cannot_command_the_terminal(terminal: Terminal) -> None:
    progress = watching(terminal)
    progress.recorded(record(ASKED))
    before = len(terminal.getvalue())
    progress.delta("\x1b]0;owned\x07\x1b[2J\r\x9b1m\u202e")
    written = terminal.getvalue()[before:]
    assert written.endswith("\ufffd]0;owned\ufffd\ufffd[2J\ufffd\ufffd1m\ufffd")
    progress.close()


def test_a_call_that_begins_is_the_status(terminal: Terminal) -> None:
    progress = watching(terminal)
    progress.recorded(record(ASKED))
    progress.delta("Let me see.")
    progress.call_begun("look")
    progress.close()
    text = _CODES.sub("", terminal.getvalue())
    assert "Let me see.\n" in text
    assert "turn 1: calling look" in text


def test_without_streamed_text_a_status_has_its_end(terminal: Terminal) -> None:
    progress = Progress(TerminalScreen(terminal))
    progress.recorded(record(ASKED))
    progress.delta("Some text")
    progress.delta("a thought", reasoning=True)
    progress.close()
    assert not progress.spoken.has_shown("Some text")
    assert "a thought" not in terminal.getvalue()
    assert "thinking" in terminal.getvalue()


async def hermes(*words: str, url: str = "", both: bool = False) -> tuple[str, str]:
    """Run with stderr on a terminal, or both; what stdout got as a pipe, and what the terminal."""
    env = os.environ | {"MODEL_NAME": "m", "API_BASE": url, "TERM": "xterm", "COLUMNS": "100"}
    ours, theirs = pty.openpty()
    pieces: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(ours, 65_536):
                pieces.append(piece)
        except OSError:  # Linux says so when the last writer has gone
            pass

    reader = threading.Thread(target=read)
    reader.start()
    done = await anyio.run_process(
        [sys.executable, "-m", "hermes", *words],
        stdin=subprocess.DEVNULL,
        stdout=theirs if both else subprocess.PIPE,
        stderr=theirs,
        env=env,
        check=False,
    )
    os.close(theirs)
    reader.join()
    os.close(ours)
    return (done.stdout or b"").decode(), b"".join(pieces).decode()


@pytest.mark.parametrize("option", ["--stream", "--no-stream"])
@pytest.mark.usefixtures("workdir")
async def test_a_terminal_shows_the_answer_once(option: str) -> None:
    async with ProviderServer("openai", [{"text": ANSWER}]) as server:
        _, text = await hermes("run", "When?", option, url=server.url, both=True)
        assert bool(server.requests[0].get("stream")) == (option == "--stream")
    assert shown(text).count(ANSWER) == 1


@pytest.mark.parametrize("options", [(), ("--reasoning",), ("--quiet",)])
@pytest.mark.usefixtures("workdir")
async def test_a_pipe_gets_the_answer_and_nothing_else(
    options: Sequence[str],
) -> None:
    script: list[Mapping[str, object]] = [{"text": ANSWER, "reasoning": "Hm."}]
    async with ProviderServer("deepseek", script) as server:
        out, _ = await hermes("run", "When?", *options, url=server.url)
    assert out == f"{ANSWER}\n"


@pytest.mark.usefixtures("workdir")
async def test_events_are_json_lines_whose_last_is_the_response() -> None:
    async with ProviderServer("openai", [{"text": ANSWER}]) as server:
        out, _ = await hermes("run", "When?", "--events", url=server.url)
    items = [cast("dict[str, object]", json.loads(line)) for line in out.splitlines()]
    assert "".join(str(item["text"]) for item in items if item["kind"] == "text") == ANSWER
    seqs = [item["seq"] for item in items if item["kind"] == "event"]
    assert seqs == list(range(1, len(seqs) + 1))
    assert (items[-1]["kind"], items[-1]["output"]) == ("response", ANSWER)


@pytest.mark.usefixtures("cli")
async def test_a_run_with_tools_tells_its_events() -> None:
    words = ("run", "look", *RUN, "--var", "what=lamp", "--events")
    out, _ = await hermes(*words)
    items = [cast("dict[str, object]", json.loads(line)) for line in out.splitlines()]
    types = [item["type"] for item in items if item["kind"] == "event"]
    assert types[0] == "task.created"
    assert "tool.returned" in types
    assert {"kind": "call", "name": "look"}.items() <= items[5].items()
    assert items[-1]["output"] == "saw lamp"


def test_a_run_that_cannot_begin_ends_its_events_in_the_error(cli: Cli) -> None:
    [line] = cli("run", " ", *RUN, "--events").out.splitlines()
    item = cast("dict[str, object]", json.loads(line))
    assert item["kind"] == "response"
    assert item["status"] == "failed"
    assert cast("dict[str, object]", item["error"])["code"] == "input"


@pytest.mark.parametrize("other", ["--json", "--detach"])
def test_events_exclude_other_forms_of_result(cli: Cli, other: str) -> None:
    result = cli("run", "look", *RUN, "--events", other)
    assert result.code == 2
    assert f"--events and {other} exclude each other" in result.err


@pytest.mark.parametrize(
    "pieces", [["one\r\ntwo\r\n"], ["one\r", "\ntwo\r", "\n"], ["\r", "\none\r\n", "two"]]
)
def test_line_ends_of_other_systems_are_line_ends(terminal: Terminal, pieces: list[str]) -> None:
    progress = watching(terminal)
    progress.recorded(record(ASKED))
    for piece in pieces:
        progress.delta(piece)
    progress.close()
    assert "\ufffd" not in terminal.getvalue()
    assert "one\ntwo\n" in shown(terminal.getvalue())
    assert progress.spoken.has_shown("".join(pieces))


def test_half_a_line_end_is_shown_as_a_mark_where_the_text_ends(terminal: Terminal) -> None:
    progress = watching(terminal)
    progress.recorded(record(ASKED))
    progress.delta("one\r")
    progress.recorded(replied("one\r"))
    assert "one\ufffd" in shown(terminal.getvalue())
    progress.close()
