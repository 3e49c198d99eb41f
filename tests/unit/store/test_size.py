"""What a run costs on the disk."""

from pathlib import Path

import pytest

from hermes.core.chat import ToolCall, Usage
from hermes.core.events import ModelReplied, ModelRequested, Recorded, ToolReturned, ToolStarted
from hermes.core.ids import uuid7
from hermes.store import SQLiteStore, Store
from hermes.store.values import Lease
from hermes.testing.clock import FakeClock
from tests.journal import record, start


def turn(number: int) -> tuple[list[Recorded], list[Recorded]]:
    """The two appends of a turn: the next model intent, then its outcome with the tool's intent."""
    path, call, seq = f"/turn{number:03}", f"call_{number:020}", 4 * number
    returned = ToolReturned(
        path=f"{path}/tool1",
        call_id=call,
        name="read_error_logs",
        content="e" * 160,
        size_chars=160,
    )
    requested = ModelRequested(
        path=f"{path}/model", model="deepseek-chat", history=300, prompt="p" * 16, tools="t" * 16
    )
    replied = ModelReplied(
        path=f"{path}/model",
        text="读下一页。",
        calls=(ToolCall(id=call, name="read_error_logs", arguments='{"page": 7, "n": 200}'),),
        finish_reason="tool_calls",
        usage=Usage(prompt_tokens=12_000, completion_tokens=40),
        duration_s=1.234567,
    )
    started = ToolStarted(
        path=f"{path}/tool1",
        call_id=call,
        name="read_error_logs",
        effect="read",
        fingerprint="f" * 16,
        timeout_s=30.0,
    )
    events = [returned, requested, replied, started]
    records = [record("task_1", seq + place, event) for place, event in enumerate(events)]
    return records[:2], records[2:]


async def run(store: Store, lease: Lease, turns: range) -> None:
    for number in turns:
        for batch in turn(number):
            await store.append(lease, batch)


async def grown(path: Path, turns: int) -> int:
    """By how many bytes a run of so many turns makes a database grow."""
    async with SQLiteStore(path, clock=FakeClock(), synchronous="NORMAL"):
        pass
    empty = path.stat().st_size
    async with SQLiteStore(path, clock=FakeClock(), synchronous="NORMAL") as store:
        await run(store, await start(store), range(1, turns + 1))
    return path.stat().st_size - empty


async def test_a_run_of_200_turns_adds_under_300_kilobytes(tmp_path: Path) -> None:
    assert await grown(tmp_path / "hermes.db", 200) < 300_000


async def test_a_turn_takes_as_much_at_the_end_of_a_run_as_at_its_beginning(
    tmp_path: Path,
) -> None:
    sizes = [await grown(tmp_path / f"{turns}.db", turns) for turns in (100, 200, 300, 400)]

    early, middle, late = (after - before for before, after in zip(sizes, sizes[1:], strict=False))

    assert early == pytest.approx(middle, rel=0.05)
    assert middle == pytest.approx(late, rel=0.05)


async def test_a_large_text_is_stored_once_however_often_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "hermes.db"
    async with SQLiteStore(path, clock=FakeClock(), synchronous="NORMAL") as store:
        lease = await start(store)
        for seq in range(4, 24):
            page = ToolReturned(
                path="/turn1/tool1",
                call_id="c",
                name="t",
                content="日志" * 50_000,
                size_chars=100_000,
            )
            await store.append(lease, [record("task_1", seq, page)])
    assert path.stat().st_size < 300_000 + 220_000


def test_the_ids_of_a_run_are_ordered_so_that_their_index_stays_full() -> None:
    made = [uuid7().hex for _ in range(100)]

    assert made == sorted(made)
