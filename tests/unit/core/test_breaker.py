"""A breaker opens after failures outside, and one probe decides when it closes."""

from __future__ import annotations

import pytest

from hermes.core.breaker import Breaker, Verdict

COOLDOWN_S = 30.0
FIVE: list[Verdict] = ["outside"] * 5


def breaker(*verdicts: Verdict | None, failures: int = 5) -> Breaker:
    """One that calls have gone through, one after the other."""
    made = Breaker(failures=failures, cooldown_s=COOLDOWN_S)
    for verdict in verdicts:
        given = made.enter(0.0)
        assert given is not None
        made.leave(given, verdict, 0.0)
    return made


@pytest.mark.parametrize(
    "verdicts",
    [
        pytest.param(["outside"] * 4, id="one too few"),
        pytest.param(["outside"] * 4 + ["ok"] + ["outside"] * 4, id="a success between"),
        pytest.param(["other"] * 9, id="arguments and business errors"),
        pytest.param([None] * 9, id="cancelled calls"),
    ],
)
def test_it_stays_closed(verdicts: list[Verdict | None]) -> None:
    made = breaker(*verdicts)
    assert not made.is_open
    assert made.enter(0.0) is not None


@pytest.mark.parametrize("between", ["other", None])
def test_what_says_nothing_of_the_outside_neither_counts_nor_ends_a_row(
    between: Verdict | None,
) -> None:
    assert breaker("outside", between, *FIVE[:3], between, "outside").is_open


def test_it_opens_for_the_cool_down_and_says_how_long() -> None:
    made = breaker(*FIVE)
    assert (made.enter(0.0), made.enter(29.9)) == (None, None)
    assert made.wait_s(10.0) == 20.0
    assert made.enter(30.0) is not None


def test_only_one_probe_is_let_through_and_its_success_closes() -> None:
    made = breaker(*FIVE)
    given = [made.enter(30.0) for _ in range(50)]
    [probe] = [one for one in given if one is not None]
    assert made.leave(probe, "ok", 31.0)
    assert not made.is_open
    assert all(made.enter(31.0) for _ in range(50))


def test_a_failed_probe_begins_the_cool_down_again() -> None:
    made = breaker(*FIVE)
    probe = made.enter(30.0)
    assert probe is not None
    made.leave(probe, "outside", 40.0)
    assert made.enter(69.9) is None
    assert made.enter(70.0) is not None


def test_a_cancelled_probe_leaves_the_next_call_to_find_out() -> None:
    made = breaker(*FIVE)
    probe = made.enter(30.0)
    assert probe is not None
    made.leave(probe, None, 31.0)
    assert made.is_open
    second = made.enter(31.0)
    assert second is not None and second.is_probe


def test_a_probe_that_ends_in_a_business_error_has_reached_the_tool() -> None:
    made = breaker(*FIVE)
    probe = made.enter(30.0)
    assert probe is not None
    assert made.leave(probe, "other", 31.0)
    assert not made.is_open


@pytest.mark.parametrize("verdict", ["ok", "outside"])
def test_a_call_from_before_it_opened_changes_nothing(verdict: Verdict) -> None:
    made = Breaker(failures=1, cooldown_s=COOLDOWN_S)
    slow, quick = made.enter(0.0), made.enter(0.0)
    assert slow is not None and quick is not None
    assert made.leave(quick, "outside", 0.0)
    assert not made.leave(slow, verdict, 20.0)
    assert made.wait_s(20.0) == 10.0
