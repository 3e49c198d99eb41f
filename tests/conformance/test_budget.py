"""One budget for a tree of tasks, on every store."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import anyio
import pytest

from hermes.core.budget import Amounts, Bounds, Draw, Drawn, Limits
from hermes.core.chat import Usage
from hermes.core.events import ModelReplied, TaskStarted
from hermes.errors import StaleLeaseError
from hermes.store import Also, Lease, Store, open_store
from hermes.testing.clock import START, FakeClock
from tests.journal import WORKER, child, enroll, record, settled, start, waiting

ROOT = "task_1"
TOKENS = Bounds.of(Limits(max_tokens=1000))


def draw(spent: int, more: int, bounds: Bounds = TOKENS) -> Draw:
    return Draw(root_id=ROOT, bounds=bounds, spent=Amounts(tokens=spent), more=Amounts(tokens=more))


async def tree(store: Store, *children: str) -> list[Lease]:
    """A root that waits, and its children, each at work."""
    lease = await start(store, ROOT)
    await store.finish(lease, [waiting(ROOT, 4)], also=Also(children=list(map(child, children))))
    return [await begun(store, each) for each in children]


async def begun(store: Store, task_id: str) -> Lease:
    (lease,) = await store.claim(WORKER, task_id=task_id)
    await store.append(lease, [record(task_id, 3, TaskStarted(worker=WORKER))])
    return lease


def replied(task_id: str, seq: int, tokens: int) -> ModelReplied:
    return ModelReplied(
        path=f"/turn{seq}/model1", finish_reason="stop", usage=Usage(prompt_tokens=tokens)
    )


async def spend(store: Store, lease: Lease, seq: int, tokens: int) -> None:
    task_id = lease.message.task_id
    await store.append(lease, [record(task_id, seq, replied(task_id, seq, tokens))])


def tokens(drawn: Drawn) -> int | None:
    return None if drawn.share is None else drawn.share.tokens


async def test_a_task_alone_at_work_gets_half_of_what_is_left_beside_its_need(
    store: Store,
) -> None:
    lease = await start(store, ROOT)
    drawn = await store.draw(lease, draw(0, 100))
    assert (tokens(drawn), drawn.bounds, drawn.others.tokens) == (100 + 450, TOKENS, 0)


async def test_a_repeated_draw_takes_nothing_twice(store: Store) -> None:
    one, two = await tree(store, "task_2", "task_3")
    first = await store.draw(one, draw(0, 100))
    assert await store.draw(one, draw(0, 100)) == first
    assert (await store.draw(two, draw(0, 100))).others.tokens == tokens(first)


async def test_what_does_not_fit_is_refused_and_takes_nothing(store: Store) -> None:
    one, two = await tree(store, "task_2", "task_3")
    assert tokens(await store.draw(one, draw(0, 700))) == 700 + 300 // 8
    refused = await store.draw(two, draw(0, 300))
    assert (refused.share, refused.others.tokens, refused.spent.tokens) == (None, 737, 0)
    assert tokens(await store.draw(two, draw(0, 263))) == 263


async def test_the_unspent_share_of_a_settled_task_goes_back(store: Store) -> None:
    one, two = await tree(store, "task_2", "task_3")
    await store.draw(one, draw(0, 900))
    assert tokens(await store.draw(two, draw(0, 500))) is None
    await spend(store, one, 4, 300)
    await store.finish(one, [settled("task_2", 5)])
    assert tokens(await store.draw(two, draw(0, 500))) == 500 + 100


async def test_a_task_that_waits_holds_no_more_than_it_spent(store: Store) -> None:
    one, two = await tree(store, "task_2", "task_3")
    await store.draw(one, draw(0, 900))
    await spend(store, one, 4, 300)
    await store.finish(one, [waiting("task_2", 5)])
    drawn = await store.draw(two, draw(0, 600))
    assert (tokens(drawn), drawn.spent.tokens) == (600 + 50, 300)


async def test_what_the_parent_spent_before_it_had_children_counts(store: Store) -> None:
    lease = await start(store, ROOT)
    await spend(store, lease, 4, 950)
    await store.finish(lease, [waiting(ROOT, 5)], also=Also(children=[child("task_2")]))
    one = await begun(store, "task_2")
    assert tokens(await store.draw(one, draw(0, 100))) is None
    assert tokens(await store.draw(one, draw(0, 50))) == 50


async def test_a_share_outlives_the_holder_and_is_not_given_again(store: Store) -> None:
    one, two = await tree(store, "task_2", "task_3")
    await store.draw(one, draw(0, 500))
    await spend(store, one, 4, 400)
    await store.retire(WORKER, crashed=True)
    await enroll(store)
    (again,) = await store.claim(WORKER, task_id="task_2")
    with pytest.raises(StaleLeaseError):
        await store.draw(one, draw(400, 100))
    (other,) = await store.claim(WORKER, task_id="task_3")
    assert tokens(await store.draw(other, draw(0, 500))) is None
    assert tokens(await store.draw(again, draw(400, 100))) == 500 + 500 // 8
    with pytest.raises(StaleLeaseError):
        await store.draw(two, draw(0, 1))


async def test_what_a_call_took_above_its_estimate_is_counted(store: Store) -> None:
    one, two = await tree(store, "task_2", "task_3")
    await store.draw(one, draw(0, 10))
    await spend(store, one, 4, 2000)
    drawn = await store.draw(two, draw(0, 1))
    assert (drawn.share, drawn.others.tokens) == (None, 2000)


async def test_bounds_that_are_put_hold_for_the_whole_tree(store: Store) -> None:
    (one,) = await tree(store, "task_2")
    assert tokens(await store.draw(one, draw(0, 1500))) is None
    raised = Bounds.of(Limits(max_tokens=2000))
    await store.put_budget(ROOT, raised)
    drawn = await store.draw(one, draw(0, 1500))
    assert (tokens(drawn) or 0) >= 1500
    assert drawn.bounds == raised
    assert (await store.budget(ROOT)).bounds == raised


async def test_each_bound_is_kept_and_large_sums_are_exact(store: Store) -> None:
    limits = Limits(
        max_model_calls=2, max_tool_calls=3, max_tokens=10**9, max_cost=4e6, max_seconds=1e6
    )
    bounds = Bounds.of(limits)
    (one,) = await tree(store, "task_2")
    whole = Amounts(model_calls=2, tool_calls=3, tokens=10**9, cost_nano=4 * 10**15, time_us=10**12)
    wanted = Draw(root_id=ROOT, bounds=bounds, spent=Amounts(), more=whole)
    assert (await store.draw(one, wanted)).share == whole
    for place in range(5):
        spent = list(whole.each)
        more = [0] * 5
        more[place] = 1
        over = replace(wanted, spent=Amounts(**_named(spent)), more=Amounts(**_named(more)))
        assert (await store.draw(one, over)).share is None, place


def _named(each: list[int]) -> dict[str, int]:
    names = ("model_calls", "tool_calls", "tokens", "cost_nano", "time_us")
    return dict(zip(names, each, strict=True))


async def test_the_budget_tells_what_the_tree_spent(store: Store) -> None:
    one, two = await tree(store, "task_2", "task_3")
    await spend(store, one, 4, 300)
    await spend(store, two, 4, 50)
    await store.finish(one, [settled("task_2", 5)])
    before = await store.budget(ROOT)
    assert (before.bounds, before.spent.tokens, before.tasks) == (None, 350, 3)
    await store.draw(two, draw(50, 10))  # which ends the account of the settled one
    after = await store.budget(ROOT)
    assert (after.bounds, after.spent.tokens, after.tasks) == (TOKENS, 350, 3)


async def test_of_an_unknown_root_there_is_nothing(store: Store) -> None:
    nothing = await store.budget("task_none")
    assert (nothing.bounds, nothing.spent, nothing.tasks) == (None, Amounts(), 0)


async def test_prune_takes_the_budget_with_the_tree(store: Store) -> None:
    lease = await start(store, ROOT)
    await store.draw(lease, draw(0, 10))
    await store.finish(lease, [settled(ROOT, 4)])
    await store.prune(START + timedelta(days=1))
    assert (await store.budget(ROOT)).bounds is None


async def test_workers_that_draw_at_once_never_overdraw(store: Store, url: str) -> None:
    rng = random.Random(7)
    names = [f"task_{number}" for number in range(2, 8)]
    leases = await tree(store, *names)
    taken: dict[str, int] = dict.fromkeys(names, 0)
    sequence: dict[str, int] = dict.fromkeys(names, 4)

    async def work(at: Store, lease: Lease) -> None:
        name = lease.message.task_id
        while True:
            call = rng.randint(1, 40)
            drawn = await at.draw(lease, draw(taken[name], call))
            if drawn.share is None:
                await at.finish(lease, [settled(name, sequence[name])])
                return
            assert drawn.share.tokens >= taken[name] + call
            await spend(at, lease, sequence[name], call)
            taken[name] += call
            sequence[name] += 1

    async with open_store(url, clock=FakeClock(), synchronous="NORMAL") as other:
        # Two processes, as far as the database can tell; in memory there is but one.
        second = store if url.startswith("memory") else other
        async with anyio.create_task_group() as group:
            for place, lease in enumerate(leases):
                group.start_soon(work, store if place % 2 else second, lease)
    assert 1000 - 40 <= sum(taken.values()) <= 1000
    assert (await store.budget(ROOT)).spent.tokens == sum(taken.values())
