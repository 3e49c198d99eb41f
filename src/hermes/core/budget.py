"""What a task may spend, what it has spent, and which bound comes first."""

from __future__ import annotations

from dataclasses import dataclass, fields

from hermes.core.chat import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one task; None means no bound.

    Attributes:
        max_steps: Turns: one model request and its tool calls. Default 10.
        max_model_calls: Requests to a model, repairs included.
        max_tool_calls: Calls that were started.
        max_tokens: Tokens in and out, summed over all model calls.
        max_seconds: Time at work; waiting does not count.
    """

    max_steps: int | None = 10
    max_model_calls: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            bound = getattr(self, item.name)
            if bound is not None and bound <= 0:
                raise ValueError(f"{item.name} must be above 0, got {bound}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a task has used so far."""

    steps: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A bound that the next piece of work would pass."""

    limit: str
    allowed: float
    spent: float

    def __str__(self) -> str:
        return f"{self.limit} {self.allowed:g} is used up ({self.spent:g} spent)"


def excess_before_turn(limits: Limits, spent: Spent, *, seconds: float) -> Excess | None:
    """The first bound that forbids another model call, or None.

    Args:
        limits: The task's bounds.
        spent: What the journal says was used.
        seconds: Time at work until now.
    """
    return (
        _reached("max_steps", limits.max_steps, spent.steps)
        or _reached("max_model_calls", limits.max_model_calls, spent.model_calls)
        or _reached("max_tokens", limits.max_tokens, spent.usage.total_tokens)
        or _reached("max_seconds", limits.max_seconds, seconds)
    )


def excess_before_calls(limits: Limits, spent: Spent, *, calls: int) -> Excess | None:
    """The bound that forbids `calls` more tool calls, or None."""
    if limits.max_tool_calls is None or spent.tool_calls + calls <= limits.max_tool_calls:
        return None
    return Excess(limit="max_tool_calls", allowed=limits.max_tool_calls, spent=spent.tool_calls)


def _reached(name: str, allowed: float | None, spent: float) -> Excess | None:
    if allowed is None or spent < allowed:
        return None
    return Excess(limit=name, allowed=allowed, spent=spent)
