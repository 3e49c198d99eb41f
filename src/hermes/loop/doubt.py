"""A person's word on calls whose outcome nobody knows."""

from __future__ import annotations

from typing import Literal

from hermes.core.effects import may_repeat
from hermes.core.events import ToolReconciled

from .journal import Journal
from .state import RunState

Decision = Literal["done", "again"]
"""`done`: the call took place. `again`: it did not, make it now."""

DONE = "This call took place, as a person confirmed; its result was not recorded."


def calls_in_doubt(state: RunState) -> list[str]:
    """Paths of the calls to decide on: those in doubt, and unsafe ones that broke off."""
    broken_off = {
        path
        for path, begun in state.started.items()
        if not may_repeat(begun.effect) and path not in state.cleared and path not in state.held
    }
    return sorted(state.in_doubt | broken_off)


def decide(journal: Journal, decision: Decision, *, by: str) -> None:
    """Note the decision on every call in doubt; the task must be at work.

    Args:
        journal: Of the task.
        decision: What is known of the calls.
        by: Who decided.
    """
    for path in calls_in_doubt(journal.state):
        begun = journal.state.started[path]
        waits = [wait for wait, item in journal.state.waiting.items() if item.path == path]
        journal.end_waits(waits)
        journal.note(
            ToolReconciled(
                path=path,
                call_id=begun.call_id,
                name=begun.name,
                decision=decision,
                by=by,
                content=DONE if decision == "done" else "",
            )
        )
