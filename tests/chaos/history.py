"""What is left when chaos is over, and the checker that reads nothing else.

The checker knows the log of the outside world, what the client was told, and the final tables. It
knows nothing of who was killed when.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hermes.core.events import (
    Recorded,
    TaskSettled,
    TaskSplit,
    ToolInDoubt,
    ToolReturned,
    ToolStarted,
)
from hermes.core.task import Task, fold
from hermes.errors import TransitionError
from hermes.store import MessageRow, Review, Store, TaskQuery, Wait
from hermes.store.values import MAX_TASKS

ONCE = frozenset({"unsafe", "reconcile"})
"""Classes whose calls take place at most once, unless a person says again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """A line of the outside world's log.

    Attributes:
        op: `call`, or `find`: a question whether a call took place.
        applied: Whether the world changed; a repeat of an idempotent key changes nothing.
    """

    op: str
    tool: str
    effect: str
    key: str
    applied: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All that the checker reads.

    Attributes:
        acknowledged: Ids of tasks whose submit was answered.
        children: How many children each parent was to have.
    """

    deeds: Sequence[Deed]
    acknowledged: Sequence[str]
    tasks: Sequence[Task]
    streams: Mapping[str, Sequence[Recorded]]
    messages: Sequence[MessageRow] = ()
    waits: Sequence[Wait] = ()
    reviews: Sequence[Review] = ()
    children: int = 4


async def read_history(
    store: Store, *, deeds: Sequence[Deed], acknowledged: Sequence[str], children: int
) -> History:
    """The final tables, with what the world and the client know."""
    tasks = await store.tasks(TaskQuery(limit=MAX_TASKS))
    assert len(tasks) < MAX_TASKS
    ids = [task.task_id for task in tasks]
    return History(
        deeds=deeds,
        acknowledged=acknowledged,
        tasks=tasks,
        streams={task_id: await store.events(task_id) for task_id in ids},
        messages=await store.messages(),
        waits=[wait for task_id in ids for wait in await store.waits(task_id)],
        reviews=await store.reviews(is_open=None, limit=10 * MAX_TASKS),
        children=children,
    )


def violations(history: History) -> list[str]:
    """What must not be, one line each; empty if every promise was kept."""
    return [line for rule in RULES for line in rule(history)]


def settled_once(history: History) -> Iterator[str]:
    """Every acknowledged submit, and every task, has exactly one settled event."""
    known = {task.task_id for task in history.tasks}
    for task_id in history.acknowledged:
        if task_id not in known:
            yield f"{task_id}: acknowledged, and lost"
    for task in history.tasks:
        events = history.streams[task.task_id]
        ends = sum(isinstance(record.event, TaskSettled) for record in events)
        if ends != 1:
            yield f"{task.task_id}: settled {ends} times, is {task.state}"
        if task.spec.parent_id is None and task.task_id not in history.acknowledged:
            yield f"{task.task_id}: nobody was told of it: a repeated submit made a second task"


def gapless(history: History) -> Iterator[str]:
    """A task's events are numbered from 1 without a gap, and written by ever later holders."""
    for task_id, records in history.streams.items():
        if [record.seq for record in records] != list(range(1, len(records) + 1)):
            yield f"{task_id}: numbers {[record.seq for record in records]}"
        tokens = [record.token for record in records]
        if tokens != sorted(tokens):
            yield f"{task_id}: an earlier holder wrote after a later one: tokens {tokens}"
        if len({record.event_id for record in records}) != len(records):
            yield f"{task_id}: an event stands twice"


def folds_to_its_row(history: History) -> Iterator[str]:
    """The stored status is the fold of the events."""
    for task in history.tasks:
        try:
            folded = fold(history.streams[task.task_id])
        except TransitionError as exc:
            yield f"{task.task_id}: cannot be folded: {exc}"
            continue
        if folded is None or folded.status != task.status:
            yield f"{task.task_id}: stored as {task.status}, folds to {folded and folded.status}"


def called_at_most_once(history: History) -> Iterator[str]:
    """An unsafe call takes place once, and once more for each time that a person said so."""
    allowed = Counter(retried(history))
    for key, calls in _calls(history, ONCE).items():
        if calls > 1 + allowed[key]:
            yield f"{key}: took place {calls} times, and a person said again {allowed[key]} times"


def idempotent_applied_once(history: History) -> Iterator[str]:
    """However often it was called, an idempotent key changed the world once."""
    for key, calls in _calls(history, frozenset({"idempotent"})).items():
        if calls > 1:
            yield f"{key}: changed the world {calls} times"


