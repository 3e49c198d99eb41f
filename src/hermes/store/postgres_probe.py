"""Questions to a PostgreSQL server that need no store."""

from __future__ import annotations

from hermes.store.postgres_connection import connect, is_away, read_address, translating
from hermes.store.postgres_migrate import schema_version

_WAIT_S = 10.0


async def read_schema_version(url: str) -> int:
    """The schema version of the database at `url`, 0 where there is none yet; changes nothing.

    Raises:
        ConfigError: The URL cannot be read.
        StoreError: The database cannot be reached, or is of a newer Hermes.
    """
    address = read_address(url)
    with translating(address):
        async with await connect(address, wait_s=_WAIT_S) as connection:
            return await schema_version(connection, address)


async def is_server_away(url: str) -> bool:
    """Whether no server answers at `url`, or one that is just starting or stopping."""
    return await is_away(read_address(url))
