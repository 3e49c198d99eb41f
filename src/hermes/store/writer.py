"""Group commit: requests that wait at the same time share one transaction and one sync."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw

from hermes.core.failpoints import hit
from hermes.errors import StoreUnavailableError
from hermes.store.connection import translated
from hermes.store.driver import Connection, Cursor
from hermes.store.thread import Job, More

GROUP_S = 0.005
"""A transaction takes up no further request after this time."""


class GroupCommit:
    """Does jobs in write transactions; each is done when the commit that holds it is.

    A job that fails is taken back alone, by its savepoint. Where SQLite has given up the whole
    transaction (disk full, out of memory), every job of it is done again by itself.

    After a commit that failed by I/O nobody can say what is on the disk, and after a rollback that
    failed the connection is stuck: the writer then refuses everything. A process that sees this
    should stop; a new one reads what is really there.

    Args:
        path: The database, for messages.
        monotonic: Seconds since some moment.
    """

    def __init__(self, path: Path, *, monotonic: Callable[[], float]) -> None:
        self._path, self._monotonic = path, monotonic
        self._fault: apsw.Error | None = None

    def serve(self, connection: Connection, job: Job, more: More) -> None:
        """Do `job` and those that wait behind it."""
        self._transact(connection.cursor(), job, more)

    def _transact(self, cursor: Cursor, first: Job, more: More) -> None:
        """One transaction over `first` and whatever waits behind it."""
        jobs = [first]
        if self._fault is not None:
            self._refuse(jobs, self._fault)
            return
        try:
            hit("store.begin.before")
            cursor.execute("BEGIN IMMEDIATE")
        except apsw.Error as exc:
            # Who is queued by now has waited as long: all share the verdict.
            while (waiting := more()) is not None:
                jobs.append(waiting)
            self._refuse(jobs, exc)
            return
        try:
            first.run(cursor)  # needs no savepoint: there is nothing before it to keep
        except Exception as exc:  # told to the caller, whatever it is
            first.fail(translated(exc, self._path))
            self._roll_back(cursor)
            return
        until = self._monotonic() + GROUP_S
        while self._monotonic() < until and (waiting := more()) is not None:
            jobs.append(waiting)
            if not self._attempt(cursor, waiting):
                for each in jobs:
                    self._transact(cursor, each, _no_more)
                return
        self._commit(cursor, jobs)

    def _attempt(self, cursor: Cursor, job: Job) -> bool:
        """Do a job in a savepoint; False when the transaction around it is gone."""
        try:
            cursor.execute("SAVEPOINT job")
            job.run(cursor)
            cursor.execute("RELEASE job")
        except Exception as exc:  # told to the caller, whatever it is
            job.fail(translated(exc, self._path))
            return self._take_back(cursor)
        return True

    def _take_back(self, cursor: Cursor) -> bool:
        """Undo a job; False when that is not possible without undoing the others."""
        try:
            cursor.execute("ROLLBACK TO job; RELEASE job")
        except apsw.Error:
            self._roll_back(cursor)
            return False
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
        return StoreUnavailableError(
            f"a write to {self._path} failed ({exc}); this process writes no more to it",
            hint="check the disk, then start the process again",
        )


def _no_more() -> Job | None:
    return None
