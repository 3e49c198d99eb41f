"""What an operator does with a SQLite file: see how it stands, copy it, make it smaller."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

import apsw

from hermes.errors import InputError, StoreUnavailableError
from hermes.store.connection import Synchronous
from hermes.store.driver import Cursor, connect
from hermes.store.queries import migrations, sql
from hermes.store.values import StoreStatus

LARGE_WAL_BYTES = 64_000_000
LARGE_FREE_BYTES = 1_000_000

_INCREMENTAL = 2


def status(cursor: Cursor, *, path: Path, synchronous: Synchronous) -> StoreStatus:
    """How the database stands."""
    return StoreStatus(
        backend="sqlite",
        version=_number(cursor, "PRAGMA user_version"),
        newest=migrations()[-1][0],
        size_bytes=sum(_size_bytes(path, suffix) for suffix in ("", "-wal", "-shm")),
        tasks=_counts(cursor, "count_tasks"),
        messages=_counts(cursor, "count_messages"),
        workers=_number(cursor, sql("count_workers")),
        open_reviews=_number(cursor, sql("count_open_reviews")),
        notes=list(_notes(cursor, path, synchronous)),
    )


def _notes(cursor: Cursor, path: Path, synchronous: Synchronous) -> Iterator[str]:
    if synchronous != "FULL":
        yield (
            f"synchronous={synchronous}: commits are not synced, so the last ones may be lost when "
            "the machine stops"
        )
    wal = _size_bytes(path, "-wal")
    if wal > LARGE_WAL_BYTES:
        yield (
            f"{path.name}-wal has {_mb(wal)}: another program keeps a read open, such as a shell "
            "or a copy; end it, and the file shrinks"
        )
    free = _free_bytes(cursor)
    if free > LARGE_FREE_BYTES and not gives_back(cursor):
        yield (
            f"{_mb(free)} inside {path.name} are free; they are used again, and `hermes db prune` "
            "gives them back to the disk when no worker is registered"
        )


def gives_back(cursor: Cursor) -> bool:
    """Whether the file can shrink page by page: those that an older Hermes has made cannot."""
    return _number(cursor, "PRAGMA auto_vacuum") == _INCREMENTAL


def shrink(path: Path) -> None:
    """Let the file end where its last page ends, once pages were given back.

    A file that cannot give back page by page is written anew, if it has much room to spare and no
    worker is registered who would have to wait for that. If somebody reads or writes just now,
    nothing happens: a checkpoint shrinks the file later, and the next prune tries again.
    """
    connection = connect(str(path))
    try:
        with suppress(apsw.BusyError, apsw.LockedError):
            cursor = connection.cursor()
            is_idle = _number(cursor, sql("count_workers")) == 0
            if is_idle and not gives_back(cursor) and _free_bytes(cursor) > LARGE_FREE_BYTES:
                connection.pragma("auto_vacuum", "incremental")
                connection.execute("VACUUM")
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        connection.close()


def backup(path: Path, target: Path) -> None:
    """Copy the database, as it stands at one moment, into a new file."""
    if target.exists():
        raise InputError(f"{target} exists already", hint="name a file that does not")
    if any("\ud800" <= char <= "\udfff" for char in str(target)):  # SQLite takes UTF-8 alone
        raise InputError(f"the name {str(target)!r} is no UTF-8", hint="choose another name")
    part = target.with_name(f"{target.name}.part-{os.getpid()}")
    try:
        connection = connect(str(path))
        try:
            connection.execute("VACUUM INTO ?", (str(part),))
        finally:
            connection.close()
        os.link(part, target)
    except FileExistsError as exc:
        raise InputError(f"{target} exists already", hint="name a file that does not") from exc
    except (OSError, apsw.Error) as exc:
        raise StoreUnavailableError(
            f"cannot write a copy of {path} to {target}: {exc}",
            hint="check the folder and its disk",
        ) from exc
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _number(cursor: Cursor, query: str) -> int:
    ((value,),) = cursor.execute(query).fetchall()
    return cast("int", value)


def _counts(cursor: Cursor, name: str) -> dict[str, int]:
    rows = cast("list[tuple[str, int]]", cursor.execute(sql(name)).fetchall())
    return dict(rows)


def _free_bytes(cursor: Cursor) -> int:
    return _number(cursor, "PRAGMA freelist_count") * _number(cursor, "PRAGMA page_size")


def _size_bytes(path: Path, suffix: str) -> int:
    try:
        return path.with_name(path.name + suffix).stat().st_size
    except FileNotFoundError:
        return 0


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1_000_000:.1f} MB"
