"""The network below the connections to models: the event loop's own transports.

httpcore2's backend for asyncio stands on anyio, whose scopes, checkpoints and attributes are a
quarter of a small request's CPU. This one uses the interface that httpcore2 has for backends.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from typing import cast

import anyio
import httpcore2
import httpx2

_HELD_BYTES = 256 * 1024
"""So much that nobody has read yet, and no more is taken in."""

_LANDING_BYTES = 64 * 1024

_NEXT_ADDRESS_S = 0.25
"""Where a name has several addresses, each gets so much of a start before the next (RFC 8305)."""


class Transport(httpx2.AsyncHTTPTransport):
    """httpx2's own, on this network; knows no proxy."""

    def __init__(self, *, verify: ssl.SSLContext, limits: httpx2.Limits) -> None:
        super().__init__(verify=verify, limits=limits)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=verify,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_Network(),
        )


class _Network(httpcore2.AsyncNetworkBackend):
    def __init__(self) -> None:
        # Each connection takes out what came before another one can use it.
        self._landing = bytearray(_LANDING_BYTES)

    def _wire(self) -> Wire:
        return Wire(self._landing)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # the interface's
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> Wire:
        with _connecting(), anyio.fail_after(timeout):
            wire = await self._first_of(await _addresses(host, port), port, local_address)
        for option in socket_options or ():
            wire.socket.setsockopt(*option)  # pyright: ignore[reportArgumentType, reportCallIssue]
        return wire

    async def _first_of(self, addresses: Sequence[str], port: int, here: str | None) -> Wire:
        """A connection to the first address that answers; each gets a start before the next.

        asyncio can do that too, but loses a connection that stands as it is cancelled.
        """
        loop, local = asyncio.get_running_loop(), (here, 0) if here else None
        made: list[Wire] = []
        faults: list[OSError] = []

        async def attempt(address: str, is_over: anyio.Event) -> None:
            try:
                _, wire = await loop.create_connection(self._wire, address, port, local_addr=local)
            except OSError as exc:
                faults.append(exc)
                is_over.set()
            else:
                made.append(wire)
                group.cancel_scope.cancel()

        try:
            async with anyio.create_task_group() as group:
                for address in addresses:
                    group.start_soon(attempt, address, is_over := anyio.Event())
                    with anyio.move_on_after(_NEXT_ADDRESS_S):
                        await is_over.wait()
        except BaseException:
            for wire in made:
                wire.abort()
            raise
        for wire in made[1:]:
            wire.abort()
        if not made:
            raise OSError("; ".join(map(str, faults)))
        return made[0]

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class Wire(httpcore2.AsyncNetworkStream, asyncio.BufferedProtocol):
    """One connection: the pool's stream and the event loop's protocol.

    Args:
        landing: Where the event loop puts what it receives.
    """

    socket: socket.socket

    def __init__(self, landing: bytearray) -> None:
        self._landing, self._received = landing, bytearray()
        self._is_over = self._is_held = self._is_full = False
        self._fault: Exception | None = None
        self._reading: asyncio.Future[None] | None = None
        self._writing: asyncio.Future[None] | None = None

    # --- what the event loop calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Of other loops, such as uvloop's, it is one by its methods alone.
        self._transport = cast("asyncio.Transport", transport)
        self.socket = transport.get_extra_info("socket")
        self._poll = select.poll()
        self._poll.register(self.socket.fileno(), select.POLLIN)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._landing

    def buffer_updated(self, nbytes: int) -> None:
        self._received += memoryview(self._landing)[:nbytes]
        if len(self._received) >= _HELD_BYTES and not self._is_held:
            self._is_held = True
            self._transport.pause_reading()
        _wake(self._reading)

    def eof_received(self) -> None:
        self._is_over = True
        _wake(self._reading)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over, self._fault = True, exc
        _wake(self._reading)
        _wake(self._writing)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        _wake(self._writing)

    # --- what the pool calls ---

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Some bytes; none where the server has ended the connection."""
        while not self._received:
            if self._fault is not None:
                raise httpcore2.ReadError(str(self._fault)) from self._fault
            if self._is_over:
                return b""
            self._reading = asyncio.get_running_loop().create_future()
            await _until(self._reading, timeout, httpcore2.ReadTimeout)
        data = bytes(self._received[:max_bytes])
        del self._received[:max_bytes]
        if self._is_held and not self._received:
            self._is_held = False
            self._transport.resume_reading()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Hand bytes on; waits while too many are under way."""
        self._check_open()
        self._transport.write(buffer)
        while self._is_full:
            self._writing = asyncio.get_running_loop().create_future()
            await _until(self._writing, timeout, httpcore2.WriteTimeout)
            self._check_open()

    def _check_open(self) -> None:
        if self._is_over:
            raise httpcore2.WriteError(str(self._fault or "the server has ended the connection"))

    async def aclose(self) -> None:
        """End the connection, politely where that takes no time."""
        self._transport.close()
        await asyncio.sleep(0)
        self.abort()

    def abort(self) -> None:
        """End the connection at once."""
        self._transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Wire:
        """Speak TLS from here on."""
        loop = asyncio.get_running_loop()
        try:
            with _connecting(), anyio.fail_after(timeout):
                secure = await loop.start_tls(
                    self._transport, self, ssl_context, server_hostname=server_hostname
                )
        except BaseException:
            self.abort()
            raise
        assert secure is not None
        self._transport = secure
        return self

    def get_extra_info(self, info: str) -> object:
        """Facts by the names that httpcore2 has for them."""
        match info:
            case "is_readable":  # of a connection at rest: that the server has ended it
                return self._is_over or bool(self._received) or bool(self._poll.poll(0))
            case "socket":
                return self.socket
            case "ssl_object":
                return self._transport.get_extra_info("ssl_object")
            case "client_addr":
                return self._transport.get_extra_info("sockname")
            case "server_addr":
                return self._transport.get_extra_info("peername")
            case _:
                return None


async def _addresses(host: str, port: int) -> list[str]:
    """What a name stands for, the preferred addresses first; an address is one already."""
    try:
        return [str(ip_address(host))]
    except ValueError:
        pass
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)


async def _until(
    waiting: asyncio.Future[None], timeout_s: float | None, late: Callable[[], Exception]
) -> None:
    """Wait to be woken.

    Raises:
        Exception: `late`, after that time.
    """
    if timeout_s is None:
        await waiting
        return
    alarm = asyncio.get_running_loop().call_later(timeout_s, _give_up, waiting, late)
    try:
        await waiting
    finally:
        alarm.cancel()


def _give_up(waiting: asyncio.Future[None], late: Callable[[], Exception]) -> None:
    if not waiting.done():
        waiting.set_exception(late())


@contextmanager
def _connecting() -> Generator[None]:
    try:
        yield
    except TimeoutError as exc:
        raise httpcore2.ConnectTimeout(str(exc)) from exc
    except OSError as exc:  # ssl.SSLError, too
        raise httpcore2.ConnectError(str(exc)) from exc
