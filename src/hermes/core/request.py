"""What goes into a run and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from hermes.core.chat import Usage
from hermes.core.clock import rfc3339
from hermes.core.events import Fault, Pending


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRequest:
    """One request, whatever door it came through.

    Attributes:
        input: The task in words, or a JSON object that fits the agent's input schema.
        session_id: Requests of one session are handled one after the other.
        metadata: Kept with the task; never shown to the model.
    """

    input: str | Mapping[str, object]
    session_id: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEntry:
    """One model or tool call, as a view of the journal.

    Attributes:
        step: From 1, in the order the calls were begun.
        name: Model name or tool name.
        duration_ms: 0 while it has not ended.
        tokens_used: In and out; 0 for tools.
        status: `ok`, `error`, `timeout`, `refused`, `in_doubt`, `waiting` or `running`.
        path: Step path in the task, such as `/turn3/tool1`.
        started_ms: Milliseconds since the task was created.
        thought: What the model said or reasoned beside its calls.
        tries: How often a tool was called for it; more than once after errors that may pass.
        cached: The reply or result is of an earlier time; nothing was asked or run.
    """

    step: int
    type: Literal["llm", "tool"]
    name: str
    duration_ms: int
    tokens_used: int
    status: str
    path: str
    started_ms: int
    thought: str | None = None
    tries: int = 1
    cached: bool = False

    def as_json(self) -> dict[str, object]:
        known: dict[str, object] = {
            "step": self.step,
            "type": self.type,
            "name": self.name,
            "duration_ms": self.duration_ms,
            "tokens_used": self.tokens_used,
            "status": self.status,
            "path": self.path,
            "started_ms": self.started_ms,
        }
        if self.tries > 1:
            known["tries"] = self.tries
        if self.cached:
            known["cached"] = True
        return known | {"thought": self.thought} if self.thought else known


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResponse:
    """What a run came to.

    Attributes:
        output: The answer: text, or the object that the agent's output schema asks for. On
            `partial` what is known so far.
        trace: Every model and tool call.
        usage: Tokens summed over all model calls.
        status: The task's state in lower case.
        error: Why it did not succeed.
        cost: Money spent, or None where no price is known.
        pending: What the task waits for.
    """

    output: object
    trace: tuple[TraceEntry, ...]
    usage: Usage
    task_id: str
    status: str
    error: Fault | None = None
    cost: float | None = None
    pending: tuple[Pending, ...] = ()

    def as_json(self) -> dict[str, object]:
        """As the command and the doors show it."""
        return {
            "task_id": self.task_id,
            "status": self.status,
            "output": self.output,
            "error": asdict(self.error) if self.error else None,
            "usage": self.usage.as_json(),
            "cost": self.cost,
            "trace": [entry.as_json() for entry in self.trace],
            "pending": [
                asdict(item) | {"due_at": rfc3339(item.due_at) if item.due_at else None}
                for item in self.pending
            ],
        }
