"""Waits, reviews, signals and business keys, in dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from hermes.core import ids
from hermes.core.clock import Clock
from hermes.core.events import ReviewDecision
from hermes.core.task import Task
from hermes.errors import NotFoundError
from hermes.store.memory_lanes import MemoryLanes
from hermes.store.rules import (
    WAKER,
    cancel_message,
    check_decision,
    claim_effect,
    decided,
    ends_by_time,
    has_ended,
    wake_message,
)
from hermes.store.values import EffectRow, Review, Wait

FindTask = Callable[[str], Task | None]
HasUnsettled = Callable[[str, str], bool]


class MemoryWaits:
    """The twin of `waits.py`.

    Args:
        clock: Says when a wait has ended by its time.
        lanes: Where messages go.
        find_task: A task by its id.
        has_unsettled: Whether a parent has, under a path, a child that is not settled.
    """

    def __init__(
        self, clock: Clock, lanes: MemoryLanes, find_task: FindTask, has_unsettled: HasUnsettled
    ) -> None:
        self._clock, self._lanes = clock, lanes
        self._find_task, self._has_unsettled = find_task, has_unsettled
        self.waits: dict[str, Wait] = {}
        self.reviews: dict[str, Review] = {}
        self.signals: dict[str, tuple[object, datetime]] = {}
        self.effects: dict[tuple[str, str, str], EffectRow] = {}

    def check_effects(self, effects: Sequence[EffectRow]) -> dict[tuple[str, str, str], EffectRow]:
        """The rows that are to be written, or EffectTakenError."""
        changed: dict[tuple[str, str, str], EffectRow] = {}
        for effect in effects:
            key = (effect.scope, effect.tool, effect.key)
            if claim_effect(changed.get(key) or self.effects.get(key), effect):
                changed[key] = effect
        return changed

    def begin(self, waits: Sequence[Wait]) -> None:
        """Add waits; one whose end has come already wakes the task at once."""
        for wait in waits:
            if wait.wait_id in self.waits:
                continue
            self.waits[wait.wait_id] = replace(wait, ended=False, answer=None)
            has_come, answer = self._has_come(wait)
            if has_come and self.end(wait.wait_id, answer):
                continue
            if ends_by_time(wait):
                self._wake(wait, due=wait.due_at)

    def end(self, wait_id: str, answer: object) -> bool:
        """End a wait that is open, and wake its task; whether it was open."""
        wait = self.waits.get(wait_id)
        if wait is None or has_ended(wait, self._clock.now()):
            return False
        self.waits[wait_id] = replace(wait, ended=True, answer=answer)
        self._lanes.drop_dead(wait.task_id)
        self._wake(wait)
        return True

    def take_in(self, wait_ids: Sequence[str]) -> None:
        """Remove waits whose answers were taken in, with the wake messages still to come."""
        for wait_id in wait_ids:
            self.waits.pop(wait_id, None)
            self._lanes.drop(ids.wake_id(wait_id))

    def settled(self, task: Task) -> None:
        """A task has come to its end: it waits and asks no more; its parent may be the next."""
        self.take_in([wait.wait_id for wait in self.of_task(task.task_id)])
        for review in self.reviews.values():
            if review.task_id == task.task_id and review.decision is None:
                self.reviews[review.review_id] = replace(
                    review, decision="cancel", by=WAKER, decided_at=self._clock.now()
                )
        parent_id, path = task.spec.parent_id, task.spec.parent_path
        if parent_id is not None and not self._has_unsettled(parent_id, path):
            for wait in self.of_task(parent_id):
                if wait.kind == "children" and wait.key == path:
                    self.end(wait.wait_id, None)

    def decide(
        self, review_id: str, decision: ReviewDecision, *, answer: object, by: str
    ) -> Review:
        """Record a decision, and end the wait for it."""
        review = self.review(review_id)
        check_decision(review, decision)
        self.reviews[review_id] = review = replace(
            review, decision=decision, answer=answer, by=by, decided_at=self._clock.now()
        )
        self.end(review.wait_id, decided(decision, answer, by))
        return review

    def review(self, review_id: str) -> Review:
        """One review, or NotFoundError."""
        if review_id not in self.reviews:
            raise NotFoundError(f"there is no review {review_id!r:.80}")
        return self.reviews[review_id]

    def signal(self, name: str, payload: object) -> bool:
        """Note an event, and end the waits for it."""
        if name in self.signals:
            return False
        self.signals[name] = (payload, self._clock.now())
        for wait in list(self.waits.values()):
            if wait.kind == "event" and wait.key == name:
                self.end(wait.wait_id, payload)
        return True

    def nudge(self, task: Task) -> None:
        """Have somebody claim a task that is to be cancelled, if nobody holds it or will soon."""
        self._lanes.drop_dead(task.task_id)
        mine = [queued for queued in self._lanes if queued.message.task_id == task.task_id]
        if any(queued.state in ("leased", "ready") for queued in mine):
            return
        delayed = next((queued for queued in mine if queued.state == "delayed"), None)
        if delayed is not None:
            self._lanes.hurry(delayed)
            return
        self._lanes.put_wake(
            cancel_message(
                task_id=task.task_id,
                agent=task.spec.agent,
                trace_id=task.trace_id,
                at=self._clock.now(),
            )
        )

    def of_task(self, task_id: str) -> list[Wait]:
        """A task's waits, oldest first."""
        return [wait for wait in self.waits.values() if wait.task_id == task_id]

    def forget_task(self, task_id: str) -> None:
        """Remove all there is about a task."""
        self.waits = {key: each for key, each in self.waits.items() if each.task_id != task_id}
        self.reviews = {key: each for key, each in self.reviews.items() if each.task_id != task_id}
        self.effects = {key: each for key, each in self.effects.items() if each.task_id != task_id}

    def forget_signals(self, before: datetime) -> None:
        """Remove signals that are older, unless a wait for one is open."""
        wanted = {each.key for each in self.waits.values() if each.kind == "event"}
        self.signals = {
            name: (payload, at)
            for name, (payload, at) in self.signals.items()
            if at >= before or name in wanted
        }

    def _has_come(self, wait: Wait) -> tuple[bool, object]:
        """Whether what a new wait is for is there already, and the answer."""
        if wait.kind == "children":
            return not self._has_unsettled(wait.task_id, wait.key), None
        if wait.kind == "event" and wait.key in self.signals:
            return True, self.signals[wait.key][0]
        review = self.reviews.get(wait.key)
        if wait.kind == "person" and review is not None and review.decision is not None:
            return True, decided(review.decision, review.answer, review.by)
        return False, None

    def _wake(self, wait: Wait, *, due: datetime | None = None) -> None:
        task = self._find_task(wait.task_id)
        if task is None:
            return
        message = wake_message(
            wait.wait_id,
            task_id=task.task_id,
            agent=task.spec.agent,
            trace_id=task.trace_id,
            at=self._clock.now(),
            due=due,
        )
        self._lanes.put_wake(message, due=due)
