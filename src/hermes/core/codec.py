"""Events to bytes and back, through every form they have had."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple, cast, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, SchemaSerializer

from hermes.core import json
from hermes.core.events import SCHEMA_VERSION, TaskEvent

INLINE_BYTES = 8 * 1024
_LARGE_TEXT_CHARS = 2 * 1024
_REPLACEMENT = "\ufffd".encode()

Upcaster = Callable[[dict[str, object]], dict[str, object]]

EVENT_CLASSES: dict[str, type[TaskEvent]] = {cls.type: cls for cls in get_args(TaskEvent)}


def _without_a_bound_on_failures(body: dict[str, object]) -> dict[str, object]:
    limits = json.as_object(body.get("limits")) or {}
    return body | {"limits": {"max_tool_failures": None} | limits}


UPCASTERS: dict[tuple[str, int], Upcaster] = {
    # Before version 3 no number of failures kept a tool from being called.
    ("task.created", 2): _without_a_bound_on_failures,
}
"""`(event type, version)` → the function that lifts that form to the next version."""


class Encoded(NamedTuple):
    """An event as it is stored; a tuple, since one is made for each event.

    Attributes:
        data: UTF-8 JSON, at most `INLINE_BYTES`, with `null` where a large text was taken out.
        refs: JSON path of each text taken out, slash-separated, to the SHA-256 of its UTF-8 bytes;
            the path "" stands for the whole data.
        blobs: The texts taken out, by SHA-256.
    """

    type: str
    version: int
    data: bytes
    refs: Mapping[str, str]
    blobs: Mapping[str, bytes]


def sha256(data: bytes) -> str:
    """The name of a blob: 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def encode(event: TaskEvent) -> Encoded:
    """Write an event; values over 8 KiB move to blobs, once each.

    Raises:
        CodecError: It holds something that is not plain JSON, or a lone surrogate.
    """
    try:
        # The serializer itself: the adapter's own method costs as much again.
        data = _serializer(event.type).to_json(event, exclude_defaults=True)
        if _REPLACEMENT in data:
            # pydantic writes it for a lone surrogate in a key; ours refuses that.
            data = json.encode(_adapter(event.type).dump_python(event, exclude_defaults=True))
    except (PydanticSerializationError, ValueError) as exc:
        raise json.CodecError(f"{event.type} cannot be stored: {exc}") from exc
    if len(data) <= INLINE_BYTES:
        return Encoded(event.type, SCHEMA_VERSION, data, {}, {})
    return _spill(event.type, data)


def to_plain(event: TaskEvent) -> dict[str, object]:
    """The event as a plain JSON object, defaults left out, large texts in place."""
    return _adapter(event.type).dump_python(event, mode="json", exclude_defaults=True)


def decode(
    type_: str,
    version: int,
    data: bytes,
    *,
    refs: Mapping[str, str] | None = None,
    blob: Callable[[str], bytes] | None = None,
) -> TaskEvent:
    """Read an event of any form up to the present one.

    Args:
        type_: Its name, such as `model.replied`.
        version: The schema version it was written with.
        data: The stored JSON.
        refs: As `Encoded.refs`.
        blob: Reads a blob by its SHA-256; needed where `refs` is not empty.

    Raises:
        CodecError: Unknown type, newer version, or data that does not fit.
    """
    if type_ not in EVENT_CLASSES:
        raise json.CodecError(f"unknown event type {type_!r}; a newer Hermes may have written it")
    if version > SCHEMA_VERSION:
        raise json.CodecError(
            f"{type_} has schema version {version}, this Hermes reads up to {SCHEMA_VERSION}",
            hint="upgrade Hermes",
        )
    try:
        if not refs and version == SCHEMA_VERSION:
            return _adapter(type_).validate_json(data)
        value = json.loads(data)
        if refs and blob is not None:
            value = _restore(value, refs, blob)
        return _adapter(type_).validate_python(_upcast(type_, version, value))
    except ValidationError as exc:
        raise json.CodecError(f"{type_} (schema version {version}) cannot be read: {exc}") from exc


@cache
def _serializer(type_: str) -> SchemaSerializer:
    return _adapter(type_).serializer


@cache
def _adapter(type_: str) -> TypeAdapter[TaskEvent]:
    return TypeAdapter(EVENT_CLASSES[type_])


def _upcast(type_: str, version: int, value: object) -> object:
    body = json.as_object(value)
    for step in range(version, SCHEMA_VERSION):
        lift = UPCASTERS.get((type_, step))
        if lift is not None and body is not None:
            body = lift(body)
    return body


def _spill(type_: str, data: bytes) -> Encoded:
    refs: dict[str, str] = {}
    blobs: dict[str, bytes] = {}

    def put(path: str, raw: bytes) -> None:
        refs[path] = sha256(raw)
        blobs[refs[path]] = raw

    def walk(value: object, path: str) -> object:
        if isinstance(value, str) and len(value) >= _LARGE_TEXT_CHARS:
            put(path, value.encode())
            return None
        if isinstance(value, dict):
            table = cast("dict[str, object]", value)
            return {key: walk(item, f"{path}/{_escape(key)}") for key, item in table.items()}
        if isinstance(value, list):
            items = cast("list[object]", value)
            return [walk(item, f"{path}/{n}") for n, item in enumerate(items)]
        return value

    rest = json.encode(walk(json.loads(data), ""))
    if len(rest) > INLINE_BYTES:
        refs.clear()
        blobs.clear()
        put("", data)
        rest = b"null"
    return Encoded(type=type_, version=SCHEMA_VERSION, data=rest, refs=refs, blobs=blobs)


def _restore(value: object, refs: Mapping[str, str], blob: Callable[[str], bytes]) -> object:
    if "" in refs:
        return json.loads(blob(refs[""]))
    for path, name in refs.items():
        *parents, last = path.removeprefix("/").split("/")
        holder = value
        for part in parents:
            holder = _child(holder, part)
        text = blob(name).decode()
        if isinstance(holder, list):
            cast("list[object]", holder)[int(last)] = text
        else:
            cast("dict[str, object]", holder)[_unescape(last)] = text
    return value


def _child(holder: object, part: str) -> object:
    if isinstance(holder, list):
        return cast("list[object]", holder)[int(part)]
    return cast("dict[str, object]", holder)[_unescape(part)]


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
