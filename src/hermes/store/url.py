"""The store that a database URL names."""

from __future__ import annotations

from hermes.core.clock import Clock
from hermes.errors import ConfigError
from hermes.store.base import Store
from hermes.store.connection import Synchronous
from hermes.store.memory import MemoryStore
from hermes.store.sqlite import SQLiteStore

_ALLOWED = "use sqlite:///relative/path.db, sqlite:////absolute/path.db or memory://"


def open_store(url: str, *, clock: Clock, synchronous: Synchronous = "FULL") -> Store:
    """Make the store that `url` names; `async with` opens it.

    Args:
        url: `sqlite:///` and a path, absolute when it begins with a further slash and else from
            the current folder; or `memory://`. The path is taken to the letter.
        clock: Decides when a delayed message is due.
        synchronous: For SQLite, see `SQLiteStore`.

    Raises:
        ConfigError: Any other URL; the message names what is allowed.
    """
    scheme, separator, rest = url.partition("://")
    if scheme == "memory" and separator and not rest:
        return MemoryStore(clock=clock)
    if scheme == "sqlite" and len(rest) > 1 and rest.startswith("/"):
        if "?" in rest:
            raise ConfigError(f"database URL {url!r} has options, SQLite takes none", hint=_ALLOWED)
        return SQLiteStore(rest[1:], clock=clock, synchronous=synchronous)
    if scheme.startswith("postgres"):
        raise ConfigError("PostgreSQL is not supported in this version", hint=_ALLOWED)
    raise ConfigError(f"database URL {url!r} names no store", hint=_ALLOWED)
