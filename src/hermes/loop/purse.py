"""What a task may still spend of its tree's budget, asked before each call.

A root that has no children counts alone: its own journal says what its tree has spent. Every other
task draws shares from the budget of its tree, large enough for some calls, and asks the store again
when the next call does not fit. Share and journal outlive the process, so a restart neither gives
anything back nor loses it.
"""

from __future__ import annotations

from typing import Protocol

from hermes.core.budget import (
    Amounts,
    Bounds,
    Draw,
    Excess,
    Limits,
    excess_at,
    excess_of_steps,
    number,
)
from hermes.core.chat import Usage
from hermes.errors import ConfigError
from hermes.models import Model
from hermes.models.profiles import Prices, profile_in
from hermes.models.wrapper import models_of

from .journal import Journal
from .setup import RecordedStop, RunSetup

REPLY_TOKENS = 256
"""What a first reply is taken to have."""
_TIME = 4


class Purse(Protocol):
    """Says before each call whether it may be made."""

    @property
    def counts_tokens(self) -> bool:
        """Whether anybody asks how large a request is."""
        ...

    async def before_model_call(self, prompt_tokens: int, *, is_step: bool) -> Excess | None:
        """The bound that forbids another model call, or None.

        Args:
            prompt_tokens: Of its request, by an estimate; 0 if nothing counts them.
            is_step: It is a turn of its own, no repair and no compaction.
        """
        ...

    def known(self, prompt_tokens: int) -> Excess | None:
        """The bound that forbids a model call beside the turns, by what is known without asking."""
        ...

    async def before_tool_calls(self, calls: int) -> tuple[int, Excess | None]:
        """How many of so many tool calls may be made, and the bound that forbids the others."""
        ...

    def late(self) -> Excess | None:
        """The bound on time, if it is reached."""
        ...

    def left_s(self) -> float | None:
        """Seconds of work that are left, 0 or more; None for no bound."""
        ...


def purse_of(setup: RunSetup, journal: Journal) -> Purse:
    """The purse of a run."""
    if setup.stop is not None:
        return RecordedPurse(setup, journal, setup.stop)
    return TreePurse(setup, journal)


