"""Guards of the engine, each switched off in a child process: the crash tests must notice.

These are faults put in on purpose; nothing of them is in the engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hermes.core.events import Recorded
from hermes.core.message import Message
from hermes.loop.journal import Journal
from hermes.store import NOTHING, Also, Lease, SQLiteStore, Submitted, queries
from hermes.store.values import NO_BLOBS

_FENCE = re.compile(r"((?:m\.)?worker_id = \S+) AND ((?:m\.)?token = [^\s;]+)")


def stores() -> list[Any]:
    """The classes of all stores that outlive a process."""
    try:
        from hermes.store.postgres import PostgresStore
    except ImportError:  # the extra is not installed
        return [SQLiteStore]
    return [SQLiteStore, PostgresStore]


def fence_off() -> None:
    """Whoever holds the message now: a lease of any age may write."""
    for backend in ("", "postgres"):
        named = queries._queries(backend)  # pyright: ignore[reportPrivateUsage]  # a mutation
        fenced = [name for name, text in named.items() if _FENCE.search(text)]
        assert fenced, f"the fence of {backend or 'sqlite'} is written in another way now"
        for name in fenced:
            named[name] = _FENCE.sub(r"(\1 OR true) AND (\2 OR true)", named[name])


def intent_off() -> None:
    """Tools run before the journal knows of them."""
    commit = Journal.commit

    async def late(self: Journal, *args: Any, **more: Any) -> None:
        if not self.state.started:
            await commit(self, *args, **more)

    Journal.commit = late


def finish_split() -> None:
    """The events of a message's end commit first, and its being done afterwards."""
    for store in stores():
        _split(store)


def _split(store: Any) -> None:
    finish = store.finish

    async def split(
        self: Any,
        lease: Lease,
        records: Sequence[Recorded],
        *,
        messages: Sequence[Message] = (),
        blobs: Mapping[str, bytes] = NO_BLOBS,
        also: Also = NOTHING,
    ) -> None:
        await self.append(lease, records, blobs=blobs)
        await finish(self, lease, (), messages=messages, also=also)

    store.finish = split


def dedupe_off() -> None:
    """A message with a key that was seen before is a new one."""
    for store in stores():
        _forget_keys(store)


def _forget_keys(store: Any) -> None:
    submit, send = store.submit, store.send

    async def submit_anew(
        self: Any, records: Sequence[Recorded], message: Message, **more: Any
    ) -> Submitted:
        return await submit(self, records, replace(message, dedupe_key=None), **more)

    async def send_anew(self: Any, message: Message) -> bool:
        return await send(self, replace(message, dedupe_key=None))

    store.submit, store.send = submit_anew, send_anew


MUTATIONS: Mapping[str, Callable[[], None]] = {
    "fence": fence_off,
    "intent": intent_off,
    "finish": finish_split,
    "dedupe": dedupe_off,
}
