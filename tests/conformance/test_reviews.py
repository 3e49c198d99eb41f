"""What people are asked, and deeds that are to be done once, on every store."""

from dataclasses import replace
from typing import get_args

import pytest

from hermes.core import ids as make
from hermes.core.events import ReviewDecision, ReviewReason
from hermes.errors import (
    CodecError,
    ConflictError,
    EffectTakenError,
    InputError,
    NotFoundError,
    StaleLeaseError,
)
from hermes.store import Also, EffectRow, EffectState, Lease, Store
from hermes.testing.clock import START, FakeClock
from tests.journal import (
    WORKER,
    asking,
    claim_one,
    ids,
    progress,
    review,
    settled,
    start,
    states,
    submit,
    suspend,
    wait,
    waiting,
)

FITTING: dict[ReviewReason, set[ReviewDecision]] = {
    "in_doubt": {"done", "retry", "cancel"},
    "approval": {"approve", "reject", "cancel"},
    "question": {"answer", "cancel"},
    "partial": {"accept", "reject", "cancel"},
    "dead_letter": {"retry", "cancel"},
}
PAIRS: list[tuple[ReviewReason, ReviewDecision]] = [
    (reason, decision) for reason in get_args(ReviewReason) for decision in get_args(ReviewDecision)
]


async def ask(store: Store, *reasons: ReviewReason, task_id: str = "task_1") -> None:
    """A task that waits for the decision of a review for each reason."""
    asked = [
        review(number, task_id=task_id, reason=reason) for number, reason in enumerate(reasons, 1)
    ]
    await suspend(store, Also(reviews=asked, waits=[asking(each) for each in asked]), task_id)


# Reviews


async def test_a_review_comes_back_as_it_was_opened(store: Store) -> None:
    await ask(store, "approval")

    assert await store.review("review_1") == review()
    assert await store.reviews() == [review()]


async def test_an_unknown_review_is_not_found(store: Store) -> None:
    with pytest.raises(NotFoundError, match="review_9"):
        await store.review("review_9")
    with pytest.raises(NotFoundError, match="review_9"):
        await store.decide("review_9", "approve", by="ana")


async def test_a_decision_is_recorded_and_wakes_the_task(store: Store, clock: FakeClock) -> None:
    await ask(store, "question")
    clock.advance(60)

    decided = await store.decide("review_1", "answer", answer={"text": "蓝色"}, by="ana")

    assert decided == replace(
        review(reason="question"),
        decision="answer",
        answer={"text": "蓝色"},
        by="ana",
        decided_at=clock.now(),
    )
    assert await store.review("review_1") == decided
    (ended,) = await store.waits("task_1")
    assert ended.ended
    assert ended.answer == {"decision": "answer", "answer": {"text": "蓝色"}, "by": "ana"}
    assert ids(await store.claim(WORKER)) == [make.wake_id("wait_1")]


async def test_the_first_decision_stands_and_the_second_is_told_of_it(
    store: Store, clock: FakeClock
) -> None:
    await ask(store, "approval")
    await store.decide("review_1", "approve", by="ana")
    clock.advance(60)

    with pytest.raises(ConflictError, match=r"approve by ana at 2026-01-01T00:00:00Z"):
        await store.decide("review_1", "reject", by="ben")

    assert (await store.review("review_1")).by == "ana"
    assert len(await store.messages()) == 1


@pytest.mark.parametrize(("reason", "decision"), PAIRS)
async def test_a_decision_fits_its_review_or_is_refused_with_those_that_do(
    store: Store, reason: ReviewReason, decision: ReviewDecision
) -> None:
    await ask(store, reason)

    if decision in FITTING[reason]:
        assert (await store.decide("review_1", decision, by="ana")).decision == decision
        return
    with pytest.raises(InputError) as caught:
        await store.decide("review_1", decision, by="ana")
    assert all(fitting in str(caught.value) for fitting in FITTING[reason])
    assert (await store.review("review_1")).decision is None
    assert await store.messages() == []


@pytest.mark.parametrize("answer", [object(), float("inf"), "\ud800"])
async def test_an_answer_is_plain_json(store: Store, answer: object) -> None:
    await ask(store, "question")

    with pytest.raises(CodecError):
        await store.decide("review_1", "answer", answer=answer, by="ana")

    assert (await store.review("review_1")).decision is None


