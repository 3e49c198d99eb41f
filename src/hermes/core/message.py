"""The envelope of everything that travels: wire protocol 1.0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, cast

from hermes.core.clock import rfc3339
from hermes.core.json import as_object
from hermes.errors import CodecError

PROTOCOL = "1.0"

_REQUIRED = (
    "message_id", "version", "sender", "receiver", "message_type",
    "task_id", "payload", "created_at", "trace_id",
)  # fmt: skip
_INSTANTS = ("created_at", "not_before", "expires_at")
_OBJECTS = ("payload", "metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One envelope.

    Attributes:
        receiver: Dotted name of an agent; its queue is `queue.<receiver>`.
        message_type: Decides the handler: `task.dispatch`, `task.result`, `task.cancel` …
        dedupe_key: At most one message with this key is ever accepted for a receiver.
        order_key: Messages of one key form a lane and are handled one after the other.
        priority: Higher first among the ready.
        extra: Fields that this version does not know; kept and sent on.
    """

    message_id: str
    sender: str
    receiver: str
    message_type: str
    task_id: str
    trace_id: str
    created_at: datetime
    payload: Mapping[str, object] = field(default_factory=dict[str, object])
    version: str = PROTOCOL
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    source_channel: str | None = None
    reply_to: str | None = None
    causation_id: str | None = None
    dedupe_key: str | None = None
    order_key: str | None = None
    priority: int = 0
    not_before: datetime | None = None
    expires_at: datetime | None = None
    extra: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def queue(self) -> str:
        return f"queue.{self.receiver}"

    @property
    def lane(self) -> str:
        """The lane it is handled in; a message without an order key is alone in its own."""
        return self.order_key or self.message_id

    def to_wire(self) -> dict[str, object]:
        """The JSON object that travels; optional fields only where they say something."""
        wire: dict[str, object] = dict(self.extra)
        for name in _FIELDS:
            value = getattr(self, name)
            if name not in _REQUIRED and (value is None or value == {} or value == 0):
                continue
            wire[name] = rfc3339(value) if isinstance(value, datetime) else value
        return wire

    @classmethod
    def from_wire(cls, wire: object) -> Message:
        """Read an envelope.

        Raises:
            CodecError: Not an object, a field is missing or of the wrong kind, or the version is
                not 1.x; the message names the field and what was seen.
        """
        body = as_object(wire)
        if body is None:
            raise CodecError(f"a message is a JSON object, got {type(wire).__name__}")
        missing = [name for name in _REQUIRED if name not in body]
        if missing:
            seen = ", ".join(sorted(body))
            raise CodecError(f"message lacks {', '.join(missing)}; it has {seen}")
        known = {name: _read(name, body[name]) for name in _FIELDS if name in body}
        if not str(known["version"]).startswith("1."):
            raise CodecError(f"message version {known['version']!r} is not 1.x")
        extra = {name: value for name, value in body.items() if name not in _FIELDS}
        return cls(**cast("dict[str, Any]", known), extra=extra)


_FIELDS = tuple(item.name for item in fields(Message) if item.name != "extra")


def _read(name: str, value: object) -> object:
    if name in _OBJECTS:
        if not isinstance(value, Mapping):
            raise CodecError(f"message field `{name}` must be an object, got {value!r:.60}")
        return cast("object", value)
    if name in _INSTANTS:
        return _read_instant(name, value)
    wanted = int if name == "priority" else str
    optional = name not in _REQUIRED
    if not (isinstance(value, wanted) or (optional and value is None)):
        raise CodecError(f"message field `{name}` must be {wanted.__name__}, got {value!r:.60}")
    return value


def _read_instant(name: str, value: object) -> datetime | None:
    if value is None and name not in _REQUIRED:
        return None
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError as exc:
        raise CodecError(f"message field `{name}` must be RFC 3339, got {value!r:.60}") from exc
    if at.tzinfo is None:
        raise CodecError(f"message field `{name}` must carry a zone, got {value!r:.60}")
    return at.astimezone(UTC)
