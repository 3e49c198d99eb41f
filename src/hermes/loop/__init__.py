"""The loop: turns of a model and its tools, every step in the journal."""

from .answers import Taken, cancelled_by, has_news, take_in, wants_cancel
from .doubt import Decision, calls_in_doubt, decide
from .journal import CallObserver, Journal, Observer, tell
from .prompts import PromptBook, Prompts, system_prompt
from .run import Run, settle_cancelled
from .setup import RunSetup, Tenure
from .state import RunState

__all__ = [
    "CallObserver",
    "Decision",
    "Journal",
    "Observer",
    "PromptBook",
    "Prompts",
    "Run",
    "RunSetup",
    "RunState",
    "Taken",
    "Tenure",
    "calls_in_doubt",
    "cancelled_by",
    "decide",
    "has_news",
    "settle_cancelled",
    "system_prompt",
    "take_in",
    "tell",
    "wants_cancel",
]
