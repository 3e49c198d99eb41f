"""A thing to be done, kept beside the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Todo:
    """One entry of the list that all tasks of a database share.

    Attributes:
        made_at: Aware instant.
        done_at: When it was done; None while it is open.
    """

    todo_id: str
    text: str
    made_at: datetime
    done_at: datetime | None = None
