"""The outside world: a process that others call, and the log of what was done to it.

Usage: python -m tests.chaos.world LOG SEED

Listens on a port of its own choice, which it prints. Each request and each answer is a line of
JSON. A call is written down first and answered afterwards, with a moment before and between, so
that a caller may die with its call unmade, made, or answered. Nobody ever takes a line out.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path

from tests.chaos.history import Deed

LONGEST_S = 0.5


class World:
    """What was done, in memory and in a file that is only appended to."""

    def __init__(self, path: Path, seed: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._chance = random.Random(seed)
        self._calls: dict[str, int] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one caller until it goes."""
        try:
            while line := await reader.readline():
                answer = await self._answer(json.loads(line))
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except ConnectionError:
            pass  # it was killed
        finally:
            writer.close()

    async def _answer(self, request: dict[str, str]) -> dict[str, object]:
        await self._moment()
        key = request["key"]
        if request["op"] == "find":
            self._log(request, applied=False)
            return {"calls": self._calls.get(key, 0)}
        is_repeat = request["effect"] == "idempotent" and key in self._calls
        self._calls[key] = self._calls.get(key, 0) + 1
        self._log(request, applied=not is_repeat)
        await self._moment()
        return {"calls": self._calls[key]}

    def _log(self, request: dict[str, str], *, applied: bool) -> None:
        os.write(self._file, json.dumps({**request, "applied": applied}).encode() + b"\n")

    async def _moment(self) -> None:
        await asyncio.sleep(self._chance.uniform(0.0, LONGEST_S))


def read_log(path: Path) -> list[Deed]:
    """Everything that was done, in order."""
    return [Deed(**json.loads(line)) for line in path.read_bytes().splitlines()]


async def main(path: Path, seed: int) -> None:
    world = World(path, seed)
    server = await asyncio.start_server(world.serve, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
