"""CPU, rate and memory of a durable run beside the same loop by hand.

Three contenders play the same conversation (one tool call a turn) against one local server:

- `bare`: an httpx2 loop that keeps its messages in a list;
- `raw`: the same loop with two SQLite commits a turn (WAL, synchronous=FULL);
- `hermes`: a durable run.

Each runs in a process of its own. Prints the ratios that the project is held to.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import apsw
import httpx2

RESULT = "42 pieces in stock, next delivery on Thursday"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "stock",
            "description": "Look up the stock of an article.",
            "parameters": {
                "type": "object",
                "properties": {"article": {"type": "string"}, "shop": {"type": "integer"}},
                "required": ["article", "shop"],
                "additionalProperties": False,
            },
        },
    }
]


# --- the server: answers at once, knows the turn by the tool messages it is sent ---


class Server(asyncio.Protocol):
    """Just enough HTTP: keep-alive, Content-Length, one JSON body each way."""

    turns = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (head := self.buffer.find(b"\r\n\r\n")) >= 0:
            lower = self.buffer[:head].lower()
            length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
            if len(self.buffer) < head + 4 + length:
                return
            body = self.buffer[head + 4 : head + 4 + length]
            self.buffer = self.buffer[head + 4 + length :]
            self.transport.write(self.answer(body))

    def answer(self, body: bytes) -> bytes:
        turn = body.count(b'"role":"tool"') + body.count(b'"role": "tool"') + 1
        message: dict[str, object] = {"role": "assistant", "content": "done"}
        if turn <= Server.turns:
            arguments = json.dumps({"article": f"lamp-{turn}", "shop": turn})
            call = {
                "id": f"call_{turn}",
                "type": "function",
                "function": {"name": "stock", "arguments": arguments},
            }
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reply = {
            "id": "r",
            "object": "chat.completion",
            "created": 0,
            "model": "bench",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }
        raw = json.dumps(reply).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
            len(raw),
            raw,
        )


async def serve(turns: int) -> None:
    Server.turns = turns
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# --- the contenders ---


def stock(article: str, shop: int) -> str:
    return RESULT


Journal = Callable[[str], None]


async def loop_by_hand(client: httpx2.AsyncClient, url: str, journal: Journal | None) -> int:
    messages: list[dict[str, object]] = [
        {"role": "system", "content": "You look things up."},
        {"role": "user", "content": "How many lamps are there?"},
    ]
    turns = 0
    while True:
        turns += 1
        body = {"model": "bench", "messages": messages, "tools": TOOLS}
        if journal:
            journal(json.dumps({"turn": turns, "messages": len(messages)}))
        reply = (await client.post(url, json=body)).json()
        message = reply["choices"][0]["message"]
        messages.append(message)
        if journal:
            journal(json.dumps(message))
        if not message.get("tool_calls"):
            return turns
        for call in message["tool_calls"]:
            result = stock(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


async def contend_by_hand(url: str, runs: int, path: Path | None) -> int:
    journal: Journal | None = None
    if path is not None:
        database = apsw.Connection(str(path))
        database.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE event (id INTEGER PRIMARY KEY, data TEXT)")

        def write(data: str) -> None:
            with database:
                database.execute("INSERT INTO event (data) VALUES (?)", (data,))

        journal = write
    limits = httpx2.Limits(max_connections=runs, max_keepalive_connections=runs)
    async with httpx2.AsyncClient(limits=limits, timeout=60) as client:
        return sum(await gather([lambda: loop_by_hand(client, url, journal)] * runs))


async def contend_hermes(url: str, runs: int, path: Path, turns: int) -> int:
    from hermes import Agent, Hermes, Limits, tool
    from hermes.config import Settings

    @tool(effect="read", name="stock")
    async def look_up(article: str, shop: int) -> str:
        """Look up the stock of an article."""
        return RESULT

    settings = Settings.model_validate({"api_base": url.removesuffix("/chat/completions")})
    agent = Agent(
        name="bench",
        instructions="You look things up.",
        tools=[look_up],
        model="bench",
        limits=Limits(max_steps=turns + 2),
    )
    async with Hermes(f"sqlite:///{path}", settings=settings) as app:

        async def one() -> int:
            response = await app.run(agent, "How many lamps are there?")
            assert response.status == "succeeded", response.error
            return sum(entry.type == "llm" for entry in response.trace)

        return sum(await gather([one] * runs))


async def gather(calls: list[Callable[[], Awaitable[int]]]) -> list[int]:
    results: list[int] = []

    async def keep(call: Callable[[], Awaitable[int]]) -> None:
        results.append(await call())

    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(keep, call)
    return results


async def contend(who: str, url: str, runs: int, turns: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"

        async def once(number: int) -> int:
            if who == "hermes":
                return await contend_hermes(url, number, path, turns)
            if who == "raw":
                path.unlink(missing_ok=True)
                return await contend_by_hand(url, number, path)
            return await contend_by_hand(url, number, None)

        if os.environ.get("BENCH_WARM") != "0":
            await once(1)
        gc.collect()
        before = path.stat().st_size if path.exists() else 0
        cpu, wall = time.process_time(), time.perf_counter()
        done = await once(runs)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        return {
            "turns": done,
            "cpu_us": cpu / done * 1e6,
            "rate": done / wall,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "bytes": (path.stat().st_size - before) if path.exists() else 0,
        }


# --- measuring ---


def measure(who: str, *, runs: int, turns: int, repeats: int) -> dict[str, float]:
    """The best of some repeats, each in a process of its own against a fresh server."""
    best: dict[str, float] = {}
    for _ in range(repeats):
        server = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(turns)], stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        try:
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1/chat/completions"
            command = [sys.executable, __file__, "--contend", who, url, str(runs), str(turns)]
            seen = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        finally:
            server.kill()
            server.wait()
        if not best or seen["cpu_us"] < best["cpu_us"]:
            best = {**seen, "rate": max(seen["rate"], best.get("rate", 0.0))}
        best["rate"] = max(seen["rate"], best["rate"])
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--contend", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        asyncio.run(serve(options.serve))
        return
    if options.contend:
        who, url, runs, turns = options.contend
        print(json.dumps(asyncio.run(contend(who, url, int(runs), int(turns)))))
        return
    report(options.repeats)


def report(repeats: int) -> None:
    names = ("bare", "raw", "hermes")
    short = {who: measure(who, runs=1, turns=10, repeats=repeats) for who in names}
    long = {who: measure(who, runs=1, turns=200, repeats=repeats) for who in names}
    many = {who: measure(who, runs=50, turns=20, repeats=repeats) for who in names}
    print(f"{'':8}{'CPU a turn, µs':>34}{'50 runs: turns/s':>20}{'peak MiB':>10}")
    print(f"{'':8}{'10 turns':>12}{'200 turns':>12}{'growth':>10}")
    for who in names:
        growth = long[who]["cpu_us"] / short[who]["cpu_us"]
        print(
            f"{who:8}{short[who]['cpu_us']:12.0f}{long[who]['cpu_us']:12.0f}{growth:9.2f}x"
            f"{many[who]['rate']:20.0f}{many[who]['peak_mib']:10.1f}"
        )
    bare, raw, own = (short[who] for who in names)
    print()
    print(f"CPU a turn, hermes / bare: {own['cpu_us'] / bare['cpu_us']:.2f} (at most 2.5)")
    print(f"CPU a turn, raw / bare:    {raw['cpu_us'] / bare['cpu_us']:.2f}")
    extra = {who: long[who]["cpu_us"] - short[who]["cpu_us"] for who in names}
    print(
        f"CPU growth from 10 to 200 turns: hermes {extra['hermes']:+.0f} µs, "
        f"bare {extra['bare']:+.0f} µs (no more than bare)"
    )
    rate = many["hermes"]["rate"] / many["raw"]["rate"]
    print(f"50 runs, hermes / raw journaling loop: {rate:.2f} (at least 0.60)")
    memory = many["hermes"]["peak_mib"] - many["bare"]["peak_mib"]
    print(f"peak memory over bare: {memory:.1f} MiB (at most 25)")
    at_20 = measure("hermes", runs=1, turns=20, repeats=1)["bytes"] / 21
    at_200 = long["hermes"]["bytes"] / 201
    print(f"stored bytes a turn: {at_20:.0f} in 20 turns, {at_200:.0f} in 200 turns")
    print(f"a 200-turn run grows the database by {long['hermes']['bytes'] / 1000:.0f} kB (under 400)")


if __name__ == "__main__":
    main()
