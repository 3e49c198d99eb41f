"""The store that a database URL names."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from anyio import to_thread

from hermes.core.clock import Clock
from hermes.errors import ConfigError
from hermes.store.base import Store
from hermes.store.connection import Synchronous, read_version
from hermes.store.queries import Migration, migrations_after
from hermes.store.sqlite import SQLiteStore

_ALLOWED = (
    "use sqlite:///relative/path.db, sqlite:////absolute/path.db, "
    "postgresql://user:password@host:5432/name or memory://"
)


def open_store(
    url: str,
    *,
    clock: Clock,
    synchronous: Synchronous = "FULL",
    migrate: bool = True,
    pool_size: int = 8,
) -> Store:
    """Make the store that `url` names; `async with` opens it.

    Args:
        url: `sqlite:///` and a path, absolute when it begins with a further slash and else from
            the current folder, taken to the letter; `postgresql://` and what libpq reads after it;
            or `memory://`.
        clock: Decides when a delayed message is due.
        synchronous: For SQLite, see `SQLiteStore`.
        migrate: Bring an older schema up to date when it is opened; else that is a `StoreError`.
        pool_size: For PostgreSQL, at most so many connections.

    Raises:
        ConfigError: Any other URL; the message names what is allowed.
    """
    if _is_postgres(url):
        with _driver_needed():
            from hermes.store.postgres import PostgresStore
        return PostgresStore(url, clock=clock, migrate=migrate, pool_size=pool_size)
    path = _sqlite_path(url)
    if path is None:
        from hermes.store.memory import MemoryStore

        return MemoryStore(clock=clock)
    return SQLiteStore(path, clock=clock, synchronous=synchronous, migrate=migrate)


async def pending_migrations(url: str) -> list[Migration]:
    """The scripts that the database lacks, in the order in which they would run; runs none.

    Each says of itself what it brings and whether it is safe before or after the code upgrade.
    Opening the store with `migrate=True` runs them.

    Args:
        url: As for `open_store`.

    Raises:
        ConfigError: As `open_store`.
        StoreError: The database is another program's, of a newer Hermes, or cannot be read.
    """
    if _is_postgres(url):
        with _driver_needed():
            from hermes.store.postgres_probe import read_schema_version
        return migrations_after(await read_schema_version(url), "postgres")
    path = _sqlite_path(url)
    if path is None:
        return []
    return migrations_after(await to_thread.run_sync(read_version, path))


async def is_away(url: str) -> bool:
    """Whether the database is a server that does not answer, or is just starting: worth waiting.

    Args:
        url: As for `open_store`.
    """
    if not _is_postgres(url):
        return False
    with _driver_needed():
        from hermes.store.postgres_probe import is_server_away
    return await is_server_away(url)


def _sqlite_path(url: str) -> Path | None:
    """The file that a URL names; None for a store in memory."""
    scheme, separator, rest = url.partition("://")
    if scheme == "memory" and separator and not rest:
        return None
    if scheme == "sqlite" and len(rest) > 1 and rest.startswith("/"):
        if "?" in rest:
            raise ConfigError(f"database URL {url!r} has options, SQLite takes none", hint=_ALLOWED)
        return Path(rest[1:])
    # Not the URL itself where it may hold a password.
    shown = f"{scheme}://…" if "@" in url else url
    raise ConfigError(f"database URL {shown!r} names no store", hint=_ALLOWED)


def _is_postgres(url: str) -> bool:
    scheme, separator, _ = url.partition("://")
    return scheme in ("postgresql", "postgres") and bool(separator)


@contextmanager
def _driver_needed() -> Generator[None]:
    """Around imports that only those need who use PostgreSQL."""
    try:
        yield
    except ModuleNotFoundError as exc:
        raise ConfigError(
            f"PostgreSQL needs a driver that is not installed here ({exc.name})",
            hint="pip install 'hermes-courier[postgres]'",
        ) from exc
