"""Bounds that nothing could be counted against are refused."""

import math
from typing import Any

import pytest

from hermes.config import Settings
from hermes.core.budget import Limits


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
