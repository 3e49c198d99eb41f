"""The budgets of trees of tasks, in dictionaries."""

from __future__ import annotations

from hermes.core.budget import Bounds, Draw, Drawn
from hermes.store.budgets import Member, Share, TreeBudget, drawn, total
from hermes.store.memory_streams import MemoryStreams


class MemoryBudgets:
    """Bounds by root, and shares by root and task."""

    def __init__(self, streams: MemoryStreams) -> None:
        self._streams = streams
        self._bounds: dict[str, Bounds] = {}
        self._shares: dict[str, dict[str, Share]] = {}

    def draw(self, task_id: str, wanted: Draw) -> Drawn:
        """Give a task its share."""
        bounds = self._bounds.setdefault(wanted.root_id, wanted.bounds)
        shares = self._shares.setdefault(wanted.root_id, {})
        final = {task_id for task_id, share in shares.items() if share.is_final}
        got, changed = drawn(
            task_id,
            wanted,
            bounds,
            [each for each in self._members(wanted.root_id) if each.task_id not in final],
            total(shares[each].held for each in final),
        )
        shares.update((share.task_id, share) for share in changed)
        return got

    def put(self, root_id: str, bounds: Bounds) -> None:
        """Put bounds in force."""
        self._bounds[root_id] = bounds

    def budget(self, root_id: str) -> TreeBudget:
        """How the budget of a tree stands."""
        members = self._members(root_id)
        return TreeBudget(
            bounds=self._bounds.get(root_id),
            spent=total(member.spent for member in members),
            tasks=len(members),
        )

    def forget(self, root_id: str) -> None:
        """Drop what is known of a tree that is gone."""
        self._bounds.pop(root_id, None)
        self._shares.pop(root_id, None)

    def _members(self, root_id: str) -> list[Member]:
        shares = self._shares.get(root_id, {})
        return [
            Member(
                task_id=stream.task.task_id,
                status=stream.task.status,
                held=share.held if (share := shares.get(stream.task.task_id)) else None,
            )
            for stream in self._streams
            if stream.task.root_id == root_id
        ]
