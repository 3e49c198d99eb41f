"""A chat completions server that answers from a script in the shape of a provider.

In a test: `async with ProviderServer("openai", [{"text": "hi"}]) as server: ... server.url`.
As a program: `python tests/providers/server.py --port 0 --shape glm --script FILE.json` prints its
URL on the first line; `--log FILE.jsonl` gets one line for each request.

A script is a list of replies. A reply is an object with any of `text`, `reasoning`, `calls`
(objects with `name`, `arguments` and perhaps `id`), `finish` and `usage` (`prompt_tokens`,
`completion_tokens`, `cached_tokens`); or a `status` with `body` and `headers`; or a `raw` body with
its `kind` of content. `cut_after` breaks the connection after so many bytes of the body, `bytewise`
sends each byte by itself, `wait` sends nothing at all.

A reply is chosen by the number of assistant messages in the request, so that a request that is made
again gets the same reply; with `--in-order` (`in_order=True`) by the number of requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Self, cast

if not __package__:  # started as a program
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.providers.shapes import SHAPES, Object, Reply
from tests.servers import let_in

Headers = Mapping[str, str]


class ProviderServer:
    """Serves `/chat/completions` and `/models` under any prefix, on loopback.

    Attributes:
        requests: The JSON bodies seen so far.
        headers: The headers of each, names in lower case.
        paths: The request targets of each.
        connections: How many connections were opened.
        port: Where it listens, once it does.
    """

    def __init__(
        self,
        shape: str,
        script: Sequence[Object],
        *,
        in_order: bool = False,
        port: int = 0,
        log: IO[str] | None = None,
    ) -> None:
        self._shape, self._script, self._in_order = SHAPES[shape], script, in_order
        self.port, self._log = port, log
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.requests: list[dict[str, object]] = []
        self.headers: list[Headers] = []
        self.paths: list[str] = []
        self.connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await let_in()
        for writer in tuple(self._open):
            writer.transport.abort()
        await self._server.wait_closed()

    async def serve_forever(self) -> None:
        assert self._server is not None
        await self._server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            self._open.discard(writer)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection may be used again."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        pairs = (line.partition(":") for line in head[1:] if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if method == "GET":
            answer = {"object": "list", "data": [{"id": "test-model", "object": "model"}]}
            return await self._send(writer, json.dumps(answer).encode(), {})
        request = cast("dict[str, object]", json.loads(body))
        self._record(path, headers, request)
        scripted = self._choose(request)
        if "wait" in scripted:
            await reader.read()
            return False
        content, how = self._body(scripted, request)
        return await self._send(writer, content, how)

    def _record(self, path: str, headers: Headers, request: dict[str, object]) -> None:
        self.requests.append(request)
        self.headers.append(headers)
        self.paths.append(path)
        if self._log is not None:
            line = {"path": path, "headers": headers, "body": request}
            self._log.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._log.flush()

    def _choose(self, request: Object) -> Object:
        messages = cast("list[Object]", request["messages"])
        turn = sum(message["role"] == "assistant" for message in messages)
        place = len(self.requests) - 1 if self._in_order else turn
        if place < len(self._script):
            return self._script[place]
        told = f"the script has no reply number {place + 1}"
        return {"status": 400, "body": {"error": {"message": told, "type": "script"}}}

    def _body(self, scripted: Object, request: Object) -> tuple[bytes, dict[str, object]]:
        """The body, and how to send it."""
        how: dict[str, object] = {
            "kind": "application/json",
            **{name: scripted[name] for name in _HOW if name in scripted},
        }
        if "raw" in scripted:
            return cast("str", scripted["raw"]).encode(), how
        if "status" in scripted:
            body = scripted.get("body", "")
            return (body if isinstance(body, str) else json.dumps(body)).encode(), how
        reply = self._reply(scripted, str(request["model"]))
        if not request.get("stream"):
            whole = json.dumps(self._shape.whole(reply), ensure_ascii=False).encode()
            return self._shape.before_body + whole, how
        options = cast("Object", request.get("stream_options") or {})
        pieces = [self._shape.before_chunks]
        for chunk in self._shape.chunks(reply):
            if chunk["choices"] or options.get("include_usage"):
                pieces.append(b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n")
        return b"".join([*pieces, b"data: [DONE]\n\n"]), {**how, "kind": "text/event-stream"}

    def _reply(self, scripted: Object, model: str) -> Reply:
        calls = cast("Sequence[Object]", scripted.get("calls", ()))
        usage = {"prompt_tokens": 11, "completion_tokens": 7, "cached_tokens": 0}
        usage |= cast("dict[str, int]", scripted.get("usage", {}))
        number = len(self.requests) * 100
        return Reply(
            text=str(scripted.get("text", "")),
            reasoning=str(scripted.get("reasoning", "")),
            calls=tuple(
                (
                    str(call.get("id", self._shape.call_id.format(number + place))),
                    str(call["name"]),
                    json.dumps(call.get("arguments", {}), ensure_ascii=False),
                )
                for place, call in enumerate(calls)
            ),
            finish=str(scripted.get("finish", "tool_calls" if calls else "stop")),
            model=model,
            **usage,
        )

    async def _send(self, writer: asyncio.StreamWriter, body: bytes, how: Object) -> bool:
        status = cast("int", how.get("status", 200))
        lines = [f"HTTP/1.1 {status} Whatever", f"content-type: {how.get('kind', 'text/plain')}"]
        given = cast("Headers", how.get("headers", {}))
        lines += [f"{name}: {value}" for name, value in given.items()]
        lines += ["transfer-encoding: chunked", "", ""]
        writer.write("\r\n".join(lines).encode("latin-1"))
        cut_after = cast("int | None", how.get("cut_after"))
        whole = body if cut_after is None else body[:cut_after]
        size = 1 if how.get("bytewise") else 4096
        for start in range(0, len(whole), size):
            piece = whole[start : start + size]
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        if cut_after is not None:
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


_HOW = ("status", "headers", "kind", "cut_after", "bytewise")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="openai")
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--in-order", action="store_true")
    given = parser.parse_args()
    script = cast("list[Object]", json.loads(given.script.read_text(encoding="utf-8")))
    log = given.log.open("a", encoding="utf-8") if given.log else None
    async with ProviderServer(
        given.shape, script, in_order=given.in_order, port=given.port, log=log
    ) as server:
        sys.stdout.write(server.url + "\n")
        sys.stdout.flush()
        await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(130)
