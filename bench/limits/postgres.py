"""The raw limit of PostgreSQL: plain inserts over as many connections as the store has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
from psycopg import sql

from .steps import ROWS, rate


async def raw_postgres_rate(url: str, runs: int, steps: int, *, connections: int) -> float:
    """Steps a second of plain inserts, each a commit, over a few connections."""
    free: asyncio.Queue[psycopg.AsyncConnection] = asyncio.Queue()
    opened = [
        await psycopg.AsyncConnection.connect(url, autocommit=True)
        for _ in range(min(runs, connections))
    ]
    await opened[0].execute("DROP TABLE IF EXISTS raw_row")
    await opened[0].execute("CREATE TABLE raw_row (id BIGSERIAL PRIMARY KEY, data BYTEA NOT NULL)")
    for each in opened:
        free.put_nowait(each)

    async def step(_: int) -> None:
        for data in ROWS:
            mine = await free.get()
            await mine.execute("INSERT INTO raw_row (data) VALUES (%s)", (data,))
            free.put_nowait(mine)

    try:
        return await rate([step] * runs, steps)
    finally:
        for each in opened:
            await each.close()


def raw_postgres_commits(url: str, count: int) -> float:
    """Commits a second of one row each, in a plain loop over one connection."""
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("DROP TABLE IF EXISTS raw_one")
        database.execute("CREATE TABLE raw_one (id BIGSERIAL PRIMARY KEY, data BYTEA NOT NULL)")
        began = time.perf_counter()
        for number in range(count):
            database.execute("INSERT INTO raw_one (data) VALUES (%s)", (ROWS[number % 2],))
        return count / (time.perf_counter() - began)


@asynccontextmanager
async def own_database(server: str) -> AsyncGenerator[str]:
    """An empty database on the server, dropped afterwards; yields its URL.

    Raises:
        ConnectionError: No server answers there.
    """
    name = f"hermes_bench_{uuid4().hex[:8]}"
    try:
        connection = await psycopg.AsyncConnection.connect(server, autocommit=True)
    except psycopg.OperationalError as exc:
        raise ConnectionError(str(exc).strip()) from exc
    async with connection as admin:
        await admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
        finally:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            await admin.execute(drop)
