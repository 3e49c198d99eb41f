"""Cassettes: what models were asked and answered, to be played again without them."""

from __future__ import annotations

import fcntl
import logging
import os
import re
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from hermes.core import json
from hermes.errors import CodecError, ConfigError, ModelError

from .base import CallDelta, Model, ModelReply, ModelRequest, ReasoningDelta, StreamPart, TextDelta
from .exchange import digest_of, read_reply, reply_form, request_form
from .wrapper import Wrapper, parts_of

SHOWN_CHARS = 80

_LOG = logging.getLogger("hermes.model")

_HIDDEN = "***"
_SHORTEST = 4
_KEYS = re.compile(
    r"""(?ix) (?: \b(?:bearer|basic)\s+ | \b(?:sk|pk|rk|key)- | (?:authorization|api-key)["':=\s]+ )
    (?=[\w.~+/=-]*\d) [\w.~+/=-]{16,} """
)

_BLOCK = 64 * 1024


class Scrubber:
    """Takes secrets out of what is kept.

    Args:
        secrets: Their texts; what looks like a key goes as well.
    """

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        known = {secret for secret in secrets if len(secret) >= _SHORTEST}
        self._secrets = sorted(known, key=len, reverse=True)

    def clean(self, value: object) -> object:
        """A plain value without secrets, in keys and texts at any depth."""
        if isinstance(value, str):
            return self._text(value)
        if (table := json.as_object(value)) is not None:
            return {self._text(key): self.clean(item) for key, item in table.items()}
        items = json.as_list(value)
        return [self.clean(item) for item in items] if items else value

    def _text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return _KEYS.sub(_HIDDEN, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    asked: Mapping[str, object]
    reply: ModelReply


class Cassette:
    """A file of JSON Lines, each a request with its digest and the reply that came.

    Args:
        path: Made on the first recording, for its owner alone.
        secrets: Never written.
    """

    def __init__(self, path: Path, *, secrets: Sequence[str] = ()) -> None:
        self.path = path
        self._scrubber = Scrubber(secrets)
        self._left: dict[str, deque[_Recorded]] | None = None
        self._order: list[_Recorded] = []
        self._played = 0

    async def record(self, model: str, request: ModelRequest, reply: ModelReply) -> None:
        """Append one exchange.

        Raises:
            ConfigError: The file cannot be written.
        """
        asked = self._form(model, request)
        line = json.encode(
            {
                "request": digest_of(asked),
                "asked": asked,
                "reply": self._scrubber.clean(json.loads(json.encode(reply_form(reply)))),
            }
        )
        try:
            await to_thread.run_sync(_append, self.path, line + b"\n")
        except OSError as exc:
            raise ConfigError(f"cassette {self.path} cannot be written: {exc.strerror}") from exc

    async def play(self, model: str, request: ModelRequest) -> ModelReply:
        """The recorded reply to a request; the same request again gets the next one recorded.

        Raises:
            ModelError: There is none; it says where the request differs from the one recorded.
            ConfigError: The file cannot be read.
        """
        if self._left is None:
            self._order = await to_thread.run_sync(_load, self.path)
            self._left = {}
            for recorded in self._order:
                self._left.setdefault(digest_of(recorded.asked), deque()).append(recorded)
        asked = self._form(model, request)
        waiting = self._left.get(digest_of(asked))
        if not waiting:
            raise self._other(model, asked)
        recorded = waiting.popleft()
        self._order.remove(recorded)
        self._played += 1
        return recorded.reply

    def _form(self, model: str, request: ModelRequest) -> dict[str, object]:
        cleaned = self._scrubber.clean(json.loads(json.encode(request_form(model, request))))
        return json.as_object(cleaned) or {}

    def _other(self, model: str, asked: Mapping[str, object]) -> ModelError:
        number = self._played + 1
        if not self._order:
            said = f"all its {self._played} replies were played"
        else:
            said = difference(self._order[0].asked, asked) or "it was recorded later"
        return ModelError(
            f"cassette {self.path} has no reply to request {number} of model {model!r}: {said}",
            code="cassette",
            hint="record it anew with HERMES_MODEL_CASSETTE_MODE=record; nothing was sent",
        )


class RecordingModel(Wrapper):
    """Asks, and records each reply; errors are not recorded."""

    def __init__(self, inner: Model, *, cassette: Cassette) -> None:
        super().__init__(inner)
        self._cassette = cassette

    async def reply(self, request: ModelRequest) -> ModelReply:
        """As the inner one's."""
        reply = await self._inner.reply(request)
        await self._cassette.record(self.name, request, reply)
        return reply

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """As the inner one's."""
        async with parts_of(self._inner, request) as parts:
            async for part in parts:
                if isinstance(part, ModelReply):
                    await self._cassette.record(self.name, request, part)
                yield part


class ReplayingModel(Wrapper):
    """Plays a cassette; the inner model gives its name and is never asked."""

    def __init__(self, inner: Model, *, cassette: Cassette) -> None:
        super().__init__(inner)
        self._cassette = cassette

    async def reply(self, request: ModelRequest) -> ModelReply:
        """The recorded one."""
        return await self._cassette.play(self.name, request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """The recorded one, each kind of part in one piece."""
        reply = await self.reply(request)
        if reply.reasoning:
            yield ReasoningDelta(text=reply.reasoning)
        if reply.text:
            yield TextDelta(text=reply.text)
        for call in reply.calls:
            yield CallDelta(name=call.name)
        yield reply


def difference(then: object, now: object, place: str = "") -> str:
    """Where two plain values differ first, in words; "" if they do not."""
    if then == now:
        return ""
    old, new = json.as_object(then), json.as_object(now)
    if old is not None and new is not None:
        for key in [*old, *(key for key in new if key not in old)]:
            if said := difference(old.get(key), new.get(key), f"{place}.{key}".lstrip(".")):
                return said
    lists = _lists(then, now)
    if lists is None:
        return f"`{place}` is {_shown(now, then)}, recorded was {_shown(then, now)}"
    for number, (before, after) in enumerate(zip(*lists, strict=False)):
        if said := difference(before, after, f"{place}[{number}]"):
            return said
    return f"`{place}` has {len(lists[1])} items, {len(lists[0])} were recorded"


def _lists(then: object, now: object) -> tuple[list[object], list[object]] | None:
    are_lists = [isinstance(value, list) for value in (then, now)]
    return (json.as_list(then), json.as_list(now)) if all(are_lists) else None


def _shown(value: object, other: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    beside = other if isinstance(other, str) else json.dumps(other)
    same = len(os.path.commonprefix([text, beside]))
    begin = max(0, same - SHOWN_CHARS // 4) if len(text) > SHOWN_CHARS else 0
    cut = text[begin : begin + SHOWN_CHARS]
    shown = repr(cut) if isinstance(value, str) else cut
    return f"{'…' if begin else ''}{shown}{'…' if begin + SHOWN_CHARS < len(text) else ''}"


def _append(path: Path, line: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # a line of another process is not taken for a torn one
        _cut_torn_line(handle)
        written = os.write(handle, line)
        if written != len(line):
            raise OSError(28, f"only {written} of {len(line)} bytes were written")
    finally:
        os.close(handle)


def _cut_torn_line(handle: int) -> None:
    """Take away the beginning of a line that a dying process left at the end."""
    size = os.fstat(handle).st_size
    place = size
    while place:
        first = max(0, place - _BLOCK)
        newline = os.pread(handle, place - first, first).rfind(b"\n")
        if newline >= 0:
            place = first + newline + 1
            break
        place = first
    if place != size:
        os.ftruncate(handle, place)


def _load(path: Path) -> list[_Recorded]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as exc:
        raise ConfigError(
            f"cassette {path} cannot be read: {exc.strerror}",
            hint="record it first with HERMES_MODEL_CASSETTE_MODE=record",
        ) from exc
    last = lines.pop()  # empty, unless a dying process left it without its newline
    found = [_entry(path, number, line) for number, line in enumerate(lines, start=1)]
    if last:
        try:
            found.append(_entry(path, len(lines) + 1, last))
        except ConfigError:
            _LOG.warning(
                "cassette %s: line %d, the last, was not written to its end and is left out",
                *(path, len(lines) + 1),
            )
    return found


def _entry(path: Path, number: int, line: bytes) -> _Recorded:
    try:
        entry = json.as_object(json.loads(line)) or {}
        asked = json.as_object(entry.get("asked"))
        if asked is None:
            raise CodecError("it has no request")
        return _Recorded(asked=asked, reply=read_reply(entry.get("reply")))
    except CodecError as exc:
        raise ConfigError(
            f"cassette {path}, line {number}: {exc}",
            hint="take that line out, or record anew to another file with "
            "HERMES_MODEL_CASSETTE_MODE=record",
        ) from exc
