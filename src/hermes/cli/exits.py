"""Exit codes, and how a fault is told."""

from __future__ import annotations

import sys
from enum import IntEnum

from hermes.errors import HermesError, InputError

from .streams import Forgiving


class Exit(IntEnum):
    """What the shell gets."""

    SUCCEEDED = 0
    FAILED = 1
    USAGE = 2
    UNFINISHED = 3
    INTERRUPTED = 130


_BY_STATUS = {
    "succeeded": Exit.SUCCEEDED,
    "failed": Exit.FAILED,
    "partial": Exit.UNFINISHED,
    "waiting": Exit.UNFINISHED,
    "cancelled": Exit.INTERRUPTED,
}


def of_status(status: str) -> Exit:
    """The exit code for a task's status; a task that others carry on counts as unfinished."""
    return _BY_STATUS.get(status, Exit.UNFINISHED)


def of_error(exc: HermesError) -> Exit:
    """2 for what the caller has to change, 1 for everything else."""
    return Exit.USAGE if isinstance(exc, InputError) else Exit.FAILED


def code_of(exc: HermesError) -> str:
    """A word for programs: the error's own code, else its class in snake case."""
    own = getattr(exc, "code", None)
    if isinstance(own, str):
        return own
    name = type(exc).__name__.removesuffix("Error")
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")


def tell(text: str) -> None:
    """Write one line for people to stderr; nobody has to read it."""
    stderr = Forgiving(sys.stderr)
    stderr.write(text.rstrip() + "\n")
    stderr.flush()
