"""Long journals, many tasks, much data: what stays quick and what stays small."""

from __future__ import annotations

import hashlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from hermes import Agent, Hermes, Limits, ToolContext, tool
from hermes.config import Settings
from hermes.core.chat import ToolCall
from hermes.core.clock import SystemClock
from hermes.core.events import (
    ModelReplied,
    ModelRequested,
    TaskCreated,
    TaskDispatched,
    TaskEvent,
    TaskStarted,
    ToolReturned,
    ToolStarted,
)
from hermes.models import ModelReply, ModelRequest
from hermes.store import Store, open_store
from hermes.testing import ScriptedModel, call, calls
from tests.journal import WORKER, dispatch, enroll, record
from tests.postgres import database

TURNS = 5_000
"""Each is two steps: a model call and a tool call."""


@tool(effect="read")
def stock(article: str) -> str:
    """Look up the stock of an article."""
    return f"{article}: 12 pieces"


def opening(task_id: str) -> list[TaskEvent]:
    limits = Limits(max_steps=10 * TURNS)
    return [
        TaskCreated(agent="agent", goal="Count the lamps", limits=limits),
        TaskDispatched(receiver="executor.a", message_id=f"msg_{task_id}"),
    ]


def turn(number: int) -> Iterator[TaskEvent]:
    """A model call that wants one tool call, and that call; all with their outcomes."""
    path, call_id = f"/turn{number}", f"call_{number}"
    yield ModelRequested(
        path=f"{path}/model1", model="scripted", history=2 * number, prompt="p", tools="t"
    )
    wanted = ToolCall(id=call_id, name="stock", arguments=f'{{"article": "lamp {number}"}}')
    yield ModelReplied(path=f"{path}/model1", calls=(wanted,), finish_reason="tool_calls")
    yield ToolStarted(
        path=f"{path}/tool1", call_id=call_id, name="stock", effect="read", fingerprint="f"
    )
    text = f"lamp {number}: 12 pieces"
    yield ToolReturned(
        path=f"{path}/tool1", call_id=call_id, name="stock", content=text, size_chars=len(text)
    )


async def write_long_journal(store: Store, task_id: str) -> None:
    """A task with `TURNS` turns whose process is gone."""
    await enroll(store)
    first = opening(task_id)
    await store.submit(
        [record(task_id, n, event) for n, event in enumerate(first, 1)], dispatch(task_id)
    )
    (lease,) = await store.claim(WORKER, task_id=task_id)
    events = [TaskStarted(worker=WORKER), *(event for n in range(TURNS) for event in turn(n + 1))]
    records = [record(task_id, seq, event) for seq, event in enumerate(events, len(first) + 1)]
    for start in range(0, len(records), 1000):
        await store.append(lease, records[start : start + 1000])
    await store.retire(WORKER, crashed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An empty database, and how many bytes it has on the disk once it is closed."""

    url: str
    stored: Callable[[], int]


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place(url=f"sqlite:///{tmp_path / 'scale.db'}", stored=lambda: folder_bytes(tmp_path))
        return
    with database() as url:
        yield Place(url=url, stored=lambda: database_bytes(url))


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("scale.db*"))


def database_bytes(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(b"SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


async def test_a_run_of_ten_thousand_steps_is_resumed_at_once(place: Place) -> None:
    async with open_store(place.url, clock=SystemClock()) as store:
        await write_long_journal(store, "task_long")
    asked_at = 0.0

    def answer(request: ModelRequest) -> ModelReply:
        nonlocal asked_at
        asked_at = time.perf_counter()
        assert len(request.messages) == 2 + 2 * TURNS
        return ModelReply(text="All counted.")

    agent = Agent(tools=[stock], model=ScriptedModel([answer]))
    began = time.perf_counter()
    async with Hermes(place.url) as app:
        response = await app.resume("task_long", agent)

    assert response.output == "All counted."
    sys.stdout.write(f"the next step of {2 * TURNS} begins after {asked_at - began:.2f} s\n")
    assert asked_at - began < 3.0


SHOTS, SHOT_BYTES, PLAN_BYTES = 500, 20_000, 2_000_000
MB = 1_000_000


def noise(size: int, seed: int) -> str:
    """Text that no compression makes smaller by much, the same each time."""
    return random.Random(seed).randbytes(size // 2).hex()


async def test_five_hundred_large_steps_store_little_more_than_their_payload(place: Place) -> None:
    async with open_store(place.url, clock=SystemClock()):
        pass
    before = place.stored()
    plan = noise(PLAN_BYTES, 0)

    @tool(effect="read")
    def photograph(number: int, context: ToolContext) -> str:
        """Take a picture."""
        if number % 25 == 1:
            context.artifact("plan", plan)  # the same bytes each time
        return noise(SHOT_BYTES, number)

    script = [calls(call("photograph", number=number)) for number in range(1, SHOTS + 1)]
    agent = Agent(
        tools=[photograph],
        model=ScriptedModel([*script, "All taken."]),
        limits=Limits(max_steps=SHOTS + 1),
    )
    async with Hermes(place.url, settings=Settings.model_validate({})) as app:
        response = await app.run(agent, "Photograph the house")
        assert response.status == "succeeded", response.error
        plan_hash = hashlib.sha256(plan.encode()).hexdigest()
        assert await app.store.blob(plan_hash) == plan.encode()

    payload = SHOTS * SHOT_BYTES + PLAN_BYTES
    stored = place.stored() - before
    sys.stdout.write(f"{stored / MB:.1f} MB for a payload of {payload / MB:.1f} MB\n")
    assert stored - payload < 20 * MB
