"""Chat completions: the wire format that most providers and all local servers speak."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from hermes.core.clock import Clock
from hermes.models.base import ModelReply, ModelRequest, StreamPart
from hermes.models.clients import ClientPool
from hermes.models.deadline import TOTAL_S
from hermes.models.http import Connection, Endpoint, endpoint
from hermes.models.keys import checked_key
from hermes.models.openai_request import BodyBuilder
from hermes.models.openai_stream import OpenAIReader, read_whole
from hermes.models.profiles import Profile, find_profile
from hermes.models.streamed import is_stream, parts_of, read_stream

if TYPE_CHECKING:
    import httpx2  # loaded on first use, so that `import hermes` stays light

OPENAI_URL = "https://api.openai.com/v1"


class OpenAIModel:
    """One model behind a chat completions server.

    Args:
        name: The model, as the server calls it.
        base_url: With or without trailing slash, `/v1` or `/v1/chat/completions`.
        api_key: Sent as a bearer token; without one no `Authorization` header is sent.
        client: A connection pool shared with others, who close it; without one, one is made.
        timeout_s: Longest silence of the server, in seconds.
        total_s: Longest time of one request, the whole answer included.
        profile: What the model can do and costs; found by its name if None.
        clock: For a `Retry-After` that is a date.

    Raises:
        ConfigError: The address or the key cannot be used.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        api_key: str | None = None,
        client: httpx2.AsyncClient | ClientPool | None = None,
        timeout_s: float = 120.0,
        total_s: float = TOTAL_S,
        profile: Profile | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._name = name
        where = _endpoint(base_url)
        key = checked_key(api_key)
        authorization = f"Bearer {key}" if key else where.authorization
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "user-agent": "hermes",
        }
        if authorization:
            headers["authorization"] = authorization
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
        self._bodies = BodyBuilder(name, profile=self.profile, host=where.host)

    @property
    def name(self) -> str:
        """The model's name, as the server calls it."""
        return self._name

    def __repr__(self) -> str:
        return f"OpenAIModel({self._name!r}, host={self._connection.peer.host!r})"

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Ask and wait for the whole reply.

        Raises:
            ModelError: No usable reply.
        """
        body = self._bodies.build(request, stream=False)
        answer = await self._connection.post(body, prices=self.profile.prices)
        if is_stream(answer):
            return read_stream(answer, self._reader(answer.kind), prompt=body)
        return read_whole(answer, self._connection.peer, prompt=body, prices=self.profile.prices)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """Ask and get the reply as it comes; the last part is the whole `ModelReply`.

        Raises:
            ModelError: No usable reply; `partial_text` holds what had arrived.
        """
        body = self._bodies.build(request, stream=True)
        async with aclosing(parts_of(self._connection, body, self._reader)) as parts:
            async for part in parts:
                yield part

    def _reader(self, kind: str) -> OpenAIReader:
        return OpenAIReader(self._connection.peer, kind=kind, prices=self.profile.prices)

    async def aclose(self) -> None:
        """Close the pool if it was made here."""
        await self._connection.aclose()


def host_of(base_url: str) -> str:
    """Host and port of a server, as profiles name it.

    Raises:
        ConfigError: The address cannot be used.
    """
    return _endpoint(base_url).host


def _endpoint(base_url: str) -> Endpoint:
    return endpoint(base_url, suffix="/chat/completions", default_prefix="/v1")
