"""Everything a run is given, settled before its first turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime

from hermes.core import json
from hermes.core.budget import Excess, Limits
from hermes.core.chat import ChatMessage
from hermes.core.events import TaskEvent, ToolStarted
from hermes.core.request import AgentRequest
from hermes.models import Model
from hermes.tools import DEFAULT_LIMIT_CHARS, ToolGuard, ToolRegistry
from hermes.tools.policy import Policy

from .prompts import Prompts, shipped

COMPACT_AT = 0.6
SHORTEN_CHARS = 500


def _english() -> Prompts:
    return shipped("en")


def _never() -> bool:
    return False


def _nothing() -> None:
    pass


def _at_once(begun: ToolStarted) -> datetime | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """What the holder of the lease says while a run goes on; each is asked anew every time.

    Attributes:
        should_stop: Whether to stop at the next border between steps, the task still at work.
        check_lease: Called directly before each model and tool call; raises `StaleLeaseError`
            when the lease may have run out.
        free_at: When a call that an earlier holder began can surely not act any more; None if
            that is so already.
    """

    should_stop: Callable[[], bool] = _never
    check_lease: Callable[[], None] = _nothing
    free_at: Callable[[ToolStarted], datetime | None] = _at_once


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStop:
    """Where a record stands against its budget, for a run that decides it again.

    Attributes:
        reached: The bound that was reached, if it was one of the tree's.
        model_calls: Model calls that were begun before that.
        tool_calls: Tool calls that were begun in all.
    """

    reached: Excess | None = None
    model_calls: int = 0
    tool_calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetup:
    """What a run works with.

    Attributes:
        opening: System prompt, earlier exchanges of the session, and the goal.
        limits: The task's bounds.
        output_schema: JSON Schema that the answer has to fit, or None for prose.
        required_tools: The run may only end after each of these has succeeded.
        stream: Ask the model for a stream and pass its pieces to the observers.
        result_limit_chars: A tool result above this is cut to head, tail and a handle.
        tenure: What the holder of the lease says.
        guard: What is known of the tools in this process; the run's own knowledge if None.
        hidden: Which tools a model call is not offered, by its path; None if that is to be seen.
        policy: What calls may do without a person once content from outside was read.
        stop: Where a record reached a bound, which then decides in place of the budget.
        asks: Whether a call may be stopped for a person; false where nothing has an effect.
        window: Tokens of a whole request and its reply; None if nothing is ever compacted.
        compact_at: Share of the window from which on it is compacted.
        shorten_chars: An older tool result above this is sent shortened then.
        compactions: Those of a record, by the path of the model call that they came before; None
            if they are to be made.
        prompts: What the framework itself says to the model.
    """

    model: Model
    registry: ToolRegistry
    opening: tuple[ChatMessage, ...]
    request: AgentRequest
    limits: Limits = Limits()
    output_schema: Mapping[str, object] | None = None
    required_tools: tuple[str, ...] = ()
    stream: bool = False
    result_limit_chars: int = DEFAULT_LIMIT_CHARS
    tenure: Tenure = Tenure()
    guard: ToolGuard | None = None
    hidden: Callable[[str], Sequence[str]] | None = None
    policy: Policy = Policy()
    asks: bool = True
    stop: RecordedStop | None = None
    window: int | None = None
    compact_at: float = COMPACT_AT
    shorten_chars: int = SHORTEN_CHARS
    compactions: Mapping[str, Sequence[TaskEvent]] | None = None
    prompts: Prompts = field(default_factory=_english)
    prompt_digest: str = field(init=False)
    limits_table: Mapping[str, object] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits_table", asdict(self.limits))
        texts = [getattr(message, "text", "") for message in self.opening]
        object.__setattr__(self, "prompt_digest", json.digest(texts))
