"""What tools return, and what is stored and told of it."""

import collections
import dataclasses
import enum
import ipaddress
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

import numpy
import pytest
from pydantic import BaseModel

from hermes.core.json import encode
from hermes.tools import ResultFault, cap, handle_of, normalise, render


class Level(enum.Enum):
    HIGH = "high"
    BOTH = (1, 2)


class Code(enum.IntEnum):
    OK = 1


@dataclasses.dataclass
class Point:
    x: int
    at: date


class Pair(NamedTuple):
    key: str
    value: Decimal


class Row(BaseModel):
    qty: Decimal
    inner: Point | None = None


class Text(str):
    def __str__(self) -> str:
        return "something else"


CHINA = timezone(timedelta(hours=8))

PLAIN: dict[str, tuple[object, object]] = {
    "R026-none": (None, None),
    "R026-decimal": (Decimal("1.10"), "1.10"),
    "R026-aware": (datetime(2026, 11, 29, 8, tzinfo=CHINA), "2026-11-29T08:00:00+08:00"),
    "R026-utc": (datetime(2026, 11, 29, 8, 0, 1, 5, tzinfo=UTC), "2026-11-29T08:00:01.000005Z"),
    "R026-naive": (datetime(2026, 11, 29, 8), "2026-11-29T08:00:00"),  # noqa: DTZ001  # the case
    "R026-date": (date(2026, 11, 29), "2026-11-29"),
    "R026-time": (time(8, 30), "08:30:00"),
    "R026-timedelta": (timedelta(days=1, seconds=90), "P1DT1M30S"),
    "R026-bytes": (b"\x00\xff", {"$bytes": "AP8=", "size": 2}),
    "R026-bytearray": (bytearray(b"a"), {"$bytes": "YQ==", "size": 1}),
    "R026-memoryview": (memoryview(b"a"), {"$bytes": "YQ==", "size": 1}),
    "R026-set": ({3, 1, 2}, [1, 2, 3]),
    "R026-mixed-set": ({"b", 1, None}, ["b", 1, None]),
    "R026-set-of-tuples": ({(2, "a"), (1, "b")}, [[1, "b"], [2, "a"]]),
    "R026-keys": ({"b": 1, "a": 2}.keys(), ["a", "b"]),
    "R026-values": ({"b": 1, "a": 2}.values(), [1, 2]),
    "R026-nan": (float("nan"), "NaN"),
    "R026-infinity": ([float("inf"), float("-inf")], ["Infinity", "-Infinity"]),
    "R026-decimal-nan": (Decimal("NaN"), "NaN"),
    "R026-numpy-int64": (numpy.int64(7), 7),
    "R026-numpy-float": (numpy.float64(1.5), 1.5),
    "R026-numpy-float32": (numpy.float32(1.5), 1.5),
    "R026-numpy-longdouble": (numpy.longdouble(1.5), 1.5),
    "R026-numpy-nan": (numpy.float32("nan"), "NaN"),
    "R026-numpy-bool": (numpy.bool_(True), True),
    "R026-numpy-text": (numpy.str_("a"), "a"),
    "R026-numpy-array": (numpy.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    "R026-numpy-array-nan": (numpy.array([1.0, numpy.nan]), [1.0, "NaN"]),
    "R026-numpy-objects": (numpy.array([Decimal(1), None], dtype=object), ["1", None]),
    "R026-numpy-time": (
        numpy.datetime64("2026-11-29T08:00:00", "ns"),
        "2026-11-29T08:00:00.000000",
    ),
    "R026-numpy-times": (
        numpy.array(["2026-11-29"], dtype="datetime64[D]"),
        ["2026-11-29T00:00:00.000000"],
    ),
    "R026-numpy-timedelta": (numpy.timedelta64(90, "s"), "PT1M30S"),
    "R026-dataclass": (Point(1, date(2026, 11, 29)), {"x": 1, "at": "2026-11-29"}),
    "R026-enum": (Level.HIGH, "high"),
    "R026-int-enum": (Code.OK, 1),
    "R026-enum-tuple": (Level.BOTH, [1, 2]),
    "model": (Row(qty=Decimal("1.10")), {"qty": "1.10", "inner": None}),
    "named-tuple": (Pair("a", Decimal(1)), {"key": "a", "value": "1"}),
    "tuple": ((1, (2,)), [1, [2]]),
    "deque": (collections.deque([1, 2]), [1, 2]),
    "range": (range(3), [0, 1, 2]),
    "uuid": (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "path": (PurePosixPath("/var/log"), "/var/log"),
    "fraction": (Fraction(1, 3), "1/3"),
    "address": (ipaddress.ip_address("10.0.0.1"), "10.0.0.1"),
    "mapping": (MappingProxyType({"a": 1}), {"a": 1}),
    "counter": (collections.Counter("aab"), {"a": 2, "b": 1}),
    "integer-keys": ({1: "a", 2: "b"}, {"1": "a", "2": "b"}),
    "odd-keys": ({True: 1, None: 2, 1.5: 3}, {"true": 1, "null": 2, "1.5": 3}),
    "date-keys": ({date(2026, 11, 29): 1, Level.HIGH: 2}, {"2026-11-29": 1, "high": 2}),
    "text-subclass": (Text("a"), "a"),
    "large-integer": (2**80, 2**80),
    "lone-surrogate": ("caf\udce9", "caf\\udce9"),
    "lone-surrogate-in-a-key": ({"\udce9": 1}, {"\\udce9": 1}),
    "chinese": ("错误", "错误"),
}


@pytest.mark.parametrize(("value", "wanted"), PLAIN.values(), ids=PLAIN)
def test_results_become_plain_json_by_documented_rules(value: object, wanted: object) -> None:
    found = normalise(value)

    assert found == wanted
    assert json.loads(encode(found)) == wanted


def cycle() -> object:
    inner: list[object] = []
    outer = {"items": inner}
    inner.append(outer)
    return outer


def deep() -> object:
    value: object = 1
    for _ in range(5_000):
        value = [value]
    return value


def numbers() -> Iterator[int]:
    yield 1


async def later() -> AsyncIterator[int]:
    yield 1


class Odd:
    pass


REFUSED: dict[str, tuple[object, str]] = {
    "R026-cycle": (cycle(), "the dict holds itself, at result['items'][0]"),
    "R026-generator": (numbers(), "a generator has no plain JSON form; return a list of what it"),
    "R026-async-generator": (later(), "a async_generator has no plain JSON form; return a list"),
    "iterator": (iter([1]), "a list_iterator has no plain JSON form; return a list"),
    "map": (map(str, [1]), "a map has no plain JSON form; return a list"),
    "object": ({"a": [1, Odd()]}, "a Odd has no plain JSON form; return text"),
    "type": (Odd, "a type has no plain JSON form"),
    "function": (deep, "a function has no plain JSON form"),
    "exception": (ValueError("x"), "a ValueError has no plain JSON form"),
    "complex": (1j, "a complex has no plain JSON form"),
    "numpy-complex": (numpy.complex128(1j), "a complex has no plain JSON form"),
    "deep": (deep(), "it is nested deeper than 64 levels"),
    "many": (range(2_000_000), "it holds more than 1000000 values"),
    "numpy-many": (numpy.zeros(2_000_000), "it holds more than 1000000 values"),
    "key-clash": ({1: "a", "1": "b"}, "two keys are both written as '1'"),
    "tuple-key": ({(1, 2): "a"}, "a tuple cannot be a key"),
    "digits": (10**5_000, "it holds a number of more digits than can be written"),
}


@pytest.mark.parametrize(("value", "message"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_plain_form_is_a_fault_with_its_place(value: object, message: str) -> None:
    with pytest.raises(ResultFault) as caught:
        normalise(value)

    assert str(caught.value).startswith(message)


def test_a_value_that_stands_twice_is_no_cycle() -> None:
    shared = [1]

    assert normalise({"a": shared, "b": shared}) == {"a": [1], "b": [1]}


def test_text_is_told_as_it_is_and_all_else_as_readable_json() -> None:
    assert render("错误 1") == "错误 1"
    assert render({"错误": [1, None]}) == '{"错误":[1,null]}'
    assert render(None) == "null"


def test_a_short_text_stays_whole() -> None:
    assert cap("x" * 100, 100) == ("x" * 100, None)


def test_r025_a_long_text_keeps_head_and_tail_and_says_how_to_read_on() -> None:
    text = "".join(f"第{number:06}行\n" for number in range(400_000))
    content, full = cap(text)

    assert full is not None
    assert full == text.encode()
    assert len(content) <= 16_000
    head, gap, tail = content.partition("\n[… ")
    left_out = int(tail.split()[0])
    end = tail.partition("…]\n")[2]
    assert text.startswith(head)
    assert text.endswith(end)
    assert gap
    assert len(head) + left_out + len(end) == len(text)
    assert f'read_more(handle="{handle_of(full)}", offset={len(head)})' in content


JOINED = {
    "accent": "e\u0301",
    "family": "👩\u200d👩\u200d👧",
    "skin": "👍🏽",
    "flag": "🇨🇳",
    "windows-line-end": "\r\n",
    "devanagari": "क\u094d",
}


@pytest.mark.parametrize("unit", JOINED.values(), ids=JOINED)
@pytest.mark.parametrize("limit", range(300, 312))
def test_r025_no_character_is_cut_in_two(unit: str, limit: int) -> None:
    content, full = cap(unit * 1_000, limit)

    head, _, rest = content.partition("\n[…")
    tail = rest.partition("…]\n")[2]
    assert full is not None
    assert len(content) <= limit
    assert head.replace(unit, "") == ""
    assert tail.replace(unit, "") == ""


def test_a_text_of_nothing_but_joiners_is_cut_all_the_same() -> None:
    content, _ = cap("\u0301" * 100_000, 1_000)

    assert 900 < len(content) <= 1_000


def test_a_limit_below_the_line_between_leaves_the_line() -> None:
    content, full = cap("x" * 1_000, 10)

    assert content.startswith("\n[… 1000 of 1000 characters left out")
    assert full is not None
