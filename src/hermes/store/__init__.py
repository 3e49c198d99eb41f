"""The journal: events, tasks, messages in lanes, workers."""

from hermes.store.base import Maintenance, Store, TaskReader, TaskWriter, WorkerTable
from hermes.store.memory import MemoryStore
from hermes.store.queries import Migration
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

__all__ = [
    "MAX_TASKS",
    "NOTHING",
    "Also",
    "EffectRow",
    "EffectState",
    "Lease",
    "Maintenance",
    "MemoryStore",
    "MessageRow",
    "MessageState",
    "Migration",
    "NewTask",
    "Pruned",
    "Review",
    "SQLiteStore",
    "Store",
    "StoreStatus",
    "Submitted",
    "TaskQuery",
    "TaskReader",
    "TaskWriter",
    "Wait",
    "Worker",
    "WorkerTable",
    "is_away",
    "open_store",
    "pending_migrations",
]
