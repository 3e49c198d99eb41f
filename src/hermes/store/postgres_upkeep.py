"""What an operator does with a PostgreSQL journal: see how it stands, copy it, clear it out."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import cast

import anyio

from hermes.errors import InputError, StoreUnavailableError
from hermes.store.postgres_connection import SCHEMA, Address, Connection
from hermes.store.postgres_migrate import newest_version, read_version
from hermes.store.queries import postgres
from hermes.store.values import StoreStatus


async def status(connection: Connection) -> StoreStatus:
    """How the database stands."""
    notes: list[str] = []
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        if (value := await _one(connection, b"SELECT current_setting(%s)", (name,))) == "off":
            notes.append(
                f"{name}={value}: the last commits may be lost when the server's machine stops"
            )
    return StoreStatus(
        backend="postgresql",
        version=await read_version(connection),
        newest=newest_version(),
        size_bytes=cast("int", await _one(connection, postgres("size_bytes"))),
        tasks=await _counts(connection, "count_tasks"),
        messages=await _counts(connection, "count_messages"),
        workers=cast("int", await _one(connection, postgres("count_workers"))),
        open_reviews=cast("int", await _one(connection, postgres("count_open_reviews"))),
        notes=notes,
    )


async def backup(address: Address, target: Path) -> None:
    """Have `pg_dump` write the tables, as they stand at one moment, into a new file."""
    await anyio.to_thread.run_sync(_check_new, target)
    tool = shutil.which("pg_dump")
    if tool is None:
        raise StoreUnavailableError(
            "a backup of PostgreSQL needs `pg_dump`, which is not installed here",
            hint="install PostgreSQL's client programs, or let the database's operator make it",
        )
    part = target.with_name(f"{target.name}.part-{os.getpid()}")
    command = [tool, "--format=custom", "--no-password", f"--file={part}"]
    if address.own_schema:
        command.append(f"--schema={SCHEMA}")
    # By the environment, so that no list of processes shows the password.
    given = {
        "PGDATABASE" if name == "dbname" else f"PG{name.upper()}": value
        for name, value in address.parameters.items()
        if name in _BY_ENVIRONMENT
    }
    try:
        done = await anyio.run_process(command, env={**os.environ, **given}, check=False)
        if done.returncode != 0:
            said = " ".join(done.stderr.decode("utf-8", "replace").split())
            raise StoreUnavailableError(f"pg_dump of {address.label} failed: {said}")
        await anyio.to_thread.run_sync(_keep, part, target)
    finally:
        await anyio.to_thread.run_sync(_remove, part)


_BY_ENVIRONMENT = frozenset(
    {"host", "hostaddr", "port", "dbname", "user", "password", "sslmode", "sslrootcert",
     "sslcert", "sslkey", "passfile", "options"}
)  # fmt: skip


def _check_new(target: Path) -> None:
    if target.exists():
        raise InputError(f"{target} exists already", hint="name a file that does not")


def _keep(part: Path, target: Path) -> None:
    try:
        os.link(part, target)
    except FileExistsError as exc:
        raise InputError(f"{target} exists already", hint="name a file that does not") from exc
    except OSError as exc:
        raise StoreUnavailableError(
            f"cannot write {target}: {exc.strerror}", hint="check the folder and its disk"
        ) from exc


def _remove(part: Path) -> None:
    """Take away what an unfinished copy has left."""
    with suppress(FileNotFoundError):
        part.unlink()


async def _one(connection: Connection, query: bytes, values: tuple[object, ...] = ()) -> object:
    row = await (await connection.execute(query, values)).fetchone()
    return None if row is None else row[0]


async def _counts(connection: Connection, name: str) -> dict[str, int]:
    rows = await (await connection.execute(postgres(name))).fetchall()
    return dict(cast("list[tuple[str, int]]", rows))
