"""The pace of a key: never more than its rate in any window."""

from __future__ import annotations

from bisect import bisect_left
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.quota import (
    LONGEST_MICROS,
    MICROS,
    REQUEST_SLACK_MICROS,
    TOKEN_SLACK_MICROS,
    Meter,
    Rate,
)

Step = tuple[Literal["wait", "ask", "pause"], int]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(0, 5 * MICROS)),
        st.tuples(st.just("ask"), st.integers(1, 3000)),
        st.tuples(st.just("pause"), st.integers(1, 4)),
    ),
    max_size=60,
)


def sent(steps: list[Step], rate: Rate) -> list[tuple[int, int]]:
    """When each request goes out and its tokens; whoever waits looks again when it wakes."""
    now, meter = 0, Meter()
    waiting: list[tuple[int, int]] = []
    done: list[tuple[int, int]] = []
    for kind, size in [*steps, ("wait", 10**12)]:
        if kind == "ask":
            meter, slot = meter.reserve(rate, tokens=size, now=now)
            waiting.append((slot.at, size))
        elif kind == "pause":
            meter = meter.pause(size, now=now)
        else:
            for at, tokens in tuple(waiting):
                ready = now + round(meter.wait_s(at, now=now) * MICROS)
                if ready <= now + size:
                    done.append((ready, tokens))
                    waiting.remove((at, tokens))
            now += size
    assert not waiting
    return sorted(done)


@given(STEPS, st.sampled_from([6, 60, 600, 6000]))
def test_never_more_requests_than_the_rate_in_any_window(steps: list[Step], rpm: int) -> None:
    times = [at for at, _ in sent(steps, Rate(requests=rpm))]
    step = 60 * MICROS // rpm
    slack = max(0, REQUEST_SLACK_MICROS - step)
    for first, begin in enumerate(times):
        for last in range(first, len(times)):
            assert last - first <= (times[last] - begin + slack) // step


@given(STEPS, st.sampled_from([600, 6000, 60_000]))
def test_never_more_tokens_than_the_rate_in_any_window(steps: list[Step], tpm: int) -> None:
    """But for the slack and the last request, which may be of any size."""
    found = sent(steps, Rate(tokens=tpm))
    for first, (begin, _) in enumerate(found):
        used = 0
        for at, tokens in found[first:]:
            allowed = (at - begin + TOKEN_SLACK_MICROS) * tpm / (60 * MICROS)
            assert used <= allowed + 1
            used += tokens


@given(STEPS)
def test_nobody_is_sent_in_a_pause(steps: list[Step]) -> None:
    now, pauses = 0, list[tuple[int, int]]()
    for kind, size in steps:
        if kind == "pause":
            pauses.append((now, now + size * MICROS))
        now += size if kind == "wait" else 0
    times = [at for at, _ in sent(steps, Rate(requests=60))]
    for begin, end in pauses:
        inside = bisect_left(times, end) - bisect_left(times, begin + 1)
        assert inside == 0


def test_a_pause_within_a_pause_only_makes_it_longer() -> None:
    meter = Meter().pause(7, now=0).pause(7, now=1 * MICROS).pause(1, now=2 * MICROS)
    assert (meter.paused_until, meter.lost) == (8 * MICROS, 8 * MICROS)


@pytest.mark.parametrize("seconds", [1e300, 1e30])
def test_a_pause_for_ever_stays_within_what_a_database_holds(seconds: float) -> None:
    meter = Meter().pause(seconds, now=5)
    assert (meter.paused_until, meter.lost) == (5 + LONGEST_MICROS, LONGEST_MICROS)


@pytest.mark.parametrize("seconds", [float("inf"), float("nan")])
def test_a_pause_that_is_no_number_is_none(seconds: float) -> None:
    assert Meter().pause(seconds, now=5) == Meter()


def test_those_who_wait_keep_their_distances_over_a_pause() -> None:
    rate, meter, slots = Rate(requests=60), Meter(), list[int]()
    for _ in range(5):
        meter, slot = meter.reserve(rate, tokens=0, now=0)
        slots.append(slot.at)
    meter = meter.pause(10, now=MICROS // 2)
    assert [meter.wait_s(at, now=MICROS // 2) for at in slots] == [10.0, 10.5, 11.5, 12.5, 13.5]


def test_tokens_that_were_not_used_are_given_back() -> None:
    rate = Rate(tokens=60)
    meter, _ = Meter().reserve(rate, tokens=100, now=0)
    assert meter.reserve(rate, tokens=1, now=0)[1].wait_s == 94
    assert meter.settle(rate, reserved=100, used=0, now=0).tokens_at == 0
    assert meter.settle(rate, reserved=100, used=130, now=0).tokens_at == 130 * MICROS


def test_one_request_larger_than_a_minute_is_sent_and_paid_for_afterwards() -> None:
    rate = Rate(tokens=60)
    meter, slot = Meter().reserve(rate, tokens=600, now=0)
    assert slot.wait_s == 0
    assert meter.reserve(rate, tokens=1, now=0)[1].wait_s == 594
