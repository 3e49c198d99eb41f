"""Models: one contract, and an implementation for each way of asking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.models.base import (
    CallDelta,
    FailedAttempt,
    Model,
    ModelReply,
    ModelRequest,
    ReasoningDelta,
    StreamPart,
    TextDelta,
)
from hermes.models.clients import ClientPool
from hermes.models.openai import OpenAIModel
from hermes.models.spec import open_model

if TYPE_CHECKING:
    from hermes.models.playbook import PlaybookModel
    from hermes.models.playbook_file import Playbook, load_playbook

__all__ = [
    "CallDelta",
    "ClientPool",
    "FailedAttempt",
    "Model",
    "ModelReply",
    "ModelRequest",
    "OpenAIModel",
    "Playbook",
    "PlaybookModel",
    "ReasoningDelta",
    "StreamPart",
    "TextDelta",
    "load_playbook",
    "open_model",
]


def __getattr__(name: str) -> object:
    # Jinja2 and YAML are loaded only for those who use a playbook.
    if name == "PlaybookModel":
        from hermes.models.playbook import PlaybookModel

        return PlaybookModel
    if name in ("Playbook", "load_playbook"):
        from hermes.models import playbook_file

        return getattr(playbook_file, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
