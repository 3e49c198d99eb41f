"""The loop: turns of a model and its tools, every step in the journal."""

from .doubt import Decision, calls_in_doubt, decide
from .journal import Journal, Observer, tell
from .prompts import system_prompt
from .run import Run, settle_cancelled
from .setup import RunSetup
from .state import RunState

__all__ = [
    "Decision",
    "Journal",
    "Observer",
    "Run",
    "RunSetup",
    "RunState",
    "calls_in_doubt",
    "decide",
    "settle_cancelled",
    "system_prompt",
    "tell",
]
