"""A web of one machine: a real server on loopback, names as a test says, and who was connected to.

`Web.public` stands for the one public address there is, 93.184.216.34: connections to it end at the
local server. A connection to any other address is an escape, and refused.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import unquote

import httpx2

from hermes.tools.web.client import WebClient
from hermes.tools.web.guard import WebPolicy
from tests.servers import let_in

PUBLIC = "93.184.216.34"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A request as it arrived."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return unquote(self.target.partition("?")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What is sent back; `raw` is all of it, `hang` keeps the connection open after it."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    raw: bytes | None = None
    hang: bool = False

    def encoded(self) -> bytes:
        if self.raw is not None:
            return self.raw
        headers = {"content-length": str(len(self.body)), **self.headers}
        lines = [f"HTTP/1.1 {self.status} X", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
        return "\r\n".join(lines).encode("latin-1") + self.body


Answer = Callable[[Seen], Reply | Awaitable[Reply]]


class Web:
    """The server, its names, and the connections asked for.

    Args:
        answer: What the server says to a request.
        names: Host to the answers that its name server gives, one after the other; the last stays.
        tls: What the server shows, if it speaks TLS.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        names: Mapping[str, Sequence[Sequence[str]]] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._answer, self._tls = answer, tls
        self._names = {host: list(answers) for host, answers in (names or {}).items()}
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.seen: list[Seen] = []
        self.asked: list[str] = []
        self.connected: list[str] = []
        self.escapes: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await let_in()
        for writer in tuple(self._open):
            writer.transport.abort()
        await self._server.wait_closed()

    def client(
        self, *, allow: Sequence[str] = (), timeout_s: float = 5, max_bytes: int = 100_000
    ) -> WebClient:
        """A guarded client in this web."""
        return WebClient(
            WebPolicy(allow=allow),
            timeout_s=timeout_s,
            max_bytes=max_bytes,
            resolve=self.resolve,
            new_transport=self.transport,
        )

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self._names.get(host.rstrip("."))
        if answers is None:
            raise OSError(f"no such name: {host}")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def transport(self, is_tls: bool) -> httpx2.AsyncBaseTransport:
        return _Wire(self)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            seen = await _read(reader)
            self.seen.append(seen)
            reply = self._answer(seen)
            reply = await reply if isinstance(reply, Awaitable) else reply
            writer.write(reply.encoded())
            await writer.drain()
            if reply.hang:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone: what it wanted to show is shown
        finally:
            self._open.discard(writer)
            writer.close()


class _Wire(httpx2.AsyncBaseTransport):
    """Connects to the local server in place of the public address, and to nothing else."""

    def __init__(self, web: Web) -> None:
        self._web = web
        # Without the certificates of the authorities, which take long to load.
        self._inner = httpx2.AsyncHTTPTransport(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        self._web.connected.append(host)
        if host not in (PUBLIC, "127.0.0.1"):
            self._web.escapes.append(host)
            raise httpx2.ConnectError(f"{host} is an escape")
        if host == PUBLIC:
            request.url = request.url.copy_with(
                scheme="http", host="127.0.0.1", port=self._web.port
            )
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _read(reader: asyncio.StreamReader) -> Seen:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {
        name.strip().casefold(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method=method, target=target, headers=headers, body=body)
