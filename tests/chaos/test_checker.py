"""The checker finds what it is for: each doctored history breaks one rule, and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from hermes.core.events import (
    Recorded,
    TaskCreated,
    TaskDispatched,
    TaskEvent,
    TaskSettled,
    TaskSplit,
    TaskStarted,
    ToolInDoubt,
    ToolReturned,
    ToolStarted,
)
from hermes.core.task import Task, fold
from hermes.store import MessageRow, Review, Wait
from hermes.testing.clock import START
from tests.chaos.history import Deed, History, violations
from tests.journal import message, record

PARENT, CHILD = "task_parent", "task_child"
PATH = "/turn1/tool1"
KEY = CHILD + PATH


def stream(task_id: str, *events: TaskEvent) -> list[Recorded]:
    return [record(task_id, seq, event) for seq, event in enumerate(events, 1)]


def opening(parent_id: str | None = None) -> tuple[TaskEvent, ...]:
    return (
        TaskCreated(agent="plant", goal="work", parent_id=parent_id),
        TaskDispatched(receiver="plant", message_id="msg"),
        TaskStarted(worker="w"),
    )


def pay(effect: str = "unsafe") -> TaskEvent:
    return ToolStarted(
        path=PATH,
        call_id="1",
        name="pay",
        effect=effect,  # pyright: ignore[reportArgumentType]  # a case's own word
        fingerprint="f",
    )


PAID = ToolReturned(path=PATH, call_id="1", name="pay", content="paid", size_chars=4)
DOUBT = ToolInDoubt(path=PATH, call_id="1", name="pay", reason="the worker died")
DONE = TaskSettled(outcome="succeeded", output="succeeded")
PARENTS = (*opening(), TaskSplit(path=PATH, round=1, children=(CHILD,)), DONE)
CHILDS = (*opening(PARENT), pay(), PAID, DONE)
CALLED = Deed(op="call", tool="pay", effect="unsafe", key=KEY)


def history(
    parents: tuple[TaskEvent, ...] = PARENTS,
    childs: tuple[TaskEvent, ...] = CHILDS,
    deeds: tuple[Deed, ...] = (CALLED,),
) -> History:
    streams = {PARENT: stream(PARENT, *parents), CHILD: stream(CHILD, *childs)}
    return History(
        deeds=deeds,
        acknowledged=[PARENT],
        tasks=[folded(records) for records in streams.values()],
        streams=streams,
        children=1,
    )


def folded(records: list[Recorded]) -> Task:
    task = fold(records)
    assert task is not None
    return task


def review(decision: str | None) -> Review:
    return Review(
        review_id="review_1",
        wait_id="wait_1",
        task_id=CHILD,
        path=PATH,
        reason="in_doubt",
        name="pay",
        text="did it take place?",
        created_at=START,
        decision=decision,  # pyright: ignore[reportArgumentType]  # a case's own word
    )


def test_a_faultless_history_has_no_violation() -> None:
    assert violations(history()) == []


def test_a_second_call_that_a_person_wanted_is_no_violation() -> None:
    twice = history(childs=(*opening(PARENT), pay(), DOUBT, PAID, DONE), deeds=(CALLED, CALLED))
    assert violations(replace(twice, reviews=[review("retry")])) == []


def with_child_events(change: Callable[[list[Recorded]], list[Recorded]]) -> History:
    good = history()
    return replace(good, streams={**good.streams, CHILD: change(list(good.streams[CHILD]))})


def without_last_number(records: list[Recorded]) -> list[Recorded]:
    return [*records[:-1], replace(records[-1], seq=len(records) + 1)]


def late_writer(records: list[Recorded]) -> list[Recorded]:
    tokens = [0, 0, 1, 2, 2, 1]
    return [replace(item, token=token) for item, token in zip(records, tokens, strict=True)]


def stored_otherwise() -> History:
    good = history()
    child = good.tasks[1]
    return replace(good, tasks=[good.tasks[0], child.at(replace(child.status, seq=5))])


def left_behind() -> MessageRow:
    return MessageRow(
        message=message("msg_1", task_id=CHILD),
        state="leased",
        attempts=0,
        crashes=1,
        worker_id="w",
        not_before=None,
    )


def another_root() -> History:
    good = history()
    return replace(good, acknowledged=[])


IDEMPOTENT = Deed(op="call", tool="pay", effect="idempotent", key=KEY)
RECONCILED = Deed(op="call", tool="pay", effect="reconcile", key=KEY)

CASES: dict[str, tuple[History, str]] = {
    "an acknowledged task is missing": (
        replace(history(), acknowledged=[PARENT, "task_lost"]),
        "task_lost: acknowledged, and lost",
    ),
    "a repeated submit made a second task": (another_root(), "nobody was told of it"),
    "a task is not settled": (
        history(childs=CHILDS[:-1], parents=(*PARENTS[:-1], replace(DONE, output="processing"))),
        "settled 0 times",
    ),
    "a number is missing": (with_child_events(without_last_number), "numbers [1, 2, 3, 4, 5, 7]"),
    "a fenced writer wrote": (with_child_events(late_writer), "earlier holder wrote"),
    "the stored status differs": (stored_otherwise(), "stored as"),
    "an unsafe call took place twice": (history(deeds=(CALLED, CALLED)), "took place 2 times"),
    "a call was made more often than a person said": (
        replace(history(deeds=(CALLED,) * 3), reviews=[review("retry")]),
        "took place 3 times, and a person said again 1 times",
    ),
    "a call that could be asked about was made twice": (
        history(childs=(*opening(PARENT), pay("reconcile"), PAID, DONE), deeds=(RECONCILED,) * 2),
        "took place 2 times",
    ),
    "a repeat of an idempotent key changed the world": (
        history(childs=(*opening(PARENT), pay("idempotent"), PAID, DONE), deeds=(IDEMPOTENT,) * 2),
        "changed the world 2 times",
    ),
    "a deed has no intent": (
        history(deeds=(CALLED, replace(CALLED, key=CHILD + "/turn9/tool1"))),
        "without an intent",
    ),
    "an outcome has no deed": (
        history(deeds=(replace(CALLED, op="find"),)),
        "never took place",
    ),
    "a repeatable call is in doubt": (
        history(
            childs=(*opening(PARENT), pay("read"), DOUBT, PAID, DONE),
            deeds=(replace(CALLED, effect="read"),),
        ),
        "in doubt, is read",
    ),
    "a child is missing": (
        history(parents=(*opening(), TaskSplit(path=PATH, round=1, children=(CHILD, "x")), DONE)),
        "made ['task_child', 'x'], has ['task_child']",
    ),
    "a parent tells of another end": (
        history(parents=(*PARENTS[:-1], replace(DONE, output="failed"))),
        "its children differ",
    ),
    "a parent forgets a child": (replace(history(), children=2), "tells of 1 children, not 2"),
    "a child has no parent": (
        history(childs=(*opening("task_other"), *CHILDS[3:])),
        "task_other: has children and does not exist",
    ),
    "a message is left": (replace(history(), messages=[left_behind()]), "is left leased"),
    "a wait is left": (
        replace(history(), waits=[Wait(wait_id="w", task_id=CHILD, path=PATH, kind="person")]),
        "still waits",
    ),
    "a review is open": (replace(history(), reviews=[review(None)]), "is open"),
}


BREAK_TWO = ("a child has no parent", "a number is missing")
"""The parent's count, or the fold, is wrong as well."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_checker_sees_that(case: str) -> None:
    doctored, expected = CASES[case]
    found = violations(doctored)
    assert any(expected in line for line in found), found
    if case not in BREAK_TWO:
        assert len(found) == 1, found
