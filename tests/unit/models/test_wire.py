"""The network below the connections to models, against real sockets."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest

from hermes.models.wire import Transport
from tests.certificates import tls
from tests.servers import let_in

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
LARGE = b"x" * 8_000_000


@asynccontextmanager
async def serving(
    answer: Answer, *, secure: ssl.SSLContext | None = None
) -> AsyncGenerator[tuple[int, list[int]]]:
    """A server, and how many connections were made to it."""
    made: list[int] = []
    open_: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.append(1)
        open_.add(writer)
        try:
            await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            open_.discard(writer)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=secure)
    try:
        yield server.sockets[0].getsockname()[1], made
    finally:
        server.close()
        await let_in()
        for writer in tuple(open_):
            writer.transport.abort()
        await server.wait_closed()


@asynccontextmanager
async def connected(trusted: Path | None = None) -> AsyncGenerator[Transport]:
    verify = ssl.create_default_context(cafile=trusted)
    transport = Transport(verify=verify, limits=httpx2.Limits())
    try:
        yield transport
    finally:
        await transport.aclose()


def asking(
    port: int, body: bytes = b"", at: str = "http://127.0.0.1", **timeout: float | None
) -> httpx2.Request:
    times = {"connect": 5.0, "read": 5.0, "write": 5.0, "pool": None, **timeout}
    return httpx2.Request("POST", f"{at}:{port}/", content=body, extensions={"timeout": times})


async def read(transport: Transport, request: httpx2.Request) -> bytes:
    response = await transport.handle_async_request(request)
    content = await response.aread()
    await response.aclose()
    return content


async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
        await reader.readexactly(size)
        writer.write(OK)


async def say_nothing(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    await anyio.sleep(30)


async def test_a_connection_is_used_again() -> None:
    async with serving(answer_all) as (port, made), connected() as transport:
        for body in (b"", b"x", LARGE, b"y"):
            assert await read(transport, asking(port, body)) == b"ok"
    assert len(made) == 1


async def test_so_is_one_with_tls(certificate: Path) -> None:
    async with (
        serving(answer_all, secure=tls(certificate)) as (port, made),
        connected(certificate) as transport,
    ):
        for body in (b"x", LARGE, b"y"):
            assert await read(transport, asking(port, body, at="https://localhost")) == b"ok"
    assert len(made) == 1


async def test_a_certificate_of_strangers_is_refused(certificate: Path) -> None:
    async with serving(answer_all, secure=tls(certificate)) as (port, _), connected() as transport:
        with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await read(transport, asking(port, at="https://localhost"))


async def test_a_handshake_that_never_ends_is_given_up() -> None:
    async with serving(say_nothing) as (port, _), connected() as transport:
        with pytest.raises(httpx2.ConnectTimeout):
            await read(transport, asking(port, at="https://localhost", connect=0.2))


async def test_one_that_the_server_has_ended_at_rest_is_not() -> None:
    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await writer.drain()

    async with serving(answer_once) as (port, made), connected() as transport:
        for _ in range(3):
            assert await read(transport, asking(port)) == b"ok"
            await anyio.sleep(0.05)
    assert len(made) == 3


async def test_nor_is_one_whose_end_the_event_loop_has_not_seen_yet() -> None:
    gone = threading.Event()

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await writer.drain()
        writer.close()
        gone.set()

    def serve(port: list[int], stop: threading.Event) -> None:
        async def main() -> None:
            async with serving(answer_once) as (number, _):
                port.append(number)
                while not stop.is_set():  # noqa: ASYNC110  # a thread's
                    await asyncio.sleep(0.01)

        asyncio.run(main())

    port: list[int] = []
    stop = threading.Event()
    server = threading.Thread(target=serve, args=(port, stop))
    server.start()
    try:
        while not port:  # noqa: ASYNC110  # a thread's
            await anyio.sleep(0.01)
        async with connected() as transport:
            assert await read(transport, asking(port[0])) == b"ok"
            gone.wait(5)
            time.sleep(0.1)  # noqa: ASYNC251  # the loop is to see nothing meanwhile
            assert await read(transport, asking(port[0])) == b"ok"
    finally:
        stop.set()
        server.join()


async def test_much_is_taken_in_only_as_fast_as_it_is_read() -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (100 * len(LARGE)))
        for _ in range(100):
            writer.write(LARGE)
            await writer.drain()
            sent += len(LARGE)

    async with serving(flood) as (port, _), connected() as transport:
        response = await transport.handle_async_request(asking(port))
        chunks = response.aiter_raw()
        got = len(await anext(chunks))
        await anyio.sleep(0.3)
        assert sent < 40_000_000  # what the kernel holds, and a little
        while got < 20_000_000:
            got += len(await anext(chunks))
        await response.aclose()


async def test_a_server_that_takes_nothing_is_given_up() -> None:
    async with serving(say_nothing) as (port, _), connected() as transport:
        with pytest.raises(httpx2.WriteTimeout):
            await read(transport, asking(port, LARGE * 4, write=0.2))


async def test_a_server_that_says_nothing_is_given_up() -> None:
    async with serving(say_nothing) as (port, _), connected() as transport:
        with pytest.raises(httpx2.ReadTimeout):
            await read(transport, asking(port, read=0.1))


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhal"])
@pytest.mark.parametrize("how", ["close", "abort"])
async def test_a_server_that_goes_away_is_told(said: bytes, how: str) -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        await writer.drain()
        await anyio.sleep(0.05)
        if how == "abort":
            writer.transport.abort()

    async with serving(leave) as (port, _), connected() as transport:
        with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
            await read(transport, asking(port))


async def test_an_answer_before_the_request_is_whole_is_read() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 X\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno")
        await writer.drain()
        await anyio.sleep(0.2)

    async with serving(refuse) as (port, _), connected() as transport:
        assert await read(transport, asking(port, LARGE)) == b"no"


async def test_a_cancelled_request_leaves_a_pool_that_works() -> None:
    async with serving(answer_all) as (port, _), connected() as transport:
        for step in range(40):
            with anyio.move_on_after(step / 20_000):
                await read(transport, asking(port, LARGE))
        assert await read(transport, asking(port)) == b"ok"


async def test_a_name_with_several_addresses_is_reached() -> None:
    async with serving(answer_all) as (port, _), connected() as transport:
        assert await read(transport, asking(port, at="http://localhost")) == b"ok"


async def test_what_cannot_be_reached_is_told() -> None:
    async with connected() as transport:
        with pytest.raises(httpx2.ConnectError):
            await read(transport, asking(9))
