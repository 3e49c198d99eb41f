"""Tools that failed so often in a row that a person has to see to them."""

from __future__ import annotations

from dataclasses import replace

from hermes.core.events import Fault, ModelReplied

from .answer import End, SendBack, judge
from .setup import RunSetup
from .state import RunState

STOPPED = "stopped"
_ASK = "ask_human"


def stopped(setup: RunSetup, state: RunState) -> list[str]:
    """The tools that are not called any more in this task, by their present names."""
    bound = setup.limits.max_tool_failures
    if bound is None:
        return []
    return [name for name, failures in state.failures.items() if failures >= bound]


def refusal(setup: RunSetup, state: RunState, name: str) -> Fault | None:
    """Why a tool is not called any more; None if it is."""
    if name not in stopped(setup, state):
        return None
    ask = f", or ask by {_ASK}" if _ASK in setup.registry else ""
    return Fault(
        code=STOPPED,
        message=f"{_failed(state, name)}; it is not called any more in this task, nothing was run",
        hint=f"hand over to a person: say what failed and what has to be done{ask}",
    )


def conclude(setup: RunSetup, state: RunState, reply: ModelReplied) -> End | SendBack:
    """What a reply without tool calls comes to; an end says what a person has to see to."""
    found, names = judge(setup, state, reply), stopped(setup, state)
    if not names:
        return found
    fault = Fault(
        code=STOPPED,
        message=f"{'; '.join(_failed(state, name) for name in names)}: "
        "the answer had to do without",
        hint=f"see what is wrong with {', '.join(names)}, then run it again",
    )
    match found:
        case End(outcome="succeeded"):
            return replace(found, outcome="partial", error=fault)
        case SendBack() if reply.text.strip() and set(names) & set(setup.required_tools):
            # It cannot succeed any more, however often the model is told that it must.
            return End(outcome="partial", output=reply.text, error=fault)
        case _:
            return found


def _failed(state: RunState, name: str) -> str:
    times, last = state.failures[name], state.last_failure[name]
    return f"{name} failed {times} times in a row, at last: {last:.300}"
