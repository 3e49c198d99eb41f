"""The journal: events, tasks, messages in lanes, workers."""

from hermes.store.base import (
    MAX_TASKS,
    Lease,
    MessageRow,
    MessageState,
    Store,
    Submitted,
    TaskQuery,
    TaskReader,
    TaskWriter,
    Worker,
    WorkerTable,
)
from hermes.store.memory import MemoryStore
from hermes.store.sqlite import SQLiteStore
from hermes.store.url import open_store

__all__ = [
    "MAX_TASKS",
    "Lease",
    "MemoryStore",
    "MessageRow",
    "MessageState",
    "SQLiteStore",
    "Store",
    "Submitted",
    "TaskQuery",
    "TaskReader",
    "TaskWriter",
    "Worker",
    "WorkerTable",
    "open_store",
]
