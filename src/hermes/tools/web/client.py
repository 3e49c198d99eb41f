"""One HTTP exchange, bounded on every side: where it goes, how long it takes, how much it brings.

Each exchange has a connection of its own, keeps no cookies and uses no proxy of the environment: a
proxy would look the name up by itself. No path, query or header gets into an error or a log line.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import anyio

from hermes.errors import NotDone, ToolError

from .body import Body
from .guard import Address, Resolve, WebPolicy, checked_addresses, system_resolve

if TYPE_CHECKING:
    import httpx2  # loaded on first use, so that `import hermes` stays light

CONNECT_TIMEOUT_S = 5.0
MAX_REDIRECTS = 5
DEFAULT_TIMEOUT_S = 20.0
DEFAULT_MAX_BYTES = 2_000_000

_REDIRECTS = (301, 302, 303, 307, 308)
_FOLLOWED = ("GET", "HEAD")
_KEPT_ACROSS_HOSTS = ("accept", "accept-language", "user-agent")
_CLOSE_S = 0.5
_OWN_HEADERS = {
    "accept": "*/*",
    "accept-encoding": "gzip, deflate",  # those that can be read within bounds
    "connection": "close",
    "user-agent": "hermes-courier",
}

NewTransport = Callable[[bool], "httpx2.AsyncBaseTransport"]
"""Makes a transport for one exchange; told whether it needs TLS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebRequest:
    """What to send.

    Attributes:
        headers: Names in lower case.
    """

    method: str
    url: httpx2.URL = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    content: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAnswer:
    """What came back.

    Attributes:
        url: Where it came from, after redirects.
        headers: Names in any case find them.
        cut: Why `body` is not all of it; "" if it is.
    """

    status: int
    url: httpx2.URL = field(repr=False)
    headers: httpx2.Headers = field(repr=False)
    body: bytes = field(repr=False)
    cut: str = ""

    @property
    def ok(self) -> bool:
        """Whether the status tells of success."""
        return 200 <= self.status < 300


class WebClient:
    """Sends requests, each within the same bounds.

    Args:
        policy: Judges every address, also after a redirect; None where the address was chosen by
            whoever wrote the program.
        timeout_s: For one exchange as a whole, redirects included.
        max_bytes: Of a body, after decompression; what is beyond is left unread.
        resolve: Looks a name up; only used with a policy.
        new_transport: What opens the connections.
        follow: Follow redirects of GET and HEAD.
    """

    def __init__(
        self,
        policy: WebPolicy | None,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_bytes: int = DEFAULT_MAX_BYTES,
        resolve: Resolve = system_resolve,
        new_transport: NewTransport | None = None,
        follow: bool = True,
    ) -> None:
        self._policy, self._resolve = policy, resolve
        self._timeout_s, self._max_bytes, self._follow = timeout_s, max_bytes, follow
        self._new_transport = new_transport or _new_transport

    async def send(self, request: WebRequest) -> WebAnswer:
        """Send a request; a GET or HEAD follows up to five redirects.

        Whatever happens once there is a status is no error: the answer then says why it is `cut`.

        Raises:
            ToolError: The address is refused, or the redirects do not end.
            NotDone: The other side could not be reached; nothing was sent.
            TimeoutError: No answer within the time; the request may have been carried out.
            ConnectionError: The connection broke before an answer; likewise.
        """
        deadline = anyio.current_time() + self._timeout_s
        follow = self._follow and request.method in _FOLLOWED
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._exchange(request, deadline, follow=follow)
            target = answer.headers.get("location", "")
            if not follow or answer.status not in _REDIRECTS or not target:
                return answer
            request = _redirected(request, target)
        raise ToolError(
            f"{_host(request.url)} redirected more than {MAX_REDIRECTS} times",
            code="too_many_redirects",
        )

    async def _exchange(self, request: WebRequest, deadline: float, *, follow: bool) -> WebAnswer:
        is_tls = request.url.scheme == "https"
        transport = self._new_transport(is_tls)
        response: httpx2.Response | None = None
        try:
            response = await self._head(request, transport, deadline)
            if follow and response.status_code in _REDIRECTS and "location" in response.headers:
                body = Body(self._max_bytes)
            else:
                body = await self._body(request, response, deadline)
            return WebAnswer(
                status=response.status_code,
                url=request.url,
                headers=response.headers,
                body=body.content,
                cut=body.cut,
            )
        finally:
            with anyio.move_on_after(_CLOSE_S, shield=True):
                if response is not None:
                    await response.aclose()
                await transport.aclose()

    async def _head(
        self, request: WebRequest, transport: httpx2.AsyncBaseTransport, deadline: float
    ) -> httpx2.Response:
        """The answer as far as its headers."""
        import httpx2

        sent = _Sent()
        response: httpx2.Response | None = None
        try:
            with anyio.CancelScope(deadline=deadline):
                response = await self._dial(request, transport, sent)
        except httpx2.HTTPError as exc:
            raise _broken(exc, request, sent) from exc
        if response is None:
            raise self._late(request, sent)
        return response

    async def _dial(
        self, request: WebRequest, transport: httpx2.AsyncBaseTransport, sent: _Sent
    ) -> httpx2.Response:
        import httpx2

        if self._policy is None:
            return await transport.handle_async_request(_pinned(request, None, sent))
        port = request.url.port
        addresses = await checked_addresses(
            self._policy,
            request.url.raw_host.decode("ascii"),
            _default_port(request.url) if port is None else port,
            resolve=self._resolve,
        )
        for address in addresses[:-1]:
            try:
                return await transport.handle_async_request(_pinned(request, address, sent))
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue  # nothing has been sent: the next one may be reachable
        return await transport.handle_async_request(_pinned(request, addresses[-1], sent))

    async def _body(self, request: WebRequest, response: httpx2.Response, deadline: float) -> Body:
        import httpx2

        if request.method == "HEAD":
            return Body(self._max_bytes)
        body = Body(self._max_bytes, encoding=response.headers.get("content-encoding", ""))
        try:
            with anyio.CancelScope(deadline=deadline) as scope:
                async for chunk in response.aiter_raw():
                    if body.add(chunk):
                        break
                else:
                    body.end()
            if scope.cancelled_caught:
                body.cut = f"the rest did not come within {self._timeout_s:g} s"
        except httpx2.HTTPError:
            body.cut = "the connection broke before the rest came"
        return body

    def _late(self, request: WebRequest, sent: _Sent) -> Exception:
        text = f"{_host(request.url)} did not answer within {self._timeout_s:g} s"
        if not sent.began:
            return NotDone(f"{text}; nothing was sent", code="unreachable", hint="try again later")
        return TimeoutError(text)


