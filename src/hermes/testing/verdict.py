"""Whether a run that was broken off kept what Hermes promises, judged from the outside."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from hermes.core.task import fold
from hermes.errors import HermesError

from .outside import Seen
from .snapshot import Snapshot

Measured = Mapping[str, object]

ONCE = ("unsafe", "reconcile")
"""Effect classes whose calls are made at most once, since every doubt is answered truthfully."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What is known of one run, over all its lives.

    Attributes:
        seen: What the outside saw, in order.
        snapshots: The journal before each life, and last the one at the end.
        measured: What the scenario measured of the world at the end.
    """

    seen: Sequence[Seen]
    snapshots: Sequence[Snapshot]
    measured: object = None

    @property
    def last(self) -> Snapshot:
        """The journal at the end."""
        return self.snapshots[-1]

    def begun(self, kind: str, *, life: int | None = None) -> list[Seen]:
        """Calls of a kind that began, in one life or in any."""
        return [
            seen
            for seen in self.seen
            if seen.kind == kind and not seen.is_over and life in (None, seen.life)
        ]

    @property
    def effects(self) -> dict[str, int]:
        """How many calls each tool had."""
        return dict(Counter(seen.name for seen in self.begun("tool")))

    @property
    def repeated(self) -> list[str]:
        """Calls that were made more than once under one key, with their class."""
        made = Counter((seen.key, seen.name, seen.effect) for seen in self.begun("tool"))
        return sorted(
            f"{name}, declared {effect}" for (_, name, effect), times in made.items() if times > 1
        )

    @property
    def other_results(self) -> list[str]:
        """Idempotent tools that answered a repeat with another result than the first time."""
        results: dict[tuple[str, str], set[str]] = defaultdict(set)
        for seen in self.seen:
            if seen.kind == "tool" and seen.is_over and seen.effect == "idempotent":
                results[seen.name, seen.key].add(seen.digest)
        return sorted({name for (name, _), digests in results.items() if len(digests) > 1})

    @property
    def in_doubt(self) -> list[str]:
        """Tools of the calls that were in doubt."""
        return sorted(name for _, name in self.last.doubted)


def broken_promises(run: History, clean: History | None = None) -> list[str]:
    """What went wrong, one line each; empty if nothing did.

    Args:
        run: The run to judge.
        clean: The same without a crash; its effects and its end are what must come out.
    """
    found = [
        *_streams(run.last),
        *_left_overs(run.last),
        *_made_again(run),
        *_without_intent(run),
        *_twice(run),
    ]
    if clean is not None:
        found += _another_end(run, clean)
    return found


def _streams(snapshot: Snapshot) -> Iterator[str]:
    """Gapless, folding to the projection, with one end."""
    for task_id, records in snapshot.events.items():
        if [record.seq for record in records] != list(range(1, len(records) + 1)):
            yield f"task {task_id}: its events are not numbered without gaps"
        try:
            is_fold = fold(records) == snapshot.tasks[task_id]
        except HermesError as exc:
            yield f"task {task_id}: its events do not fold: {exc}"
        else:
            if not is_fold:
                yield f"task {task_id}: the projection is not the fold of its events"
        ends = [record for record in records if record.event.type == "task.settled"]
        if len(ends) != 1:
            yield f"task {task_id}: {len(ends)} task.settled events, expected 1"


def _left_overs(snapshot: Snapshot) -> Iterator[str]:
    for row in snapshot.messages:
        message = row.message
        yield f"message {message.message_type} of task {message.task_id} is left {row.state}"
    for wait in snapshot.waits:
        yield f"a wait for {wait.kind} of task {wait.task_id} is left"
    for review in snapshot.reviews:
        yield f"a review ({review.reason}) of task {review.task_id} is left open"


def _made_again(run: History) -> Iterator[str]:
    """A finished call was made again in a later life."""
    for life, before in enumerate(run.snapshots[:-1]):
        finished, replies = before.finished_calls, before.replies
        for seen in run.begun("tool", life=life):
            if seen.key in finished:
                yield f"the finished call {seen.name} at {seen.path} was made again"
        for seen in run.begun("model", life=life):
            if seen.place < replies.get(seen.goal, 0):
                yield f"the finished model call {seen.place + 1} of {seen.goal!r} was made again"


def _without_intent(run: History) -> Iterator[str]:
    """An effect began before its intent was durable."""
    for life, after in enumerate(run.snapshots[1:]):
        intents = after.begun_calls
        for seen in run.begun("tool", life=life):
            if seen.key not in intents:
                yield f"{seen.name} at {seen.path} began before its intent was durable"


def _twice(run: History) -> Iterator[str]:
    """More calls than the effect class allows, or other ones under the same key."""
    calls: dict[str, list[Seen]] = defaultdict(list)
    for seen in run.begun("tool"):
        calls[seen.key].append(seen)
    for made in calls.values():
        first = made[0]
        if first.effect in ONCE and len(made) > 1:
            yield f"the {first.effect} call {first.name} at {first.path} was made {len(made)} times"
        if len({(seen.name, seen.digest) for seen in made}) > 1:
            yield f"another call was made under the key of {first.name} at {first.path}"


def _another_end(run: History, clean: History) -> Iterator[str]:
    """Deeds, tasks, ends and the world are those of a run without a crash."""
    yield from _difference("call", _deeds(run), _deeds(clean))
    yield from _difference("end", _ends(run), _ends(clean))
    yield from _another_world(run, clean)


def _another_world(run: History, clean: History) -> Iterator[str]:
    got, expected = run.measured, clean.measured
    if got == expected:
        return
    if isinstance(got, Mapping) and isinstance(expected, Mapping):
        got, expected = cast("Measured", got), cast("Measured", expected)
        for name in sorted({*got, *expected}):
            if got.get(name) != expected.get(name):
                yield (
                    f"{name} is {_shown(got.get(name))}, without a crash "
                    f"{_shown(expected.get(name))}{_suspects(run)}"
                )
        return
    yield f"the outside is {got!r:.200}, without a crash {expected!r:.200}{_suspects(run)}"


def _shown(value: object) -> str:
    return "missing" if value is None else f"{value!r:.80}"


def _suspects(run: History) -> str:
    repeated = run.repeated
    return f" (called again: {', '.join(repeated)})" if repeated else ""


def _deeds(run: History) -> set[str]:
    return {f"{seen.name} at {seen.path} of {seen.goal!r:.60}" for seen in run.begun("tool")}


def _ends(run: History) -> list[str]:
    return [f"{outcome} of {goal!r:.60}" for goal, outcome, _ in run.last.ends]


def _difference(what: str, got: Iterable[str], expected: Iterable[str]) -> Iterator[str]:
    got, expected = Counter(got), Counter(expected)
    for item in got - expected:
        yield f"one {what} too many: {item}"
    for item in expected - got:
        yield f"one {what} is missing: {item}"
