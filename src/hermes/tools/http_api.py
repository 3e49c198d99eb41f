"""A business system behind HTTP, for use within tools: one address, one auth, one error form.

    crm = HttpApi("crm", base_url="https://crm.example/api", auth=ApiKey(key=os.environ["CRM_KEY"]))

    @tool(effect="read")
    async def find_customer(name: str) -> object:
        return await crm.get("/customers", query={"name": name})

What goes wrong becomes what Hermes needs to know: `NotDone` where nothing was sent, a `ToolError`
that says whether the same call may succeed later, and for a request that changes something and
whose fate is unknown, an exception that leaves an `unsafe` tool in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from hermes.core import json as plain
from hermes.core.clock import Clock, SystemClock
from hermes.errors import CodecError, ConfigError, ToolError

from .web.auth import (
    ApiKey,
    Auth,
    Basic,
    HmacSigning,
    Lent,
    OAuth2ClientCredentials,
    check_header_text,
)
from .web.body import decode, is_json
from .web.client import (
    DEFAULT_MAX_BYTES,
    DEFAULT_TIMEOUT_S,
    NewTransport,
    WebAnswer,
    WebClient,
    WebRequest,
    read_url,
)
from .web.status import code_of, is_passing, retry_after_s

__all__ = [
    "ApiFault",
    "ApiKey",
    "Auth",
    "Basic",
    "BodyCode",
    "HmacSigning",
    "HttpApi",
    "OAuth2ClientCredentials",
]

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
Query = Mapping[str, str | int | float | bool]

_SHOWN_CHARS = 300
_SECRET_CHARS = 4  # what is shorter stands in many a word
_MAYBE_DONE = (408, 502, 504)  # whoever answers gave up on somebody who may have carried it out
_LOOK_FIRST = "find out whether it took effect before calling again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFault:
    """What the body of an answer says went wrong.

    Attributes:
        code: The system's own, as text.
        retryable: The same call may succeed later; None leaves it to the status.
        renew: The token is no longer taken: a new one may help.
    """

    code: str
    message: str = ""
    retryable: bool | None = None
    renew: bool = False


ErrorOf = Callable[[object], ApiFault | None]
"""The body of an answer, as plain JSON, to its fault; None if it tells of success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyCode:
    """The error form of systems that put a code into every body, also with status 200.

    Attributes:
        code: Key of the code; a body without it is judged by its status alone.
        message: Key of the text.
        ok: Codes of success.
        retryable: Codes after which the same call may succeed later.
        renew: Codes that ask for a new token.
    """

    code: str = "code"
    message: str = "message"
    ok: Collection[object] = (0, "0")
    retryable: Collection[object] = ()
    renew: Collection[object] = ()

    def __call__(self, body: object) -> ApiFault | None:
        told = plain.as_object(body) or {}
        code = told.get(self.code)
        if code is None or code in self.ok:
            return None
        return ApiFault(
            code=str(code),
            message=str(told.get(self.message, "")),
            retryable=True if code in self.retryable else None,
            renew=code in self.renew,
        )


