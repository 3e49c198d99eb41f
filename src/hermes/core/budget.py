"""What a tree of tasks may spend, what a task has spent, and which bound comes first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from hermes.core.chat import Usage

_LARGEST = {"max_cost": 10**9, "max_seconds": 10**12}
_MOST = 10**15
"""So that each amount in its smallest unit fits into 64 bits."""
_SMALLEST = {"max_cost": 1e-9, "max_seconds": 1e-6}
"""The unit that each is counted in; of all others it is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds; None means no bound.

    `max_steps` and `max_tool_failures` hold for each task by itself. All others are one budget for
    a root task and everything below it: what a child spends is gone for its parent, too.

    Attributes:
        max_steps: Turns of one task: one model request and its tool calls. Default 10.
        max_model_calls: Requests to a model, repairs and compactions included.
        max_tool_calls: Calls that were started.
        max_tokens: Tokens in and out, summed over all model calls.
        max_cost: Money, in the currency of the models' prices.
        max_seconds: Time at work, summed over all tasks; waiting does not count.
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
            if bound > (largest := _LARGEST.get(item.name, _MOST)):  # infinity too
                raise ValueError(
                    f"{item.name} must be at most {largest:,}; leave it out for no bound"
                )
            if not bound > 0:
                raise ValueError(f"{item.name} must be above 0, got {bound}")

    def too_small(self) -> str:
        """What is wrong with a bound below the unit that it is counted in, or "".

        Who takes new bounds asks; in the record of an older version there may be such ones.
        """
        for name, unit in _SMALLEST.items():
            bound: float | None = getattr(self, name)
            if bound is not None and bound < unit:
                return f"{name} must be at least {number(unit)}, got {bound:g}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a task has used so far."""

    steps: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    seconds: float = 0.0


_TREE = ("max_model_calls", "max_tool_calls", "max_tokens", "max_cost", "max_seconds")
"""The bounds that hold for a whole tree, in the order of `Amounts`."""
_UNITS = (1, 1, 1, 10**9, 10**6)
"""How many of an amount one of its bound is."""
SLICE = 8
"""A task that is not alone at work draws this part of what is left, beside what it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What is bounded for a whole tree, in whole numbers.

    Attributes:
        cost_nano: Billionths of the currency.
        time_us: Microseconds at work.
    """

    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost_nano: int = 0
    time_us: int = 0

    @classmethod
    def of(cls, spent: Spent) -> Amounts:
        """What a task has spent."""
        return cls(
            model_calls=spent.model_calls,
            tool_calls=spent.tool_calls,
            tokens=spent.usage.total_tokens,
            cost_nano=spent.usage.cost_nano,
            time_us=round(spent.seconds * 1e6),
        )

    @property
    def each(self) -> tuple[int, int, int, int, int]:
        """In order."""
        return (self.model_calls, self.tool_calls, self.tokens, self.cost_nano, self.time_us)

    def __add__(self, other: Amounts) -> Amounts:
        return amounts(a + b for a, b in zip(self.each, other.each, strict=True))

    def or_more(self, other: Amounts) -> Amounts:
        """The larger one of each."""
        return amounts(map(max, self.each, other.each))


def amounts(each: Iterable[int]) -> Amounts:
    """Amounts in order."""
    model_calls, tool_calls, tokens, cost_nano, time_us = each
    return Amounts(
        model_calls=model_calls,
        tool_calls=tool_calls,
        tokens=tokens,
        cost_nano=cost_nano,
        time_us=time_us,
    )


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a tree may spend, in the order of `Amounts`; None means no bound."""

    each: tuple[int | None, ...] = (None,) * 5

    @classmethod
    def of(cls, limits: Limits) -> Bounds:
        """Those of a root task."""
        given: list[float | None] = [getattr(limits, name) for name in _TREE]
        return cls(
            tuple(
                None if bound is None else max(1, round(bound * unit))
                for bound, unit in zip(given, _UNITS, strict=True)
            )
        )

    def __bool__(self) -> bool:
        return any(bound is not None for bound in self.each)

    def passed(self, used: Amounts, more: Amounts) -> int | None:
        """The place of the first bound that `more` on top of `used` would pass, or None."""
        for place, bound in enumerate(self.each):
            extra = more.each[place]
            if bound is not None and extra and used.each[place] + extra > bound:
                return place
        return None


def with_tree_bounds(limits: Limits, of: Limits) -> Limits:
    """The same with the bounds on a whole tree, and its depth, of another one."""
    return replace(limits, **{name: getattr(of, name) for name in (*_TREE, "max_depth")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A bound that the next piece of work would pass.

    Attributes:
        spent: In the whole tree, where the bound is one of those.
        estimate: What the next call would take; 0 where nobody can say.
    """

    limit: str
    allowed: float
    spent: float
    estimate: float = 0.0

    def __str__(self) -> str:
        spent = f"{number(self.spent)} spent"
        if self.spent >= self.allowed or not self.estimate:
            return f"{self.limit} = {number(self.allowed)} is reached ({spent})"
        return (
            f"{self.limit} = {number(self.allowed)} is reached "
            f"({spent}, the next call is estimated at {number(self.estimate)})"
        )


