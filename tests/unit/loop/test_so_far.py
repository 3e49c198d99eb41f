"""What a person is shown of a run that ends early."""

from __future__ import annotations

from hermes.core.events import ModelReplied, ModelRequested
from hermes.loop import RunState


def asked(path: str) -> ModelRequested:
    return ModelRequested(path=path, model="m", history=2, prompt="p", tools="t")


def test_a_reply_that_could_not_be_read_is_no_answer_so_far() -> None:
    told = [
        asked("/turn1/model1"),
        ModelReplied(path="/turn1/model1", text="I look at the lamps first."),
        asked("/turn2/model1"),
        ModelReplied(path="/turn2/model1", text='{"thought": "x", "action": {', problem="no JSON"),
    ]
    assert RunState.of(told).so_far() == "I look at the lamps first."
    assert RunState.of(told[2:]).so_far() == ""
