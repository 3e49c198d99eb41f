"""A model in a GGUF file, run by llama.cpp on this machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from .base import ModelReply, ModelRequest, StreamPart
from .deadline import TOTAL_S
from .local_server import ModelFile, Place, server_of
from .openai import OpenAIModel
from .profiles import Profile

if TYPE_CHECKING:
    import httpx2  # loaded on first use, so that `import hermes` stays light

PREFIX = "local:"
WINDOW = 8_192


class LocalModel:
    """Speaks to a llama.cpp server of this process's own, started on first use.

    The server is shared by all that use the same file and ends with the process. One that died is
    started again for the next request.

    Args:
        path: Of the GGUF file.
        window: Tokens of a whole request and its reply: memory is taken for so many. A model that
            was trained for less has less.
        timeout_s: Longest silence of the server, in seconds.
        total_s: Longest time of one request, the whole answer included.

    Raises:
        ConfigError: The extra `local` is not installed, or the file is missing or no GGUF file.
    """

    def __init__(
        self,
        path: Path,
        *,
        window: int | None = None,
        timeout_s: float = 120.0,
        total_s: float = TOTAL_S,
    ) -> None:
        self._file = ModelFile(path=path, window=window or WINDOW)
        self._file.check()
        self._timeout_s, self._total_s = timeout_s, total_s
        self._client: httpx2.AsyncClient | None = None
        self._place: Place | None = None
        self._model: OpenAIModel | None = None

    @property
    def name(self) -> str:
        """The file, as the setting names it."""
        return f"{PREFIX}{self._file.path.name}"

    @property
    def profile(self) -> Profile:
        """What is known: few chat templates know tools, and the server keeps to any schema."""
        return Profile(
            name=self.name,
            window=self._file.window,
            max_output=self._file.max_output,
            native_tools=False,
            parallel_calls=False,
            json_mode="schema",
            is_known=True,
        )

    def __repr__(self) -> str:
        return f"LocalModel({str(self._file.path)!r})"

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Ask and wait for the whole reply.

        Raises:
            ConfigError: The file has gone.
            ModelError: The server cannot be started, or gave no usable reply.
        """
        return await (await self._connected()).reply(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """Ask and get the reply as it comes; the last part is the whole `ModelReply`.

        Raises:
            ConfigError: The file has gone.
            ModelError: As `reply`.
        """
        async for part in (await self._connected()).stream(request):
            yield part

    async def aclose(self) -> None:
        """Close the connections; the server goes on for others."""
        client, self._client, self._model = self._client, None, None
        if client is not None:
            await client.aclose()

    async def _connected(self) -> OpenAIModel:
        # A thread, since a file of some gigabytes takes its time.
        place = await to_thread.run_sync(server_of(self._file).place)
        if self._model is None or place != self._place:
            self._place = place
            self._client = self._client or _client(self._timeout_s)
            self._model = OpenAIModel(
                self.name,
                base_url=place.address,
                api_key=place.key,
                client=self._client,
                timeout_s=self._timeout_s,
                total_s=self._total_s,
                profile=self.profile,
            )
        return self._model


def _client(timeout_s: float) -> httpx2.AsyncClient:
    """Connections that are used once.

    llama.cpp closes one after a stream, which a client that wants to use it again may see too
    late; a new one to this machine costs nothing.
    """
    import httpx2

    return httpx2.AsyncClient(
        verify=False,  # no certificate is ever shown
        timeout=httpx2.Timeout(timeout_s, pool=None),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        trust_env=False,
    )
