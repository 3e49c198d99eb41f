"""The connections that all models of an application share: timeouts, proxies, certificates."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.errors import ConfigError

if TYPE_CHECKING:
    import httpx2  # loaded on first use, so that `import hermes` stays light

Send = Callable[["httpx2.Request"], Awaitable["httpx2.Response"]]
"""Sends a request as it is and gives the answer, its content unread."""

CONNECT_TIMEOUT_S = 10.0
PER_GROUP = 8
"""Requests at a time that one group of connections serves before another is opened."""

_PROXIED = ("http", "https", "all")
_HERE = ("all://localhost", "all://127.0.0.1", "all://[::1]")


def sender(client: httpx2.AsyncClient) -> Send:
    """The way requests go through a client: as they are, the answer's content unread."""
    import httpx2

    return partial(client.send, stream=True, auth=httpx2.Auth(), follow_redirects=False)


def _mounts(
    proxy: str, verify: ssl.SSLContext, limits: httpx2.Limits
) -> dict[str, httpx2.AsyncBaseTransport | None]:
    import httpx2

    url = httpx2.URL(proxy)
    if not url.host:
        raise ValueError("no host")
    there = httpx2.AsyncHTTPTransport(verify=verify, limits=limits, proxy=httpx2.Proxy(url))
    return {"all://": there, **dict.fromkeys(_HERE)}


def _no_authorities() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@cache
def _trusted(ca_file: Path | None = None) -> ssl.SSLContext:
    """The certificates of the system and of a file, read once: it takes longer than a request."""
    import httpx2

    context = httpx2.create_ssl_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as exc:  # ssl.SSLError, too
            reason = "holds no certificate" if isinstance(exc, ssl.SSLError) else exc.strerror
            raise ConfigError(
                f"HERMES_CA_FILE: {ca_file}: {reason}", hint="give it certificates in PEM form"
            ) from exc
    return context


class ClientPool:
    """The connections of any number of models, in groups, so that none has many.

    A group looks at each of its connections twice a request; at 50 requests side by side that
    would cost more than the requests themselves. Groups in front are used first: their
    connections stay warm, and one alone serves up to `PER_GROUP` requests at a time.

    Args:
        timeout_s: Longest silence of a server, in seconds; connecting has its own, shorter bound.
        proxy: For all servers but those of this machine; without one, `HTTPS_PROXY`, `HTTP_PROXY`,
            `ALL_PROXY` and `NO_PROXY` of the environment hold.
        ca_file: Certificates (PEM) of authorities to trust besides the system's.

    Raises:
        ConfigError: The proxy or the file cannot be used.
    """

    def __init__(
        self,
        *,
        timeout_s: float = 120.0,
        proxy: str | None = None,
        ca_file: Path | None = None,
    ) -> None:
        self._timeout_s, self._proxy, self._ca_file = timeout_s, proxy, ca_file
        self._groups: list[_Group] = []
        if proxy is not None or ca_file is not None:
            self._add(tls=True)  # what is wrong with them is told before anything has begun

    @contextmanager
    def lend(self, *, tls: bool) -> Generator[Send]:
        """A way for one request to go; `tls` for one that reaches https servers, too.

        Without `tls` the certificates of the authorities, which take 40 ms and more to load, are
        left out, and every https server is refused.
        """
        free = (group for group in self._groups if group.tls == tls and group.busy < PER_GROUP)
        group = next(free, None)
        if group is None:
            group = self._add(tls=tls)
        group.busy += 1
        try:
            yield group.send
        finally:
            group.busy -= 1

    def _add(self, *, tls: bool) -> _Group:
        from urllib.request import getproxies  # httpx2 loads it in any case

        import httpx2

        from .wire import Transport

        is_trusting = tls or (self._proxy or "").startswith("https:")
        verify = _trusted(self._ca_file) if is_trusting else _no_authorities()
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
        if self._proxy is None and not any(map(getproxies().get, _PROXIED)):
            # What a client would add to that (cookies, redirects, a choice of proxies) is not
            # wanted here, and costs a tenth of a request.
            direct = Transport(verify=verify, limits=limits)
            group = _Group(send=direct.handle_async_request, close=direct.aclose, tls=tls)
        else:
            client = self._client(verify, limits)
            group = _Group(send=sender(client), close=client.aclose, tls=tls)
        self._groups.append(group)
        return group

    def _client(self, verify: ssl.SSLContext, limits: httpx2.Limits) -> httpx2.AsyncClient:
        import httpx2

        proxy, timeout_s = self._proxy, self._timeout_s
        try:
            return httpx2.AsyncClient(
                verify=verify,
                timeout=httpx2.Timeout(
                    timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S), pool=None
                ),
                limits=limits,
                mounts=None if proxy is None else _mounts(proxy, verify, limits),
                trust_env=proxy is None,
            )
        except (ValueError, ImportError, httpx2.InvalidURL) as exc:
            # The address may hold a password: none of it is shown, nor the error that quotes it.
            name = "HERMES_PROXY" if proxy is not None else "HTTPS_PROXY, HTTP_PROXY or ALL_PROXY"
            socks = isinstance(exc, ImportError)
            raise ConfigError(
                f"{name} cannot be used" + (": SOCKS needs the package `socksio`" if socks else ""),
                hint="write http://HOST:PORT, with USER:PASSWORD@ before HOST where it is needed",
            ) from None

    async def aclose(self) -> None:
        """Close all connections."""
        groups, self._groups = self._groups, []
        for group in groups:
            await group.close()


@dataclass(slots=True, kw_only=True)
class _Group:
    send: Send
    close: Callable[[], Awaitable[None]]
    tls: bool
    busy: int = 0