async def test_reviews_are_listed_by_task_and_by_whether_they_are_open(store: Store) -> None:
    await ask(store, "approval", "question", "in_doubt")
    await submit(store, "task_2")
    lease = await claim_one(store, "task_2")
    other = review(7, task_id="task_2")
    await store.append(lease, [progress("task_2", 3)], also=Also(reviews=[other]))
    await store.decide("review_2", "answer", by="ana")

    async def listed(
        *, task_id: str | None = None, is_open: bool | None = True, limit: int = 100
    ) -> list[str]:
        found = await store.reviews(task_id=task_id, is_open=is_open, limit=limit)
        return [each.review_id for each in found]

    assert await listed() == ["review_1", "review_3", "review_7"]
    assert await listed(limit=2) == ["review_1", "review_3"]
    assert await listed(task_id="task_1") == ["review_1", "review_3"]
    assert await listed(task_id="task_1", is_open=False) == ["review_2"]
    assert await listed(is_open=False) == ["review_2"]
    assert await listed(is_open=None) == ["review_1", "review_2", "review_3", "review_7"]
    assert await listed(task_id="task_1", is_open=None, limit=1) == ["review_1"]
    assert await listed(task_id="task_9", is_open=None) == []


async def test_a_wait_for_a_review_that_is_decided_wakes_at_once(store: Store) -> None:
    lease = await start(store)
    await store.append(lease, [progress("task_1", 4)], also=Also(reviews=[review()]))
    await store.decide("review_1", "approve", by="ana")

    await store.finish(lease, [waiting("task_1", 5)], also=Also(waits=[asking(review())]))

    (ended,) = await store.waits("task_1")
    assert ended.answer == {"decision": "approve", "answer": None, "by": "ana"}
    assert ids(await store.claim(WORKER)) == [make.wake_id("wait_1")]


async def test_a_repeated_commit_opens_a_review_once(store: Store) -> None:
    lease = await start(store)
    also = Also(reviews=[review()], waits=[asking(review())])
    await store.append(lease, [progress("task_1", 4)], also=also)
    await store.decide("review_1", "approve", by="ana")

    await store.append(lease, [progress("task_1", 4)], also=also)
    await store.append(lease, [], also=also)

    assert [each.decision for each in await store.reviews(is_open=None)] == ["approve"]


async def test_a_review_of_another_task_is_refused(store: Store) -> None:
    lease = await start(store)

    with pytest.raises(InputError, match="task_2"):
        await store.append(lease, [], also=Also(reviews=[review(task_id="task_2")]))

    assert await store.reviews() == []


async def test_a_review_with_a_lone_surrogate_is_refused(store: Store) -> None:
    lease = await start(store)

    with pytest.raises(CodecError):
        await store.append(lease, [], also=Also(reviews=[replace(review(), text="\ud800")]))

    assert await store.reviews() == []


async def test_the_reviews_of_a_settled_task_are_closed(store: Store) -> None:
    lease = await start(store)
    also = Also(reviews=[review()], waits=[asking(review())])
    await store.append(lease, [progress("task_1", 4)], also=also)

    await store.finish(lease, [settled("task_1", 5, "cancelled")])

    assert await store.reviews() == []
    closed = await store.review("review_1")
    assert (closed.decision, closed.by, closed.decided_at) == ("cancel", "hermes", START)
    with pytest.raises(ConflictError):
        await store.decide("review_1", "approve", by="ana")


async def test_a_dead_message_comes_back_by_a_decision(store: Store) -> None:
    lease = await start(store)
    asked = review(reason="dead_letter")
    also = Also(reviews=[asked], waits=[asking(asked)])
    await store.fail(lease, [waiting("task_1", 4)], retry_at=None, reason="boom", also=also)
    assert await states(store) == {"msg_task_1": "dead"}

    await store.decide("review_1", "retry", by="ana")

    assert await states(store) == {make.wake_id("wait_1"): "ready"}


async def test_the_repeat_of_a_failure_passes_after_its_decision(store: Store) -> None:
    lease = await start(store)
    asked = review(reason="dead_letter")
    also = Also(reviews=[asked], waits=[asking(asked)])
    await store.fail(lease, [waiting("task_1", 4)], retry_at=None, reason="boom", also=also)
    await store.decide("review_1", "retry", by="ana")

    await store.fail(lease, [waiting("task_1", 4)], retry_at=None, reason="boom", also=also)

    assert await states(store) == {make.wake_id("wait_1"): "ready"}


async def test_a_waiting_task_may_be_asked_and_may_wait_at_once(store: Store) -> None:
    asked = review(2)
    await suspend(store, Also(reviews=[asked], waits=[wait("wait_1"), asking(asked)]))
    await store.signal("paid")

    lease = await claim_one(store)
    await store.finish(lease, [waiting("task_1", 5)], also=Also(ended_waits=["wait_1"]))

    assert [each.wait_id for each in await store.waits("task_1")] == ["wait_2"]
    assert [each.review_id for each in await store.reviews()] == ["review_2"]


# Business keys


def deed(
    state: EffectState = "started",
    *,
    scope: str = "",
    key: str = "invoice-7",
    task_id: str = "task_1",
    path: str = "/turn1/tool1",
) -> EffectRow:
    return EffectRow(scope=scope, tool="pay", key=key, state=state, task_id=task_id, path=path)


