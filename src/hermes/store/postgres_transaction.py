"""One transaction after the other, each done again where that is safe and of use."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import TypeVar

import anyio
from psycopg import AsyncCursor, AsyncPipeline, errors

from hermes.core.failpoints import hit
from hermes.errors import StoreUnavailableError
from hermes.store.driver import Row
from hermes.store.postgres_connection import Address, Connection, is_lost, translated
from hermes.store.postgres_pool import Pool
from hermes.store.queries import postgres

R = TypeVar("R")

Values = Mapping[str, object] | Sequence[object]
Pending = AsyncCursor[Row]
"""A statement that was sent; its rows are there when somebody asks for them."""
Quick = Callable[[], Awaitable[R | None]]
"""Does a whole write in a shorter way and gives what it gives, or does nothing and gives None."""


_TRIES = 10
_PAUSE_S = 0.2
_PASSING = frozenset({None, "57P01", "57P02", "57P03", "53300", "08000", "08003", "08006", "08001"})
"""SQLSTATEs of a server that is away, starts, stops, or has no connection left at the moment."""


class Transaction:
    """An open transaction in pipeline mode: what is sent waits for no answer until one is read.

    Attributes:
        is_again: An earlier try was sent its COMMIT, and nobody knows whether that took place.
        is_committing: COMMIT was sent.
    """

    def __init__(self, connection: Connection, *, is_again: bool) -> None:
        self._connection = connection
        self._pipeline: AbstractAsyncContextManager[AsyncPipeline] | None = None
        self.is_again = is_again
        self.is_committing = False

    @property
    def backend_pid(self) -> int:
        """The process that serves it, in the server's numbers."""
        return self._connection.info.backend_pid

    async def begin(self) -> None:
        """Open it."""
        hit("store.begin.before")
        # Out of autocommit, the driver sends BEGIN along with the first query.
        await self._connection.set_autocommit(False)
        self._pipeline = self._connection.pipeline()
        await self._pipeline.__aenter__()

    async def send(self, name: str, values: Values = ()) -> Pending:
        """Send the query `name`."""
        return await self._connection.execute(postgres(name), values)

    async def row(self, name: str, values: Values = ()) -> Row | None:
        """The first row of the query `name`."""
        return await (await self.send(name, values)).fetchone()

    async def rows(self, name: str, values: Values = ()) -> list[Row]:
        """All rows of the query `name`."""
        return await (await self.send(name, values)).fetchall()

    async def commit(self) -> None:
        """Commit, with all that was sent; nothing may be sent after it."""
        if self._pipeline is None:
            return
        self.is_committing = True
        hit("store.commit.before")
        await self._connection.execute(b"COMMIT")
        hit("store.commit.sent")
        pipeline, self._pipeline = self._pipeline, None
        await pipeline.__aexit__(None, None, None)
        hit("store.commit.after")
        await self._connection.set_autocommit(True)

    async def roll_back(self, exc: BaseException) -> None:
        """Undo it after an error; a connection in an unknown state is closed."""
        if not isinstance(exc, Exception) or isinstance(exc, (TimeoutError, errors.Error)):
            await self._connection.close()
        pipeline, self._pipeline = self._pipeline, None
        try:
            if pipeline is not None:
                await pipeline.__aexit__(None, None, None)
            await self._connection.rollback()
            await self._connection.set_autocommit(True)
        except errors.Error:
            await self._connection.close()


