"""Whatever a run comes to other than success, a person is told what to do next."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import hermes
from hermes.cli.output import explanation
from hermes.core.chat import Usage
from hermes.core.events import Fault, Pending, WaitKind
from hermes.core.request import AgentResponse
from hermes.core.task import TaskState

CODES = sorted(
    {
        code
        for path in Path(hermes.__file__).parent.rglob("*.py")
        for code in re.findall(r'\bcode="(\w+)"', path.read_text(encoding="utf-8"))
    }
)


def response(
    status: str, error: Fault | None = None, pending: tuple[Pending, ...] = ()
) -> AgentResponse:
    return AgentResponse(
        output=None,
        trace=(),
        usage=Usage(),
        task_id="task_1",
        status=status,
        error=error,
        pending=pending,
    )


def steps(found: AgentResponse) -> list[str]:
    return [line for line in explanation(found) if line.startswith("next: ")]


def test_the_codes_are_found() -> None:
    assert {"budget", "cancelled", "length"} <= set(CODES)


@pytest.mark.parametrize("status", ["failed", "partial", "cancelled"])
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("retryable", [True, False])
def test_every_error_has_one_next_step(status: str, code: str, retryable: bool) -> None:
    fault = Fault(code=code, message="it broke", retryable=retryable)
    [step] = steps(response(status, fault))
    assert "hermes retry task_1" in step
    [hinted] = steps(response(status, Fault(code=code, message="it broke", hint="mend it")))
    assert hinted == "next: mend it"


@pytest.mark.parametrize("status", sorted(state.value for state in TaskState))
def test_every_end_without_an_error_has_one_too(status: str) -> None:
    assert len(steps(response(status))) == (status != "succeeded")


@pytest.mark.parametrize("kind", get_args(get_type_hints(Pending)["kind"]))
def test_every_wait_has_one(kind: WaitKind) -> None:
    waiting = Pending(path="/turn1/tool1", kind=kind, name="it", text="something")  # pyright: ignore[reportArgumentType]  # all that it may be
    assert len(steps(response("waiting", pending=(waiting,)))) == 1
