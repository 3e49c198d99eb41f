"""What a person may decide about an open review, and the decision itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from hermes.core.events import ReviewDecision
from hermes.core.json import dumps
from hermes.errors import InputError
from hermes.store import Review, Store
from hermes.store.rules import DECISIONS, check_decision


def decisions(review: Review) -> tuple[ReviewDecision, ...]:
    """What may be decided; nothing once it was."""
    return () if review.decision is not None else DECISIONS[review.reason]


def options(review: Review) -> tuple[str, ...]:
    """The answers that a question offers; none where any answer will do."""
    given = review.data.get("options")
    if not isinstance(given, Sequence) or isinstance(given, str):
        return ()
    return tuple(map(str, cast("Sequence[object]", given)))


async def decide(
    store: Store, review: Review, decision: ReviewDecision, *, answer: object = None, by: str
) -> Review:
    """Decide a review; its task goes on with the answer as soon as somebody takes it.

    Args:
        store: Where it is.
        review: As it was read; whether it is still open is looked at again.
        decision: One of `decisions(review)`.
        answer: Plain JSON: the answer to a question, the reason of a rejection, the result of a
            call that took place.
        by: Who decides.

    Raises:
        ConflictError: It was decided before; says what, by whom and when.
        InputError: This review does not take the decision or the answer; names what it takes.
    """
    check_decision(review, decision)
    offered = options(review)
    if decision == "answer" and offered and answer not in offered:
        raise InputError(
            f"review {review.review_id} does not offer the answer {dumps(answer):.80}",
            hint=f"it takes {', '.join(map(dumps, offered))}",
        )
    return await store.decide(review.review_id, decision, answer=answer, by=by)
