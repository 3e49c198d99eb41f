"""Taking in what a task waited for: decisions, results of children, events, times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from hermes.core import json
from hermes.core.budget import excess_of_time
from hermes.core.clock import Clock, rfc3339
from hermes.core.events import Fault, Pending, ReviewDecided, ReviewDecision
from hermes.errors import InputError
from hermes.store import TaskReader, Wait
from hermes.tools import failed_result, result_of

from .children import (
    Part,
    ask_whether_enough,
    may_go_on,
    next_round,
    not_accepted,
    origin_of_parts,
    parts_of,
)
from .doubt import DONE
from .journal import Journal
from .outcome import reconciled, record
from .setup import RunSetup
from .state import OpenCall, RunState
from .suspend import Held


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What the answers come to.

    Attributes:
        held: What calls have to wait for next.
        cancelled_by: Who wants the whole task cancelled; None if nobody.
    """

    held: Sequence[Held] = ()
    cancelled_by: str | None = None


def has_news(state: RunState, waits: Sequence[Wait]) -> bool:
    """Whether one of these waits has ended and its answer is not taken in."""
    return any(wait.ended and wait.wait_id in state.waiting for wait in waits)


def wants_cancel(wait: Wait) -> bool:
    """Whether a person ended the wait by the word that the whole task is to be cancelled."""
    is_decided = wait.ended and wait.kind == "person"
    return is_decided and _Word.of(wait.answer).decision == "cancel"


def cancelled_by(journal: Journal, waits: Sequence[Wait]) -> str | None:
    """Note a person's word that the task is to be cancelled; who it is, None if nobody said so."""
    for wait in waits:
        pending = journal.state.waiting.get(wait.wait_id)
        if pending is not None and wants_cancel(wait):
            word = _Word.of(wait.answer)
            _note_decision(journal, pending, word)
            return word.by
    return None


async def take_in(
    setup: RunSetup, journal: Journal, reader: TaskReader, clock: Clock, waits: Sequence[Wait]
) -> Taken:
    """Note the answers of all waits that have ended; the next commit removes them.

    Args:
        setup: Of the run.
        journal: Of the task, which is at work.
        reader: The store.
        clock: The time now.
        waits: The task's.
    """
    return await _Answers(setup, journal, reader, clock).take_in(waits)


