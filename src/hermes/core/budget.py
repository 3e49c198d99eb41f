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
        max_cost: Money, in the currency of the models' prices.
        max_seconds: Time at work; waiting does not count.
        max_tool_failures: Failures of one tool in a row; then it is not called any more, and a
            person has to see to it. Default 3. A playbook's rules say themselves what an error
            means: there it does not hold.
        max_depth: Generations of child tasks below the root. Default 5.
    """

    max_steps: int | None = 10
    max_model_calls: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    max_tool_failures: int | None = 3
    max_depth: int | None = 5

    def __post_init__(self) -> None:
        for item in fields(self):
            bound: object = getattr(self, item.name)
            if bound is None:
                continue
            wanted = (int, float) if item.name in ("max_seconds", "max_cost") else int
            if isinstance(bound, bool) or not isinstance(bound, wanted):
                raise ValueError(f"{item.name} must be a number, got {bound!r}")
            if not bound > 0:
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
        return f"{self.limit} = {self.allowed:g} is reached ({self.spent:g} spent)"


def excess_before_model_call(
    limits: Limits, spent: Spent, *, is_repair: bool = False
) -> Excess | None:
    """The first bound that forbids another model call, or None.

    Args:
        limits: The task's bounds.
        spent: What the journal says was used.
        is_repair: The call sends a reply back within its step, so it is no further step.
    """
    return (
        (None if is_repair else _reached("max_steps", limits.max_steps, spent.steps))
        or _reached("max_model_calls", limits.max_model_calls, spent.model_calls)
        or _reached("max_tokens", limits.max_tokens, spent.usage.total_tokens)
        or excess_of_time(limits, spent)
    )


def excess_of_time(limits: Limits, spent: Spent) -> Excess | None:
    """The bound on time, if it is reached."""
    return _reached("max_seconds", limits.max_seconds, round(spent.seconds, 3))


def excess_before_calls(limits: Limits, spent: Spent, *, calls: int) -> Excess | None:
    """The bound that forbids `calls` more tool calls, or None."""
    if limits.max_tool_calls is None or spent.tool_calls + calls <= limits.max_tool_calls:
        return None
    return Excess(limit="max_tool_calls", allowed=limits.max_tool_calls, spent=spent.tool_calls)


def _reached(name: str, allowed: float | None, spent: float) -> Excess | None:
    if allowed is None or spent < allowed:
        return None
    return Excess(limit=name, allowed=allowed, spent=spent)
