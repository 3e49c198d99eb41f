"""A thread that owns one connection and works for an event loop: a queue in, a doorbell out."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Generic, Protocol, TypeVar

import apsw
from anyio import CancelScope

from hermes.errors import StoreBrokenError, StoreError
from hermes.store.driver import Connection, Cursor

R = TypeVar("R")

More = Callable[[], "Job | None"]
"""Takes the next job of the queue if one waits there; who takes it must run or fail it."""

Serve = Callable[[Connection, "Job", More], None]
"""Does a job, and more of them if it likes; their callers are woken when it returns."""

ServeNow = Callable[[Connection, "Job", More], bool]
"""Does a job, and more if it likes, in their callers' thread; False if it did none of them."""

Suits = Callable[[int], bool]
"""Whether so many jobs are better done in the thread of their callers."""


class Job(Protocol):
    """A piece of work as the thread sees it: run or failed, and then answered."""

    def run(self, cursor: Cursor) -> None:
        """Do the work and keep its result."""
        ...

    def fail(self, error: Exception) -> None:
        """Replace whatever came out before by an error."""
        ...

    def settle(self) -> None:
        """Wake the caller; runs in its loop."""
        ...


class Request(Generic[R]):
    """A job and the coroutine that waits for it."""

    __slots__ = ("_error", "_future", "_late", "_loop", "_result", "_settled", "_work")

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[Cursor], R]) -> None:
        self._loop, self._work = loop, work
        self._future: asyncio.Future[R] = loop.create_future()
        self._late: asyncio.Future[None] | None = None
        self._settled = False
        self._error: Exception | None = None

    def run(self, cursor: Cursor) -> None:
        self.succeed(self._work(cursor))

    def succeed(self, result: R) -> None:
        self._result, self._error = result, None

    def fail(self, error: Exception) -> None:
        self._error = error

    def settle(self) -> None:
        self._settled = True
        if self._late is not None and not self._late.done():
            self._late.set_result(None)
        if self._future.done():
            return
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._result)

    def answer(self) -> R:
        """What a job came to that was done at once."""
        if self._error is not None:
            raise self._error
        return self._result

    async def outcome(self) -> R:
        """Wait for the answer.

        A caller that is cancelled meanwhile is held until the job is settled, and then cancelled:
        the work is done in full or not at all, and nobody goes on beside it.
        """
        try:
            return await self._future
        except asyncio.CancelledError:
            while not self._settled:
                self._late = self._loop.create_future()
                with suppress(asyncio.CancelledError), CancelScope(shield=True):
                    await self._late
            raise


