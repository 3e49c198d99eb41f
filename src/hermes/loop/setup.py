"""Everything a run is given, settled before its first turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime

from hermes.core import json
from hermes.core.budget import Limits
from hermes.core.chat import ChatMessage
from hermes.core.events import ToolStarted
from hermes.core.request import AgentRequest
from hermes.models import Model
from hermes.tools import DEFAULT_LIMIT_CHARS, ToolGuard, ToolRegistry
from hermes.tools.policy import Policy


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
        asks: Whether a call may be stopped for a person; false where nothing has an effect.
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
    prompt_digest: str = field(init=False)
    limits_table: Mapping[str, object] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits_table", asdict(self.limits))
        texts = [getattr(message, "text", "") for message in self.opening]
        object.__setattr__(self, "prompt_digest", json.digest(texts))
