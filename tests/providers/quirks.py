"""How providers behave in truth: each quirk whole and streamed, and what has to come of it.

A quirk is named after the requirement (R…) or the provider it was met at. Its two bodies say the
same thing; what is demanded is either a reply or an error. Where the official client reads a body
in another way, the quirk says how it ends there and why ours is right.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from tests.servers import let_in

Object = Mapping[str, object]

JSON = "application/json"
EVENTS = "text/event-stream"
MODEL = "test-model"
USAGE: Object = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
KNOWLEDGE = "from knowledge"
"""The source of a quirk that no page was found for."""


@dataclass(frozen=True, kw_only=True)
class Wire:
    """One HTTP answer as it goes over the wire.

    Attributes:
        kind: The content type; none is sent if empty.
        headers: Further ones.
        cut: The connection breaks after the body, without its end.
        size: Bytes of the body in one network chunk.
        compressed: Sent with gzip.
        pause_s: Silence before each network chunk but the first.
        held: Nothing comes after the body, and the connection stays open.
    """

    body: bytes
    status: int = 200
    kind: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    cut: bool = False
    size: int = 4096
    compressed: bool = False
    pause_s: float = 0.0
    held: bool = False


@dataclass(frozen=True, kw_only=True)
class Says:
    """The reply that is demanded.

    Attributes:
        calls: Id, name and raw arguments of each.
        finish: As Hermes names it.
        usage: Prompt, completion and cached tokens; None for figures that are estimated.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    finish: str = "stop"
    usage: tuple[int, int, int] | None = (11, 7, 0)
    model: str = MODEL


@dataclass(frozen=True, kw_only=True)
class Fails:
    """The `ModelError` that is demanded.

    Attributes:
        words: What its message has to hold.
        partial: The text that had come before.
        wait_s: Its `retry_after_s`.
    """

    code: str
    retryable: bool = False
    words: str = ""
    partial: str = ""
    wait_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Quirk:
    """One behaviour of a provider.

    Attributes:
        name: R number or provider, then what it does.
        source: Where it was described: an address, or `KNOWLEDGE`.
        whole: The answer to a request that asks for no stream.
        stream: The answer to one that does.
        demand: What has to come of both.
        demand_whole: What has to come of `whole`, if that is something else, and why `why_not`
            says.
        why_not: Why the two forms do not end alike.
        official_whole: How the official client reads `whole` differently, and why ours is right;
            empty if it reads the same.
        official_stream: The same of `stream`.
        late: Only its end shows what a stream's text was, so its pieces say more than the reply.
    """

    name: str
    source: str
    whole: Wire
    stream: Wire
    demand: Says | Fails
    demand_whole: Says | Fails | None = None
    why_not: str = ""
    official_whole: str = ""
    official_stream: str = ""
    late: bool = False

    def wire(self, *, stream: bool) -> Wire:
        """The answer in one of its forms."""
        return self.stream if stream else self.whole

    def demanded(self, *, stream: bool) -> Says | Fails:
        """What has to come of one of its forms."""
        return self.demand if stream else self.demand_whole or self.demand

    def official(self, *, stream: bool) -> str:
        """How the official client differs in one of its forms."""
        return self.official_stream if stream else self.official_whole


def dumps(value: object) -> bytes:
    """As most servers write it: UTF-8, not escaped."""
    return json.dumps(value, ensure_ascii=False).encode()


def call(id_: object, name: str, arguments: object, **more: object) -> Object:
    """One item of `tool_calls`."""
    function = {"name": name, "arguments": arguments}
    return {"id": id_, "type": "function", "function": function, **more}


def whole(
    message: Object, finish: object = "stop", *, usage: object = USAGE, **more: object
) -> Wire:
    """An answer in one piece."""
    told: Object = {"role": "assistant", "content": None, **message}
    choice = {"index": 0, "message": told, "finish_reason": finish}
    return Wire(body=dumps({**HEAD, "choices": [choice], "usage": usage, **more}))


def chunk(delta: object, finish: object = None, **more: object) -> Object:
    """One chunk of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {**HEAD, "object": "chat.completion.chunk", "choices": [choice], **more}


def figures(usage: object = USAGE) -> Object:
    """The chunk without choices that holds the usage."""
    return {**HEAD, "object": "chat.completion.chunk", "choices": [], "usage": usage}


def events(*chunks: object, done: bool = True) -> bytes:
    """Chunks as server-sent events; bytes go as they are."""
    lines = [one if isinstance(one, bytes) else b"data: " + dumps(one) + b"\n\n" for one in chunks]
    return b"".join([*lines, b"data: [DONE]\n\n" if done else b""])


def stream(*chunks: object, done: bool = True) -> Wire:
    """A streamed answer."""
    return Wire(body=events(*chunks, done=done), kind=EVENTS)


def told(*deltas: object, finish: object = "stop", usage: object = USAGE) -> Wire:
    """A stream of deltas that begins with the role, ends with a finish reason, then the usage."""
    chunks = [chunk({"role": "assistant", "content": ""}), *map(chunk, deltas)]
    return stream(*chunks, chunk({}, finish), figures(usage))


def refused(status: int, body: object, **how: object) -> Wire:
    """An answer that is no success; the same whether a stream was asked for or not."""
    raw = body if isinstance(body, bytes) else dumps(body)
    return replace(Wire(body=raw, status=status), **how)


HEAD: Object = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1_764_500_000,
    "model": MODEL,
}


class QuirkServer:
    """Answers each POST with the next of its wires, and goes on with the last one.

    Attributes:
        requests: The bodies seen so far.
        targets: The request targets.
        headers: The headers, names in lower case.
        gone: Set when a client has gone before its answer was over.
    """

    def __init__(self, wires: Sequence[Wire]) -> None:
        self._wires = list(wires)
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, asyncio.Task[object] | None] = {}
        self.requests: list[dict[str, object]] = []
        self.targets: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.gone = asyncio.Event()
        self.port = 0

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await let_in()
        serving = [task for task in self._open.values() if task is not None]
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*serving)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = asyncio.current_task()
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            self.gone.set()
        finally:
            self._open.pop(writer)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in head[1:] if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.targets.append(head[0].split(" ")[1])
        self.headers.append(headers)
        self.requests.append(json.loads(body) if body else {})
        wire = self._wires[min(len(self.requests), len(self._wires)) - 1]
        writer.write(_head(wire))
        await self._send(writer, wire)
        if wire.held:
            await reader.read()
            self.gone.set()
        if wire.cut or wire.held:
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _send(self, writer: asyncio.StreamWriter, wire: Wire) -> None:
        body = gzip.compress(wire.body) if wire.compressed else wire.body
        for start in range(0, len(body), wire.size):
            if start and wire.pause_s:
                await asyncio.sleep(wire.pause_s)
            piece = body[start : start + wire.size]
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()


def _head(wire: Wire) -> bytes:
    lines = [f"HTTP/1.1 {wire.status} Whatever"]
    if wire.kind:
        lines.append(f"content-type: {wire.kind}")
    if wire.compressed:
        lines.append("content-encoding: gzip")
    lines += [f"{name}: {value}" for name, value in wire.headers.items()]
    return "\r\n".join([*lines, "transfer-encoding: chunked", "", ""]).encode("latin-1")
