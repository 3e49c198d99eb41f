"""Points of the engine, and what a test has happen there."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Lock, current_thread, main_thread
from typing import Literal

from hermes.core.failpoints import set_hook

Blow = Literal["kill", "stop"]
"""`kill`: the process is gone at once (SIGKILL). `stop`: it stands still (SIGSTOP) until somebody
lets it go on."""

_LONGEST_TRANSACTION_S = 0.5
_LONGEST_DEED_S = 0.5
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The `nth` time, from 1, that a process comes to the failpoint `name`."""

    name: str
    nth: int

    def __str__(self) -> str:
        return f"{self.name}#{self.nth}"


@contextmanager
def at_each_point(act: Callable[[Point], None]) -> Generator[None]:
    """Have `act` called at every failpoint of this process, in whatever thread comes to it."""
    seen: Counter[str] = Counter()
    lock = Lock()

    def hook(name: str) -> None:
        with lock:
            seen[name] += 1
            point = Point(name=name, nth=seen[name])
        act(point)

    set_hook(hook)
    try:
        yield
    finally:
        set_hook(None)


class Striker:
    """Ends or stops this very process at a point, as from outside.

    A process that is to stand still is stopped between its transactions: within one it would hold
    the database's locks, and nobody could show that he takes its work over.

    A blow from a thread beside the loop waits for a tool that was just written down: whoever later
    looks whether it took place must find what it did.

    Args:
        point: Where; None for nowhere.
        blow: How.
        is_quiet: No tool is between being written down and being over.
    """

    def __init__(self, point: Point | None, blow: Blow, *, is_quiet: Event) -> None:
        self._point, self._blow, self._is_quiet = point, blow, is_quiet
        self._is_idle = Event()
        self._is_idle.set()

    def reach(self, point: Point) -> None:
        """Take notice of a point that was reached."""
        if point == self._point:
            if self._blow == "stop" and not point.name.startswith("store."):
                self._is_idle.wait(_LONGEST_TRANSACTION_S)
            if current_thread() is not main_thread():
                self._is_quiet.wait(_LONGEST_DEED_S)
            os.kill(os.getpid(), _SIGNALS[self._blow])
        match point.name:
            case "store.begin.before":
                self._is_idle.clear()
            case "store.commit.after":
                self._is_idle.set()
            case _:
                pass
