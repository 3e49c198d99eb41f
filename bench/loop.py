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
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import cast

import anyio
import apsw
import httpx2

STAMPS: list[float] = []
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
        return (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (
                len(raw),
                raw,
            )
        )


async def serve(turns: int) -> None:
    """Answer until killed; prints the port first."""
    Server.turns = turns
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# --- the contenders ---


def stock(article: str, shop: int) -> str:
    """The tool; notes the CPU time used so far, once a turn."""
    STAMPS.append(time.process_time())
    return RESULT


Journal = Callable[[str], None]


async def loop_by_hand(client: httpx2.AsyncClient, url: str, journal: Journal | None) -> int:
    """The loop that somebody writes who has no framework; returns its turns."""
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


Play = Callable[[], Awaitable[int]]
"""Plays one conversation to its end; returns its turns."""


@asynccontextmanager
async def by_hand(url: str, runs: int, path: Path | None) -> AsyncGenerator[Play]:
    """The loop by hand, with a journal if there is a path."""
    journal: Journal | None = None
    if path is not None:
        database = apsw.Connection(str(path))
        execute = _execute(database)
        for setting in ("journal_mode=WAL", "synchronous=FULL"):
            _execute(database)(f"PRAGMA {setting}")
        execute("CREATE TABLE event (id INTEGER PRIMARY KEY, data TEXT)")

        def write(data: str) -> None:
            with database:
                execute("INSERT INTO event (data) VALUES (?)", (data,))

        journal = write
    limits = httpx2.Limits(max_connections=runs, max_keepalive_connections=runs)
    async with httpx2.AsyncClient(limits=limits, timeout=60) as client:
        yield lambda: loop_by_hand(client, url, journal)


@asynccontextmanager
async def by_hermes(url: str, path: Path, turns: int) -> AsyncGenerator[Play]:
    """Durable runs of an agent."""
    from hermes import Agent, Hermes, Limits, tool
    from hermes.config import Settings

    @tool(effect="read", name="stock")
    async def look_up(article: str, shop: int) -> str:
        """Look up the stock of an article."""
        return stock(article, shop)

    settings = Settings.model_validate({"api_base": url.removesuffix("/chat/completions")})
    agent = Agent(
        name="bench",
        instructions="You look things up.",
        tools=[look_up],
        model="bench",
        limits=Limits(max_steps=turns + 2),
    )
    async with Hermes(f"sqlite:///{path}", settings=settings) as app:

        async def play() -> int:
            response = await app.run(agent, "How many lamps are there?")
            assert response.status == "succeeded", response.error
            return sum(entry.type == "llm" for entry in response.trace)

        yield play


async def gather(calls: list[Callable[[], Awaitable[int]]]) -> list[int]:
    """The results of all calls, made side by side."""
    results: list[int] = []

    async def keep(call: Callable[[], Awaitable[int]]) -> None:
        results.append(await call())

    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(keep, call)
    return results


async def contend(who: str, url: str, runs: int, turns: int, rounds: int) -> dict[str, float]:
    """Play `rounds` times `runs` conversations side by side, after one that is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        if who == "hermes":
            contender = by_hermes(url, path, turns)
        else:
            contender = by_hand(url, runs, path if who == "raw" else None)
        async with contender as play:
            await play()
            STAMPS.clear()
            gc.collect()
            before = _stored_bytes(path)
            cpu, wall = time.process_time(), time.perf_counter()
            done = 0
            for _ in range(rounds):
                done += sum(await gather([play] * runs))
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        return {
            "turns": done,
            "cpu_us": cpu / done * 1e6,
            **_at_turns(turns),
            "rate": done / wall,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "bytes": _stored_bytes(path) - before,
        }


def _at_turns(turns: int) -> dict[str, float]:
    """CPU a turn near turn 10 and near turn 200 of one long run, medians, in µs."""
    if turns < 200:
        return {}
    spent = [(after - before) * 1e6 for before, after in pairwise(STAMPS)]
    return {"at_10_us": median(spent[:20]), "at_200_us": median(spent[179:199])}


def _execute(database: apsw.Connection) -> Callable[..., object]:
    """`execute`, untyped: apsw's own annotation names a type that Python 3.11 lacks."""
    return cast("Callable[..., object]", database.cursor().execute)