class Doorbell:
    """Settles jobs in a loop on behalf of another thread.

    Does what `call_soon_threadsafe` does at half its cost, which is a good part of a short write.

    Args:
        loop: Where the callers wait.
        then: Told in the loop how many jobs were settled.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, then: Callable[[int], None]) -> None:
        self._loop, self._then = loop, then
        self._jobs: deque[Job] = deque()
        self._inside, self._outside = os.pipe()
        os.set_blocking(self._inside, False)
        os.set_blocking(self._outside, False)
        loop.add_reader(self._inside, self._open)

    def ring(self, jobs: Sequence[Job]) -> None:
        """Have the jobs settled; called in the other thread."""
        self._jobs.extend(jobs)
        with suppress(BlockingIOError):  # a full pipe wakes the loop just as well
            os.write(self._outside, b"\0")

    def close(self) -> None:
        """Settle what is left; the other thread has ended."""
        self._loop.remove_reader(self._inside)
        os.close(self._inside)
        os.close(self._outside)
        self._settle()

    def _open(self) -> None:
        os.read(self._inside, 4096)
        self._settle()

    def _settle(self) -> None:
        count = 0
        while self._jobs:
            self._jobs.popleft().settle()
            count += 1
        self._then(count)


class ConnectionThread:
    """Runs `serve` for one job after the other, from `start` to `close`.

    It works for the loop that starts it, which runs on asyncio. Every job is answered: should
    `serve` raise, what it had taken fails and all that comes after is refused, since nobody knows
    what state the connection is in.

    Short jobs that come at the same moment are done in the loop's own thread where that suits them:
    two threads that pass the interpreter to and fro at each statement need twice the time.
    """

    def __init__(
        self,
        name: str,
        *,
        connect: Callable[[], Connection],
        serve: Serve,
        serve_now: ServeNow | None = None,
        suits: Suits | None = None,
    ) -> None:
        self._connect, self._serve, self._serve_now = connect, serve, serve_now
        self._suits = suits
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Connection | None = None
        self._waiting = self._handed_over = 0
        self._gathered: deque[Job] = deque()

    async def start(self) -> None:
        """Open the connection; raises what `connect` raises.

        Whether it raises or not, `close` is to be called.
        """
        loop = asyncio.get_running_loop()
        self._bell = Doorbell(loop, self._have_settled)
        self._handed_over = 1
        self._queue: SimpleQueue[Job] = SimpleQueue()
        self._taken: list[Job] = []
        self._opening: Request[None] = Request(loop, _no_work)
        self._closing: Request[None] = Request(loop, _no_work)
        self._thread = Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()
        self._loop = loop
        await self._opening.outcome()

    async def call(
        self, work: Callable[[Cursor], R], *, alone: bool = False, short: bool = False
    ) -> R:
        """Have `work` done in the thread.

        Args:
            work: What to do with a cursor.
            alone: The loop has nothing else to do that counts: the work may be done here and now
                if the thread is idle.
            short: It may be done in the loop's thread, together with others.

        Raises:
            StoreError: The store is not open, or was opened in another event loop.
            StoreBrokenError: The thread broke down.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise StoreError(
                "the store is not open in this event loop", hint="use it inside its `async with`"
            )
        request = Request(loop, work)
        if alone and self._is_done_now(request):
            return request.answer()
        self._waiting += 1
        if short and self._suits is not None:
            self._gather(loop, request)
        else:
            self._hand_over(request)
        try:
            return await request.outcome()
        finally:
            self._waiting -= 1  # settled, even for a caller that was cancelled

    def _is_done_now(self, request: Job) -> bool:
        """Whether the job could be done in this thread, the connection's own thread being idle."""
        if self._waiting or self._connection is None or self._serve_now is None:
            return False
        return self._serve_now(self._connection, request, no_job)

    def _gather(self, loop: asyncio.AbstractEventLoop, job: Job) -> None:
        """Keep a job until every coroutine that is ready by now has had its turn."""
        if not self._gathered:
            loop.call_soon(self._begin_gathered)
        self._gathered.append(job)

    def _begin_gathered(self) -> None:
        if self._suits is None or not self._suits(len(self._gathered)):
            self._hand_over_gathered()
        elif not self._handed_over:
            self._do_gathered()
        # Else the thread is at work, and they begin when it has answered.

    def _have_settled(self, count: int) -> None:
        self._handed_over -= count
        if self._handed_over:
            self._hand_over_gathered()
        elif self._gathered:
            self._do_gathered()

    def _do_gathered(self) -> None:
        """Do the gathered jobs in this thread, or hand them over where that is refused."""
        taken: list[Job] = []

        def more() -> Job | None:
            if not self._gathered:
                return None
            taken.append(self._gathered.popleft())
            return taken[-1]

        connection, serve = self._connection, self._serve_now
        if connection is None or serve is None or (first := more()) is None:
            self._hand_over_gathered()
            return
        try:
            is_done = serve(connection, first, more)
        except BaseException as exc:  # such as a second Ctrl-C: nobody may wait for ever
            for job in taken:
                job.fail(self._refusal(exc))
                job.settle()
            self._hand_over_gathered()
            raise
        if is_done:
            for job in taken:
                job.settle()
        else:
            self._gathered.extendleft(reversed(taken))
            self._hand_over_gathered()
        if self._gathered:
            asyncio.get_running_loop().call_soon(self._begin_gathered)

    def _hand_over(self, job: Job) -> None:
        self._handed_over += 1
        self._queue.put(job)

    def _hand_over_gathered(self) -> None:
        while self._gathered:
            self._hand_over(self._gathered.popleft())

    async def close(self) -> None:
        """Finish what is queued, close the connection and end the thread."""
        if self._loop is None:
            return
        self._loop = self._connection = None
        self._hand_over_gathered()
        self._hand_over(self._closing)
        try:
            await self._closing.outcome()
        finally:
            self._thread.join()
            self._bell.close()

    def _run(self) -> None:
        try:
            connection = self._connect()
        except BaseException as exc:  # told to the caller of `start`
            self._opening.fail(exc if isinstance(exc, StoreError) else self._refusal(exc))
            self._bell.ring([self._opening])
            self._serve_all(None, exc)
            self._closing.succeed(None)
        else:
            self._opening.succeed(None)
            self._bell.ring([self._opening])
            self._serve_all(connection, None)
            self._closing.succeed(None)
            try:
                connection.close()
            except apsw.Error as exc:  # told to the caller of `close`
                self._closing.fail(exc)
        self._bell.ring([self._closing])

    def _serve_all(self, connection: Connection | None, fault: BaseException | None) -> None:
        """Do the jobs until the closing one; once there is a fault, refuse them."""
        self._connection = connection
        while (job := self._queue.get()) is not self._closing:
            self._taken = [job]
            if connection is not None and fault is None:
                try:
                    self._serve(connection, job, self._more)
                except BaseException as exc:  # told to every caller from now on
                    fault, self._connection = exc, None
            if fault is not None:
                for each in self._taken:
                    each.fail(self._refusal(fault))
            self._bell.ring(self._taken)

    def _refusal(self, fault: BaseException) -> StoreBrokenError:
        error = StoreBrokenError(
            f"{self._name} broke down: {type(fault).__name__}: {fault}",
            hint="start the process again; the last writes may be in the journal or not",
        )
        error.__cause__ = fault
        return error

    def _more(self) -> Job | None:
        if self._queue.empty():
            return None
        job = self._queue.get()
        if job is self._closing:
            self._queue.put(job)
            return None
        self._taken.append(job)
        return job


def no_job() -> Job | None:
    """There are no more."""
    return None


def _no_work(_: Cursor) -> None:
    return None