def journal_first(history: History) -> Iterator[str]:
    """Every deed has an intent in the journal, and every outcome a deed."""
    intents, outcomes = dict[str, str](), set[str]()
    for task_id, records in history.streams.items():
        for record in records:
            if isinstance(record.event, ToolStarted):
                intents[task_id + record.event.path] = record.event.name
            elif isinstance(record.event, ToolReturned):
                outcomes.add(task_id + record.event.path)
    made = {deed.key for deed in history.deeds if deed.op == "call"}
    tools = {deed.tool for deed in history.deeds}
    for key in sorted(made - intents.keys()):
        yield f"{key}: took place without an intent"
    own = {key for key in outcomes if intents.get(key) in tools}
    for key in sorted(own - made):
        yield f"{key}: has an outcome, and never took place"


def in_doubt_only_unsafe(history: History) -> Iterator[str]:
    """Only a call that may not be repeated and cannot be asked about is put before a person."""
    for task_id, records in history.streams.items():
        effects: dict[str, str] = {}
        for record in records:
            event = record.event
            if isinstance(event, ToolStarted):
                effects[event.path] = event.effect
            elif isinstance(event, ToolInDoubt) and effects.get(event.path) != "unsafe":
                yield f"{task_id}{event.path}: in doubt, is {effects.get(event.path)}"


def parents_count_their_children(history: History) -> Iterator[str]:
    """Each parent has the children that it made, and tells of each what it came to."""
    families: dict[str, list[Task]] = defaultdict(list)
    for task in history.tasks:
        if task.spec.parent_id is not None:
            families[task.spec.parent_id].append(task)
    for task in history.tasks:
        if task.spec.parent_id is not None:
            continue
        splits = [r.event for r in history.streams[task.task_id] if isinstance(r.event, TaskSplit)]
        made = [child for split in splits for child in split.children]
        found = families.pop(task.task_id, [])
        if len(splits) < 1 or Counter(made) != Counter(child.task_id for child in found):
            yield f"{task.task_id}: made {made}, has {[child.task_id for child in found]}"
            continue
        told = _told(history.streams[task.task_id])
        if len(told) != history.children:
            yield f"{task.task_id}: tells of {len(told)} children, not {history.children}"
        elif len(splits) == 1 and Counter(told) != Counter(str(child.state) for child in found):
            yield f"{task.task_id}: tells of {told}, its children differ"
    for parent_id in families:
        yield f"{parent_id}: has children and does not exist, or is a child itself"


def nothing_left(history: History) -> Iterator[str]:
    """No message, no wait and no open question stays behind."""
    for row in history.messages:
        yield f"{row.message.task_id}: message {row.message.message_id} is left {row.state}"
    for wait in history.waits:
        yield f"{wait.task_id}: still waits ({wait.kind} {wait.key})"
    for review in history.reviews:
        if review.decision is None:
            yield f"{review.task_id}: review {review.review_id} ({review.reason}) is open"


RULES: tuple[Callable[[History], Iterator[str]], ...] = (
    settled_once,
    gapless,
    folds_to_its_row,
    called_at_most_once,
    idempotent_applied_once,
    journal_first,
    in_doubt_only_unsafe,
    parents_count_their_children,
    nothing_left,
)


@dataclass(slots=True, kw_only=True)
class Counts:
    """What happened, for people."""

    tasks: int
    deeds: int
    repeated: int
    asked: int
    in_doubt: int
    retried: int
    interrupted: int
    dead: int
    outcomes: Counter[str] = field(default_factory=Counter[str])


def counts(history: History) -> Counts:
    """How much there was to check."""
    records = [record for stream in history.streams.values() for record in stream]
    calls = Counter(deed.key for deed in history.deeds if deed.op == "call")
    return Counts(
        tasks=len(history.tasks),
        deeds=sum(calls.values()),
        repeated=sum(number - 1 for number in calls.values()),
        asked=sum(deed.op == "find" for deed in history.deeds),
        in_doubt=sum(record.event.type == "tool.in_doubt" for record in records),
        retried=len(retried(history)),
        interrupted=sum(map(_interruptions, history.streams.values())),
        dead=sum(review.reason == "dead_letter" for review in history.reviews),
        outcomes=Counter(str(task.state) for task in history.tasks),
    )


def _interruptions(records: Sequence[Recorded]) -> int:
    """How often a task was taken over from a holder that had not ended its work."""
    types = [record.event.type for record in records]
    return sum(
        after == "task.resumed" and before != "message.handled" for before, after in pairwise(types)
    )


def retried(history: History) -> list[str]:
    """Keys of calls in doubt that a person wanted to be made again, once for each time."""
    return [
        review.task_id + review.path
        for review in history.reviews
        if review.reason == "in_doubt" and review.decision == "retry"
    ]


def _calls(history: History, effects: frozenset[str]) -> Counter[str]:
    return Counter(
        deed.key
        for deed in history.deeds
        if deed.op == "call" and deed.effect in effects and deed.applied
    )


def _told(records: Sequence[Recorded]) -> list[str]:
    """What a parent says of its children: one state each."""
    for record in records:
        if isinstance(record.event, TaskSettled):
            return str(record.event.output).split(",")
    return []
