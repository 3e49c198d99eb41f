"""The budget of a tree of tasks, for people and for programs."""

from __future__ import annotations

from hermes.core.budget import Bounds, Standing, number, standings
from hermes.core.task import Task
from hermes.store import TreeBudget

from . import output

_NAMES = {
    "max_model_calls": "model calls",
    "max_tool_calls": "tool calls",
    "max_tokens": "tokens",
    "max_cost": "money",
    "max_seconds": "seconds",
}


def budget_lines(task: Task, tree: TreeBudget) -> list[str]:
    """What the whole tree has spent, where that is more than the task, and what is left of it."""
    lines: list[str] = []
    if tree.tasks > 1:
        spent = tree.spent
        calls = f"{spent.model_calls:,} model calls, {output.count(spent.tool_calls, 'tool call')}"
        money = f", {money_of(spent.cost_nano)}" if spent.cost_nano else ""
        lines.append(
            f"tree     {tree.tasks:,} tasks: {calls}, {spent.tokens:,} tokens{money}, "
            f"{spent.time_us / 1e6:.1f} s"
        )
    found = _standings(task, tree)
    if found:
        parts = [
            f"{_figure(each.limit, each.left)} of {_figure(each.limit, each.allowed)} "
            f"{_NAMES[each.limit]}"
            for each in found
        ]
        lines.append(f"left     {', '.join(parts)}")
    return lines


def budget_object(task: Task, tree: TreeBudget) -> dict[str, object]:
    """The same for programs."""
    return {
        "tasks": tree.tasks,
        "model_calls": tree.spent.model_calls,
        "tool_calls": tree.spent.tool_calls,
        "tokens": tree.spent.tokens,
        "cost": tree.spent.cost_nano / 1e9 if tree.spent.cost_nano else None,
        "seconds": tree.spent.time_us / 1e6,
        "bounds": {
            each.limit: {"allowed": each.allowed, "spent": each.spent, "left": each.left}
            for each in _standings(task, tree)
        },
    }


def money_of(cost_nano: int) -> str:
    """A sum of money; small ones with their first figures."""
    cost = cost_nano / 1e9
    return f"money {cost:,.2f}" if cost >= 1 else f"money {number(cost)}"


def _standings(task: Task, tree: TreeBudget) -> list[Standing]:
    return standings(tree.bounds or Bounds.of(task.spec.limits), tree.spent)


def _figure(limit: str, value: float) -> str:
    if limit == "max_seconds":
        return f"{value:,.1f}"
    return number(value) if limit == "max_cost" else f"{value:,.0f}"
