"""The journal: events, tasks, messages in lanes, workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.store.base import (
    Maintenance,
    QuotaTable,
    Store,
    TaskReader,
    TaskWriter,
    WorkerTable,
)
from hermes.store.budgets import TreeBudget
from hermes.store.deeds import BEGINNING, PAGE, Deed, Place
from hermes.store.queries import Migration
from hermes.store.quota import StoreQuota
from hermes.store.sqlite import SQLiteStore
from hermes.store.url import is_away, open_store, pending_migrations
from hermes.store.values import (
    MAX_TASKS,
    NOTHING,
    Also,
    EffectRow,
    EffectState,
    Lease,
    MessageRow,
    MessageState,
    NewTask,
    Pruned,
    Review,
    StoreStatus,
    Submitted,
    TaskQuery,
    Wait,
    Worker,
)

if TYPE_CHECKING:
    from hermes.store.memory import MemoryStore

__all__ = [
    "BEGINNING",
    "MAX_TASKS",
    "NOTHING",
    "PAGE",
    "Also",
    "Deed",
    "EffectRow",
    "EffectState",
    "Lease",
    "Maintenance",
    "MemoryStore",
    "MessageRow",
    "MessageState",
    "Migration",
    "NewTask",
    "Place",
    "Pruned",
    "QuotaTable",
    "Review",
    "SQLiteStore",
    "Store",
    "StoreQuota",
    "StoreStatus",
    "Submitted",
    "TaskQuery",
    "TaskReader",
    "TaskWriter",
    "TreeBudget",
    "Wait",
    "Worker",
    "WorkerTable",
    "is_away",
    "open_store",
    "pending_migrations",
]


def __getattr__(name: str) -> object:
    # Loaded only for those whose journal is not kept.
    if name == "MemoryStore":
        from hermes.store.memory import MemoryStore

        return MemoryStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
