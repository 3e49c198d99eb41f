"""Laws of the core: they hold for any values, not only for those that somebody thought of."""

import dataclasses
import types
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from random import Random
from typing import Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.core import json
from hermes.core.budget import Limits
from hermes.core.clock import from_micros, to_micros
from hermes.core.codec import EVENT_CLASSES, INLINE_BYTES, decode, encode, sha256
from hermes.core.events import Recorded, TaskCreated, TaskEvent
from hermes.core.message import Message
from hermes.core.retry import RetryPolicy
from hermes.core.task import TRANSITIONS, TaskState, TaskStatus, apply, fold, target_state
from hermes.errors import CodecError, TransitionError

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)

CHARACTERS = st.characters(exclude_categories=["Cs"])
SHORT = st.text(CHARACTERS, max_size=12)
LONG = st.tuples(SHORT, st.integers(2_000, 4_000)).map(lambda drawn: (drawn[0] or "长") * drawn[1])
TEXTS = SHORT | SHORT | SHORT | LONG
KEYS = SHORT | st.sampled_from(["", "/", "~", "~1", "a/b", "0", "错误"])
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | FLOATS | TEXTS
JSON: st.SearchStrategy[object] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
LIMITS = st.builds(
    Limits,
    max_steps=st.none() | st.integers(1, 1000),
    max_tokens=st.none() | st.integers(1, 10**9),
    max_seconds=st.none() | st.floats(0.001, 1e6),
)
PLAIN: dict[object, st.SearchStrategy[object]] = {
    str: TEXTS,
    int: st.integers(0, 2**53),
    float: FLOATS,
    bool: st.booleans(),
    object: JSON,
    types.NoneType: st.none(),
    Limits: LIMITS,
    datetime: st.datetimes(timezones=st.just(UTC)),
}


def values_of(hint: object) -> st.SearchStrategy[object]:
    """Any value of a type that events are made of."""
    if hint in PLAIN:
        return PLAIN[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(arg) for arg in args])
    if origin is tuple:
        return st.lists(values_of(args[0]), max_size=3).map(tuple)
    if origin is Mapping:
        return st.dictionaries(KEYS, values_of(args[1]), max_size=3)
    return built(cast("type[object]", hint))


def built(cls: type[T]) -> st.SearchStrategy[T]:
    """Any value of a dataclass; every field is given or left to its default."""
    hints = get_type_hints(cls)
    required: dict[str, st.SearchStrategy[object]] = {}
    optional: dict[str, st.SearchStrategy[object]] = {}
    for item in dataclasses.fields(cast("type[TaskCreated]", cls)):
        has_none = (item.default, item.default_factory) == (dataclasses.MISSING,) * 2
        (required if has_none else optional)[item.name] = values_of(hints[item.name])
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: cls(**given))


EVENTS: dict[str, st.SearchStrategy[TaskEvent]] = {
    name: built(cls) for name, cls in EVENT_CLASSES.items()
}
ANY_EVENT = st.one_of(list(EVENTS.values()))


@pytest.mark.parametrize("name", EVENTS)
@settings(max_examples=50)  # for each of some twenty types
@given(data=st.data())
def test_an_event_reads_back_as_it_was_written(name: str, data: st.DataObject) -> None:
    event = data.draw(EVENTS[name])

    stored = encode(event)

    assert stored.type == name
    assert len(stored.data) <= INLINE_BYTES
    assert all(sha256(raw) == key for key, raw in stored.blobs.items())
    assert set(stored.refs.values()) == set(stored.blobs)
    again = decode(
        name, stored.version, stored.data, refs=stored.refs, blob=lambda key: stored.blobs[key]
    )
    assert again == event


@given(ANY_EVENT)
def test_encoding_is_the_same_each_time(event: TaskEvent) -> None:
    assert encode(event) == encode(event)


@given(SHORT, st.sampled_from("\ud800\udbff\udc00\udfff"), st.integers(0, 5_000))
def test_a_lone_surrogate_is_refused_wherever_it_stands(
    text: str, surrogate: str, times: int
) -> None:
    spoiled = "x" * times + surrogate + text
    for event in (
        TaskCreated(agent="a", goal=spoiled),
        TaskCreated(agent="a", goal="g", input={"list": [spoiled]}),
        TaskCreated(agent="a", goal="g", input={spoiled: 1}),
    ):
        with pytest.raises(CodecError):
            encode(event)


