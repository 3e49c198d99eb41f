"""A request that was made before is answered by the reply that came then."""

from __future__ import annotations

import logging
import os
import tempfile
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from anyio import to_thread

from hermes.core import json
from hermes.core.chat import Usage
from hermes.core.clock import Clock, to_micros
from hermes.errors import CodecError

from .base import CallDelta, Model, ModelReply, ModelRequest, StreamPart, TextDelta
from .exchange import digest_of, read_reply, reply_form, request_form
from .wrapper import Wrapper, parts_of

KEPT = 1000
"""Replies in memory; those not used longest go first."""

_LOG = logging.getLogger("hermes.model")
_FINISHED = frozenset({"stop", "tool_calls"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    at_s: float
    reply: ModelReply


class ReplyCache:
    """Replies by the digest of their requests, in memory, and in a folder if there is one.

    Processes may share the folder: a file is there whole or not at all. It holds no request, only
    replies; nobody but its owner may read it.

    Args:
        ttl_s: How long a reply holds.
        clock: Tells the time of day, so that files hold over processes.
        folder: Made on first use; None for memory alone.
    """

    def __init__(self, *, ttl_s: float, clock: Clock, folder: Path | None = None) -> None:
        self._ttl_s, self._clock, self._folder = ttl_s, clock, folder
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def get(self, key: str) -> ModelReply | None:
        """The reply to a request, if it is still fresh."""
        kept = self._kept.get(key)
        if kept is None and self._folder is not None:
            kept = await to_thread.run_sync(_read, self._folder / f"{key}.json")
        if kept is None or not 0 <= self._now_s() - kept.at_s < self._ttl_s:
            self._kept.pop(key, None)
            return None
        self._put(key, kept)
        return kept.reply

    async def put(self, key: str, reply: ModelReply) -> None:
        """Keep a reply. A folder that cannot be written to is logged: it costs only money."""
        kept = _Kept(at_s=self._now_s(), reply=reply)
        self._put(key, kept)
        if self._folder is None:
            return
        try:
            await to_thread.run_sync(_write, self._folder, key, kept)
        except (OSError, CodecError) as exc:
            _LOG.warning("a reply could not be kept in %s: %s", self._folder, exc)

    def _put(self, key: str, kept: _Kept) -> None:
        self._kept[key] = kept
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def _now_s(self) -> float:
        return to_micros(self._clock.now()) / 1e6


class CachingModel(Wrapper):
    """Answers from the cache where it can; such a reply says `cached` and used nothing.

    Only whole replies are kept: none that was cut, withheld or empty.

    Args:
        inner: Asked otherwise.
        cache: Shared by all models.
        scope: Tells apart models of one name at different servers.
    """

    def __init__(self, inner: Model, *, cache: ReplyCache, scope: str) -> None:
        super().__init__(inner)
        self._cache, self._scope = cache, scope

    async def reply(self, request: ModelRequest) -> ModelReply:
        """The reply of an earlier time, or a new one."""
        key = self._key(request)
        known = await self._cache.get(key)
        if known is not None:
            return _again(known)
        reply = await self._inner.reply(request)
        await self._keep(key, reply)
        return reply

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """As `reply`; a known one comes in one piece."""
        key = self._key(request)
        reply = await self._cache.get(key)
        if reply is not None:
            reply = _again(reply)
            if reply.text:
                yield TextDelta(text=reply.text)
            for call in reply.calls:
                yield CallDelta(name=call.name)
        else:
            async with parts_of(self._inner, request) as parts:
                async for part in parts:
                    if isinstance(part, ModelReply):
                        reply = part
                    else:
                        yield part
            if reply is not None:
                await self._keep(key, reply)
        if reply is not None:
            yield reply

    def _key(self, request: ModelRequest) -> str:
        return digest_of(request_form(f"{self._scope} {self.name}", request))

    async def _keep(self, key: str, reply: ModelReply) -> None:
        is_whole = reply.finish_reason in _FINISHED and not reply.problem and not reply.cached
        if is_whole and (reply.text.strip() or reply.calls):
            await self._cache.put(key, reply)


def _again(reply: ModelReply) -> ModelReply:
    return replace(reply, cached=True, usage=Usage())


def _read(path: Path) -> _Kept | None:
    try:
        found = json.as_object(json.loads(path.read_bytes())) or {}
        return _Kept(at_s=float(str(found.get("at_s"))), reply=read_reply(found.get("reply")))
    except (OSError, ValueError, CodecError):  # not there, or not ours: it is asked anew
        return None


def _write(folder: Path, key: str, kept: _Kept) -> None:
    content = json.encode({"at_s": kept.at_s, "reply": reply_form(kept.reply)})
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, prefix=".")  # for the owner alone
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(folder / f"{key}.json")
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
