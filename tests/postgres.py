"""PostgreSQL for tests: databases of their own, a server of their own, a line that can be cut."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Literal

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow

SHARED = os.environ.get("HERMES_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")
ACCOUNT = "postgres"

Cut = Literal["before the commit", "after the commit", "before it is sent", "after the insert"]
_SIGNS: dict[Cut, tuple[bool, bytes]] = {
    "before the commit": (True, b"BEGIN\0"),
    "after the commit": (True, b"COMMIT\0"),
    "before it is sent": (False, b""),
    "after the insert": (True, b"INSERT 0 "),
}
"""Whether the sign is in what the server says, and the sign."""


def connect(server: str = SHARED) -> psycopg.Connection[TupleRow]:
    """A connection for which each statement is a transaction.

    Skips the test, or fails it under CI, where no server answers.
    """
    try:
        return psycopg.connect(server, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError as exc:
        line = f"no PostgreSQL answers at {server}; set HERMES_TEST_POSTGRES to the URL of one"
        if os.environ.get("CI") == "true":
            raise AssertionError(line) from exc
        pytest.skip(line)


@contextmanager
def database(server: str = SHARED) -> Generator[str]:
    """The URL of an empty database, which is dropped at the end.

    Skips the test, or fails it under CI, where no server answers.
    """
    name = f"hermes_test_{uuid.uuid4().hex[:12]}"
    with connect(server) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
        # As NORMAL for SQLite: no test that shares a server pulls its plug.
        admin.execute(f"ALTER DATABASE {name} SET synchronous_commit = off".encode())
        try:
            yield f"{server.rpartition('/')[0]}/{name}"
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


_CLEAR = b"""
DO $$
DECLARE name text;
BEGIN
    FOR name IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'hermes' AND tablename <> 'hermes_schema'
    LOOP
        EXECUTE 'DELETE FROM hermes.' || name;
    END LOOP;
END $$
"""


def clear(url: str) -> None:
    """Take all rows out of a database; far faster than to make the tables again."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_CLEAR)


async def count_waiting(url: str) -> int:
    """How many sessions wait for a lock: the server alone can tell."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        cursor = await connection.execute(
            b"SELECT count(*) FROM pg_stat_activity"
            b" WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        row = await cursor.fetchone()
    return 0 if row is None else int(row[0])


class Server:
    """A PostgreSQL server of the test's own, on a free port, run as an ordinary user."""

    def __init__(self, binaries: Path, home: Path) -> None:
        self._binaries, self._home = binaries, home
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://{ACCOUNT}@127.0.0.1:{self._port}/postgres"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def create(self) -> None:
        """Make its data folder."""
        self._run("initdb", "-U", ACCOUNT, "-A", "trust", "--no-sync", "-D", str(self._home / "d"))

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            [
                str(self._binaries / "postgres"),
                *("-D", str(self._home / "d"), "-p", str(self._port)),
                *(
                    "-c",
                    "listen_addresses=127.0.0.1",
                    "-c",
                    f"unix_socket_directories={self._home}",
                ),
                *("-c", "shared_buffers=16MB", "-c", "max_connections=60"),
            ],
            user=_account(),
            group=_account(),
            cwd=self._home,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError:
                time.sleep(0.05)  # it has no other way to say that it is ready
            else:
                return
        raise AssertionError("the server did not start")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT ends all sessions in good order, SIGQUIT is as a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(20)
            self._process = None

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._binaries / program), *arguments],
            user=_account(),
            group=_account(),
            cwd=self._home,
            check=True,
            capture_output=True,
        )


@contextmanager
def private_server() -> Generator[Server]:
    """A running server; skips the test where its programs are not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found or (os.getuid() == 0 and not _has_account()):
        pytest.skip("PostgreSQL's server programs are not installed here")
    home = Path(tempfile.mkdtemp(prefix="hermes-pg-"))
    try:
        if os.getuid() == 0:
            shutil.chown(home, ACCOUNT, ACCOUNT)
        server = Server(found[-1].parent, home)
        server.create()
        try:
            server.start()
            yield server
        finally:
            server.stop(signal.SIGQUIT)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _account() -> str | None:
    """The server refuses to run as root."""
    return ACCOUNT if os.getuid() == 0 else None


def _has_account() -> bool:
    return subprocess.run(["id", ACCOUNT], capture_output=True, check=False).returncode == 0


class Line:
    """A TCP line to a server that can be cut at a chosen moment.

    Attributes:
        url: The database as reached over this line.
        cuts: How often it was cut.
        is_mute: Answers get lost, while the line stays up.
    """

    def __init__(self, target: str) -> None:
        given = conninfo_to_dict(target)
        self._host, self._port = str(given["host"]), int(str(given.get("port") or 5432))
        self._target = target
        self._cut: Cut | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._calls: set[asyncio.Task[None]] = set()
        self.url, self.cuts, self.is_mute = "", 0, False

    def cut(self, when: Cut) -> None:
        """Cut once.

        When the server says that it has begun a transaction, has committed it, or has inserted
        rows; or when the next statement comes.
        """
        self._cut = when

    @asynccontextmanager
    async def laid(self) -> AsyncGenerator["Line"]:
        """The line, while it can be used."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = int(server.sockets[0].getsockname()[1])
        name = conninfo_to_dict(self._target)["dbname"]
        self.url = f"postgresql://{ACCOUNT}@127.0.0.1:{port}/{name}"
        try:
            yield self
        finally:
            server.close()
            for writer in list(self._writers):
                writer.close()
            await asyncio.gather(*self._calls, return_exceptions=True)

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not a coroutine: its task might begin only after `laid` has looked what there is to end.
        self._writers.add(writer)
        self._calls.add(asyncio.ensure_future(self._carry(reader, writer)))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        self._writers.add(far_writer)
        there = asyncio.ensure_future(self._forward(reader, far_writer, is_answer=False))
        back = asyncio.ensure_future(self._forward(far_reader, writer, is_answer=True))
        await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
        for each in (writer, far_writer):
            each.close()
        await asyncio.gather(there, back, return_exceptions=True)
        for each in (writer, far_writer):
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    await each.wait_closed()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        while data := await reader.read(65536):
            if self._cut is not None:
                comes_back, sign = _SIGNS[self._cut]
                if comes_back == is_answer and sign in data:
                    self._cut, self.cuts = None, self.cuts + 1
                    return
            if not (is_answer and self.is_mute):
                writer.write(data)
                await writer.drain()
