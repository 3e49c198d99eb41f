"""What every provider adapter needs of HTTP: one address, one pool, errors that can be read.

No key, password or query of an address ever gets into a message, a log line or an exception.
"""

from __future__ import annotations

import asyncio
import math
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import (
    AbstractContextManager,
    aclosing,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import anyio

from hermes.core.clock import Clock, SystemClock
from hermes.errors import ConfigError, ModelError
from hermes.models.charges import charge, estimated_usage
from hermes.models.clients import CONNECT_TIMEOUT_S, ClientPool, Send, sender
from hermes.models.deadline import TOTAL_S, Deadline
from hermes.models.faults import MAX_REPLY_BYTES, Answer, Peer, fault_of_status
from hermes.models.keys import spellings
from hermes.models.profiles import Prices

if TYPE_CHECKING:
    import httpx2  # loaded on first use, so that `import hermes` stays light

_ERROR_BODY_BYTES = 64 * 1024
_DRAIN_S = 0.5
_LONGEST_WAIT_S = 1e9
"""Some thirty years: more than that is no longer told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where requests go, split so that secrets stay out of whatever is logged.

    Attributes:
        url: Scheme, host and path: without user, password and query.
        host: Host and port, for messages.
        target: Path and query, as the request line has them.
        authorization: From user and password in the address, or empty.
        secrets: Texts that must not be shown.
    """

    url: str
    host: str
    target: bytes
    authorization: str = field(default="", repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


def endpoint(base_url: str, *, suffix: str, default_prefix: str) -> Endpoint:
    """Read a base URL in any of the forms people give it.

    Args:
        base_url: With or without trailing slash, API prefix or the full path.
        suffix: Path of the call, such as `/chat/completions`.
        default_prefix: What stands before `suffix` when `base_url` has no path, such as `/v1`.

    Raises:
        ConfigError: It is no http or https address; the message shows no secret part of it.
    """
    import httpx2

    try:
        given = httpx2.URL(base_url.strip())
    except httpx2.InvalidURL:
        raise ConfigError("API_BASE is not a URL", hint="write http://HOST:PORT/v1") from None
    if given.scheme not in ("http", "https") or not given.host:
        raise ConfigError(
            f"API_BASE must begin with http:// or https://, its scheme is {given.scheme!r}",
            hint="write http://HOST:PORT/v1",
        )
    if given.port is not None and not 0 < given.port < 65536:
        raise ConfigError(f"API_BASE has port {given.port}", hint="a port is 1 to 65535")
    path = given.path.rstrip("/")
    if not path.endswith(suffix):
        path = (path or default_prefix) + suffix
    clean = given.copy_with(userinfo=b"", query=None, fragment=None, path=path)
    query = given.query
    basic = _basic(given.username, given.password) if given.userinfo else ""
    told = (given.password, *given.params.values(), basic.removeprefix("Basic "))
    return Endpoint(
        url=str(clean),
        host=clean.netloc.decode("ascii"),
        target=clean.raw_path + (b"?" + query if query else b""),
        authorization=basic,
        secrets=tuple({text for text in told if len(text) > 7}),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """An answer that is on its way.

    Attributes:
        kind: The content type, with its parameters.
        chunks: The body as it comes; late ones raise a `ModelError`.
    """

    kind: str
    chunks: AsyncGenerator[bytes]


def _kind_of(response: httpx2.Response) -> str:
    return response.headers.get("content-type", "")


def _body_of(response: httpx2.Response) -> AsyncIterable[bytes]:
    """The content as it comes; unpacked only where it is packed, since that costs."""
    if "content-encoding" in response.headers or not isinstance(response.stream, AsyncIterable):
        return response.aiter_bytes()
    return response.stream


def _basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode("ascii")


class Connection:
    """Posts JSON to one endpoint and turns everything that goes wrong into a `ModelError`.

    Args:
        endpoint: Where to.
        model: The model's name, for messages.
        headers: Sent with each request.
        secrets: Texts to take out of whatever a server says, such as the key.
        client: A client or pool that belongs to somebody else; without one, a pool is made on
            first use.
        timeout_s: Longest silence of the server, in seconds.
        total_s: Longest time of one request, the whole answer included.
        clock: Measures that, and a `Retry-After` that is a date.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        model: str,
        headers: Mapping[str, str],
        secrets: tuple[str, ...] = (),
        client: httpx2.AsyncClient | ClientPool | None = None,
        timeout_s: float = 120.0,
        total_s: float = TOTAL_S,
        clock: Clock | None = None,
    ) -> None:
        import httpx2

        self.peer = Peer(
            model=model,
            host=endpoint.host,
            secrets=spellings((*secrets, *endpoint.secrets)),
        )
        self._lent = sender(client) if isinstance(client, httpx2.AsyncClient) else client
        self._own: tuple[asyncio.AbstractEventLoop, ClientPool] | None = None
        self._timeout_s, self._total_s = timeout_s, total_s
        self._clock = clock or SystemClock()
        self._url = httpx2.URL(endpoint.url)
        self._is_https = self._url.scheme == "https"
        self._headers = [
            (name.encode("ascii"), value.encode("ascii"))
            for name, value in {"host": endpoint.host, **headers}.items()
        ]
        self._extensions = {
            "target": endpoint.target,
            "timeout": httpx2.Timeout(
                timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S), pool=None
            ).as_dict(),
        }

    async def post(self, body: bytes, *, prices: Prices | None = None) -> Answer:
        """Send `body` and read the whole answer.

        Args:
            body: The request.
            prices: What tokens cost, for an answer that breaks off.

        Raises:
            ModelError: The server could not be reached, refused, sent more than 32 MiB, or broke
                off; `charged` holds what that may cost.
        """
        parts: list[bytes] = []
        try:
            return await self._whole(body, parts)
        except ModelError as exc:
            # Blank lines only keep the connection alive: no reply has begun then.
            written = b"".join(parts).strip()
            if written and exc.code != "bad_reply":
                charge(exc, estimated_usage(prompt=body, written=written, prices=prices))
            raise

    @asynccontextmanager
    async def open(self, body: bytes) -> AsyncGenerator[Incoming]:
        """Send `body` and lend the successful answer, its content unread.

        Raises:
            ModelError: The server could not be reached, refused, or had no time left; also for
                errors of the transport while the block reads.
        """
        import httpx2

        deadline = Deadline(self._total_s, peer=self.peer, clock=self._clock)
        with self._way() as send:
            try:
                response = await self._begun(send, body, deadline)
                try:
                    async with aclosing(deadline.each(response.aiter_bytes())) as chunks:
                        yield Incoming(kind=_kind_of(response), chunks=chunks)
                finally:
                    await response.aclose()
            except httpx2.HTTPError as exc:
                raise self._unreachable(exc) from exc

    async def _whole(self, body: bytes, parts: list[bytes]) -> Answer:
        """As `open`, with all of the content; what has come of it is in `parts` meanwhile."""
        import httpx2

        deadline, size = Deadline(self._total_s, peer=self.peer, clock=self._clock), 0
        with self._way() as send:
            try:
                response = await self._begun(send, body, deadline)
                try:
                    async for part in _body_of(response):
                        deadline.check()
                        parts.append(part)
                        size += len(part)
                        if size > MAX_REPLY_BYTES:
                            raise self._too_large()
                finally:
                    await response.aclose()
            except httpx2.HTTPError as exc:
                raise self._unreachable(exc) from exc
        content = b"".join(parts)
        return Answer(status=response.status_code, kind=_kind_of(response), body=content)

    async def _begun(self, send: Send, body: bytes, deadline: Deadline) -> httpx2.Response:
        """The answer, successful, of which only the head has come."""
        with anyio.move_on_after(self._total_s):
            response = await send(self._request(body))
            if response.is_success:
                return response
            try:
                raise await self._refusal(response)
            finally:
                await response.aclose()
        raise deadline.late()

    async def drain(self, chunks: AsyncIterator[bytes]) -> None:
        """Read what follows the end of a stream, shortly, so that the connection can be reused.

        Whatever goes wrong here comes too late to matter.
        """
        import httpx2

        with suppress(httpx2.HTTPError), anyio.move_on_after(_DRAIN_S):
            async for _ in chunks:
                pass

    async def aclose(self) -> None:
        """Close the pool if it was made here; the next request makes a new one."""
        if self._own is not None:
            _, pool = self._own
            self._own = None
            await pool.aclose()

    def _way(self) -> AbstractContextManager[Send]:
        if isinstance(self._lent, ClientPool):
            return self._lent.lend(tls=self._is_https)
        if self._lent is not None:
            return nullcontext(self._lent)
        # Connections belong to the event loop they were opened in; a script that calls `run_sync`
        # twice has two.
        loop = asyncio.get_running_loop()
        if self._own is None or self._own[0] is not loop:
            self._own = loop, ClientPool(timeout_s=self._timeout_s)
        return self._own[1].lend(tls=self._is_https)

    def _request(self, body: bytes) -> httpx2.Request:
        import httpx2

        # `stream=` leaves the headers as they are: nothing is merged or guessed per request.
        length = (b"content-length", str(len(body)).encode("ascii"))
        return httpx2.Request(
            "POST",
            self._url,
            headers=[*self._headers, length],
            stream=httpx2.ByteStream(body),
            extensions=self._extensions,
        )

    def _too_large(self) -> ModelError:
        return ModelError(
            f"{self.peer} sent more than {MAX_REPLY_BYTES // 2**20} MiB in one reply",
            code="bad_reply",
        )

    async def _refusal(self, response: httpx2.Response) -> ModelError:
        content = b""
        async for part in response.aiter_bytes():
            content += part
            if len(content) > _ERROR_BODY_BYTES:
                break
        return fault_of_status(
            Answer(
                status=response.status_code,
                kind=_kind_of(response),
                body=content,
            ),
            self.peer,
            path=self._url.path,
            retry_after_s=self._retry_after_s(response.headers),
        )

    def _retry_after_s(self, headers: Mapping[str, str]) -> float | None:
        told = headers.get("retry-after", "").strip()
        try:
            if "retry-after-ms" in headers:
                return _wait_s(float(headers["retry-after-ms"]) / 1000)
            return _wait_s(float(told)) if told else None
        except ValueError:
            pass
        try:
            wait_s = (parsedate_to_datetime(told) - self._clock.now()).total_seconds()
        # TypeError: the date names no zone; OverflowError: its year is none.
        except (ValueError, TypeError, OverflowError):
            return None
        return _wait_s(max(wait_s, 0.0))

    def _unreachable(self, exc: httpx2.HTTPError) -> ModelError:
        import httpx2

        reason = self.peer.show(str(exc)) or type(exc).__name__
        if isinstance(exc, httpx2.TimeoutException) and not isinstance(exc, httpx2.ConnectTimeout):
            return ModelError(
                f"{self.peer} was silent for {self._timeout_s:g} s",
                code="timeout",
                retryable=True,
                hint="the model may still be loading; a longer timeout may help",
            )
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            return ModelError(
                f"{self.peer} shows a certificate that is not trusted: {reason}",
                code="unreachable",
                hint="set HERMES_CA_FILE to the certificate (PEM) of the authority that signed it",
            )
        if isinstance(exc, httpx2.ProxyError):
            return ModelError(
                f"the proxy does not let through to {self.peer}: {reason}",
                code="unreachable",
                retryable=True,
                hint="check HERMES_PROXY, or HTTPS_PROXY and NO_PROXY",
            )
        if isinstance(exc, httpx2.RemoteProtocolError | httpx2.DecodingError | httpx2.ReadError):
            return ModelError(
                f"{self.peer} broke off its answer: {reason}",
                code="unreachable",
                retryable=True,
                hint="look at the server, or at a proxy before it; `hermes models test` asks it",
            )
        return ModelError(
            f"cannot reach {self.peer}: {reason}",
            code="unreachable",
            retryable=True,
            hint="check API_BASE, and that the server is running",
        )


def _wait_s(told: float) -> float | None:
    """A wait that a server told, where it is one."""
    if not math.isfinite(told) or told < 0:
        return None
    return min(told, _LONGEST_WAIT_S)
