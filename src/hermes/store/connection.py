"""SQLite connections: how they are opened, how long they wait, and what their errors mean."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from typing import Literal

import apsw

from hermes.errors import ConflictError, StoreError, StoreUnavailableError
from hermes.store.checkpoint import Busy, Checkpoints
from hermes.store.driver import Connection, connect
from hermes.store.migrate import check, schema_version
from hermes.store.migrate import migrate as run_migrations

Synchronous = Literal["FULL", "NORMAL"]
Prepare = Callable[[Connection, Busy], object]

_KEPT_WAL_BYTES = 16 * 1024 * 1024
_CACHE_KIB = 512
"""Pages that the writer keeps: new rows go to the ends of a few trees, so it needs no more."""
_LONGEST_PAUSE_S = 0.005


def open_writer(
    path: Path,
    *,
    synchronous: Synchronous,
    wait_s: float,
    checkpoints: Checkpoints,
    migrate: bool = True,
) -> Connection:
    """Open a database for writing; it is created, with its folders, and migrated as needed.

    Raises:
        StoreUnavailableError: It cannot be created, read or written here.
        StoreError: It is no journal of Hermes, damaged, or of a newer version; or of an older one
            and not to be migrated.
    """
    if not migrate and not path.exists():
        raise StoreError(f"there is no database at {path}", hint="run `hermes db migrate`")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise StoreUnavailableError(
            f"cannot create the folder {path.parent}: {exc.strerror}", hint="choose another path"
        ) from exc
    if path.is_dir():
        raise StoreUnavailableError(
            f"{path} is a folder, the journal is a file", hint=f"name a file, as {path}/hermes.db"
        )
    bring_up = run_migrations if migrate else check

    def prepare(connection: Connection, busy: Busy) -> None:
        _configure(connection, synchronous)
        bring_up(connection, path)
        checkpoints.attach(connection, busy)

    return _opened(path, prepare, wait_s)


def open_reader(path: Path, *, wait_s: float) -> Connection:
    """Open a database that `open_writer` has made, for reading alone.

    Raises:
        StoreError: As `open_writer`.
    """
    return _opened(path, lambda connection, _: connection.pragma("query_only", True), wait_s)


def read_version(path: Path, *, wait_s: float = 10.0) -> int:
    """The schema version of a database, 0 where there is none yet; nothing is created or changed.

    Raises:
        StoreError: As `open_writer`.
    """
    if not path.exists():
        return 0
    connection = open_reader(path, wait_s=wait_s)
    try:
        return schema_version(connection, path)
    except apsw.Error as exc:
        raise translated(exc, path) from exc
    finally:
        connection.close()


def translated(exc: Exception, path: Path) -> Exception:
    """What an error of the driver means to a caller; any other error stays as it is."""
    if not isinstance(exc, apsw.Error):
        return exc
    error = _meaning(exc, path)
    error.__cause__ = exc
    return error


def _meaning(exc: apsw.Error, path: Path) -> StoreError:
    match exc:
        case apsw.ConstraintError():
            return ConflictError(f"an id is in use already: {exc}")
        case apsw.BusyError() | apsw.LockedError():
            return StoreUnavailableError(
                f"{path} stayed locked by another process",
                hint="look for a process that holds it open, such as a backup or a shell",
            )
        case apsw.FullError():
            return StoreUnavailableError(
                f"no room left to write {path}", hint="free some space on its disk"
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError():
            return StoreUnavailableError(
                f"{path} cannot be opened for writing: {exc}",
                hint="check the rights of the file and of its folder, or choose another path",
            )
        case apsw.NotADBError():
            return StoreError(f"{path} is not a SQLite database", hint="choose another path")
        case apsw.CorruptError():
            return StoreError(f"{path} is damaged: {exc}", hint="put back the last good copy")
        case _:
            return StoreUnavailableError(
                f"{path} cannot be used: {type(exc).__name__}: {exc}",
                hint="check the disk it is on",
            )


def _opened(path: Path, prepare: Prepare, wait_s: float) -> Connection:
    """Connect and prepare, again while another process is in the middle of creating the file.

    SQLite does not wait on its own when two processes switch one new file to WAL. Where it does,
    the time is over once it gives up.
    """
    pauses = _pauses(wait_s)
    is_over = False

    owner = get_ident()

    def pause(tries: int) -> bool:
        nonlocal is_over
        if get_ident() != owner:
            return False  # an event loop's thread: it waits for nobody
        is_over = not _pause(tries, pauses)
        return not is_over

    for tries in range(pauses + 1):
        try:
            connection = connect(str(path))
        except apsw.Error as exc:
            raise translated(exc, path) from exc
        try:
            connection.set_busy_handler(pause)
            prepare(connection, pause)
        except (apsw.BusyError, apsw.LockedError) as exc:
            connection.close()
            if is_over or not _pause(tries, pauses):
                raise translated(exc, path) from exc
        except BaseException as exc:
            connection.close()
            if isinstance(exc, apsw.Error):
                raise translated(exc, path) from exc
            raise
        else:
            return connection
    raise AssertionError("the last try returns or raises")


def _configure(connection: Connection, synchronous: Synchronous) -> None:
    connection.pragma("auto_vacuum", "incremental")  # heeded by an empty file alone
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", synchronous)
    connection.pragma("journal_size_limit", _KEPT_WAL_BYTES)
    connection.pragma("cache_size", -_CACHE_KIB)


def _pauses(wait_s: float) -> int:
    return max(1, round(wait_s / _LONGEST_PAUSE_S))


def _pause(tries: int, limit: int) -> bool:
    """Sleep for a moment and say whether to try again.

    SQLite's own busy timeout soon looks only ten times a second, too seldom to get a turn beside
    a process that writes all the time.
    """
    if tries >= limit:
        return False
    time.sleep(min(_LONGEST_PAUSE_S, 0.0005 * (tries + 1)))
    return True
