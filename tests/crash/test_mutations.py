"""With a guard of the engine switched off, the crash tests fail: they would find its loss."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.crash.mutations import MUTATIONS
from tests.crash.running import matrix

HOW = {
    "fence": ["freeze"],
    "intent": ["crash", "--from-end"],
    "finish": ["crash", "--from-end"],  # it shows at one or two points near the end
    "dedupe": ["crash"],
}
SIGNS = {
    "fence": "whose lease had ended wrote",
    "intent": "began before its intent was durable",
    "finish": "is left leased",
    "dedupe": "0 task.settled events",
}


@pytest.mark.parametrize("mutation", list(MUTATIONS))
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_the_crash_tests_find_a_guard_that_is_off(
    database: str, mutation: str, tell: Callable[[str], None]
) -> None:
    result = matrix(database, "effects", *HOW[mutation], "--mutation", mutation, "--until-red")

    tell(f"guard off: {database} {mutation}: found after {result.runs} runs")
    found = [line for lines in result.broken.values() for line in lines]
    assert any(SIGNS[mutation] in line for line in found), found
    assert "no crash" not in result.broken, "it is the crash that shows it"
