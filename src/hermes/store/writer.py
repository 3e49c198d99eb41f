"""Group commit: requests that wait at the same time share one transaction and one sync."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw

from hermes.core.failpoints import hit
from hermes.errors import StoreBrokenError
from hermes.store.connection import translated
from hermes.store.driver import Connection, Cursor
from hermes.store.thread import Job, More, no_job

GROUP_S = 0.005
"""A transaction takes up no further request after this time."""

QUICK_S = 0.002
"""Up to here a transaction may hold up an event loop."""

HAND_OVER_S = 0.000_012
"""What it costs each job of a group to be done in another thread than its caller's."""

_WEIGHT = 0.1


class GroupCommit:
    """Does jobs in write transactions; each is done when the commit that holds it is.

    A job that fails is refused alone. Where it has written something by then, or SQLite has given
    up the whole transaction (disk full, out of memory), every job is done again by itself.

    After a commit that failed by I/O nobody can say what is on the disk, and after a rollback that
    failed the connection is stuck: the writer then refuses everything. A process that sees this
    should stop; a new one reads what is really there.

    Args:
        path: The database, for messages.
        monotonic: Seconds since some moment.
        is_busy: Whether the connection's own thread has work to do at its next commit.
    """

    def __init__(
        self, path: Path, *, monotonic: Callable[[], float], is_busy: Callable[[], bool]
    ) -> None:
        self._path, self._monotonic, self._is_busy = path, monotonic, is_busy
        self._fault: apsw.Error | None = None
        self._typical_s = 0.0

    def serve(self, connection: Connection, job: Job, more: More) -> None:
        """Do `job` and those that wait behind it."""
        began = self._monotonic()
        others_s = self._transact(connection.cursor(), job, more)
        self._took(self._monotonic() - began - others_s)

    def suits(self, count: int) -> bool:
        """Whether so many jobs are better done in their callers' thread: commits are that quick."""
        return self._typical_s <= min(QUICK_S, count * HAND_OVER_S)

    def serve_now(self, connection: Connection, job: Job, more: More) -> bool:
        """Do `job` and those behind it in the thread of their callers.

        It spares two changes of thread for a write alone, and one for each statement where many
        come at once. Refused while another process writes, while commits take longer than
        `QUICK_S`, and when the side file has to be tended to.

        Returns:
            False if it is refused, or if each has to be done by itself, which may take a while;
            nothing was done then.
        """
        if self._fault or self._typical_s > QUICK_S or self._is_busy():
            return False
        cursor = connection.cursor()
        began = self._monotonic()
        try:
            hit("store.begin.before")
            cursor.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            return False
        except apsw.Error as exc:
            self._refuse([job], exc)
            return True
        try:
            others_s = self._work(cursor, [job], more, QUICK_S)
        except BaseException:  # such as a second Ctrl-C: it may come anywhere in this thread
            self._roll_back(cursor)
            raise
        if others_s is None:
            return False
        self._took(self._monotonic() - began - others_s)
        return True

    def _took(self, seconds: float) -> None:
        self._typical_s += _WEIGHT * (min(seconds, 4 * QUICK_S) - self._typical_s)

    def _transact(self, cursor: Cursor, first: Job, more: More) -> float:
        """One transaction over `first` and whatever waits behind it, or one for each.

        Returns:
            Seconds that the jobs behind the first one took.
        """
        jobs = [first]
        if self._fault is not None:
            self._refuse(jobs, self._fault)
            return 0.0
        try:
            hit("store.begin.before")
            cursor.execute("BEGIN IMMEDIATE")
        except apsw.Error as exc:
            # Who is queued by now has waited as long: all share the verdict.
            while (waiting := more()) is not None:
                jobs.append(waiting)
            self._refuse(jobs, exc)
            return 0.0
        others_s = self._work(cursor, jobs, more, GROUP_S)
        if others_s is None:
            for each in jobs:
                self._transact(cursor, each, no_job)
        return others_s or 0.0

    def _work(self, cursor: Cursor, jobs: list[Job], more: More, longest_s: float) -> float | None:
        """Do the first job of a transaction that was begun, and more of them, and end it.

        Returns:
            Seconds that the jobs behind the first one took; None if all were undone, and each has
            to be done by itself.
        """
        [first] = jobs
        try:
            first.run(cursor)  # needs no savepoint: there is nothing before it to keep
        except Exception as exc:  # told to the caller, whatever it is
            first.fail(translated(exc, self._path))
            self._roll_back(cursor)
            return 0.0
        began = now = self._monotonic()
        while now < began + longest_s and (waiting := more()) is not None:
            jobs.append(waiting)
            if not self._attempt(cursor, waiting):
                self._roll_back(cursor)
                return None
            now = self._monotonic()
        self._commit(cursor, jobs)
        return now - began

    def _attempt(self, cursor: Cursor, job: Job) -> bool:
        """Do a job behind others; False when the transaction around it is of no use any more.

        A job that is refused has nearly always written nothing. Where it has, all are undone, and
        done again each by itself: that is rare, and spares the others a savepoint each.
        """
        written = cursor.connection.total_changes()
        try:
            job.run(cursor)
        except Exception as exc:  # told to the caller, whatever it is
            job.fail(translated(exc, self._path))
            if not cursor.connection.in_transaction:
                return False
            return cursor.connection.total_changes() == written
        return True

    def _commit(self, cursor: Cursor, jobs: list[Job]) -> None:
        try:
            hit("store.commit.before")
            cursor.execute("COMMIT")
            hit("store.commit.after")
        except apsw.Error as exc:
            if isinstance(exc, apsw.IOError):
                self._fault = exc
            self._roll_back(cursor)
            self._refuse(jobs, exc)

    def _roll_back(self, cursor: Cursor) -> None:
        if not cursor.connection.in_transaction:
            return
        try:
            cursor.execute("ROLLBACK")
        except apsw.Error as exc:
            self._fault = self._fault or exc

    def _refuse(self, jobs: list[Job], exc: apsw.Error) -> None:
        for job in jobs:
            job.fail(self._refusal(exc))

    def _refusal(self, exc: apsw.Error) -> Exception:
        if self._fault is None:
            return translated(exc, self._path)
        return StoreBrokenError(
            f"a write to {self._path} failed ({exc}); this process writes no more to it",
            hint="check the disk, then start the process again",
        )