@pytest.mark.parametrize(
    "event",
    [
        TaskCreated(agent="a", goal="g", labels={"\ud800": "x"}),
        TaskCreated(agent="a", goal="g", metadata={"\ud800": "x"}),
        TaskCreated(agent="a", goal="g", variables={"\ud800": "x"}),
    ],
    ids=["labels", "metadata", "variables"],
)
def test_a_lone_surrogate_in_a_key_is_refused(event: TaskEvent) -> None:
    with pytest.raises(CodecError):
        encode(event)


# The state machine


@st.composite
def streams(draw: st.DrawFn) -> list[Recorded]:
    """A lawful stream: events that do not fit are left out."""
    events = [draw(EVENTS["task.created"]), *draw(st.lists(ANY_EVENT, max_size=12))]
    records: list[Recorded] = []
    at = START
    for event in events:
        at += timedelta(microseconds=draw(st.integers(-1_000, 10**9)))
        record = Recorded(
            event_id=f"{len(records):032x}",
            task_id="task_1",
            seq=len(records) + 1,
            event=event,
            at=at,
            trace_id="f" * 32,
        )
        try:
            fold([*records, record])
        except TransitionError:
            continue
        records.append(record)
    return records


@given(streams(), st.lists(st.integers(0, 12)))
def test_the_fold_does_not_depend_on_batch_borders(
    records: list[Recorded], borders: list[int]
) -> None:
    whole = fold(records)
    assert whole is not None

    cuts = sorted({1, *(min(max(cut, 1), len(records)) for cut in borders), len(records)})
    task = fold(records[:1])
    assert task is not None
    for begin, end in zip(cuts, cuts[1:], strict=False):
        status = task.status
        for record in records[begin:end]:
            status = apply(status, record)
        task = dataclasses.replace(task, status=status)

    assert task == whole


@given(streams())
def test_spending_never_shrinks(records: list[Recorded]) -> None:
    tasks = [fold(records[:end]) for end in range(1, len(records) + 1)]
    spent = [task.status.spent for task in tasks if task is not None]

    for before, after in zip(spent, spent[1:], strict=False):
        assert before.steps <= after.steps
        assert before.model_calls <= after.model_calls
        assert before.tool_calls <= after.tool_calls
        assert before.usage.total_tokens <= after.usage.total_tokens
        assert before.seconds <= after.seconds


@pytest.mark.parametrize("state", TaskState)
@given(event=ANY_EVENT)
def test_no_transition_is_made_outside_the_table(state: TaskState, event: TaskEvent) -> None:
    status = TaskStatus(state=state, seq=4, updated_at=START)
    record = Recorded(
        event_id="0" * 32, task_id="task_1", seq=5, event=event, at=START, trace_id="f" * 32
    )
    target = target_state(event)

    if target is None:
        assert apply(status, record).state == state
    elif target in TRANSITIONS[state]:
        assert apply(status, record).state == target
    else:
        with pytest.raises(TransitionError):
            apply(status, record)


@given(ANY_EVENT, st.integers(-3, 12))
def test_an_event_out_of_turn_is_refused(event: TaskEvent, seq: int) -> None:
    status = TaskStatus(state=TaskState.PROCESSING, seq=4, updated_at=START)
    record = Recorded(
        event_id="0" * 32, task_id="task_1", seq=seq, event=event, at=START, trace_id="f" * 32
    )
    if seq != 5:
        with pytest.raises(TransitionError):
            apply(status, record)


def test_every_state_but_the_first_can_be_reached_and_the_last_cannot_be_left() -> None:
    reachable = {target for targets in TRANSITIONS.values() for target in targets}

    assert set(TRANSITIONS) == set(TaskState)
    assert reachable == set(TaskState) - {TaskState.PENDING}
    assert {state for state in TaskState if not TRANSITIONS[state]} == {
        state for state in TaskState if state.is_terminal
    }


# The envelope