_SMALL = 1e-3


def number(value: float) -> str:
    """A figure as people write it, small sums of money included."""
    if value == int(value):
        return f"{int(value)}"
    if abs(value) >= 1:
        return f"{value:.3f}".rstrip("0").rstrip(".")
    # Smaller sums go down to the billionths that money is counted in.
    shown = f"{value:.6f}" if abs(value) >= _SMALL else f"{value:.9f}"
    return shown.rstrip("0") if shown.strip("-0.") else f"{value:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one bound of a tree stands, as people read it."""

    limit: str
    allowed: float
    spent: float

    @property
    def left(self) -> float:
        return max(0.0, self.allowed - self.spent)


def standings(bounds: Bounds, spent: Amounts) -> list[Standing]:
    """How each bound of a tree stands."""
    return [
        Standing(limit=name, allowed=bound / unit, spent=used / unit)
        for name, unit, bound, used in zip(_TREE, _UNITS, bounds.each, spent.each, strict=True)
        if bound is not None
    ]


def excess_at(place: int, bounds: Bounds, spent: Amounts, more: Amounts) -> Excess:
    """The bound at a place of `Bounds`, as people read it."""
    unit = _UNITS[place]
    return Excess(
        limit=_TREE[place],
        allowed=(bounds.each[place] or 0) / unit,
        spent=spent.each[place] / unit,
        # The time and the number of calls are no estimates.
        estimate=more.each[place] / unit if _TREE[place] in ("max_tokens", "max_cost") else 0.0,
    )


def excess_of_steps(limits: Limits, spent: Spent) -> Excess | None:
    """The bound on the turns of a task, if it is reached."""
    if limits.max_steps is None or spent.steps < limits.max_steps:
        return None
    return Excess(limit="max_steps", allowed=limits.max_steps, spent=spent.steps)


def excess_of_time(limits: Limits, spent: Spent) -> Excess | None:
    """The bound on time, if a task has reached it by itself."""
    if limits.max_seconds is None or spent.seconds < limits.max_seconds:
        return None
    return Excess(limit="max_seconds", allowed=limits.max_seconds, spent=round(spent.seconds, 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """What a task asks of its tree's budget.

    Attributes:
        bounds: Of the tree, as the task knows them; those that the store has hold against them.
        spent: By the task itself until now.
        more: What its next call takes, by an estimate.
    """

    root_id: str
    bounds: Bounds
    spent: Amounts
    more: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What a task got of its tree's budget.

    Attributes:
        bounds: Those in force for the tree.
        share: What the task may spend in all; None if its next call does not fit.
        others: What the other tasks have spent, or hold for their own next calls.
        spent: What they have spent.
    """

    bounds: Bounds
    share: Amounts | None
    others: Amounts
    spent: Amounts


def grant(
    draw: Draw,
    bounds: Bounds,
    *,
    held: Amounts,
    others: Amounts,
    spent: Amounts,
    is_alone: bool,
) -> Drawn:
    """What a task gets; the sum of all shares stays within the bounds.

    A share is counted from the task's beginning: what it has spent is part of it. Of what the next
    call takes nothing from, the task gets no more than it has. What was spent above an estimate is
    part of a share, however much it is.

    Args:
        draw: What it asks for.
        bounds: In force.
        held: Its share until now.
        others: What all others of its tree have spent or hold.
        spent: What they have spent.
        is_alone: Nobody else is at work in the tree, or soon will be: then it gets half of what is
            left, to come back seldom; else an eighth, so that not much lies with those who do not
            need it.
    """
    if bounds.passed(others + draw.spent, draw.more) is not None:
        return Drawn(bounds=bounds, share=None, others=others, spent=spent)
    need = draw.spent + draw.more
    share = list(need.or_more(held).each)
    for place, bound in enumerate(bounds.each):
        if bound is not None and draw.more.each[place]:
            left = bound - others.each[place] - need.each[place]
            share[place] = need.each[place] + left // (2 if is_alone else SLICE)
    return Drawn(bounds=bounds, share=amounts(share), others=others, spent=spent)
