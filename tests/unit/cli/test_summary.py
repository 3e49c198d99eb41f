"""The line at the end of a run."""

from __future__ import annotations

from typing import Literal

import pytest

from hermes.cli.output import summary
from hermes.core.chat import Usage
from hermes.core.request import AgentResponse, TraceEntry


def entry(path: str, type_: Literal["llm", "tool"] = "llm") -> TraceEntry:
    return TraceEntry(
        step=1,
        type=type_,
        name="m",
        duration_ms=1,
        tokens_used=0,
        status="ok",
        path=path,
        started_ms=0,
    )


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["/turn1/model1"], "1 turn ·"),
        (["/turn1/model1", "/turn1/model2", "/turn1/model3"], "1 turn ·"),
        (["/turn1/model1", "/turn2/compact1", "/turn2/model1"], "2 turns ·"),
    ],
    ids=["one", "sent back twice", "a summary"],
)
def test_what_is_sent_back_and_a_summary_are_no_turns(paths: list[str], said: str) -> None:
    trace = tuple(entry(path) for path in paths)
    response = AgentResponse(
        output="", trace=trace, usage=Usage(), task_id="task_1", status="succeeded"
    )
    assert said in summary(response, 1.0)
