"""A chat completions server that allows so many requests a second, and refuses the others."""

from __future__ import annotations

import asyncio
import json
from typing import Self

from tests.servers import let_in

ANSWER = json.dumps(
    {
        "model": "test-model",
        "choices": [{"message": {"content": "done"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 1},
    }
).encode()


class LimitedServer:
    """A bucket of `per_s` requests that fills evenly; who finds it empty is told 429.

    Args:
        per_s: Requests a second, and the size of the bucket.
        level: Requests in the bucket at the start.
        work_s: How long a request takes.

    Attributes:
        taken: When each request that was allowed came, by the loop's clock.
        refused: The same of the others.
    """

    def __init__(self, *, per_s: float, level: float | None = None, work_s: float = 0.05) -> None:
        self._per_s, self._work_s = per_s, work_s
        self._level = per_s if level is None else level
        self._seen_s = 0.0
        self.taken: list[float] = []
        self.refused: list[float] = []
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512)
        self._port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await let_in()
        for writer in tuple(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                status, body, more = await self._answer()
                writer.write(
                    f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{more}"
                    f"content-length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self) -> tuple[str, bytes, str]:
        now_s = asyncio.get_running_loop().time()
        filled = self._level + (now_s - self._seen_s) * self._per_s if self._seen_s else self._level
        self._level, self._seen_s = min(self._per_s, filled), now_s
        if self._level < 1:
            self.refused.append(now_s)
            return "429 Too Many Requests", b'{"error": {"message": "slow"}}', "retry-after: 1\r\n"
        self._level -= 1
        self.taken.append(now_s)
        await asyncio.sleep(self._work_s)
        return "200 OK", ANSWER, ""
