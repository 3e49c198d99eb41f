"""The loop: turns of a model and its tools, every step in the journal."""

from .journal import Journal, Observer
from .prompts import system_prompt
from .run import Run, decide_doubt
from .setup import RESULT_LIMIT_CHARS, RunSetup
from .state import RunState

__all__ = [
    "RESULT_LIMIT_CHARS",
    "Journal",
    "Observer",
    "Run",
    "RunSetup",
    "RunState",
    "decide_doubt",
    "system_prompt",
]
