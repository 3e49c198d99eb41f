"""What a reply asks for, and whether one without calls is an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hermes.core.chat import ToolCall
from hermes.core.events import Fault, ModelReplied, Outcome
from hermes.models import ModelReply
from hermes.tools import ArgumentError, Arguments, read_arguments
from hermes.tools.arguments.text_calls import (
    ParseError,
    WrittenCall,
    is_only_reasoning,
    unusable,
    written_calls,
)

from . import prompts
from .setup import RunSetup
from .state import RunState

MAX_REPAIRS = 5
_MAX_EMPTY = 1
# A playbook makes its calls itself; its text may hold what somebody else wrote.
_PROGRAM = "playbook:"
_NEXT = "`hermes trace` shows each reply; `hermes retry` does it anew, --model with another model"
_NOT_TAKEN = "when it came, calls were not read from text"


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


def calls_of(setup: RunSetup, reply: ModelReply) -> Sequence[ToolCall]:
    """The calls of a reply: those the provider sent, else those that its text is."""
    if reply.calls or reply.problem or reply.finish_reason == "content_filter":
        return reply.calls
    found = _written(setup, reply.text)
    if isinstance(found, ParseError):
        return ()
    return [ToolCall(id="", name=call.name, arguments=call.raw) for call in found]


def _written(setup: RunSetup, text: str) -> list[WrittenCall] | ParseError:
    if setup.model.name.startswith(_PROGRAM):
        return []
    found = written_calls(text, {tool.name: tool.parameters for tool in setup.registry})
    return [] if found and _is_output(setup.output_schema, text) else found


def _is_output(schema: Mapping[str, object] | None, text: str) -> bool:
    """Whether the output schema asks for the very JSON that could be a call as well."""
    if schema is None or "properties" not in schema or not text.lstrip().startswith("{"):
        return False
    return isinstance(read_arguments(schema, text), Arguments)


def judge(setup: RunSetup, state: RunState, reply: ModelReplied) -> End | SendBack:
    """Decide what a reply without tool calls comes to; what is in it counts, not its reason."""
    text = reply.text.strip()
    if reply.finish_reason == "content_filter":
        return _stopped(state, "content_filter", "the provider's content filter stopped the reply")
    if not text or is_only_reasoning(text):
        if state.repairs < _MAX_EMPTY:
            return SendBack(text=prompts.empty_reply(setup.prompts))
        return _stopped(state, "no_answer", "the model ended without an answer")
    if reply.problem:
        return _again(state, reply.problem, "unreadable", "the reply cannot be read")
    written = _written(setup, text)
    if written:
        problem = written if isinstance(written, ParseError) else unusable(_NOT_TAKEN)
        return _again(state, problem.message, "text_call", "a tool call was written as text")
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
        return _again(
            state, prompts.missing_tools(missing, setup.prompts), "required_tools", problem
        )
    if setup.output_schema is not None:
        return _structured(setup, setup.output_schema, state, reply.text)
    return End(outcome="succeeded", output=reply.text)


def _structured(
    setup: RunSetup, schema: Mapping[str, object], state: RunState, text: str
) -> End | SendBack:
    read = read_arguments(schema, text, effect="read")
    if isinstance(read, ArgumentError):
        told = prompts.wrong_output(read.message, setup.prompts)
        return _again(state, told, "output_schema", read.message)
    return End(outcome="succeeded", output=read.values)


def _again(state: RunState, text: str, code: str, problem: str) -> End | SendBack:
    if state.repairs < MAX_REPAIRS:
        return SendBack(text=text)
    return _stopped(state, code, f"{problem}; {MAX_REPAIRS} reminders did not help")


def _stopped(state: RunState, code: str, message: str) -> End:
    known = state.so_far()
    fault = Fault(code=code, message=message, hint=_NEXT)
    return End(outcome="partial" if known else "failed", output=known or None, error=fault)
