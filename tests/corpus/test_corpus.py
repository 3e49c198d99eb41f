"""Journals that earlier versions wrote are read, shown and gone on with by this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes import Hermes
from hermes.agents import response_of
from hermes.config import Settings
from hermes.core.request import AgentResponse
from hermes.core.task import fold
from hermes.loop import RunState
from hermes.store import Review, SQLiteStore, TaskQuery
from hermes.store.driver import connect
from hermes.telemetry import as_jsonl, trace
from hermes.testing import FakeClock
from tests.corpus.agents import agent

FOLDER = Path(__file__).parent
JOURNALS = sorted(FOLDER.glob("v*/*.sql"))

every_journal = pytest.mark.parametrize(
    "file", JOURNALS, ids=[f"{file.parent.name} {file.stem}" for file in JOURNALS]
)


def laid_out(file: Path, folder: Path) -> Path:
    """The journal as a database."""
    path = folder / "hermes.db"
    connection = connect(str(path))
    connection.execute(file.read_text(encoding="utf-8"))
    connection.close()
    return path


@every_journal
async def test_a_stored_journal_is_read_folded_and_shown(file: Path, tmp_path: Path) -> None:
    async with SQLiteStore(laid_out(file, tmp_path), clock=FakeClock()) as store:
        tasks = await store.tasks(TaskQuery())
        assert tasks
        for task in tasks:
            records = await store.events(task.task_id)
            assert fold(records) == task
            assert [record.seq for record in records] == list(range(1, len(records) + 1))
            assert len(list(as_jsonl(records))) == len(records)
            assert response_of(records).trace == tuple(trace(records))


@every_journal
async def test_a_stored_journal_is_gone_on_with_to_its_end(file: Path, tmp_path: Path) -> None:
    called: list[str] = []
    path = laid_out(file, tmp_path)
    # Whoever held a lease is another host's: nothing but time tells that it is gone.
    settings = Settings.model_validate({"lease_s": 0.5, "heartbeat_s": 0.1})
    async with Hermes(f"sqlite:///{path}", settings=settings) as app:
        roots = [task for task in await app.store.tasks(TaskQuery()) if not task.spec.parent_id]
        for task in roots:
            response = await to_the_end(app, task.task_id, called)
            assert response.status == "succeeded"
        tasks = await app.store.tasks(TaskQuery())
        assert all(task.state.is_terminal for task in tasks)
        assert not await app.store.messages()
    if file.stem in ("plain", "faults", "large", "session"):
        assert not called, "a settled task did something"
    if file.stem.startswith("doubt"):
        assert "pay" not in called, "a call in doubt was made again"


async def test_what_came_from_outside_is_still_known_when_it_is_gone_on_with(
    tmp_path: Path,
) -> None:
    path = laid_out(FOLDER / "v3" / "outside.sql", tmp_path)
    async with SQLiteStore(path, clock=FakeClock()) as store:
        [task] = await store.tasks(TaskQuery())
        state = RunState.of(record.event for record in await store.events(task.task_id))
    assert state.origins == {"/turn1/tool1": "read_mail inbox"}


async def to_the_end(app: Hermes, task_id: str, called: list[str]) -> AgentResponse:
    """Resume, and answer whoever is asked."""
    again = agent(called.append)
    response = await app.resume(task_id, again)
    for _ in range(5):
        if response.status != "waiting":
            break
        reviews = await app.store.reviews()
        for review in reviews:
            await decide(app, review)
        await app.store.signal("parcel", {"number": 7})
        in_doubt = any(item.kind == "in_doubt" for item in response.pending)
        # Before schema 2 nobody was asked by a review.
        decision = "done" if in_doubt and not reviews else None
        response = await app.resume(task_id, again, decision=decision)
    return response


async def decide(app: Hermes, review: Review) -> None:
    match review.reason:
        case "in_doubt":
            await app.store.decide(review.review_id, "done", by="test")
        case "approval":
            await app.store.decide(review.review_id, "approve", by="test")
        case "question":
            await app.store.decide(review.review_id, "answer", answer="blue", by="test")
        case _:
            raise AssertionError(f"nobody expects a review for {review.reason}")