class TreePurse:
    """Counts against the budget of the task's tree."""

    def __init__(self, setup: RunSetup, journal: Journal) -> None:
        self._limits, self._journal = setup.limits, journal
        self._bounds = Bounds.of(setup.limits)
        self._is_program = is_program(setup.model)
        self._prices = prices_of(setup.model)
        self._share: Amounts | None = None
        self._others = Amounts()

    @property
    def counts_tokens(self) -> bool:
        return bool(self._bounds) and not self._is_program

    async def before_model_call(self, prompt_tokens: int, *, is_step: bool) -> Excess | None:
        spent = self._journal.task.status.spent
        excess = excess_of_steps(self._limits, spent) if is_step else None
        if excess is not None or not self._bounds:
            return excess
        return await self._excess(self._of_model_call(prompt_tokens))

    def known(self, prompt_tokens: int) -> Excess | None:
        spent, more = Amounts.of(self._journal.spent), self._of_model_call(prompt_tokens)
        bounds = self._bounds if self._is_alone else _within(self._share, self._bounds)
        place = bounds.passed(spent, more)
        return None if place is None else excess_at(place, bounds, spent, more)

    async def before_tool_calls(self, calls: int) -> tuple[int, Excess | None]:
        if not calls or not self._bounds:
            return calls, None
        excess = await self._excess(Amounts(tool_calls=calls))
        if excess is None:
            return calls, None
        fitting = max(0, int(excess.allowed - excess.spent))
        if fitting and await self._excess(Amounts(tool_calls=fitting)) is not None:
            fitting = 0  # somebody else was faster
        return fitting, excess

    def late(self) -> Excess | None:
        if self._bounds.each[_TIME] is None:
            return None
        used, more = self._used, Amounts(time_us=1)
        if self._bounds.passed(used, more) is None:
            return None
        return excess_at(_TIME, self._bounds, used, more)

    def left_s(self) -> float | None:
        bound = self._bounds.each[_TIME]
        return None if bound is None else max(0, bound - self._used.time_us) / 1e6

    @property
    def _used(self) -> Amounts:
        """What the task has spent, and the others by what is known of them."""
        return Amounts.of(self._journal.spent) + self._others

    def _of_model_call(self, prompt_tokens: int) -> Amounts:
        """What the next model call takes; its reply as much as those before, on average."""
        if self._is_program:
            return Amounts(model_calls=1, time_us=1)
        spent = self._journal.task.status.spent
        calls, written = spent.model_calls, spent.usage.completion_tokens
        reply = -(-written // calls) if written and calls else REPLY_TOKENS
        usage = Usage(prompt_tokens=prompt_tokens, completion_tokens=reply)
        cost = 0 if self._prices is None else self._prices.cost_nano(usage)
        return Amounts(model_calls=1, tokens=usage.total_tokens, cost_nano=cost, time_us=1)

    async def _excess(self, more: Amounts) -> Excess | None:
        """The bound that forbids to spend `more`, or None; then it is the task's to spend."""
        spent = Amounts.of(self._journal.spent)
        if self._is_alone:
            if self._bounds.passed(spent, more) is None:
                return None
        elif self._share and _within(self._share, self._bounds).passed(spent, more) is None:
            return None
        task = self._journal.task
        drawn = await self._journal.draw(
            Draw(root_id=task.root_id, bounds=self._bounds, spent=spent, more=more)
        )
        self._bounds, self._share, self._others = drawn.bounds, drawn.share, drawn.spent
        if drawn.share is not None:
            return None
        place = drawn.bounds.passed(drawn.others + spent, more)
        assert place is not None  # or it would have fitted
        return excess_at(place, drawn.bounds, drawn.others + spent, more)

    @property
    def _is_alone(self) -> bool:
        return self._journal.task.spec.parent_id is None and not self._journal.state.has_children


class RecordedPurse:
    """Stops where the record did, and draws nothing."""

    def __init__(self, setup: RunSetup, journal: Journal, stop: RecordedStop) -> None:
        self._setup, self._journal, self._stop = setup, journal, stop

    @property
    def counts_tokens(self) -> bool:
        return False

    async def before_model_call(self, prompt_tokens: int, *, is_step: bool) -> Excess | None:
        spent, reached = self._journal.spent, self._stop.reached
        if is_step and (excess := excess_of_steps(self._setup.limits, spent)) is not None:
            return excess
        return reached if spent.model_calls >= self._stop.model_calls else None

    def known(self, prompt_tokens: int) -> Excess | None:
        return None

    async def before_tool_calls(self, calls: int) -> tuple[int, Excess | None]:
        reached = self._stop.reached
        if reached is None or reached.limit != "max_tool_calls":
            return calls, None
        fitting = max(0, self._stop.tool_calls - self._journal.task.status.spent.tool_calls)
        return (calls, None) if calls <= fitting else (fitting, reached)

    def late(self) -> Excess | None:
        return None

    def left_s(self) -> float | None:
        return None


def is_program(model: Model) -> bool:
    """Whether a model is a program, as a playbook is, which takes no tokens."""
    return hasattr(model, "program_parts")


def prices_of(model: Model) -> Prices | None:
    """What a model costs, as far as that is known."""
    profile = profile_in(model)
    return profile.prices if profile else None


def check_priced(model: Model, limits: Limits) -> None:
    """Refuse to bound money where nobody knows what a call costs.

    Raises:
        ConfigError: No price is known of the model, or of one that stands in for it, and the
            limits have a `max_cost`.
    """
    if limits.max_cost is None:
        return
    for each in models_of(model):
        if not is_program(each) and prices_of(each) is None:
            raise ConfigError(
                f"max_cost = {number(limits.max_cost)} cannot be kept: "
                f"no price is known of model {each.name!r}",
                hint="give its prices for a million tokens in a file of profiles "
                "(HERMES_MODEL_PROFILES), or bound max_tokens in place of max_cost",
            )


def _within(share: Amounts | None, bounds: Bounds) -> Bounds:
    """A share as bounds, where the tree has some."""
    parts = (share or Amounts()).each
    return Bounds(
        tuple(
            None if bound is None else part for part, bound in zip(parts, bounds.each, strict=True)
        )
    )
