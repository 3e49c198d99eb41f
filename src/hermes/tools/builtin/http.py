"""Requests to the web; group `http`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from hermes.core import json as plain
from hermes.core.clock import Clock, SystemClock
from hermes.errors import CodecError, ToolError
from hermes.tools.base import Tool, ToolContext
from hermes.tools.function import tool
from hermes.tools.web.body import decode, is_json, is_text
from hermes.tools.web.client import WebAnswer, WebClient, WebRequest, read_url
from hermes.tools.web.guard import WebPolicy
from hermes.tools.web.status import retry_after_s

from .options import BuiltinOptions

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\x20-\x7e]*")
_OWN = (
    *("host", "content-length", "transfer-encoding", "accept-encoding", "connection"),
    *("keep-alive", "te", "trailer", "upgrade", "expect"),
)
_SHOWN = ("content-type", "location", "etag", "last-modified", "link", "www-authenticate", "allow")
_SPARE_S = 10.0  # beyond the exchange's own bound, so that its clearer error comes first
_MOST_HEADERS = 40

Text = dict[str, str]
Json = dict[str, object] | list[object]


class HttpTools:
    """The tools, around one client.

    Args:
        client: What sends.
        clock: For a `Retry-After` that is a date.
    """

    def __init__(self, client: WebClient, *, clock: Clock | None = None) -> None:
        self._client, self._clock = client, clock or SystemClock()

    async def http_get(
        self,
        url: str,
        query: Text = {},  # noqa: B006  # copied for each call
        headers: Text = {},  # noqa: B006  # likewise
        method: Literal["GET", "HEAD"] = "GET",
    ) -> dict[str, object]:
        """Get data from a web address, such as an API; follows redirects.

        Use it for data; not for a page to read (`fetch_page`), nor to change something
        (`http_request`). Internal addresses are refused.
        Example: url="https://api.example.com/items", query={"q": "shoes"}.

        Args:
            url: http or https, without user and password.
            query: Added to the URL, escaped.
            headers: Such as {"accept": "application/json"}.
            method: HEAD gives status and headers alone.

        Returns:
            {status, ok, url, headers, size_bytes, json or text}; ok is false from status 300 on.
        """
        sent = WebRequest(method=method, url=read_url(url, query), headers=checked(headers))
        return self._told(await self._client.send(sent))

    async def http_request(
        self,
        method: Literal["POST", "PUT", "PATCH", "DELETE"],
        url: str,
        ctx: ToolContext,
        json: Json | None = None,
        body: str | None = None,
        query: Text = {},  # noqa: B006  # copied for each call
        headers: Text = {},  # noqa: B006  # likewise
    ) -> dict[str, object]:
        """Send a request that changes something at a web address; redirects are not followed.

        Use it for an API that creates, changes or deletes; not for reading (`http_get`).
        Internal addresses are refused.
        Example: method="POST", url="https://api.example.com/items", json={"name": "shoes"}.

        Args:
            method: What to do.
            url: http or https, without user and password.
            json: The body as JSON; none by default.
            body: In place of `json`, as text, with its content-type in headers; none by default.
            query: Added to the URL, escaped.
            headers: Added to the request.
            ctx: Gives the key.

        Returns:
            {status, ok, url, headers, size_bytes, json or text}; ok is false from status 300 on.
        """
        if json is not None and body is not None:
            raise ToolError("both json and body were given", code="bad_arguments", hint="give one")
        kind = {"content-type": "text/plain; charset=utf-8"} if body is not None else {}
        kind = {"content-type": "application/json"} if json is not None else kind
        sent = WebRequest(
            method=method,
            url=read_url(url, query),
            headers={**kind, "idempotency-key": ctx.idempotency_key, **checked(headers)},
            content=plain.encode(json) if json is not None else (body or "").encode(),
        )
        return self._told(await self._client.send(sent))

    def _told(self, answer: WebAnswer) -> dict[str, object]:
        """The result that a model reads."""
        kind = answer.headers.get("content-type", "")
        told: dict[str, object] = {
            "status": answer.status,
            "ok": answer.ok,
            "url": str(answer.url),
            "headers": {name: answer.headers[name] for name in _SHOWN if name in answer.headers},
            "size_bytes": len(answer.body),
        }
        if answer.cut:
            told["truncated"] = answer.cut
        wait_s = retry_after_s(answer.headers, self._clock)
        if wait_s is not None:
            told["retry_after_s"] = wait_s
        return told | _content(answer, kind)


def _content(answer: WebAnswer, kind: str) -> dict[str, object]:
    if not answer.body:
        return {}
    if not is_text(kind, answer.body):
        return {"note": f"the body is not text but {kind.partition(';')[0]}, and left out"}
    text = decode(answer.body, kind)
    if is_json(kind) and not answer.cut:
        try:
            return {"json": plain.loads(text)}
        except CodecError:
            return {"text": text, "note": "the body says that it is JSON, but cannot be read so"}
    return {"text": text}


def checked(headers: Mapping[str, str]) -> Text:
    """The headers that a model gave, names in lower case.

    Raises:
        ToolError: One is no header, or is set by the client itself.
    """
    if len(headers) > _MOST_HEADERS:
        raise ToolError(f"at most {_MOST_HEADERS} headers, got {len(headers)}", code="bad_header")
    found: Text = {}
    for name, value in headers.items():
        low = name.strip().casefold()
        if low in _OWN or low.startswith("proxy-"):
            raise ToolError(f"the header {name!r:.40} is not for you to set", code="bad_header")
        if not _NAME.fullmatch(low) or not _VALUE.fullmatch(value):
            raise ToolError(
                f"{name!r:.40} is no header, or its value holds more than printable ASCII",
                code="bad_header",
                hint="escape other characters with %",
            )
        found[low] = value.strip()
    return found


def client_of(options: BuiltinOptions) -> WebClient:
    """The client that the options ask for.

    Raises:
        ConfigError: An entry of the allow-list or the deny-list cannot be read.
    """
    return WebClient(
        WebPolicy(allow=options.http_allow, deny=options.http_deny),
        timeout_s=options.http_timeout_s,
        max_bytes=options.http_max_bytes,
    )


def tools(options: BuiltinOptions) -> tuple[Tool, ...]:
    """Reading and sending."""
    made = HttpTools(client_of(options))
    timeout_s = options.http_timeout_s + _SPARE_S
    reads = tool(
        effect="read", group="http", untrusted_output=True, outbound=True, timeout_s=timeout_s
    )
    sends = tool(
        effect="unsafe", group="http", untrusted_output=True, outbound=True, timeout_s=timeout_s
    )
    return (reads(made.http_get), sends(made.http_request))
