"""Laws of results."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from hermes.core.json import encode, loads
from hermes.tools import cap, normalise, render

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), inner, max_size=4)
    ),
    max_leaves=20,
)


@dataclass
class Box:
    inside: object


def containers(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=4),
        inner.map(Box),
        st.frozensets(st.integers() | st.text(max_size=2), max_size=4),
    )


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()  # lone surrogates included
    | st.binary(max_size=8)
    | st.decimals()
    | st.datetimes(timezones=st.none() | st.just(UTC))
    | st.dates()
    | st.times()
    | st.timedeltas(timedelta(days=-10_000), timedelta(days=10_000))
    | st.uuids(),
    containers,
    max_leaves=20,
)


@given(PLAIN)
def test_plain_json_stays_as_it_is(value: object) -> None:
    assert normalise(value) == value


@given(ANYTHING)
def test_every_result_is_stored_and_read_back_as_it_was_told(value: object) -> None:
    found = normalise(value)

    assert loads(encode(found)) == found
    assert normalise(found) == found
    render(found).encode()


@given(st.one_of(st.decimals(allow_nan=False), st.uuids(), st.dates(), st.times()))
def test_texts_of_exact_values_read_back_to_the_same_value(value: object) -> None:
    text = normalise(value)

    assert isinstance(text, str)
    match value:
        case Decimal():
            assert Decimal(text) == value
        case UUID():
            assert UUID(text) == value
        case time():
            assert time.fromisoformat(text) == value
        case _:
            assert date.fromisoformat(text) == value


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_reads_back_to_the_same_instant(value: datetime) -> None:
    assert datetime.fromisoformat(str(normalise(value))) == value


@given(st.sets(st.integers() | st.text(max_size=3)))
def test_a_set_has_one_order_whatever_its_own(value: set[object]) -> None:
    other_way_round = dict.fromkeys(sorted(value, key=repr, reverse=True)).keys()

    assert normalise(value) == normalise(other_way_round)


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=60), st.integers(200, 900))
def test_a_cut_text_is_head_and_tail_of_the_whole(unit: str, limit: int) -> None:
    text = unit * (2_000 // len(unit) + 1)
    content, full = cap(text, limit)

    assert full is not None
    assert full.decode() == text
    assert len(content) <= limit
    marker = content.rindex("\n[… ")
    offset = int(content[marker:].partition("offset=")[2].partition(")")[0])
    left_out = int(content[marker + 4 :].split()[0])
    assert content[:marker] == text[:offset]
    assert content.partition("shows them …]\n")[2] == text[offset + left_out :]


@given(ANYTHING)
def test_what_is_told_is_text_or_json(value: object) -> None:
    found = normalise(value)

    assert found == (found if isinstance(found, str) else json.loads(render(found)))