class Transactor:
    """Runs reads and transactions over a pool.

    A transaction is done again, from its start, after a deadlock or a serialization failure, and
    when its connection broke: then for at most `wait_s`, as long as nobody answers. Where COMMIT
    was under way, the new try is told so, and finds by its ids what the earlier one has written.

    Args:
        pool: Where connections come from.
        address: For messages.
        wait_s: How long a server may be away, at most.
        answer_s: How long a transaction may take, at most.
        spread: A random number from 0 up to 1, so that rivals do not meet again.
    """

    def __init__(
        self,
        pool: Pool,
        address: Address,
        *,
        wait_s: float,
        answer_s: float,
        spread: Callable[[], float] = random.random,
    ) -> None:
        self._pool, self._address = pool, address
        self._wait_s, self._answer_s, self._spread = wait_s, answer_s, spread

    async def write(
        self, work: Callable[[Transaction], Awaitable[R]], *, quick: Quick[R] | None = None
    ) -> R:
        """Do `work` in a transaction, unless `quick` does it; durable on return.

        A caller that is cancelled meanwhile is held until the transaction is settled.
        """

        async def once(is_again: bool) -> R:
            if quick is not None and not is_again:
                done = await quick()
                if done is not None:
                    return done
            return await self._write(work, is_again=is_again)

        return await _settled(self._again(once))

    async def read(self, work: Callable[[Connection], Awaitable[R]]) -> R:
        """Do `work`, which changes nothing, over a connection in no transaction."""

        async def once(_: bool) -> R:
            async with self._pool.lend() as connection:
                try:
                    with anyio.fail_after(self._answer_s):
                        return await work(connection)
                except BaseException as exc:
                    if isinstance(exc, TimeoutError):
                        await connection.close()
                    if is_lost(exc, connection):
                        raise LostError(was_committing=False) from exc
                    raise

        return await self._again(once)

    async def _write(self, work: Callable[[Transaction], Awaitable[R]], *, is_again: bool) -> R:
        async with self._pool.lend() as connection:
            transaction = Transaction(connection, is_again=is_again)
            try:
                # Not anyio's, which takes as long as to encode the whole write.
                async with asyncio.timeout(self._answer_s):
                    await transaction.begin()
                    result = await work(transaction)
                    await transaction.commit()
            except BaseException as exc:
                lost = isinstance(exc, TimeoutError) or is_lost(exc, connection)
                await transaction.roll_back(exc)
                if lost:
                    raise LostError(was_committing=transaction.is_committing) from exc
                raise
        return result

    async def _again(self, once: Callable[[bool], Awaitable[R]]) -> R:
        is_again, tries, until = False, 0, anyio.current_time() + self._wait_s
        while True:
            tries += 1
            try:
                return await once(is_again)
            except (errors.SerializationFailure, errors.DeadlockDetected) as exc:
                if tries >= _TRIES:
                    raise translated(exc, self._address) from exc
                pause_s = 0.01 * 2 ** min(tries, 6) * self._spread()
            except LostError as exc:
                is_again = is_again or exc.was_committing
                await self._pool.close_idle()
                if anyio.current_time() >= until:
                    raise self._unreachable(exc, is_again=is_again) from exc.__cause__
                pause_s = _PAUSE_S * self._spread()
            except StoreUnavailableError as exc:
                if not _is_passing(exc) or anyio.current_time() >= until:
                    raise
                pause_s = _PAUSE_S * (0.5 + self._spread())
            except (errors.Error, OSError) as exc:
                raise translated(exc, self._address) from exc
            await anyio.sleep(pause_s)

    def _unreachable(self, exc: LostError, *, is_again: bool) -> BaseException:
        where = f"PostgreSQL at {self._address.label}"
        said, hint = f"the connection to {where} broke during a commit", ""
        if isinstance(exc.__cause__, TimeoutError):
            said = f"{where} gave no answer for {self._answer_s:g} s"
            hint = "look into pg_stat_activity for what it waits for"
        elif not is_again:
            return translated(exc.__cause__ or exc, self._address)
        if is_again:
            said += "; what was to be written may be in the journal or not"
            hint = "repeat it with the same ids once the server is back"
        return StoreUnavailableError(said, hint=hint)


class LostError(Exception):
    """The connection broke under a try."""

    def __init__(self, *, was_committing: bool) -> None:
        super().__init__()
        self.was_committing = was_committing


def _is_passing(exc: StoreUnavailableError) -> bool:
    """Whether connecting failed in a way that may be over in a moment."""
    cause = exc.__cause__
    return isinstance(cause, (errors.OperationalError, OSError)) and (
        getattr(cause, "sqlstate", None) in _PASSING
    )


async def _settled(work: Coroutine[object, object, R]) -> R:
    """What `work` gives; who is cancelled meanwhile is held until it is over."""
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        while not working.done():
            with suppress(asyncio.CancelledError), anyio.CancelScope(shield=True):
                await asyncio.wait([working])
        if not working.cancelled():
            working.exception()
        raise
