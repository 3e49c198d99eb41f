"""Running tasks in processes: dispatch, workers, recovery."""

from .alone import CLAIMED, ChildCommand, ChildProcesses
from .cancelling import cancel_tree
from .carrier import Carrier
from .claiming import claim_task
from .dispatch import Order, submit, wake_message
from .holds import Hold
from .inline import Inline
from .locks import LEASE_S, is_gone
from .process import LeaseTimes, WorkerProcess
from .recovery import free_task
from .roster import Roster
from .tree import open_tasks
from .turns import Turns
from .worker import Alone, Equip, WorkLoop, when_idle

__all__ = [
    "CLAIMED",
    "LEASE_S",
    "Alone",
    "Carrier",
    "ChildCommand",
    "ChildProcesses",
    "Equip",
    "Hold",
    "Inline",
    "LeaseTimes",
    "Order",
    "Roster",
    "Turns",
    "WorkLoop",
    "WorkerProcess",
    "cancel_tree",
    "claim_task",
    "free_task",
    "is_gone",
    "open_tasks",
    "submit",
    "wake_message",
    "when_idle",
]
