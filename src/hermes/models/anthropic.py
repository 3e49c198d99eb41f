"""Anthropic's Messages API."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from hermes.core.clock import Clock
from hermes.models.anthropic_request import BodyBuilder, Thinking
from hermes.models.anthropic_stream import AnthropicReader, read_whole
from hermes.models.base import ModelReply, ModelRequest, StreamPart
from hermes.models.clients import ClientPool
from hermes.models.deadline import TOTAL_S
from hermes.models.http import Connection, endpoint
from hermes.models.keys import checked_key
from hermes.models.profiles import Profile, find_profile
from hermes.models.streamed import is_stream, parts_of, read_stream

if TYPE_CHECKING:
    import httpx2  # loaded on first use, so that `import hermes` stays light

ANTHROPIC_URL = "https://api.anthropic.com"
STREAM_ABOVE = 21_333
"""Cap of a reply's tokens above which it is streamed even where nobody wants its pieces: written
in silence it could take over ten minutes, which connections and timeouts do not outlive.

Source:
    Anthropic, "Long requests" and its Python client, which refuses such a request.
"""
VERSION = "2023-06-01"
"""Of the API; Anthropic keeps it stable under this date."""

_HAS_VERSION = re.compile(r"/v\d+(/messages)?/*([?#].*)?$")


class AnthropicModel:
    """One model behind a server that speaks the Messages API.

    A reply is always capped: by the request, else by the profile's `max_output`, else at 4,096
    tokens. Consecutive requests share the provider's cache. `output_schema` is not sent: the
    system prompt says what the answer has to fit.

    Args:
        name: The model, as the server calls it.
        base_url: With or without trailing slash, `/v1` or `/v1/messages`.
        api_key: Sent as `x-api-key`; without one no such header is sent.
        profile: What is known of the model; looked up by its name if None.
        client: A connection pool shared with others, who close it; without one, one is made.
        timeout_s: Longest silence of the server, in seconds.
        total_s: Longest time of one request, the whole answer included.
        clock: For a `Retry-After` that is a date.
        thinking: How much it may think, as `adaptive` or in tokens (from 1,024, and less than the
            cap of the reply); None leaves it to the model. While it thinks it cannot be held to
            calling a tool.

    Raises:
        ConfigError: The address or the key cannot be used.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str = ANTHROPIC_URL,
        api_key: str | None = None,
        profile: Profile | None = None,
        client: httpx2.AsyncClient | ClientPool | None = None,
        timeout_s: float = 120.0,
        total_s: float = TOTAL_S,
        clock: Clock | None = None,
        thinking: Thinking = None,
    ) -> None:
        self._name = name
        has_version = _HAS_VERSION.search(base_url.strip())
        suffix = "/messages" if has_version else "/v1/messages"
        where = endpoint(base_url, suffix=suffix, default_prefix="")
        key = checked_key(api_key)
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "user-agent": "hermes",
            "anthropic-version": VERSION,
        }
        if key:
            headers["x-api-key"] = key
        if where.authorization:
            headers["authorization"] = where.authorization
        self._connection = Connection(
            where,
            model=name,
            headers=headers,
            secrets=(key,),
            client=client,
            timeout_s=timeout_s,
            total_s=total_s,
            clock=clock,
        )
        self.profile = profile or find_profile(name, host=where.host)
        self._bodies = BodyBuilder(
            name,
            max_output=self.profile.max_output,
            parallel_calls=self.profile.parallel_calls,
            thinking=thinking,
        )

    @property
    def name(self) -> str:
        """The model's name, as the server calls it."""
        return self._name

    def __repr__(self) -> str:
        return f"AnthropicModel({self._name!r}, host={self._connection.peer.host!r})"

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Ask and wait for the whole reply.

        Raises:
            ModelError: No usable reply.
        """
        if self._bodies.cap(request) > STREAM_ABOVE:
            return await self._streamed(request)
        body = self._bodies.build(request, stream=False)
        answer = await self._connection.post(body, prices=self.profile.prices)
        if is_stream(answer):
            return read_stream(answer, self._reader(answer.kind), prompt=body)
        return read_whole(answer, self._connection.peer, prompt=body, prices=self.profile.prices)

    async def _streamed(self, request: ModelRequest) -> ModelReply:
        reply = ModelReply()
        async with aclosing(self.stream(request)) as parts:
            async for part in parts:
                if isinstance(part, ModelReply):
                    reply = part  # the last of them; without one the stream raises
        return reply

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """Ask and get the reply as it comes; the last part is the whole `ModelReply`.

        Raises:
            ModelError: No usable reply; `partial_text` holds what had arrived.
        """
        body = self._bodies.build(request, stream=True)
        async with aclosing(parts_of(self._connection, body, self._reader)) as parts:
            async for part in parts:
                yield part

    def _reader(self, kind: str) -> AnthropicReader:
        return AnthropicReader(self._connection.peer, kind=kind, prices=self.profile.prices)

    async def aclose(self) -> None:
        """Close the pool if it was made here."""
        await self._connection.aclose()
