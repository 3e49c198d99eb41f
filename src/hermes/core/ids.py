"""Ids: time-ordered where a person lists them, derived where a repeat must find the same one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol
from uuid import UUID, uuid5

import uuid_utils


class AnyUUID(Protocol):
    """A UUID of whichever library; its `str` is the usual form."""

    @property
    def hex(self) -> str:
        """32 lower-case hex digits."""
        ...


NewUUID = Callable[[], AnyUUID]
"""Where new ids come from; tests pass a counter."""


def uuid7() -> AnyUUID:
    """A new time-ordered UUID (RFC 9562, version 7)."""
    return uuid_utils.uuid7()


def task_id(new: NewUUID = uuid7) -> str:
    """A new task id: `task_` and a UUID, 41 ASCII characters."""
    return f"task_{new()}"


def message_id(new: NewUUID = uuid7) -> str:
    """A new message id: `msg_` and a UUID, 40 ASCII characters."""
    return f"msg_{new()}"


def trace_id(new: NewUUID = uuid7) -> str:
    """A new W3C trace id: 32 lower-case hex digits, not all zero."""
    return new().hex


def call_id(path: str, position: int) -> str:
    """A call id for a provider that sent none, made from the step path; letters and digits only."""
    return "call" + hashlib.sha256(f"{path}#{position}".encode()).hexdigest()[:20]


_NAMESPACE = UUID("6f1d2f0e-3c39-5f0b-9d0a-5a1f0c9b7e42")


def child_task_id(parent: str, path: str) -> str:
    """The id of a child task: the same whenever the parent's step `path` makes it."""
    return f"task_{uuid5(_NAMESPACE, f'{parent}{path}')}"


def wait_id(task: str, path: str, seq: int) -> str:
    """The id of a wait: derived, so that a repeated step finds its own."""
    return f"wait_{uuid5(_NAMESPACE, f'{task}{path}@{seq}')}"


def review_id(wait: str) -> str:
    """The id of the review that a wait is for."""
    return wait.replace("wait_", "review_", 1)


def wake_id(wait: str) -> str:
    """The id of the one message that ends a wait."""
    return f"msg_{uuid5(_NAMESPACE, wait)}"
