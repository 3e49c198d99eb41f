"""Log lines: two a tool call, one a model round."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from hermes import Agent, tool
from hermes.core.chat import Usage
from hermes.models import ModelReply
from hermes.telemetry import logs
from hermes.testing import ScriptedModel, call


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    log = logging.getLogger("hermes")
    before = (list(log.handlers), log.level, log.propagate)
    yield io.StringIO()
    log.handlers[:], log.propagate = before[0], before[2]
    log.setLevel(before[1])


@tool(effect="read")
async def look(name: str) -> str:
    """Look."""
    return name * 3


async def run() -> None:
    first = ModelReply(
        calls=(call("look", name="灯"),), usage=Usage(prompt_tokens=7, completion_tokens=2)
    )
    await Agent(model=ScriptedModel([first, "ok"]), tools=[look]).run("look")


async def test_b13_each_call_and_round_has_its_lines(stream: io.StringIO) -> None:
    logs.configure(level="info", style="json", stream=stream)
    await run()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == [
        "model.round",
        "tool.start",
        "tool.end",
        "model.round",
    ]
    model, start, end, _ = lines
    assert (model["prompt_tokens"], model["completion_tokens"]) == (7, 2)
    assert model["decision"] == "call look"
    assert start["tool"] == "look"
    assert len(start["arguments"]) == 16
    assert (end["status"], end["result_length"]) == ("ok", 3)
    assert "duration_ms" in end
    assert {line["trace_id"] for line in lines} == {start["trace_id"]}
    assert all(line["time"].endswith("+00:00") for line in lines)


async def test_text_lines_are_for_people(stream: io.StringIO) -> None:
    logs.configure(level="info", style="text", stream=stream)
    await run()
    assert "event=tool.end" in stream.getvalue()


async def test_nothing_is_written_below_the_level(stream: io.StringIO) -> None:
    logs.configure(level="warning", style="json", stream=stream)
    await run()
    assert stream.getvalue() == ""