@dataclass(frozen=True, slots=True)
class _Answers:
    setup: RunSetup
    journal: Journal
    reader: TaskReader
    clock: Clock

    async def take_in(self, waits: Sequence[Wait]) -> Taken:
        by = cancelled_by(self.journal, waits)
        if by is not None:
            return Taken(cancelled_by=by)
        held: list[Held] = []
        for wait in waits:
            if not wait.ended:
                continue
            pending = self.journal.state.waiting.get(wait.wait_id)
            if pending is not None and pending.kind == "children":
                held += await self._join(pending)
                continue
            self.journal.end_waits([wait.wait_id])
            if pending is None:
                continue  # taken in before, or nobody needs it any more
            if pending.review_id:
                await self._decided(pending, _Word.of(wait.answer))
            elif pending.path:
                self._brought(pending, _value_of(pending, wait, self.clock))
        return Taken(held=held)

    async def _decided(self, pending: Pending, word: _Word) -> None:
        self._check(pending, word)
        match pending.kind:
            case "question":
                _note_decision(self.journal, pending, word)
                self._brought(pending, word.answer)
            case "approval":
                _note_decision(self.journal, pending, word)
                if word.decision == "reject":
                    self._refused(pending, _rejected(word))
            case "in_doubt":
                _note_decision(self.journal, pending, word)
                self._end_doubt(pending, word)
            case "partial":
                rounds = self.journal.state.splits[pending.path]
                parts = await parts_of(self.reader, rounds)
                _note_decision(self.journal, pending, word)
                if word.decision == "accept":
                    self._joined(pending, parts)
                else:
                    self._failed(pending, not_accepted(parts, word.text))
            case _:
                _note_decision(self.journal, pending, word)

    def _check(self, pending: Pending, word: _Word) -> None:
        allowed = _DECISIONS.get(pending.kind, ("retry",))
        if word.decision not in allowed:
            raise InputError(
                f"review {pending.review_id} ({pending.kind}) was decided {word.decision!r}, "
                f"which is none of {', '.join(allowed)}"
            )

    def _end_doubt(self, pending: Pending, word: _Word) -> None:
        item = self._call(pending)
        if word.decision == "retry":
            reconciled(self.journal, item, "again", by=word.by)
            return
        given = word.answer is not None
        answer = result_of(word.answer, limit_chars=self.setup.result_limit_chars)
        reconciled(self.journal, item, "done", by=word.by, result=answer if given else DONE)

    async def _join(self, pending: Pending) -> list[Held]:
        rounds = self.journal.state.splits[pending.path]
        parts = await parts_of(self.reader, rounds)
        if all(part.is_met for part in parts):
            self.journal.end_waits([pending.wait_id])
            self._joined(pending, parts)
            return []
        late = excess_of_time(self.setup.limits, self.journal.spent)
        if late is None and may_go_on(rounds, parts):
            held = next_round(self.journal, self.clock, rounds, parts, name=pending.name)
        else:
            held = ask_whether_enough(pending.path, pending.name, parts)
        # The old wait goes with the new one's beginning: in between, a crash has to find it.
        return [replace(held, instead_of=pending.wait_id)]

    def _call(self, pending: Pending) -> OpenCall:
        return OpenCall(path=pending.path, call=self.journal.state.calls[pending.path])

    def _joined(self, pending: Pending, parts: Sequence[Part]) -> None:
        origin = origin_of_parts(parts)
        self._returned(pending, [part.as_json() for part in parts], origin=origin)

    def _returned(self, pending: Pending, value: object, *, origin: str = "") -> None:
        result = result_of(value, limit_chars=self.setup.result_limit_chars)
        record(self.journal, self._call(pending), result, origin=origin)

    def _brought(self, pending: Pending, value: object) -> None:
        """An answer or event has come: it is the tool's, and from outside if that says so."""
        name = self._call(pending).call.name
        tool = self.setup.registry.get(name)
        is_outside = tool is not None and tool.untrusted and pending.kind != "time"
        source = f"{name} {pending.name}" if pending.kind == "event" else name
        self._returned(pending, value, origin=source if is_outside else "")

    def _refused(self, pending: Pending, fault: Fault) -> None:
        record(self.journal, self._call(pending), failed_result("refused", fault))

    def _failed(self, pending: Pending, fault: Fault) -> None:
        record(self.journal, self._call(pending), failed_result("error", fault))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """What a person said."""

    decision: ReviewDecision
    answer: object
    by: str

    @classmethod
    def of(cls, answer: object) -> _Word:
        body = json.as_object(answer) or {}
        return cls(
            decision=cast("ReviewDecision", body.get("decision")),
            answer=body.get("answer"),
            by=str(body.get("by") or ""),
        )

    @property
    def text(self) -> str:
        if self.answer is None:
            return ""
        return self.answer if isinstance(self.answer, str) else json.dumps(self.answer)


def _note_decision(journal: Journal, pending: Pending, word: _Word) -> None:
    journal.note(
        ReviewDecided(
            review_id=pending.review_id,
            path=pending.path,
            decision=word.decision,
            by=word.by,
            answer=word.answer,
        )
    )


_DECISIONS: dict[str, tuple[ReviewDecision, ...]] = {
    "question": ("answer",),
    "approval": ("approve", "reject"),
    "in_doubt": ("done", "retry"),
    "partial": ("accept", "reject"),
}


def _rejected(word: _Word) -> Fault:
    said = f": {word.text}" if word.text else ""
    return Fault(
        code="rejected",
        message=f"not run: a person refused this call{said}",
        hint="do not call it again unless what was refused has changed",
    )


def _value_of(pending: Pending, wait: Wait, clock: Clock) -> object:
    return {"now": rfc3339(clock.now())} if pending.kind == "time" else wait.answer
