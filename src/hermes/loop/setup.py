"""Everything a run is given, settled before its first turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from hermes.core import json
from hermes.core.budget import Limits
from hermes.core.chat import ChatMessage
from hermes.core.request import AgentRequest
from hermes.models import Model
from hermes.tools import DEFAULT_LIMIT_CHARS, ToolRegistry


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
    prompt_digest: str = field(init=False)
    limits_table: Mapping[str, object] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits_table", asdict(self.limits))
        texts = [getattr(message, "text", "") for message in self.opening]
        object.__setattr__(self, "prompt_digest", json.digest(texts))
