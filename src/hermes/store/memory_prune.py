"""Old tasks go, in dictionaries; the twin of `prune.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hermes.core.task import Task
from hermes.store.budgets_memory import MemoryBudgets
from hermes.store.memory_lanes import MemoryLanes
from hermes.store.memory_streams import MemoryStreams
from hermes.store.memory_waits import MemoryWaits
from hermes.store.values import Pruned


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPruning:
    """Removes trees of tasks that are settled and were not touched since `before`."""

    streams: MemoryStreams
    lanes: MemoryLanes
    waits: MemoryWaits
    budgets: MemoryBudgets
    before: datetime

    def prune(self, *, dry_run: bool) -> Pruned:
        """Remove them, or only count them."""
        trees: dict[str, list[Task]] = {}
        for stream in self.streams:
            trees.setdefault(stream.task.root_id, []).append(stream.task)
        doomed = [task for tree in trees.values() if self._may_go(tree) for task in tree]
        keys = {task.task_id for task in doomed}
        used = {
            name
            for stream in self.streams
            if stream.task.task_id not in keys
            for name in stream.blobs
        }
        unused = {name: data for name, data in self.streams.blobs.items() if name not in used}
        events = sum(len(self.streams.get(key).records) for key in keys)
        if not dry_run:
            for key in keys:
                self.streams.forget(key)
                self.lanes.forget_task(key)
                self.waits.forget_task(key)
                self.budgets.forget(key)
            self.waits.forget_signals(self.before)
            for name in unused:
                del self.streams.blobs[name]
        return Pruned(
            tasks=len(keys),
            events=events,
            blobs=len(unused),
            blob_bytes=sum(map(len, unused.values())),
        )

    def _may_go(self, tree: Sequence[Task]) -> bool:
        keys = {task.task_id for task in tree}
        sessions = {task.spec.session_id for task in tree} - {None}
        open_sessions = {stream.task.spec.session_id for stream in self.streams if stream.is_open}
        return (
            all(task.state.is_terminal and task.status.updated_at < self.before for task in tree)
            and not any(
                queued.message.task_id in keys and queued.state != "dead" for queued in self.lanes
            )
            and not any(
                review.task_id in keys and review.decision is None
                for review in self.waits.reviews.values()
            )
            and sessions.isdisjoint(open_sessions)
        )