def _stored_bytes(path: Path) -> int:
    """Size of the database once its write-ahead log is folded in."""
    if not path.exists():
        return 0
    with closing(apsw.Connection(str(path))) as database:
        _execute(database)("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


# --- measuring ---


def measure(
    names: Sequence[str], *, runs: int, turns: int, rounds: int, repeats: int
) -> dict[str, dict[str, float]]:
    """The best of some repeats of each contender, taken in turn so that noise hits all alike."""
    best: dict[str, dict[str, float]] = {name: {} for name in names}
    for _ in range(repeats):
        for name in names:
            for key, value in measure_once(name, runs, turns, rounds).items():
                pick = max if key == "rate" else min
                best[name][key] = pick(best[name].get(key, value), value)
    return best


def measure_once(who: str, runs: int, turns: int, rounds: int) -> dict[str, float]:
    """One contender in a process of its own against a fresh server."""
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve", str(turns)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1/chat/completions"
        numbers = [str(number) for number in (runs, turns, rounds)]
        command = [sys.executable, __file__, "--contend", who, url, *numbers]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    finally:
        server.kill()
        server.wait()


def main() -> None:
    """Measure, or be one of the processes that are measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--contend", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        asyncio.run(serve(options.serve))
    elif options.contend:
        who, url, runs, turns, rounds = options.contend
        print(json.dumps(asyncio.run(contend(who, url, int(runs), int(turns), int(rounds)))))
    else:
        report(options.repeats)


NAMES = ("bare", "raw", "hermes")


def report(repeats: int) -> None:
    """Measure all and print the table and the ratios."""
    short = measure(NAMES, runs=1, turns=10, rounds=20, repeats=repeats)
    long = measure(NAMES, runs=1, turns=200, rounds=1, repeats=repeats)
    many = measure(NAMES, runs=50, turns=20, rounds=2, repeats=repeats)
    print(f"{'':8}{'CPU a turn, µs':>36}{'50 runs: turns/s':>20}{'peak MiB':>10}")
    print(f"{'':8}{'mean of 10':>12}{'at turn 10':>12}{'at 200':>12}")
    for who in NAMES:
        print(
            f"{who:8}{short[who]['cpu_us']:12.0f}{long[who]['at_10_us']:12.0f}"
            f"{long[who]['at_200_us']:12.0f}{many[who]['rate']:20.0f}{many[who]['peak_mib']:10.1f}"
        )
    print()
    print("CPU a turn / bare:         of a long run     of runs of 10, start and end included")
    for who in ("raw", "hermes"):
        turn = long[who]["at_10_us"] / long["bare"]["at_10_us"]
        run = short[who]["cpu_us"] / short["bare"]["cpu_us"]
        bound = " (at most 2.5)" if who == "hermes" else ""
        print(f"{who:26} {turn:.2f}{bound:14}{run:.2f}")
    growth = {who: long[who]["at_200_us"] - long[who]["at_10_us"] for who in NAMES}
    print(
        f"CPU growth from turn 10 to turn 200: hermes {growth['hermes']:+.0f} µs, "
        f"bare {growth['bare']:+.0f} µs (no more than bare)"
    )
    rate = many["hermes"]["rate"] / many["raw"]["rate"]
    print(f"50 runs, hermes / raw journaling loop: {rate:.2f} (at least 0.60)")
    memory = many["hermes"]["peak_mib"] - many["bare"]["peak_mib"]
    print(f"peak memory over bare: {memory:.1f} MiB (at most 25)")
    at_20 = measure_once("hermes", 1, 20, 1)["bytes"] / 21
    at_200 = long["hermes"]["bytes"] / 201
    print(f"stored bytes a turn: {at_20:.0f} in 20 turns, {at_200:.0f} in 200 turns")
    grown = long["hermes"]["bytes"] / 1000
    print(f"a 200-turn run grows the database by {grown:.0f} kB (under 400)")


if __name__ == "__main__":
    main()
