"""How a SQLite journal's side file is kept small while others read without a break."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident

import apsw

from hermes.store.driver import Connection

PAGES = 1000
"""So many pages in the side file are moved into the database after a commit, if nobody reads."""

RESTART_PAGES = 2000
"""From so many on, a commit waits for those who read, so that the next one starts the file anew."""

_WAIT_S = 0.25
_PAUSE_S = 0.001

Busy = Callable[[int], bool]


class Checkpoints:
    """Moves the side file's pages into the database, on behalf of the connection that writes.

    SQLite alone does so only at a moment when nobody reads. Where readers follow each other without
    a gap, there is none, and the file grows for ever.

    Attributes:
        is_due: The file has grown in another thread than the connection's own, which alone does
            this work: it takes longer than an event loop should stand still.
    """

    def __init__(self) -> None:
        self.is_due = False
        self._tried = 0

    def attach(self, connection: Connection, busy: Busy) -> None:
        """Be called after each commit of this connection.

        Args:
            connection: The one that writes, in its own thread.
            busy: Its way to wait for others, put back after each try.
        """
        self._busy, self._owner = busy, get_ident()
        connection.set_wal_hook(self._after_commit)

    def _after_commit(self, connection: Connection, _: str, pages: int) -> int:
        self.is_due = get_ident() != self._owner and pages >= PAGES
        if self.is_due:
            return apsw.SQLITE_OK
        # What goes wrong here is no fault of the commit, and is tried again after a later one.
        if pages < self._tried:
            self._tried = 0
        if pages >= RESTART_PAGES and pages >= self._tried + PAGES:
            self._tried = pages
            with suppress(apsw.Error):
                self._restart(connection)
        elif pages >= PAGES:
            with suppress(apsw.Error):
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        return apsw.SQLITE_OK

    def _restart(self, connection: Connection) -> None:
        until = time.monotonic() + _WAIT_S

        def wait_briefly(_: int) -> bool:
            time.sleep(_PAUSE_S)
            return time.monotonic() < until

        connection.set_busy_handler(wait_briefly)
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
        finally:
            connection.set_busy_handler(self._busy)
