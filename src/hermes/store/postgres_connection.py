"""PostgreSQL connections: how they are opened, what text they carry, what their errors mean."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl

from anyio import to_thread
from psycopg import AsyncConnection, errors, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.string import StrDumper, TextLoader

from hermes.errors import (
    ConfigError,
    ConflictError,
    InputError,
    StoreError,
    StoreUnavailableError,
)

Connection = AsyncConnection[tuple[object, ...]]

SCHEMA = "hermes"
"""Where the tables are, unless the URL's `options` set another search path."""

_DEFAULTS: Mapping[str, str] = {
    "application_name": "hermes",
    "client_encoding": "UTF8",
    "connect_timeout": "10",
    # A peer that is gone without a word is noticed in half a minute, not after hours.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
_NO_URL = "the database URL is not of the form postgresql://user:password@host:port/name"
_NO_URL_HINT = "write `@`, `/`, `:` and `%` in a password as %40, %2F, %3A, %25"
_ABANDONED_S = 10
"""The server ends a transaction whose client has fallen silent, and with it the locks.

Well under the time that others wait for a lock, so that a frozen process costs them no error.
"""

_ESCAPE = "\ue000"
_NUL = _ESCAPE + "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a database is, and how to reach it.

    Attributes:
        parameters: What libpq is given, the password among it: never to be shown.
        label: The same for people, without the password.
        own_schema: Whether the tables go into a schema of ours.
    """

    parameters: Mapping[str, str]
    label: str
    own_schema: bool

    @property
    def run_dir(self) -> str:
        """A folder for the lock files of this host's workers.

        It follows from the database and not from the working directory, so that all processes of
        a user that share the one find each other's locks in the other.
        """
        digest = hashlib.sha256(self.label.encode()).hexdigest()[:16]
        return str(Path(tempfile.gettempdir()) / f"hermes-run-{os.getuid()}" / digest)


def read_address(url: str) -> Address:
    """Read a database URL, `postgresql://user:password@host:port/name?option=value`.

    Raises:
        ConfigError: It is none; the text does not repeat it, since it may hold a password.
    """
    try:
        given = {
            name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None
        }
    except errors.Error:
        # The driver's own words may quote a part of the password.
        raise ConfigError(_option_unknown(url) or _NO_URL, hint=_NO_URL_HINT) from None
    if "@" in given.get("host", ""):  # what stands before the last one is a part of the password
        raise ConfigError(_NO_URL, hint=_NO_URL_HINT)
    host = given.get("host") or given.get("hostaddr") or os.environ.get("PGHOST", "localhost")
    port = given.get("port") or os.environ.get("PGPORT", "5432")
    user = given.get("user") or os.environ.get("PGUSER", "")
    name = given.get("dbname") or os.environ.get("PGDATABASE") or user
    options = given.get("options", "")
    path = f" ({options})" if options else ""
    return Address(
        parameters={**_DEFAULTS, **given},
        label=f"{host}:{port}/{name}{path}",
        own_schema="search_path" not in options,
    )


def _option_unknown(url: str) -> str | None:
    """Which of the URL's options libpq does not know; only names, no values."""
    query = url.partition("?")[2]
    if "@" in query:  # it may be a part of a password
        return None
    given = {name for name, _ in parse_qsl(query, keep_blank_values=True)}
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    unknown = ", ".join(sorted(given - known - {"ssl"}))
    return (
        f"the database URL has an option that libpq does not know: {unknown}" if unknown else None
    )


async def is_away(address: Address) -> bool:
    """Whether nobody answers there, or a server that is just starting or stopping.

    A server that answers and refuses, a password for example, is not away.
    """
    text = make_conninfo(**cast("dict[str, Any]", dict(address.parameters)))
    found = await to_thread.run_sync(pq.PGconn.ping, text.encode())
    return found in (pq.Ping.NO_RESPONSE, pq.Ping.REJECT)


async def connect(address: Address, *, wait_s: float) -> Connection:
    """Open a connection in autocommit mode.

    Raises:
        StoreUnavailableError: Nobody answers there, or lets us in.
    """
    try:
        connection = await AsyncConnection.connect(
            autocommit=True, **cast("dict[str, Any]", dict(address.parameters))
        )
    except (errors.Error, OSError) as exc:
        raise translated(exc, address) from exc
    try:
        await _configure(connection, address, wait_s=wait_s)
    except BaseException as exc:
        await connection.close()
        if isinstance(exc, (errors.Error, OSError)):
            raise translated(exc, address) from exc
        raise
    return connection


async def _configure(connection: Connection, address: Address, *, wait_s: float) -> None:
    """Set what a session needs, in one round trip."""
    connection.adapters.register_dumper(str, _TextDumper)
    connection.adapters.register_loader("text", _TextLoader)
    connection.prepare_threshold = 2
    await connection.execute(
        b"SELECT set_config('search_path', CASE WHEN %s THEN %s"
        b" ELSE current_setting('search_path') END, false),"
        b" set_config('default_transaction_isolation', 'read committed', false),"
        b" set_config('lock_timeout', %s, false),"
        b" set_config('idle_in_transaction_session_timeout', %s, false)",
        (address.own_schema, SCHEMA, f"{int(wait_s * 1000)}", f"{_ABANDONED_S * 1000}"),
    )


def is_lost(exc: BaseException, connection: Connection) -> bool:
    """Whether the connection broke, so that what was under way may or may not have happened."""
    told: BaseException | None = exc
    while isinstance(told, errors.Error):
        if told.diag.severity_nonlocalized in ("FATAL", "PANIC"):
            return True  # the server's last words; that it hangs up is seen only later
        told = told.__context__  # the end of a pipeline may fail for its part
    return isinstance(exc, (errors.OperationalError, errors.InterfaceError, OSError)) and (
        connection.closed
    )


@contextmanager
def translating(address: Address) -> Generator[None]:
    """Around what uses a connection: errors of the driver become what they mean to a caller."""
    try:
        yield
    except (errors.Error, OSError) as exc:
        raise translated(exc, address) from exc


def translated(exc: BaseException, address: Address) -> BaseException:
    """What an error of the driver means to a caller; any other error stays as it is."""
    if not isinstance(exc, (errors.Error, OSError)):
        return exc
    error = _meaning(exc, address)
    error.__cause__ = exc
    return error


def _meaning(exc: errors.Error | OSError, address: Address) -> StoreError | InputError:
    where = f"PostgreSQL at {address.label}"
    said = _said(exc)
    match exc:
        case errors.UniqueViolation():
            return ConflictError(f"an id is in use already: {exc.diag.message_detail or said}")
        case errors.ProgramLimitExceeded():
            return InputError(
                f"an id or a key is too long for {where}: {said}",
                hint="ids and keys have at most some 2,000 bytes",
            )
        case errors.LockNotAvailable():
            return StoreUnavailableError(
                f"{where} kept a row locked too long",
                hint="look into pg_stat_activity for a session that is idle in a transaction",
            )
        case errors.DiskFull():
            return StoreUnavailableError(f"{where} has no room left", hint="free some space there")
        case errors.QueryCanceled():
            return StoreUnavailableError(
                f"{where} ended a statement before it was through: {said}",
                hint="raise statement_timeout for this user or database, or set it to 0",
            )
        case errors.InsufficientPrivilege() | errors.ReadOnlySqlTransaction():
            return StoreUnavailableError(
                f"{where} does not let this user do that: {said}",
                hint=f"grant it the right to create and use schema {SCHEMA}, or its ownership",
            )
        case errors.UndefinedTable():
            return StoreError(
                f"{where} lacks a table: {said}", hint="`hermes db migrate` makes what is missing"
            )
        case errors.OperationalError() | errors.InterfaceError() | OSError():
            return StoreUnavailableError(
                f"{where} cannot be reached: {said}",
                hint="check that it runs and that host, database, user and password are right",
            )
        case _:
            return StoreError(f"{where} refused: {type(exc).__name__}: {said}")


def _said(exc: BaseException) -> str:
    """The driver's words on one line."""
    return " ".join(str(exc).split()) or type(exc).__name__


class _TextDumper(StrDumper):
    """Text to PostgreSQL, which knows no NUL: it is written with a mark of private use."""

    def dump(self, obj: str) -> Any:
        if "\0" in obj or _ESCAPE in obj:
            obj = obj.replace(_ESCAPE, _ESCAPE * 2).replace("\0", _NUL)
        return super().dump(obj)


class _TextLoader(TextLoader):
    """The way back of `_TextDumper`."""

    def load(self, data: Any) -> str:
        text = str(super().load(data))
        if _ESCAPE not in text:
            return text
        parts = text.split(_ESCAPE * 2)
        return _ESCAPE.join(part.replace(_NUL, "\0") for part in parts)
