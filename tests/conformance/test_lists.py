"""Lists of tasks: filtered, in order, page by page, on every store."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import product
from typing import Literal

import pytest

from hermes.core.events import TaskStarted
from hermes.core.task import TERMINAL, TaskState
from hermes.errors import NotFoundError
from hermes.store import Store, TaskQuery
from hermes.testing.clock import START
from tests.journal import WORKER, child, claim_one, enroll, record, settled

AGENTS = ("a", "b")
SESSIONS = (None, "会话")
PARENTS = (None, "task_00")
ENDS = ("dispatched", "processing", "succeeded", "failed")


@dataclass(frozen=True, kw_only=True)
class Sample:
    task_id: str
    agent: str
    session_id: str | None
    parent_id: str | None
    state: str
    updated: int


def samples() -> Iterator[Sample]:
    """A task of every kind, changed in another order than created; some at the same instant."""
    kinds = product(AGENTS, SESSIONS, PARENTS, ENDS)
    for number, (agent, session_id, parent_id, state) in enumerate(kinds):
        yield Sample(
            task_id=f"task_{number:02}",
            agent=agent,
            session_id=session_id,
            parent_id=parent_id,
            state=state,
            updated=number * 13 % 32 // 3,
        )


async def add(store: Store, sample: Sample) -> None:
    """A task as the sample says."""
    at = START + timedelta(seconds=sample.updated)
    new = child(sample.task_id)
    (created, sent), task_id = new.records, sample.task_id
    spec = replace(
        created.event,
        agent=sample.agent,
        session_id=sample.session_id,
        parent_id=sample.parent_id,
        root_id=None,
    )
    await store.submit(
        [replace(created, event=spec, at=at), replace(sent, at=at)],
        replace(new.message, receiver=sample.agent),
    )
    if sample.state == "dispatched":
        return
    lease = await claim_one(store, task_id)
    started = replace(record(task_id, 3, TaskStarted(worker=WORKER)), at=at)
    await store.append(lease, [started])
    if sample.state == "succeeded":
        await store.finish(lease, [replace(settled(task_id, 4), at=at)])
    if sample.state == "failed":
        await store.finish(lease, [replace(settled(task_id, 4, "failed"), at=at)])


def expected(query: TaskQuery) -> list[str]:
    """What a list has to show, without its pages."""
    order = sorted(
        samples(),
        key=lambda each: (each.updated if query.order_by == "updated" else 0, each.task_id),
        reverse=True,
    )
    return [
        each.task_id
        for each in order
        if query.agent in (None, each.agent)
        and query.session_id in (None, each.session_id)
        and query.parent_id in (None, each.parent_id)
        and (not query.states or each.state in query.states)
    ]


@pytest.fixture
async def filled(store: Store) -> Store:
    await enroll(store)
    for sample in samples():
        await add(store, sample)
    return store


async def pages(store: Store, query: TaskQuery) -> list[str]:
    """All pages, put together."""
    found: list[str] = []
    while page := await store.tasks(query):
        assert len(page) <= query.limit
        found += [task.task_id for task in page]
        query = replace(query, before=found[-1])
    return found


Order = Literal["created", "updated"]
ORDERS: list[Order] = ["created", "updated"]


@pytest.mark.parametrize("order_by", ORDERS)
async def test_every_filter_and_order_gives_its_tasks_page_by_page(
    filled: Store, order_by: Order
) -> None:
    states: list[list[TaskState]] = [[], [TaskState.FAILED], sorted(TERMINAL)]
    for agent, session_id, parent_id, chosen in product(
        (None, "a", "c"), SESSIONS, PARENTS, states
    ):
        query = TaskQuery(
            states=chosen,
            agent=agent,
            session_id=session_id,
            parent_id=parent_id,
            limit=3,
            order_by=order_by,
        )

        assert await pages(filled, query) == expected(query), query


async def test_a_task_that_changes_is_at_the_head_of_the_last_changed(filled: Store) -> None:
    lease = await claim_one(filled, "task_00")
    late = replace(record("task_00", 3, TaskStarted(worker=WORKER)), at=START + timedelta(hours=1))

    await filled.append(lease, [late])

    (first,) = await filled.tasks(TaskQuery(order_by="updated", limit=1))
    assert first.task_id == "task_00"
    assert first == await filled.task("task_00")


@pytest.mark.parametrize("order_by", ORDERS)
async def test_a_page_after_an_unknown_task_is_not_found(store: Store, order_by: Order) -> None:
    with pytest.raises(NotFoundError, match="task_9"):
        await store.tasks(TaskQuery(before="task_9", order_by=order_by))