@dataclass(slots=True)
class _Sent:
    """Whether a first byte of the request has been written."""

    began: bool = False

    async def trace(self, event: str, _: object) -> None:
        """What the transport reports of itself."""
        self.began = self.began or event.endswith("send_request_headers.started")


def read_url(text: str, query: Mapping[str, str] | None = None) -> httpx2.URL:
    """An address that may be tried, without its fragment.

    Raises:
        ToolError: It is no http or https address, or holds a user or password.
    """
    import httpx2

    try:
        url = httpx2.URL(text.strip()).copy_with(fragment=None)
        url = url.copy_merge_params(query) if query else url
    except httpx2.InvalidURL:
        raise _bad_url("the text given is no URL") from None
    if url.scheme not in ("http", "https"):
        raise _bad_url(f"only http and https are open, not {url.scheme!r:.20}")
    if not url.host:
        raise _bad_url("the URL names no host")
    if url.userinfo:
        raise _bad_url("a URL may hold no user or password: it ends up in records")
    return url


def _bad_url(text: str) -> ToolError:
    return ToolError(text, code="bad_url", hint="write https://HOST/PATH")


def _redirected(request: WebRequest, target: str) -> WebRequest:
    """The request that follows; another origin gets no header that could be a credential."""
    import httpx2

    try:
        joined = str(request.url.join(target))
    except httpx2.InvalidURL:
        raise ToolError(
            f"{_host(request.url)} redirects to what is no URL", code="bad_redirect"
        ) from None
    url = read_url(joined)
    headers = request.headers
    if _origin(url) != _origin(request.url):
        headers = {name: value for name, value in headers.items() if name in _KEPT_ACROSS_HOSTS}
    return WebRequest(method=request.method, url=url, headers=headers)


def _origin(url: httpx2.URL) -> tuple[str, bytes, int]:
    return url.scheme, url.raw_host, url.port or _default_port(url)


def _default_port(url: httpx2.URL) -> int:
    return 443 if url.scheme == "https" else 80


def _host(url: httpx2.URL) -> str:
    return url.netloc.decode("ascii")


def _pinned(request: WebRequest, address: Address | None, sent: _Sent) -> httpx2.Request:
    """The request as it goes out: to that very address, under the name that was asked for."""
    import httpx2

    url, name = request.url, request.url.raw_host.decode("ascii").rstrip(".")
    timeout = httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S).as_dict()
    return httpx2.Request(
        request.method,
        url if address is None else url.copy_with(host=str(address)),
        headers={**_OWN_HEADERS, "host": _host(url), **request.headers},
        content=request.content,
        extensions={"timeout": timeout, "sni_hostname": name, "trace": sent.trace},
    )


def _broken(exc: httpx2.HTTPError, request: WebRequest, sent: _Sent) -> Exception:
    host, reason = _host(request.url), " ".join(str(exc).split()) or type(exc).__name__
    if sent.began:
        return ConnectionError(f"{host} broke the connection before it answered: {reason:.200}")
    if any(isinstance(item, ssl.SSLCertVerificationError) for item in _causes(exc)):
        return ToolError(
            f"the certificate of {host} does not hold: {reason:.200}; nothing was sent",
            code="bad_certificate",
        )
    return NotDone(
        f"cannot reach {host}: {reason:.200}; nothing was sent",
        code="unreachable",
        hint="check host and port, or try again later",
    )


def _causes(exc: BaseException | None) -> Iterator[BaseException]:
    while exc is not None:
        yield exc
        exc = exc.__cause__ or exc.__context__


def _new_transport(is_tls: bool) -> httpx2.AsyncBaseTransport:
    import httpx2

    context = _trusted() if is_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx2.AsyncHTTPTransport(verify=context, trust_env=False)


@cache
def _trusted() -> ssl.SSLContext:
    """The system's certificates, read once: that takes longer than a request."""
    import httpx2

    return httpx2.create_ssl_context()
