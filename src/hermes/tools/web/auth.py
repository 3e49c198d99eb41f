"""The ways in which business systems want to be asked: key, password, token, signature."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import weakref
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol
from urllib.parse import quote, urlencode

import anyio

from hermes.core import json
from hermes.core.clock import Clock
from hermes.errors import CodecError, ConfigError, NotDone, ToolError

from .client import WebAnswer, WebClient, WebRequest, read_url
from .status import code_of, is_passing

_MARGIN_S = 60.0
_MARGIN_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """What a system lends to its auth.

    Attributes:
        name: The system, as messages call it.
    """

    name: str
    client: WebClient
    clock: Clock


class Auth(Protocol):
    """Makes a request one that the system knows the sender of."""

    @property
    def secrets(self) -> Sequence[str]:
        """Texts that must not be shown, in every form in which they are sent."""
        ...

    async def apply(self, request: WebRequest, lent: Lent) -> WebRequest:
        """The request with what it needs; called once for each time that it is sent."""
        ...

    def renew(self, refused: WebRequest) -> bool:
        """After a refusal: whether the request may be sent again, with something newer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A fixed key, in a header or in the query.

    Attributes:
        header: Where it stands; `query` is its name there instead.
        prefix: What stands before it in the header, such as `"Bearer "`.
    """

    key: str = field(repr=False)
    header: str = "x-api-key"
    query: str = ""
    prefix: str = ""

    @property
    def secrets(self) -> Sequence[str]:
        return _forms(self.key)

    async def apply(self, request: WebRequest, lent: Lent) -> WebRequest:
        if self.query:
            url = request.url.copy_merge_params({self.query: self.key})
            return replace(request, url=url)
        return _with(request, {self.header.lower(): self.prefix + self.key})

    def renew(self, refused: WebRequest) -> bool:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Basic:
    """User and password (RFC 7617), as UTF-8."""

    user: str
    password: str = field(repr=False)

    @property
    def secrets(self) -> Sequence[str]:
        return (*_forms(self.password), _basic(self.user, self.password))

    async def apply(self, request: WebRequest, lent: Lent) -> WebRequest:
        return _with(request, {"authorization": f"Basic {_basic(self.user, self.password)}"})

    def renew(self, refused: WebRequest) -> bool:
        return False


class OAuth2ClientCredentials:
    """A token for a client id and secret (RFC 6749, section 4.4).

    One token is fetched for all calls that wait for it, renewed shortly before its end, and once
    after a refusal.

    Args:
        token_url: Gives the tokens.
        client_id: Sent with the secret, by Basic.
        client_secret: Never shown.
        scope: What to ask for; "" leaves it to the other side.
        in_body: Send id and secret in the body instead, where a system wants it so.
    """

    def __init__(
        self,
        *,
        token_url: str,
        client_id: str,
        client_secret: str,
        scope: str = "",
        in_body: bool = False,
    ) -> None:
        self._url = read_url(token_url)
        self._id, self._secret = client_id, client_secret
        self._scope, self._in_body = scope, in_body
        self._token = ""
        self._ends_at: float | None = None
        # A lock belongs to the event loop in which calls wait for it.
        self._locks = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, anyio.Lock]()

    def __repr__(self) -> str:
        return f"OAuth2ClientCredentials(client_id={self._id!r})"

    @property
    def secrets(self) -> Sequence[str]:
        return (
            *_forms(self._secret),
            _basic(quote(self._id, safe=""), quote(self._secret, safe="")),
            *((self._token,) if self._token else ()),
        )

    async def apply(self, request: WebRequest, lent: Lent) -> WebRequest:
        async with self._locks.setdefault(asyncio.get_running_loop(), anyio.Lock()):
            if not self._token or self._is_over(lent.clock):
                await self._fetch(lent)
            token = self._token
        return _with(request, {"authorization": f"Bearer {token}"})

    def renew(self, refused: WebRequest) -> bool:
        # Another call may have renewed it in the meantime.
        if refused.headers.get("authorization") == f"Bearer {self._token}":
            self._token = ""
        return True

    def _is_over(self, clock: Clock) -> bool:
        return self._ends_at is not None and clock.monotonic() >= self._ends_at

    async def _fetch(self, lent: Lent) -> None:
        form = {"grant_type": "client_credentials"} | (
            {"scope": self._scope} if self._scope else {}
        )
        headers = {
            "content-type": "application/x-www-form-urlencoded",
            "accept": "application/json",
        }
        if self._in_body:
            form |= {"client_id": self._id, "client_secret": self._secret}
        else:
            pair = _basic(quote(self._id, safe=""), quote(self._secret, safe=""))
            headers["authorization"] = f"Basic {pair}"
        content = urlencode(form).encode()
        request = WebRequest(method="POST", url=self._url, headers=headers, content=content)
        try:
            answer = await lent.client.send(request)
        except (TimeoutError, ConnectionError) as exc:
            # Only the token is in doubt: the call itself has not been sent.
            raise NotDone(f"{lent.name}: no token: {exc}", code="no_token") from exc
        self._keep(answer, lent)

    def _keep(self, answer: WebAnswer, lent: Lent) -> None:
        """Take the token out of an answer."""
        told = _object(answer)
        token, lasts_s = told.get("access_token"), told.get("expires_in")
        if answer.ok and isinstance(token, str) and token.isascii() and token.isprintable():
            self._token = token
            self._ends_at = _end(lasts_s, lent.clock.monotonic())
            return
        if is_passing(answer.status):
            raise NotDone(
                f"{lent.name}: no token: status {answer.status}; nothing was sent", code="no_token"
            )
        if answer.ok:
            text = f"{lent.name}: the token endpoint answers, but not with an access_token"
            raise ToolError(text, code="no_token")
        said = told.get("error")
        reason = f": {said:.60}" if isinstance(said, str) and self._secret not in said else ""
        raise ToolError(
            f"{lent.name}: no token: status {answer.status}{reason}; nothing was sent",
            code=code_of(answer.status),
            hint="client id, secret or scope may be wrong: a person has to look",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HmacSigning:
    r"""Signs each request by HMAC-SHA256.

    Signed are these four lines, joined by `\n`: the method, the path with its query as sent, the
    time in seconds since 1970, and the SHA-256 of the body in hex. The signature is sent in hex.

    Attributes:
        key_id: Who signs; sent openly.
        id_header: Where `key_id` stands; so for time and signature.
    """

    key_id: str
    secret: str = field(repr=False)
    id_header: str = "x-key-id"
    time_header: str = "x-timestamp"
    signature_header: str = "x-signature"

    @property
    def secrets(self) -> Sequence[str]:
        return _forms(self.secret)

    async def apply(self, request: WebRequest, lent: Lent) -> WebRequest:
        at = str(int(lent.clock.now().timestamp()))
        signature = hmac.new(self.secret.encode(), self.signed(request, at), hashlib.sha256)
        return _with(
            request,
            {
                self.id_header.lower(): self.key_id,
                self.time_header.lower(): at,
                self.signature_header.lower(): signature.hexdigest(),
            },
        )

    def renew(self, refused: WebRequest) -> bool:
        return False

    @staticmethod
    def signed(request: WebRequest, at: str) -> bytes:
        """The bytes that are signed."""
        body = hashlib.sha256(request.content).hexdigest()
        return "\n".join((request.method, request.url.raw_path.decode("ascii"), at, body)).encode()


def check_header_text(auth: Auth | None, name: str) -> None:
    """Refuse secrets that no header can carry, such as one with a line break at its end.

    Raises:
        ConfigError: The message does not show it.
    """
    for secret in auth.secrets if auth is not None else ():
        if not secret:
            raise ConfigError(f"{name}: its key or secret is empty", hint="is the variable set?")
        if "\n" in secret or "\r" in secret:
            raise ConfigError(f"{name}: its key or secret holds a line break", hint="strip it")


def _with(request: WebRequest, headers: dict[str, str]) -> WebRequest:
    return replace(request, headers={**request.headers, **headers})


def _basic(user: str, password: str) -> str:
    return b64encode(f"{user}:{password}".encode()).decode("ascii")


def _forms(secret: str) -> tuple[str, ...]:
    """A secret as it is, and as it stands in a URL, a form or JSON."""
    in_url, in_form = quote(secret, safe=""), urlencode({"": secret})[1:]
    return tuple(dict.fromkeys((secret, in_url, in_form, json.dumps(secret)[1:-1])))


def _object(answer: WebAnswer) -> dict[str, object]:
    try:
        return json.as_object(json.loads(answer.body)) or {}
    except CodecError:
        return {}


def _end(lasts_s: object, now: float) -> float | None:
    """When to fetch the next token; None if only a refusal will tell."""
    if isinstance(lasts_s, str) and lasts_s.isascii() and lasts_s.isdigit():
        lasts_s = int(lasts_s)
    if not isinstance(lasts_s, int | float) or isinstance(lasts_s, bool):
        return None
    return now + lasts_s - min(_MARGIN_S, lasts_s * _MARGIN_SHARE)
