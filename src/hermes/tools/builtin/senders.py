"""Posts messages to addresses that are secrets, and says for sure what is known of the outcome.

The path and the query of a bot's address are its password: they go out in the request line alone,
and never into a message, a log line or an exception.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

from hermes.errors import ConfigError, NotDone, ToolError

if TYPE_CHECKING:
    import httpx2

TIMEOUT_S = 15.0
_REPLY_BYTES = 64 * 1024
_SAID_CHARS = 300
_MIN_SECRET_CHARS = 8
_SURELY_NOT = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


class LostAnswer(ConnectionError):
    """The message left, and nobody knows if it arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address split so that its secret parts stay out of whatever is logged.

    Attributes:
        base: Scheme, host and port.
        host: Host and port, for messages.
        target: Path and query, as the request line has them.
        secrets: Texts that must not be shown.
    """

    base: str
    host: str
    target: bytes = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, url: str, *, query: Mapping[str, str] | None = None, secret: str = "") -> Address:
        """Read a URL; `query` is added to the one it has.

        Raises:
            ConfigError: It is no http or https address; the message shows no part of it.
        """
        import httpx2

        try:
            given = httpx2.URL(url.strip())
        except (httpx2.InvalidURL, UnicodeError):
            raise ConfigError("the address is no URL", hint="write https://host/path") from None
        if given.scheme not in ("http", "https") or not given.host:
            raise ConfigError("the address must begin with https:// or http:// and name a host")
        if given.userinfo:
            raise ConfigError("the address must hold no user and password")
        whole = given.copy_merge_params(dict(query)) if query else given
        parts = (*given.path.split("/"), *given.params.values(), secret)
        base = given.copy_with(path="/", query=None, fragment=None)
        return cls(
            base=str(base),
            host=base.netloc.decode("ascii"),
            target=whole.raw_path,
            secrets=tuple({part for part in parts if len(part) >= _MIN_SECRET_CHARS}),
        )

    def shown(self, text: str) -> str:
        """What another side said, in one line, short, and without the address's secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "…")
        return " ".join(text.split())[:_SAID_CHARS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A successful answer, or what of it fits into 64 KiB."""

    status: int
    text: str

    @property
    def table(self) -> dict[str, object]:
        """The JSON object that it is; empty if it is anything else."""
        try:
            value: object = json.loads(self.text)
        except (ValueError, RecursionError):
            return {}
        return cast("dict[str, object]", value) if isinstance(value, dict) else {}


async def post(
    address: Address,
    body: Mapping[str, object],
    *,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Reply:
    """Post JSON; redirects are not followed.

    Raises:
        NotDone: The message surely did not arrive.
        ToolError: It was refused.
        LostAnswer: Nobody knows.
    """
    import httpx2

    verify = _trusted() if address.base.startswith("https") else _no_tls()
    try:
        async with httpx2.AsyncClient(verify=verify, timeout=timeout_s) as client:
            request = httpx2.Request(
                "POST",
                address.base,
                content=encoded(body),
                headers={"content-type": "application/json; charset=utf-8", **(headers or {})},
                extensions={
                    "target": address.target,
                    "timeout": httpx2.Timeout(timeout_s).as_dict(),
                },
            )
            response = await client.send(request, stream=True, follow_redirects=False)
            try:
                text = await _beginning(response)
            finally:
                await response.aclose()
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as exc:
        raise NotDone(
            f"cannot connect to {address.host} ({type(exc).__name__}); nothing was sent",
            code="unreachable",
            hint="try again later; the address may be wrong or the service down",
        ) from None
    except httpx2.HTTPError as exc:
        raise LostAnswer(
            f"no answer from {address.host} after the message had left ({type(exc).__name__})"
        ) from None
    _check_status(response, address, text)
    return Reply(status=response.status_code, text=text)


def encoded(body: Mapping[str, object]) -> bytes:
    """JSON as it is sent: compact UTF-8, so that its size can be told beforehand."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _check_status(response: httpx2.Response, address: Address, text: str) -> None:
    code = response.status_code
    if response.is_success:
        return
    said = f"{address.host} answered {code} {response.reason_phrase}: {address.shown(text)}"
    if code in _SURELY_NOT:
        after = response.headers.get("retry-after", "")
        hint = f"try again in {after} s" if after.isdecimal() else "try again in a minute"
        raise NotDone(said, code=f"http_{code}", hint=hint)
    if response.is_server_error or code == HTTPStatus.REQUEST_TIMEOUT:
        raise LostAnswer(said)
    raise ToolError(said, code=f"http_{code}", hint="the configured address may be wrong or old")


async def _beginning(response: httpx2.Response) -> str:
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _REPLY_BYTES:
            break
    return body[:_REPLY_BYTES].decode(errors="replace")


@cache
def _trusted() -> ssl.SSLContext:
    """The system's certificates, read once: that takes longer than a request."""
    import httpx2

    return httpx2.create_ssl_context()


@cache
def _no_tls() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
