"""The connections that all models of an application share: timeouts, proxies, certificates."""

from __future__ import annotations

import ssl
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.errors import ConfigError

if TYPE_CHECKING:
    import httpx2  # loaded on first use, so that `import hermes` stays light

CONNECT_TIMEOUT_S = 10.0
PER_CLIENT = 8
"""Requests at a time that one client serves before another is opened."""

_HERE = ("all://localhost", "all://127.0.0.1", "all://[::1]")


def new_client(
    *,
    timeout_s: float = 120.0,
    tls: bool = True,
    proxy: str | None = None,
    ca_file: Path | None = None,
) -> httpx2.AsyncClient:
    """A connection pool for any number of models.

    Args:
        timeout_s: Longest silence of a server, in seconds; connecting has its own, shorter bound.
        tls: Load the certificates of the authorities, 40 ms and more; without them every https
            server is refused.
        proxy: For all servers but those of this machine; without one, `HTTPS_PROXY`, `HTTP_PROXY`,
            `ALL_PROXY` and `NO_PROXY` of the environment hold.
        ca_file: Certificates (PEM) of authorities to trust besides the system's.

    Raises:
        ConfigError: The proxy or the file cannot be used.
    """
    import httpx2

    is_trusting = tls or (proxy or "").startswith("https:")
    verify = _trusted(ca_file) if is_trusting else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
    try:
        return httpx2.AsyncClient(
            verify=verify,
            timeout=httpx2.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S), pool=None),
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


def _mounts(
    proxy: str, verify: ssl.SSLContext, limits: httpx2.Limits
) -> dict[str, httpx2.AsyncBaseTransport | None]:
    import httpx2

    url = httpx2.URL(proxy)
    if not url.host:
        raise ValueError("no host")
    there = httpx2.AsyncHTTPTransport(verify=verify, limits=limits, proxy=httpx2.Proxy(url))
    return {"all://": there, **dict.fromkeys(_HERE)}


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
    """Clients that share the load of an application, so that none has many connections.

    A client looks at each of its connections twice a request; at 50 requests side by side that
    would cost more than the requests themselves. Clients in front are used first: their
    connections stay warm, and one alone serves up to `PER_CLIENT` requests at a time.

    Args:
        timeout_s: As for `new_client`, and so the others.

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
        self._slots: list[_Slot] = []
        if proxy is not None or ca_file is not None:
            self._add(tls=True)  # what is wrong with them is told before anything has begun

    @contextmanager
    def lend(self, *, tls: bool) -> Generator[httpx2.AsyncClient]:
        """A client for one request; `tls` for one that can reach https servers."""
        free = (slot for slot in self._slots if slot.tls == tls and slot.busy < PER_CLIENT)
        slot = next(free, None)
        if slot is None:
            slot = self._add(tls=tls)
        slot.busy += 1
        try:
            yield slot.client
        finally:
            slot.busy -= 1

    def _add(self, *, tls: bool) -> _Slot:
        client = new_client(
            timeout_s=self._timeout_s, tls=tls, proxy=self._proxy, ca_file=self._ca_file
        )
        slot = _Slot(client=client, tls=tls)
        self._slots.append(slot)
        return slot

    async def aclose(self) -> None:
        """Close all of them."""
        slots, self._slots = self._slots, []
        for slot in slots:
            await slot.client.aclose()


@dataclass(slots=True, kw_only=True)
class _Slot:
    client: httpx2.AsyncClient
    tls: bool
    busy: int = 0
