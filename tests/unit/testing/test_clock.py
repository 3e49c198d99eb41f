from datetime import UTC, datetime, timedelta, timezone

import pytest

from hermes.core.clock import Clock
from hermes.testing import FakeClock


def test_it_stands_still_until_it_is_advanced() -> None:
    clock: Clock = FakeClock()
    assert clock.now() == clock.now()
    assert clock.monotonic() == clock.monotonic() == 0.0


def test_both_readings_move_together() -> None:
    clock = FakeClock(datetime(2026, 3, 1, tzinfo=UTC))
    clock.advance(1.5)
    clock.advance(60)
    assert clock.now() == datetime(2026, 3, 1, 0, 1, 1, 500_000, tzinfo=UTC)
    assert clock.monotonic() == 61.5


def test_it_speaks_utc_whatever_zone_it_starts_in() -> None:
    clock = FakeClock(datetime(2026, 3, 1, 8, tzinfo=timezone(timedelta(hours=8))))
    assert clock.now().isoformat() == "2026-03-01T00:00:00+00:00"


def test_it_does_not_go_back() -> None:
    with pytest.raises(ValueError, match=r"advance\(-1\)"):
        FakeClock().advance(-1)
