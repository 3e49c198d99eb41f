"""Running tasks in processes: dispatch, workers, recovery."""

from .claiming import claim_task
from .dispatch import Order, submit, wake_message
from .process import LEASE_S, WorkerProcess, is_gone
from .recovery import free_task
from .turns import Turns

__all__ = [
    "LEASE_S",
    "Order",
    "Turns",
    "WorkerProcess",
    "claim_task",
    "free_task",
    "is_gone",
    "submit",
    "wake_message",
]
