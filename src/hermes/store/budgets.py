"""The budget of a tree of tasks: who holds what share of it, in whatever store.

A share counts from the beginning of its task. The sum of what settled and waiting tasks have spent
and of the shares of those at work stays within the bounds, but for what calls took above their
estimates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import cast

from hermes.core.budget import Amounts, Bounds, Draw, Drawn, amounts, grant
from hermes.core.task import TaskState, TaskStatus
from hermes.store.driver import Row, Value
from hermes.store.rows import decode_status

NO_AMOUNTS = Amounts()
_AT_WORK_SOON = frozenset({TaskState.PENDING, TaskState.DISPATCHED, TaskState.PROCESSING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A task of the tree whose share may still change.

    Attributes:
        held: Its share; None if it never drew one.
    """

    task_id: str
    status: TaskStatus
    held: Amounts | None = None

    @property
    def spent(self) -> Amounts:
        return Amounts.of(self.status.spent)

    @property
    def is_at_work(self) -> bool:
        return self.status.state is TaskState.PROCESSING

    @property
    def taken(self) -> Amounts:
        """What it leaves to nobody else: of a task that is not at work, what it has spent."""
        return self.spent.or_more(self.held or NO_AMOUNTS) if self.is_at_work else self.spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A task's share as it is to be kept.

    Attributes:
        is_final: The task is settled.
    """

    task_id: str
    held: Amounts
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeBudget:
    """How the budget of a tree stands.

    Attributes:
        bounds: Those that a draw has put in force; None if there was none so far.
        spent: By all of its tasks.
        tasks: How many it has.
    """

    bounds: Bounds | None
    spent: Amounts
    tasks: int


def drawn(
    task_id: str, wanted: Draw, bounds: Bounds, members: Sequence[Member], settled: Amounts
) -> tuple[Drawn, list[Share]]:
    """What a task gets, and the shares that change by it.

    What tasks that are not at work hold beyond what they have spent goes back to the tree: they
    draw anew before their next call.

    Args:
        task_id: Who draws.
        wanted: What it asks for.
        bounds: In force.
        members: All tasks of the tree but those with a final share.
        settled: The sum of the final shares.
    """
    others = [member for member in members if member.task_id != task_id]
    own = next((member for member in members if member.task_id == task_id), None)
    got = grant(
        wanted,
        bounds,
        held=own.held if own is not None and own.held is not None else NO_AMOUNTS,
        others=total((settled, *(member.taken for member in others))),
        spent=total((settled, *(member.spent for member in others))),
        is_alone=not any(member.status.state in _AT_WORK_SOON for member in others),
    )
    changed = [
        Share(task_id=each.task_id, held=each.spent, is_final=each.status.state.is_terminal)
        for each in others
        if each.status.state.is_terminal or _lies_idle(each)
    ]
    if got.share is not None:
        changed.append(Share(task_id=task_id, held=got.share))
    return got, changed


def _lies_idle(member: Member) -> bool:
    return not member.is_at_work and member.held not in (None, member.spent)


def total(each: Iterable[Amounts]) -> Amounts:
    """The sum."""
    return reduce(add, each, NO_AMOUNTS)


def tree_budget(bounds: Bounds | None, members: Sequence[Member], final: Row | None) -> TreeBudget:
    """How a budget stands, out of its rows."""
    settled, spent = (0, NO_AMOUNTS) if final is None else read_final(final)
    return TreeBudget(
        bounds=bounds,
        spent=total((spent, *(member.spent for member in members))),
        tasks=settled + len(members),
    )


def budget_values(root_id: str, bounds: Bounds) -> dict[str, Value]:
    """What `keep_budget` and `put_budget` take."""
    return {"root_id": root_id, **dict(zip(_COLUMNS, bounds.each, strict=True))}


def share_values(root_id: str, share: Share) -> dict[str, Value]:
    """What `put_share` takes."""
    return {
        "root_id": root_id,
        "task_id": share.task_id,
        "is_final": int(share.is_final),
        **dict(zip(_COLUMNS, share.held.each, strict=True)),
    }


def read_bounds(row: Row) -> Bounds:
    """Out of the row of a budget."""
    return Bounds(cast("tuple[int | None, ...]", tuple(row)))


def read_member(row: Row) -> Member:
    """Out of a row of `budget_members`."""
    task_id, status, *held = row
    return Member(
        task_id=cast("str", task_id),
        status=decode_status(cast("bytes", status)),
        held=None if held[0] is None else amounts(cast("list[int]", held)),
    )


def read_final(row: Row) -> tuple[int, Amounts]:
    """How many settled tasks there are with a final share, and what they have spent."""
    count, *spent = row
    return cast("int", count), amounts(cast("list[int]", spent))


_COLUMNS = ("model_calls", "tool_calls", "tokens", "cost_nano", "time_us")
