"""Streamable HTTP with bounded answers, and with the truth about what was never sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from typing import cast

import httpx2

from hermes.tools.failures import described
from hermes.tools.plugins.options import McpServer
from hermes.tools.plugins.process import filled_in

ANSWER_BYTES = 8_000_000
_READ_SLACK_S = 30.0
"""The tool's own time limit comes first."""
_NEVER_LEFT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


@dataclass
class Sending:
    """What becomes of one call's request.

    Attributes:
        never_left: Why it surely was not sent; "" if it may have been.
    """

    never_left: str = ""


SENDING: ContextVar[Sending] = ContextVar("hermes_mcp_sending")
"""Of the call that a request is for: the client sends each in its caller's context."""


async def over_http(
    url: str, spec: McpServer, stack: AsyncExitStack, *, note: Callable[[str], None]
) -> object:
    """A transport for the client of the package `mcp`.

    Args:
        url: Where it is.
        spec: Its headers and limits.
        stack: Closes the connections.
        note: Told why the address cannot be reached.
    """
    from mcp.client.streamable_http import streamable_http_client

    # Plain, since a small answer could otherwise unfold into a huge one.
    headers = {**filled_in(spec.headers), "Accept-Encoding": "identity"}
    client = httpx2.AsyncClient(
        headers=headers,
        timeout=httpx2.Timeout(spec.start_timeout_s, read=spec.timeout_s + _READ_SLACK_S),
        transport=_Bounded(httpx2.AsyncHTTPTransport(), note),
    )
    await stack.enter_async_context(client)
    return streamable_http_client(url, http_client=client, max_sse_event_size=ANSWER_BYTES)


class _Bounded(httpx2.AsyncBaseTransport):
    """Reads no JSON answer of more than `ANSWER_BYTES`, and fails in the protocol's own way.

    Event streams are bounded by the client, event by event.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, note: Callable[[str], None]) -> None:
        self._inner, self._note = inner, note

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as exc:
            self._note(described(exc))
            sending = SENDING.get(None)
            if sending is not None and isinstance(exc, _NEVER_LEFT):
                sending.never_left = described(exc)
            # An answer in place of an exception: that would end every other call as well.
            return httpx2.Response(502, request=request)
        kind = response.headers.get("content-type", "")
        if not kind.startswith("text/event-stream"):
            response.stream = _BoundedStream(cast("httpx2.AsyncByteStream", response.stream))
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.DecodingError("it packs its answers although asked not to")
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for data in self._inner:
            size += len(data)
            if size > ANSWER_BYTES:
                raise httpx2.StreamError(f"an answer of more than {ANSWER_BYTES:,} bytes")
            yield data

    async def aclose(self) -> None:
        await self._inner.aclose()
