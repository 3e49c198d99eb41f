"""What a server's `Retry-After` comes to, odd ones too."""

from __future__ import annotations

import pytest

from hermes.testing import FakeClock
from hermes.tools.web.status import retry_after_s


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("7", 7.0),
        ("9" * 400, 999_999_999.0),
        ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("Mon, 01 Jan 2001 00:00:00", None),
        ("soon", None),
        ("", None),
    ],
)
def test_a_wait_is_read_or_there_is_none(told: str, seconds: float | None) -> None:
    assert retry_after_s({"retry-after": told}, FakeClock()) == seconds
