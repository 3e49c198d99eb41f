"""Bounds that nothing could be counted against are refused."""

import math
from typing import Any

import pytest

from hermes.config import Settings
from hermes.core.budget import Bounds, Limits, number
from hermes.core.codec import decode
from hermes.core.events import SCHEMA_VERSION, TaskCreated


@pytest.mark.parametrize("name", ["max_cost", "max_seconds"])
@pytest.mark.parametrize("value", [math.inf, 1e300, math.nan, -1.0, 0.0])
def test_a_bound_is_a_number_that_can_be_counted_up_to(name: str, value: float) -> None:
    given: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=f"{name} must be"):
        Limits(**given)
    with pytest.raises(ValueError, match=name):
        Settings.model_validate({name: value})


@pytest.mark.parametrize("name", ["max_tokens", "max_model_calls", "max_tool_calls"])
def test_a_bound_on_counts_is_one_too(name: str) -> None:
    given: dict[str, Any] = {name: 10**400}
    with pytest.raises(ValueError, match=f"{name} must be at most"):
        Limits(**given)
    with pytest.raises(ValueError, match=name):
        Settings.model_validate({name: 10**400})


@pytest.mark.parametrize("name", ["model_rpm", "model_tpm"])
@pytest.mark.parametrize("value", [1e-300, math.inf, math.nan, 0.0])
def test_a_rate_is_one_that_time_can_be_counted_by(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        Settings.model_validate({name: value})


@pytest.mark.parametrize(("name", "unit"), [("max_cost", 1e-9), ("max_seconds", 1e-6)])
def test_a_bound_is_at_least_the_unit_it_is_counted_in(name: str, unit: float) -> None:
    least: dict[str, Any] = {name: unit}
    below: dict[str, Any] = {name: unit / 2}
    assert Limits(**least).too_small() == ""
    assert f"{name} must be at least" in Limits(**below).too_small()
    assert getattr(Settings.model_validate(least), name) == unit
    with pytest.raises(ValueError, match=name):
        Settings.model_validate(below)


def test_a_tiny_bound_of_an_older_record_is_read_and_never_becomes_nothing() -> None:
    data = b'{"agent":"a","goal":"g","limits":{"max_cost":1e-300}}'
    created = decode("task.created", SCHEMA_VERSION, data)
    assert isinstance(created, TaskCreated)
    assert 1 in Bounds.of(created.limits).each


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-7, "0.0000001"), (1e-9, "0.000000001"), (1e-300, "1e-300"), (0.5, "0.5"),
        (0.003, "0.003"), (0.0, "0"), (12.3456, "12.346"), (0.0000305, "0.0000305"),
    ],
)  # fmt: skip
def test_small_figures_are_written_whole(value: float, text: str) -> None:
    assert number(value) == text
