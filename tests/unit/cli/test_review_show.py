"""`hermes show` of a task that waits: for whom, and what to do; and where it belongs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import anyio
import pytest

from hermes.cli import output
from hermes.core import json
from hermes.core.events import Pending
from hermes.store import open_store
from tests.unit.cli.asked import CLOCK, URL, ask, hold
from tests.unit.cli.shop import RUN, Cli


def test_show_gives_the_exact_command_for_each_open_review(cli: Cli) -> None:
    first, second = ask("approval", times=2)
    out = cli("show", first.task_id).out
    for review in (first, second):
        assert f"hermes review approve {review.review_id}" in out
        assert f"hermes review reject {review.review_id}" in out


def test_show_as_json_lists_waits_and_open_reviews(cli: Cli) -> None:
    [review] = ask("question")
    value = cli("show", review.task_id, "--json").value
    assert value["reviews"] == [review.review_id]
    assert value["waits"] == [
        {
            "wait_id": review.wait_id,
            "path": review.path,
            "kind": "person",
            "key": review.review_id,
            "due_at": None,
            "ended": False,
        }
    ]
    assert (value["children"], value["retry_of"], value["cancel_requested"]) == ([], None, False)


def test_show_says_that_an_answer_is_there(cli: Cli) -> None:
    [review] = ask("question")
    cli("review", "answer", review.review_id, "yes")
    out = cli("show", review.task_id).out
    assert "an answer is there" in out
    assert f"hermes resume {review.task_id}" in out


def test_show_says_that_an_end_was_asked_for(cli: Cli) -> None:
    [review] = ask("question")

    async def cancel() -> None:
        async with open_store(URL, clock=CLOCK) as store:
            await store.request_cancel(review.task_id)

    anyio.run(cancel)
    assert "cancel requested" in cli("show", review.task_id).out
    assert cli("show", review.task_id, "--json").value["cancel_requested"] is True


@pytest.mark.parametrize(
    ("pending", "says"),
    [
        (
            Pending(kind="time", path="/turn1/tool1", name="t", text="tea time"),
            "waits until 2026-12-01 08:00:00 UTC: tea time|"
            "next: a worker goes on then, or `hermes resume task_1` does it here",
        ),
        (
            Pending(kind="event", path="/turn1/tool1", name="paid", text="the money"),
            "waits for the event paid, at the latest 2026-12-01 08:00:00 UTC: the money|"
            "next: `hermes signal paid` lets it happen",
        ),
        (
            Pending(kind="children", path="/turn1/tool1", name="t", text="2 of 3 settled"),
            "waits for its children: 2 of 3 settled|"
            "next: `hermes worker` carries them, or `hermes resume task_1` does it here",
        ),
    ],
    ids=["time", "event", "children"],
)
def test_what_is_waited_for_is_told_and_plain_json(pending: Pending, says: str) -> None:
    due = replace(pending, due_at=datetime(2026, 12, 1, 8, tzinfo=UTC))
    assert output.waiting(due, "task_1") == says.split("|")
    assert '"due_at":"2026-12-01T08:00:00' in json.dumps(output.pending_object(due))


def test_a_settled_task_says_nothing_of_waits(cli: Cli) -> None:
    cli("run", "look", *RUN)
    out = cli("show", "last").out
    assert "waits" not in out
    assert "next" not in out


@pytest.mark.parametrize(
    ("silent_s", "says"),
    [(0, "in work by process 7 on elsewhere"), (3600, "broken off, its process lives no more")],
)
def test_show_tells_a_task_in_work_from_one_broken_off(
    cli: Cli, silent_s: float, says: str
) -> None:
    task_id = hold(silent_s=silent_s)
    out = cli("show", task_id).out
    assert says in out
    assert ("hermes resume" in out) == (silent_s > 0)


def test_show_of_a_task_in_work_says_that_an_end_was_asked_for(cli: Cli) -> None:
    task_id = hold(silent_s=0)

    async def cancel() -> None:
        async with open_store(URL, clock=CLOCK) as store:
            await store.request_cancel(task_id)

    anyio.run(cancel)
    assert "cancel requested" in cli("show", task_id).out