class HttpApi:
    """One system. Requests go to its address alone: redirects to others are not followed.

    Args:
        name: What messages call it.
        base_url: Scheme, host and the path before all paths; may be internal.
        auth: `ApiKey`, `Basic`, `OAuth2ClientCredentials`, `HmacSigning` or one of your own.
        headers: Sent with each request.
        error_of: Finds the fault in a body, such as `BodyCode(code="errcode", message="errmsg")`.
        timeout_s: For a request as a whole; less than the tool's own.
        max_bytes: Of an answer.
        clock: For signatures, tokens and `Retry-After`.
        new_transport: What opens the connections.

    Raises:
        ConfigError: The address or a secret cannot be used.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        auth: Auth | None = None,
        headers: Mapping[str, str] | None = None,
        error_of: ErrorOf | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_bytes: int = DEFAULT_MAX_BYTES,
        clock: Clock | None = None,
        new_transport: NewTransport | None = None,
    ) -> None:
        try:
            self._base = read_url(base_url)
        except ToolError as exc:
            raise ConfigError(f"{name}: base_url: {exc.message}", hint=exc.hint) from None
        check_header_text(auth, name)
        self.name = name
        self._auth, self._error_of = auth, error_of
        self._headers = {key.lower(): value for key, value in (headers or {}).items()}
        client = WebClient(
            None,
            timeout_s=timeout_s,
            max_bytes=max_bytes,
            new_transport=new_transport,
            follow=False,
        )
        self._lent = Lent(name=name, client=client, clock=clock or SystemClock())

    def __repr__(self) -> str:
        return f"HttpApi({self.name!r}, host={self._base.host!r})"

    async def get(
        self, path: str, *, values: Query | None = None, query: Query | None = None
    ) -> object:
        """Read; as `request`."""
        return await self.request("GET", path, values=values, query=query)

    async def post(
        self,
        path: str,
        *,
        json: object = None,
        values: Query | None = None,
        query: Query | None = None,
        idempotency_key: str = "",
    ) -> object:
        """Create or do something; as `request`."""
        return await self.request(
            "POST", path, json=json, values=values, query=query, idempotency_key=idempotency_key
        )

    async def request(
        self,
        method: Method,
        path: str,
        *,
        json: object = None,
        values: Query | None = None,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str = "",
    ) -> object:
        """Send a request and read its JSON answer.

        Args:
            method: How.
            path: Below the base, with `{name}` where one of `values` belongs: `/orders/{order}`.
            json: The body; None for none.
            values: Escaped into the path, so that none of them leads elsewhere.
            query: Escaped.
            headers: Further ones.
            idempotency_key: Sent as `Idempotency-Key`, if the system knows such a thing; that of
                the `ToolContext` is the same at each repeat of a call.

        Returns:
            The answer's JSON; its text if it is no JSON and says so; None if it is empty.

        Raises:
            ToolError: The system refused; `retryable` says whether the same call may succeed later.
            NotDone: Nothing was sent.
            TimeoutError: No answer in time: it may have been done.
            ConnectionError: The answer was lost: likewise.
        """
        given = dict(self._headers)
        given |= {key.lower(): value for key, value in (headers or {}).items()}
        if json is not None:
            given["content-type"] = "application/json"
        if idempotency_key:
            given["idempotency-key"] = idempotency_key
        url = self._base.copy_with(path=_path(self._base.path, path, values or {}))
        sent = WebRequest(
            method=method,
            url=url.copy_merge_params({k: _text(v) for k, v in query.items()}) if query else url,
            headers={"accept": "application/json", **given},
            content=b"" if json is None else plain.encode(json),
        )
        return await self._settled(sent, f"{self.name}: {method} {path}")

    async def _settled(self, request: WebRequest, what: str) -> object:
        """Send it, once more if the token was refused, and say what came of it."""
        for is_last in (False, True):
            signed = await self._auth.apply(request, self._lent) if self._auth else request
            try:
                answer = await self._lent.client.send(signed)
            except (TimeoutError, ConnectionError) as exc:
                kind = TimeoutError if isinstance(exc, TimeoutError) else ConnectionError
                raise kind(f"{what}: {exc}") from exc
            body, fault = self._read(answer)
            is_stale = answer.status == 401 or (fault is not None and fault.renew)
            if is_last or not is_stale or not self._auth or not self._auth.renew(signed):
                return self._outcome(request, answer, what, body, fault)
        raise AssertionError("the second round always ends")

    def _read(self, answer: WebAnswer) -> tuple[object, ApiFault | None]:
        """The body, and its fault; text that is no JSON stays text."""
        kind = answer.headers.get("content-type", "")
        text = decode(answer.body, kind)
        try:
            body = plain.loads(text) if text.strip() else None
        except CodecError:
            return text, None
        return body, self._error_of(body) if self._error_of and body is not None else None

    def _outcome(
        self,
        request: WebRequest,
        answer: WebAnswer,
        what: str,
        body: object,
        fault: ApiFault | None,
    ) -> object:
        changes = request.method not in ("GET", "HEAD")
        if answer.ok and answer.cut and fault is None:
            text = f"{what}: status {answer.status}, but its answer is cut: {answer.cut}"
            raise ConnectionError(text) if changes else ToolError(text, code="cut_answer")
        if answer.ok and fault is None:
            return self._plain(answer, what, body, changes=changes)
        if changes and answer.status in _MAYBE_DONE:
            raise ConnectionError(f"{what}: status {answer.status} from a gateway")
        raise self._refusal(answer, what, body, fault, changes=changes)

    def _plain(self, answer: WebAnswer, what: str, body: object, *, changes: bool) -> object:
        kind = answer.headers.get("content-type", "")
        if not isinstance(body, str) or kind.startswith("text/plain"):
            return body
        if is_json(kind) and answer.body.lstrip()[:1] == b'"':
            return body
        text = f"{what}: status {answer.status} with {kind or 'no type'}, which is not JSON"
        raise ConnectionError(text) if changes else ToolError(text, code="bad_answer")

    def _refusal(
        self,
        answer: WebAnswer,
        what: str,
        body: object,
        fault: ApiFault | None,
        *,
        changes: bool,
    ) -> ToolError:
        said = fault.message if fault else body if isinstance(body, str) else plain.dumps(body)
        code = self._shown(fault.code) if fault else code_of(answer.status)
        retryable = fault.retryable if fault else None
        if retryable is None:
            retryable = is_passing(answer.status) and not (changes and answer.status == 500)
        wait_s = retry_after_s(answer.headers, self._lent.clock)
        hint = f"wait {wait_s:.0f} s first" if retryable and wait_s is not None else ""
        if changes and answer.status == 500:
            hint = _LOOK_FIRST
        status = f"status {answer.status}" if not answer.ok else "refused"
        told = f" ({code})" if fault else ""
        shown = self._shown(" ".join(said.split()) if body is not None else "")
        return ToolError(
            f"{what}: {status}{told}" + (f": {shown}" if shown else ""),
            code=code,
            retryable=retryable,
            hint=hint,
        )

    def _shown(self, text: str) -> str:
        """At most 300 characters, without secrets."""
        for secret in self._auth.secrets if self._auth else ():
            text = text.replace(secret, "***") if len(secret) >= _SECRET_CHARS else text
        return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"


def _path(base: str, path: str, values: Query) -> str:
    """The whole path, with its values in place.

    Raises:
        ToolError: It would lead out of the base, or holds what was not escaped.
    """
    try:
        filled = path.format_map(
            {key: quote(_text(value), safe="") for key, value in values.items()}
        )
    except (KeyError, IndexError, ValueError) as exc:
        raise ToolError(f"the path {path!r} lacks a value: {exc}", code="bad_path") from exc
    segments = filled.split("/")
    if segments[0] or any(item in (".", "..") for item in segments) or "" in segments[1:-1]:
        raise ToolError(
            "a path begins with `/` and holds no empty part, no `.` and no `..`",
            code="bad_path",
            hint="put values in by name: path '/orders/{order}' and values={'order': …}",
        )
    if any(mark in filled for mark in "?#\\") or not filled.isprintable():
        raise ToolError("a path holds no `?`, `#` or `\\`", code="bad_path", hint="use query=")
    return base.rstrip("/") + filled


def _text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