INSTANTS = st.datetimes(
    min_value=datetime(1971, 1, 1),  # noqa: DTZ001  # the zone is drawn apart
    max_value=datetime(2200, 1, 1),  # noqa: DTZ001
    timezones=st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m))),
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=3)
FIELDS = {item.name for item in dataclasses.fields(Message)}
MESSAGES = st.builds(
    Message,
    message_id=TEXTS,
    sender=SHORT,
    receiver=SHORT,
    message_type=SHORT,
    task_id=SHORT,
    trace_id=SHORT,
    created_at=INSTANTS,
    payload=OBJECTS,
    version=st.integers(0, 99).map(lambda minor: f"1.{minor}"),
    metadata=OBJECTS,
    source_channel=st.none() | SHORT,
    reply_to=st.none() | SHORT,
    causation_id=st.none() | SHORT,
    dedupe_key=st.none() | SHORT,
    order_key=st.none() | SHORT,
    priority=st.integers(-10, 10),
    not_before=st.none() | INSTANTS,
    expires_at=st.none() | INSTANTS,
    extra=st.dictionaries(KEYS.filter(lambda key: key not in FIELDS), JSON, max_size=3),
)


@given(MESSAGES)
def test_a_message_reads_back_with_the_fields_that_nobody_knows(message: Message) -> None:
    wire = json.loads(json.encode(message.to_wire()))

    assert Message.from_wire(wire) == message
    assert Message.from_wire(wire).to_wire() == wire


@given(JSON)
def test_whatever_comes_in_is_a_message_or_is_refused(wire: object) -> None:
    with pytest.raises(CodecError):
        Message.from_wire(wire)


@given(MESSAGES, st.sampled_from(sorted(FIELDS - {"extra"})), SCALARS)
def test_a_wrong_field_is_refused_by_name_or_fits(
    message: Message, name: str, value: object
) -> None:
    wire = {**message.to_wire(), name: value}
    try:
        again = Message.from_wire(wire)
    except CodecError as exc:
        assert name in exc.message
    else:
        assert json.loads(json.encode(again.to_wire())) is not None


# Arithmetic


@given(INSTANTS)
def test_instants_keep_their_microsecond(at: datetime) -> None:
    assert from_micros(to_micros(at)) == at
    assert from_micros(to_micros(at)).tzinfo is UTC


@given(st.dictionaries(KEYS, JSON, max_size=5), st.randoms())
def test_a_digest_does_not_depend_on_key_order(value: dict[str, object], random: Random) -> None:
    items = list(value.items())
    random.shuffle(items)

    assert json.digest(dict(items)) == json.digest(value)


POLICIES = st.builds(
    RetryPolicy,
    attempts=st.integers(1, 50),
    base_s=st.floats(0.001, 10),
    cap_s=st.floats(0.001, 600),
    total_s=st.floats(0, 3600),
)
SPREADS = st.floats(0, 1, exclude_max=True)


@given(POLICIES, st.integers(1, 60), SPREADS, st.floats(0, 3600))
def test_a_delay_stays_below_its_ceilings(
    policy: RetryPolicy, attempt: int, spread: float, waited_s: float
) -> None:
    delay = policy.delay_s(attempt, spread=spread, waited_s=waited_s)

    if attempt >= policy.attempts:
        assert delay is None
    elif delay is not None:
        assert 0 <= delay <= min(policy.cap_s, policy.base_s * 2 ** (attempt - 1))
        assert waited_s + delay <= policy.total_s


@given(POLICIES, st.integers(1, 60), SPREADS, st.floats(0.001, 7200))
def test_what_the_other_side_asked_for_is_never_undercut(
    policy: RetryPolicy, attempt: int, spread: float, asked_s: float
) -> None:
    delay = policy.delay_s(attempt, spread=spread, retry_after_s=asked_s)

    if delay is not None:
        assert asked_s <= delay <= asked_s * 1.1 + 1e-9


@given(POLICIES, SPREADS)
def test_delays_grow_until_they_end(policy: RetryPolicy, spread: float) -> None:
    delays = [policy.delay_s(attempt, spread=spread) for attempt in range(1, 60)]
    known = [delay for delay in delays if delay is not None]

    assert known == sorted(known)
    assert delays == [*known, *[None] * (len(delays) - len(known))]


@given(POLICIES, SPREADS)
def test_retrying_comes_to_an_end_within_its_total(policy: RetryPolicy, spread: float) -> None:
    waited_s, attempt = 0.0, 1
    while (delay := policy.delay_s(attempt, spread=spread, waited_s=waited_s)) is not None:
        waited_s, attempt = waited_s + delay, attempt + 1

    assert attempt <= policy.attempts
    assert waited_s <= policy.total_s
