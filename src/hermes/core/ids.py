"""Ids: time-ordered where a person lists them, derived where a repeat must find the same one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from uuid import UUID

from uuid_utils import compat

NewUUID = Callable[[], UUID]
"""Where new ids come from; tests pass a counter."""


def uuid7() -> UUID:
    """A new time-ordered UUID (RFC 9562, version 7)."""
    return compat.uuid7()


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
