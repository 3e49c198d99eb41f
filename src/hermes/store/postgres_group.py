"""Group commit: appends that wait at the same time share one statement and one commit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import cast

from psycopg import errors

from hermes.core.failpoints import hit
from hermes.store.postgres_connection import Connection, is_lost
from hermes.store.postgres_pool import Pool
from hermes.store.postgres_quick import NextAppend, Written
from hermes.store.postgres_transaction import LostError
from hermes.store.postgres_writes import columns, event_values
from hermes.store.queries import postgres

_MOST = 32
"""Appends that share a statement; more wait for the next, which is made while the server works."""

_Job = tuple[NextAppend, asyncio.Future[Written | None]]


class GroupCommit:
    """Does appends as soon as a connection is free; those that had to wait go together.

    Each is judged by its own lease and its own task, and waits for no other one's rows: what cannot
    be done at once is left to a transaction of its own. So is each append of a statement that
    failed, since nobody can say whose fault that was.

    Args:
        pool: Where connections come from; at most so many statements are under way.
        answer_s: How long a statement may take, at most.
    """

    def __init__(self, pool: Pool, *, answer_s: float) -> None:
        self._pool, self._answer_s = pool, answer_s
        self._waiting: deque[_Job] = deque()
        self._serving: set[asyncio.Task[None] | None] = set()

    async def write(self, append: NextAppend) -> Written | None:
        """Append, durable on return; None if nothing was written.

        Raises:
            LostError: The connection broke.
            StoreUnavailableError: There is no connection to be had.
        """
        told: asyncio.Future[Written | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((append, told))
        if len(self._serving) < self._pool.size:
            # It ends with the last caller, each of whom is held until its append is settled.
            self._serving.add(asyncio.ensure_future(self._serve()))
        return await told

    async def _serve(self) -> None:
        try:
            await self._serve_waiting()
        finally:  # at once, not in a callback: who comes before that would wait for nobody
            self._serving.discard(asyncio.current_task())

    async def _serve_waiting(self) -> None:
        while self._waiting:
            jobs = [self._waiting.popleft() for _ in range(min(_MOST, len(self._waiting)))]
            try:
                written = await self._append([append for append, _ in jobs])
            except BaseException as exc:
                for _, told in jobs:
                    if not told.done():
                        told.set_exception(exc)
                if not isinstance(exc, Exception):
                    raise
            else:
                for append, told in jobs:
                    if not told.done():  # a loop that is shut down cancels everybody
                        is_written = written.issuperset(append.event_ids)
                        told.set_result(append.written if is_written else None)

    async def _append(self, appends: Sequence[NextAppend]) -> set[bytes]:
        """Append what can be; returns the ids of the events."""
        async with self._pool.lend() as connection:
            try:
                async with asyncio.timeout(self._answer_s):
                    return await _execute(connection, appends)
            except BaseException as exc:
                lost = isinstance(exc, TimeoutError) or is_lost(exc, connection)
                await connection.close()
                if lost:
                    raise LostError(was_committing=True) from exc
                if isinstance(exc, (errors.Error, UnicodeEncodeError)):
                    return set()
                raise


async def _execute(connection: Connection, appends: Sequence[NextAppend]) -> set[bytes]:
    hit("store.begin.before")
    hit("store.commit.before")
    written: set[bytes] = set()
    first = appends[0]
    if len(appends) == len(first.rows) == 1:
        values = {**first.fence, **event_values(first.rows)}
        cursor = await connection.execute(postgres("append_next_event"), values)
        if cursor.rowcount:
            written.update(first.event_ids)
    else:
        cursor = await connection.execute(postgres("append_next"), _together(appends))
        written.update(cast("bytes", event_id) for (event_id,) in await cursor.fetchall())
    if written:
        hit("store.commit.sent")
        hit("store.commit.after")
    return written


def _together(appends: Sequence[NextAppend]) -> dict[str, object]:
    """All appends by columns; the place of an event is that of its append."""
    return {
        **{name: [append.fence[name] for append in appends] for name in appends[0].fence},
        "count": len(appends),
        "places": [place for place, append in enumerate(appends, 1) for _ in append.rows],
        **columns([row for append in appends for row in append.rows]),
    }
