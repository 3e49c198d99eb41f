from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hermes.errors import ToolError
from hermes.testing import FakeClock
from hermes.tools import builtin_tools
from hermes.tools.builtin.time_zone import make
from tests.unit.tools.calling import awaited_table

NIGHT = FakeClock(datetime(2026, 11, 29, 20, 14, 3, tzinfo=UTC))


async def told(zone: str) -> dict[str, object]:
    return await awaited_table(make(NIGHT), zone)


def test_it_is_in_the_core() -> None:
    assert "get_time" in [tool.name for tool in builtin_tools(["core"])]


async def test_it_is_tomorrow_in_beijing() -> None:
    assert await told("Asia/Shanghai") == {
        "zone": "Asia/Shanghai",
        "date": "2026-11-30",
        "time": "04:14:03",
        "weekday": "Monday 星期一",
        "utc_offset": "+08:00",
        "utc": "2026-11-29T20:14:03Z",
    }


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("北京", "Asia/Shanghai"),
        ("北京时间", "Asia/Shanghai"),
        ("上海市", "Asia/Shanghai"),
        ("Shanghai", "Asia/Shanghai"),
        ("asia/shanghai", "Asia/Shanghai"),
        (" New York ", "America/New_York"),
        ("los_angeles", "America/Los_Angeles"),
        ("Singapore", "Singapore"),
        ("utc", "UTC"),
        ("Z", "UTC"),
    ],
)
async def test_a_zone_is_found_by_what_people_call_it(name: str, zone: str) -> None:
    assert (await told(name))["zone"] == zone


@pytest.mark.parametrize(
    ("name", "offset"),
    [("UTC+8", "+08:00"), ("+05:30", "+05:30"), ("gmt-3", "-03:00"), ("UTC＋08：00", "+08:00")],
)
async def test_an_offset_is_a_zone(name: str, offset: str) -> None:
    assert (await told(name))["utc_offset"] == offset


async def test_without_a_zone_it_is_the_machines() -> None:
    found = await told("")
    assert str(found["zone"]).endswith("(this machine)")
    assert found["utc"] == "2026-11-29T20:14:03Z"


@pytest.mark.parametrize("name", ["Shanghay", "Atlantis", "UTC+99", "../etc/passwd", "/etc/passwd"])
async def test_an_unknown_zone_is_no_guess(name: str) -> None:
    with pytest.raises(ToolError) as caught:
        await told(name)
    assert caught.value.code == "unknown_zone"
    assert name != "Shanghay" or "shanghai" in caught.value.hint
