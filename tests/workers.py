"""A folder with tools and rules, real workers in it, and a model server that answers when told."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self, cast

import anyio
from anyio.abc import Process

from hermes.agents import Launch
from hermes.app import Agent, Hermes, RunOptions
from hermes.core.task import Task
from tests.servers import let_in

PATIENCE_S = 30.0

TOOLS = '''
import contextvars, os, pathlib, time
from datetime import UTC, datetime, timedelta
import anyio
from hermes import tool
from hermes.tools.waiting import Child, Children, Event, Question, Until

HERE = pathlib.Path(__file__).parent

def note(word):
    with open(HERE / "calls.txt", "a") as file:
        file.write(word + "\\n")

@tool(effect="read")
def look() -> str:
    """Look."""
    note("look")
    return "seen"

@tool(effect="read")
async def hang() -> str:
    """Hang while the file `hang` is there."""
    note("hang")
    while (HERE / "hang").exists():
        await anyio.sleep(0.02)
    return "awake"

@tool(effect="read", timeout_s=None)
def block() -> str:
    """Block a thread while the file `hang` is there, a minute at most."""
    note("block")
    for _ in range(1200):
        if not (HERE / "hang").exists():
            return "awake"
        time.sleep(0.05)
    return "overslept"

@tool
async def pay() -> str:
    """Pay; hangs while the file `hang` is there."""
    note("pay")
    while (HERE / "hang").exists():
        await anyio.sleep(0.02)
    return "paid"

@tool(effect="read")
def die() -> str:
    """End the process while the file `die` is there."""
    note("die")
    if (HERE / "die").exists():
        os._exit(9)
    return "alive"

@tool(effect="read")
def ask() -> object:
    """Ask a person."""
    note("ask")
    return Question(text="ship it?")

@tool(effect="read")
def nap() -> object:
    """Wait for half a second."""
    return Until(at=datetime.now(UTC) + timedelta(seconds=0.5))

@tool(effect="read")
def sleep() -> object:
    """Wait for a day."""
    return Until(at=datetime.now(UTC) + timedelta(days=1))

@tool(effect="read")
def listen() -> object:
    """Wait for the bell."""
    return Event(name="bell")

@tool(effect="read")
def split() -> object:
    """Two children that look."""
    return Children(tasks=[Child(goal="look"), Child(goal="look")])

@tool(effect="read")
def delegate() -> object:
    """A child of another agent."""
    return Children(tasks=[Child(goal="look", agent="other")])

@tool(effect="read")
def share() -> object:
    """A child that hangs."""
    return Children(tasks=[Child(goal="hang")])
'''

NAMES = "look hang block pay die ask nap sleep listen split delegate share".split()

PLAYBOOK = "playbook: 1\nname: p\nrules:\n" + "".join(
    f"  - {{name: {name}, when: {{regex: '^{name}'}}, steps: [{{call: {name}, as: x}}], "
    'answer: "{{ x }}"}\n'
    for name in NAMES
)


class Site:
    """A folder that workers and tests share.

    Attributes:
        database: URL of the journal.
        settings: What the environment of each process says, beside what the folder does.
    """

    def __init__(self, folder: Path, database: str | None = None) -> None:
        self.folder = folder
        self.database = database or f"sqlite:///{folder}/.hermes/hermes.db"
        self.settings = {
            "HERMES_LEASE_S": "1.5",
            "HERMES_HEARTBEAT_S": "0.3",
            "HERMES_DRAIN_S": "2",
        }
        (folder / "tools.py").write_text(TOOLS)
        (folder / "rules.yaml").write_text(PLAYBOOK)

    @property
    def log(self) -> Path:
        """What the commands said on stderr."""
        return self.folder / "log.txt"

    @property
    def calls(self) -> list[str]:
        """What the tools did, in order."""
        path = self.folder / "calls.txt"
        return path.read_text().split() if path.exists() else []

    def launch(self, *, playbook: bool = True) -> Launch:
        return Launch.of(
            agent=None,
            tools=[self.folder / "tools.py"],
            playbook=self.folder / "rules.yaml" if playbook else None,
            model=None,
            max_steps=None,
        )

    async def submit(self, app: Hermes, *goals: str, session: str | None = None) -> list[str]:
        """Submit tasks as `hermes run --detach` does; their ids."""
        launch = self.launch(playbook="API_BASE" not in self.settings)
        agent = Agent.of(launch.definition())
        options = RunOptions(launch=launch.as_record())
        return [
            await app.submit(agent, goal, session_id=session, options=options) for goal in goals
        ]

    @asynccontextmanager
    async def hermes(self, *words: str) -> AsyncGenerator[Process]:
        """A command that runs in the folder; what is left of it is killed in the end."""
        with self.log.open("a") as log:
            process = await anyio.open_process(
                [sys.executable, "-m", "hermes", *words],
                cwd=self.folder,
                env=os.environ | self.settings | {"HERMES_DATABASE_URL": self.database},
                stderr=log,
            )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.aclose()

    @asynccontextmanager
    async def worker(self, *words: str) -> AsyncGenerator[Process]:
        """A worker that has registered."""
        async with Hermes(self.database) as app:
            before = await worker_ids(app)
            async with self.hermes("worker", *words) as process:
                await until(lambda: has_come(app, before))
                yield process


async def worker_ids(app: Hermes) -> set[str]:
    return {row.worker_id for row in await app.store.workers()}


async def has_come(app: Hermes, before: set[str]) -> bool:
    return bool(await worker_ids(app) - before)


async def until(
    holds: Callable[[], object], *, within_s: float = PATIENCE_S, every_s: float = 0.02
) -> None:
    """Wait for a state that another process brings about."""
    with anyio.fail_after(within_s):
        while True:
            answer = holds()
            if isinstance(answer, bool):
                is_so = answer
            else:
                is_so = bool(await cast("asyncio.Future[object]", answer))
            if is_so:
                return
            await anyio.sleep(every_s)


async def settled(
    app: Hermes, task_ids: Sequence[str], *, within_s: float = PATIENCE_S
) -> list[Task]:
    """The tasks once all are settled."""

    async def all_settled() -> bool:
        return all([(await app.store.task(each)).state.is_terminal for each in task_ids])

    await until(all_settled, within_s=within_s)
    return [await app.store.task(task_id) for task_id in task_ids]


async def is_in(app: Hermes, task_id: str, state: str) -> bool:
    return (await app.store.task(task_id)).state.value == state


class HeldModel:
    """A chat completions server that keeps every request until it is told what to answer.

    Attributes:
        asked: The goals that were asked about, in order.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._answers: dict[str, asyncio.Future[dict[str, object]]] = {}
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await let_in()
        for writer in tuple(self._open):
            writer.transport.abort()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    def answer(self, goal: str, text: str = "", *, call: str = "") -> None:
        """Let the request for a goal be answered, by a text or a call without arguments."""
        function = {"name": call, "arguments": "{}"}
        calls = [{"id": f"c{goal}", "type": "function", "function": function}] if call else None
        message = {"role": "assistant", "content": text or None, "tool_calls": calls}
        finish = "tool_calls" if call else "stop"
        self._answer_of(goal).set_result(
            {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}
        )

    def refuse(self, goal: str) -> None:
        """Let the request for a goal fail."""
        self._answer_of(goal).set_result({"error": {"message": "no such luck"}})

    def _answer_of(self, goal: str) -> asyncio.Future[dict[str, object]]:
        return self._answers.setdefault(goal, asyncio.get_running_loop().create_future())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            await self._exchange(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the worker has gone
        finally:
            self._open.discard(writer)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        size = int(head.partition("content-length:")[2].split("\r\n")[0])
        request = json.loads(await reader.readexactly(size))
        goal = next(item["content"] for item in request["messages"] if item["role"] == "user")
        self.asked.append(goal)
        answer = await self._answer_of(goal)
        body = json.dumps(answer).encode()
        status = 400 if "error" in answer else 200
        writer.write(
            f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode()
            + body
        )
        await writer.drain()
