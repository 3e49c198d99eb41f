"""Two days of a web shop: which trouble happens when, and how much of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from shop import Shop

Act = Callable[["Shop"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """`count` times `act` between two instants; most of them around `peak`, if there is one."""

    start: str
    end: str
    count: int
    act: Act
    peak: str | None = None

    def instants(self, random: Random) -> list[float]:
        """When it happens, as POSIX seconds (the shop's clock runs in UTC)."""
        low, high = _seconds(self.start), _seconds(self.end)
        if self.peak is None:
            return [random.uniform(low, high) for _ in range(self.count)]
        return [random.triangular(low, high, _seconds(self.peak)) for _ in range(self.count)]


def _seconds(text: str) -> float:
    return datetime.strptime(text + "+0000", "%d %H:%M%z").replace(year=2026, month=11).timestamp()


def _at(moment: str, act: Act) -> Wave:
    return Wave(start=moment, end=moment, count=1, act=act)


def _both_days(start: str, end: str, count: int, act: Act) -> list[Wave]:
    return [
        Wave(start=f"{day} {start}", end=f"{day} {end}", count=count * share // 10, act=act)
        for day, share in ((28, 10), (29, 13))
    ]


ORDINARY = [
    *_both_days("00:00", "23:59", 160, lambda shop: shop.visitors.lost()),
    *_both_days("00:00", "23:59", 90, lambda shop: shop.visitors.scan()),
    *_both_days("06:30", "23:30", 26, lambda shop: shop.visitors.upload()),
    *_both_days("08:00", "22:00", 12, lambda shop: shop.visitors.upload_too_much()),
    *_both_days("07:00", "23:59", 40, lambda shop: shop.visitors.leave_early()),
    *_both_days("07:00", "23:59", 22, lambda shop: shop.visitors.stall()),
    *_both_days("00:00", "23:59", 30, lambda shop: shop.visitors.send_nonsense()),
    *_both_days("00:00", "23:59", 18, lambda shop: shop.visitors.plain_to_tls()),
    *_both_days("00:00", "23:59", 60, lambda shop: shop.visitors.distrust()),
    *_both_days("00:00", "23:59", 24, lambda shop: shop.visitors.speak_old_tls()),
    *_both_days("00:00", "23:59", 14, lambda shop: shop.visitors.get("/internal/metrics")),
    *_both_days("00:00", "23:59", 9, lambda shop: shop.visitors.get("/img/")),
    *_both_days("09:00", "22:00", 16, lambda shop: shop.visitors.get("/cart/")),
    *_both_days("09:00", "22:00", 8, lambda shop: shop.visitors.get("/legacy/invoices")),
    *_both_days("09:00", "22:00", 10, lambda shop: shop.with_mood("silent", "/api/reports/9")),
    *_both_days("09:00", "22:00", 9, lambda shop: shop.with_mood("reset", "/api/basket/7")),
    *_both_days("09:00", "22:00", 5, lambda shop: shop.with_mood("hang_up", "/api/orders/3")),
    *_both_days("09:00", "22:00", 4, lambda shop: shop.with_mood("bad_header", "/api/session")),
    *_both_days("09:00", "22:00", 4, lambda shop: shop.with_mood("big_header", "/api/session")),
]

FIRST_DAY = [
    Wave(start="28 03:10", end="28 03:26", count=330, act=lambda shop: shop.visitors.scan()),
    Wave(start="28 11:40", end="28 12:30", count=26, act=lambda shop: shop.visitors.search_fast()),
    Wave(
        start="28 04:00", end="28 04:20", count=70, act=lambda shop: shop.visitors.guess_password()
    ),
    Wave(
        start="28 19:30",
        end="28 21:30",
        count=60,
        peak="28 20:15",
        act=lambda shop: shop.with_mood("silent", "/api/orders/88"),
    ),
    Wave(start="28 05:10", end="28 05:12", count=9, act=lambda shop: shop.visitors.bad_key_share()),
    _at("28 23:55", lambda shop: shop.reload()),
]

SECOND_DAY = [
    # A backup fills the spool disk in the night; uploads fail until it is removed.
    _at("29 02:31", lambda shop: shop.fill_disk()),
    Wave(start="29 02:33", end="29 03:04", count=43, act=lambda shop: shop.visitors.upload()),
    _at("29 03:05", lambda shop: shop.free_disk()),
    Wave(start="29 05:20", end="29 05:44", count=170, act=lambda shop: shop.visitors.scan()),
    # A release: a broken configuration twice, then files that nginx may not read.
    _at("29 10:02", lambda shop: shop.reload_broken()),
    _at("29 10:04", lambda shop: shop.reload_broken()),
    _at("29 10:07", lambda shop: shop.reload()),
    _at("29 10:08", lambda shop: shop.lock_files()),
    Wave(
        start="29 10:08",
        end="29 10:31",
        count=130,
        act=lambda shop: shop.visitors.get("/css/release-2026.11.css"),
    ),
    _at("29 10:31", lambda shop: shop.unlock_files()),
    Wave(start="29 12:10", end="29 13:00", count=22, act=lambda shop: shop.visitors.search_fast()),
    # The payment service loses its TLS, then the PHP socket goes away for a while.
    Wave(
        start="29 14:20", end="29 14:50", count=48, act=lambda shop: shop.visitors.get("/pay/card")
    ),
    _at("29 16:02", lambda shop: shop.php.stop()),
    Wave(start="29 16:02", end="29 16:09", count=27, act=lambda shop: shop.visitors.get("/cart/")),
    _at("29 16:10", lambda shop: shop.restart_php()),
    # The evening incident: slow, then down, then back with resets.
    Wave(
        start="29 19:52",
        end="29 20:14",
        count=110,
        peak="29 20:13",
        act=lambda shop: shop.with_mood("silent", "/api/orders/88"),
    ),
    _at("29 20:14", lambda shop: shop.stop_apps()),
    Wave(
        start="29 20:14",
        end="29 20:58",
        count=620,
        peak="29 20:22",
        act=lambda shop: shop.visitors.call_api(),
    ),
    _at("29 20:31", lambda shop: shop.kill_worker()),
    _at("29 20:40", lambda shop: shop.visitors.crowd(130)),
    _at("29 20:58", lambda shop: shop.start_apps()),
    Wave(
        start="29 20:58",
        end="29 21:25",
        count=170,
        peak="29 21:00",
        act=lambda shop: shop.with_mood("reset", "/api/basket/7"),
    ),
    Wave(
        start="29 20:59",
        end="29 21:40",
        count=60,
        act=lambda shop: shop.with_mood("reset_late", "/stock/list"),
    ),
]


def events(random: Random) -> list[tuple[float, Act]]:
    """All that happens in the two days, in the order of time."""
    waves = [*ORDINARY, *FIRST_DAY, *SECOND_DAY]
    pairs = [(instant, wave.act) for wave in waves for instant in wave.instants(random)]
    return sorted(pairs, key=lambda pair: pair[0])
