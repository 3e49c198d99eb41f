"""Whether a reply without calls is an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hermes.core.events import Fault, ModelReplied, Outcome
from hermes.tools import ArgumentError, read_arguments

from . import prompts
from .setup import RunSetup
from .state import RunState

MAX_REPAIRS = 5
_MAX_EMPTY = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How the run ends."""

    outcome: Outcome
    output: object
    error: Fault | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendBack:
    """The reply goes back to the model with this text."""

    text: str


def judge(setup: RunSetup, state: RunState, reply: ModelReplied) -> End | SendBack:
    """Decide what a reply without tool calls comes to; what is in it counts, not its reason."""
    text = reply.text.strip()
    if reply.finish_reason == "content_filter":
        return _stopped(state, "content_filter", "the provider's content filter stopped the reply")
    if not text:
        if state.repairs < _MAX_EMPTY:
            return SendBack(text=prompts.EMPTY_REPLY)
        return _stopped(state, "no_answer", "the model ended without an answer")
    if reply.finish_reason == "length":
        fault = Fault(
            code="length",
            message="the answer was cut at the model's output limit",
            hint="raise the limit or ask for less",
        )
        return End(outcome="partial", output=reply.text, error=fault)
    missing = [name for name in setup.required_tools if name not in state.succeeded]
    if missing:
        problem = f"required tools did not succeed: {', '.join(missing)}"
        return _again(state, prompts.missing_tools(missing), "required_tools", problem)
    if setup.output_schema is not None:
        return _structured(setup.output_schema, state, reply.text)
    return End(outcome="succeeded", output=reply.text)


def _structured(schema: Mapping[str, object], state: RunState, text: str) -> End | SendBack:
    read = read_arguments(schema, text, effect="read")
    if isinstance(read, ArgumentError):
        return _again(state, prompts.wrong_output(read.message), "output_schema", read.message)
    return End(outcome="succeeded", output=read.values)


def _again(state: RunState, text: str, code: str, problem: str) -> End | SendBack:
    if state.repairs < MAX_REPAIRS:
        return SendBack(text=text)
    fault = Fault(code=code, message=f"{problem}; {MAX_REPAIRS} reminders did not help")
    return End(outcome="partial", output=state.so_far(), error=fault)


def _stopped(state: RunState, code: str, message: str) -> End:
    known = state.so_far()
    fault = Fault(code=code, message=message)
    return End(outcome="partial" if known else "failed", output=known or None, error=fault)