async def note(store: Store, lease: Lease, *effects: EffectRow) -> None:
    """Commit the rows with the next event of the task."""
    task_id = lease.message.task_id
    seq = (await store.task(task_id)).status.seq + 1
    await store.append(lease, [progress(task_id, seq)], also=Also(effects=effects))


async def test_a_key_that_nobody_has_claimed_has_no_row(store: Store) -> None:
    assert await store.effect("", "pay", "invoice-7") is None


async def test_a_claimed_key_is_found_by_scope_tool_and_key(store: Store) -> None:
    lease = await start(store)

    await note(store, lease, deed(scope="task_1"))

    assert await store.effect("task_1", "pay", "invoice-7") == deed(scope="task_1")
    assert await store.effect("", "pay", "invoice-7") is None
    assert await store.effect("task_1", "refund", "invoice-7") is None


@pytest.mark.parametrize("state", ["started", "done"])
async def test_a_key_that_is_taken_stops_the_commit_of_another_call(
    store: Store, state: EffectState
) -> None:
    one, two = await start(store, "task_1"), await start(store, "task_2")
    await note(store, one, deed())
    if state == "done":
        await note(store, one, deed("done"))

    with pytest.raises(EffectTakenError) as caught:
        await store.append(
            two, [progress("task_2", 4)], also=Also(effects=[deed(task_id="task_2")])
        )

    assert (caught.value.task_id, caught.value.path) == ("task_1", "/turn1/tool1")
    assert await store.effect("", "pay", "invoice-7") == deed(state)
    assert len(await store.events("task_2")) == 3


async def test_another_call_of_the_same_task_is_another_call(store: Store) -> None:
    lease = await start(store)
    await note(store, lease, deed())

    with pytest.raises(EffectTakenError):
        await note(store, lease, deed(path="/turn2/tool1"))


async def test_a_deed_that_was_surely_not_done_may_be_claimed_again(store: Store) -> None:
    one, two = await start(store, "task_1"), await start(store, "task_2")
    await note(store, one, deed())
    await note(store, one, deed("failed"))

    await note(store, two, deed(task_id="task_2"))

    assert await store.effect("", "pay", "invoice-7") == deed(task_id="task_2")
    with pytest.raises(EffectTakenError):
        await note(store, one, deed("done"))


async def test_a_call_may_claim_its_own_failed_key_again_and_again(store: Store) -> None:
    lease = await start(store)

    for state in ("started", "failed", "started", "started", "done", "done"):
        await note(store, lease, deed(state))
        row = await store.effect("", "pay", "invoice-7")
        assert row is not None
        assert row.state == state


async def test_a_claim_after_the_end_leaves_the_end(store: Store) -> None:
    lease = await start(store)
    await note(store, lease, deed())
    await note(store, lease, deed("done"))

    await note(store, lease, deed())

    assert await store.effect("", "pay", "invoice-7") == deed("done")


async def test_an_end_needs_a_claim(store: Store) -> None:
    lease = await start(store)

    with pytest.raises(NotFoundError, match="not claimed"):
        await note(store, lease, deed("done"))

    assert len(await store.events("task_1")) == 3


async def test_of_two_keys_in_one_commit_either_both_are_claimed_or_none(store: Store) -> None:
    one, two = await start(store, "task_1"), await start(store, "task_2")
    await note(store, one, deed(key="b"))

    with pytest.raises(EffectTakenError):
        await note(store, two, deed(key="a", task_id="task_2"), deed(key="b", task_id="task_2"))

    assert await store.effect("", "pay", "a") is None


async def test_two_calls_of_one_commit_cannot_share_a_key(store: Store) -> None:
    lease = await start(store)

    with pytest.raises(EffectTakenError):
        await note(store, lease, deed(), deed(path="/turn1/tool2"))

    assert await store.effect("", "pay", "invoice-7") is None


async def test_a_repeated_claim_whose_outcome_was_lost_succeeds(store: Store) -> None:
    lease = await start(store)
    for _ in range(2):
        await store.append(lease, [progress("task_1", 4)], also=Also(effects=[deed()]))
    await note(store, lease, deed("done"))

    await store.append(lease, [progress("task_1", 4)], also=Also(effects=[deed()]))

    assert await store.effect("", "pay", "invoice-7") == deed("done")


async def test_a_stale_lease_claims_no_key(store: Store) -> None:
    lease = await start(store)
    await store.release(lease)
    await claim_one(store)

    with pytest.raises(StaleLeaseError):
        await store.append(lease, [progress("task_1", 4)], also=Also(effects=[deed()]))

    assert await store.effect("", "pay", "invoice-7") is None
