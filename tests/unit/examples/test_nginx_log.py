from io import BytesIO
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.log_report.nginx_log import LEVELS, ErrorGroup, Filter, Order, Scan

REFUSED = "connect() failed (111: Connection refused) while connecting to upstream"
MISSING = 'open() "/srv/shop/a.css" failed (2: No such file or directory)'
FULL = 'pwrite() "/srv/spool/12" failed (28: No space left on device)'


def line(message: str, *, level: str = "error", clock: str = "20:14:03", day: int = 29) -> str:
    return (
        f"2026/11/{day} {clock} [{level}] 1189#1189: *4711 {message}, client: 203.0.113.7, "
        'server: shop.example, request: "GET /a.css HTTP/1.1", host: "shop.example"\n'
    )


def groups_of(log: str | bytes, level: str = "error", order: Order = "count") -> list[ErrorGroup]:
    return scanned(log, level, order)[1]


def scanned(
    log: str | bytes, level: str = "error", order: Order = "count"
) -> tuple[Scan, list[ErrorGroup]]:
    scan = Scan(Filter.of("2026-11-29", level))
    data = log.encode() if isinstance(log, str) else log
    return scan, scan.groups(BytesIO(data), order)


def records_of(log: str | bytes, *, level: str = "error", limit: int = 100) -> list[str]:
    data = log.encode() if isinstance(log, str) else log
    return Scan(Filter.of("2026-11-29", level)).first_records(BytesIO(data), limit)


@pytest.mark.parametrize(
    "text", ["2026-11-29", "2026/11/29", " 2026 - 11 - 29 ", "2026.11.29", "2026年11月29日"]
)
def test_people_and_nginx_write_the_day_differently(text: str) -> None:
    assert Filter.of(text, "error").beginning == b"2026/11/29 "


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "2026-02-30", "29/11/2026"])
def test_what_is_no_day_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write 2026-11-29"):
        Filter.of(text, "error")


@pytest.mark.parametrize(
    ("text", "level"),
    [("crit", "crit"), ("critical", "crit"), (" CRITICAL ", "crit"), ("[warn]", "warn")]
    + [("warning", "warn"), ("Emergency", "emerg"), ("err", "error"), ("错误", "error")]
    + [(level, level) for level in LEVELS],
)
def test_people_and_nginx_write_levels_differently(text: str, level: str) -> None:
    assert Filter.of("2026-11-29", text).level == level


def test_an_unknown_level_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'fatal'; one of emerg, alert, crit, error, warn"):
        Filter.of("2026-11-29", "fatal")


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_means_itself_and_everything_more_severe(level: str) -> None:
    log = "".join(line("trouble", level=each) for each in LEVELS)

    assert len(records_of(log, level=level)) == LEVELS.index(level) + 1


def test_only_the_day_counts() -> None:
    log = line(MISSING, day=28) + line(REFUSED) + line(MISSING, day=30)

    assert [group.kind for group in groups_of(log)] == ["upstream refused"]


UNUSUAL = {
    "crlf": (line(MISSING).replace("\n", "\r\n"), "missing file"),
    "no process id": (f"2026/11/29 20:14:03 [error] {REFUSED}\n", "upstream refused"),
    "no connection id": (f"2026/11/29 20:14:03 [error] 7#7: {REFUSED}", "upstream refused"),
    "no final newline": (line(REFUSED).rstrip(), "upstream refused"),
    "cut in the request": (line(REFUSED)[:140], "upstream refused"),
    "Chinese path": (line(MISSING.replace("a.css", "手册/尺码表.pdf")), "missing file"),
    "quote in the path": (line(MISSING.replace("a.css", 'a"b')), "missing file"),
    "comma in the path": (line(MISSING.replace("a.css", "a, b.css")), "missing file"),
    "broken UTF-8": (line(MISSING).encode().replace(b"a.css", b"\xff\xfe"), "missing file"),
    "zero bytes": (line(MISSING).replace("a.css", "a\0b"), "missing file"),
}


@pytest.mark.parametrize(("log", "kind"), UNUSUAL.values(), ids=UNUSUAL)
def test_a_record_in_an_unusual_form_is_read(log: str | bytes, kind: str) -> None:
    scan, groups = scanned(log)

    assert [(group.kind, group.count) for group in groups] == [(kind, 1)]
    assert (scan.total, scan.unparsed) == (1, 0)
    assert len(records_of(log)) == 1


UNREADABLE = {
    "empty": ("", 0),
    "another format": ('203.0.113.9 - - [29/Nov/2026:20:14:03] "GET / HTTP/1.1" 200\n' * 3, 3),
    "syslog before it": ("Nov 29 20:14:03 web1 nginx: " + line(MISSING), 1),
    "cut in the head": ("2026/11/29 20:14:03 [err", 1),
    "unknown level": ("2026/11/29 20:14:03 [panic] 7#7: trouble\n", 1),
    "another day only": (line(MISSING, day=28), 0),
    "no text": ("\0" * 1000, 1),
}


@pytest.mark.parametrize(("log", "unparsed"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_record_is_counted_and_not_fatal(log: str, unparsed: int) -> None:
    scan, groups = scanned(log)

    assert groups == []
    assert (scan.total, scan.unparsed) == (0, unparsed)


def test_continuation_lines_stay_with_their_record() -> None:
    log = (
        line("other", day=28) + "of the other\n" + line("FastCGI sent in stderr: boom")
        + "Stack trace:\n#0 main\n" + line(MISSING, level="info") + "of nothing wanted\n"
    )  # fmt: skip
    records = records_of(log)

    assert len(records) == 1
    assert records[0].endswith("\nStack trace:\n#0 main")
    assert groups_of(log)[0].kind == "application error"


def test_lines_beyond_the_limit_are_counted_but_not_kept() -> None:
    scan = Scan(Filter.of("2026-11-29", "error"))
    log = line(MISSING) + line(REFUSED) + "continued\n" + line(REFUSED) + "continued\n"

    kept = scan.first_records(BytesIO(log.encode()), 1)

    assert kept == [line(MISSING).rstrip()]
    assert scan.total == 3


def test_a_record_without_end_is_cut() -> None:
    log = line("trouble " + "x" * 1_000_000) + "y" * 1_000_000

    assert len(records_of(log)[0]) == 4_000


def test_severe_kinds_come_first_however_rare() -> None:
    log = line(MISSING) * 50 + line(FULL, level="crit") + line("gone", level="alert")

    assert [group.severity for group in groups_of(log)] == ["alert", "crit", "error"]


def test_within_a_severity_the_order_is_by_count_or_by_time() -> None:
    log = line(REFUSED, clock="01:00:00") + line(MISSING, clock="02:00:00") * 3

    by_count = [group.kind for group in groups_of(log, order="count")]
    by_time = [group.kind for group in groups_of(log, order="time")]

    assert by_count == ["missing file", "upstream refused"]
    assert by_time == ["upstream refused", "missing file"]


def test_all_resets_are_one_group() -> None:
    log = "".join(
        line(f"{call} failed (104: Connection reset by peer) while {doing}", level=level)
        for call in ("recv()", "send()", "writev()", "readv()", "SSL_read()")
        for doing in ("reading upstream", "sending to client", "reading client request line")
        for level in ("error", "info")
    )
    groups = groups_of(log, "info")

    assert [(group.kind, group.count, group.severity) for group in groups] == [
        ("connection reset", 30, "error")
    ]


@pytest.mark.parametrize("clocks", list(permutations(["08:00:00", "12:00:00", "20:00:00"])))
def test_first_and_last_do_not_depend_on_the_order_of_lines(clocks: tuple[str, ...]) -> None:
    (group,) = groups_of("".join(line(REFUSED, clock=clock) for clock in clocks))

    assert (group.first, group.last) == ("2026-11-29 08:00:00", "2026-11-29 20:00:00")


def test_the_sample_is_the_last_line_of_the_commonest_message() -> None:
    often = "recv() failed (104: Connection reset by peer) while reading upstream"
    rare = "send() failed (104: Connection reset by peer) while sending to client"
    log = line(often, clock="01:00:00") + line(often, clock="02:00:00")
    (group,) = groups_of(log + line(rare, clock="03:00:00"))

    assert group.template == "recv() failed (N: Connection reset by peer) while reading upstream"
    assert group.sample.startswith("2026/11/29 02:00:00 [error] 1189#1189: *4711 recv()")


def test_nothing_is_lost_where_chunks_of_the_file_meet() -> None:
    # Two megabytes, of which the day's lines lie apart, with whole chunks of another day between.
    gap = line("x" * 700, day=28) * 400
    log = "".join(line(REFUSED) + "continued\n" + gap for _ in range(6))
    scan, groups = scanned(log)

    assert (groups[0].count, scan.unparsed) == (6, 6)
    assert [record.count("\n") for record in records_of(log)] == [1] * 6


def test_more_shapes_than_are_kept_at_a_time_are_still_all_counted() -> None:
    words = ["".join(pair) for pair in permutations("abcdefghij", 4)] * 2
    scan, groups = scanned("".join(line(f"trouble named {word}") for word in words))

    assert len(words) > 10_000
    assert sum(group.count for group in groups) == scan.total == len(words)
    assert len(groups) <= 501


@st.composite
def lines(draw: st.DrawFn) -> str:
    """One record of some day, level and time."""
    return line(
        draw(st.sampled_from([REFUSED, MISSING, FULL, "something new"])),
        level=draw(st.sampled_from(LEVELS)),
        clock=f"20:14:{draw(st.integers(0, 59)):02}",
        day=draw(st.integers(28, 30)),
    )


@given(st.lists(lines()), st.sampled_from(LEVELS))
def test_the_counts_are_those_of_a_plain_loop(records: list[str], level: str) -> None:
    wanted = LEVELS[: LEVELS.index(level) + 1]
    passing = [
        each
        for each in records
        if each.startswith("2026/11/29") and any(f"[{name}]" in each for name in wanted)
    ]
    scan, groups = scanned("".join(records), level)

    assert scan.total == len(passing) == sum(group.count for group in groups)
    assert records_of("".join(records), level=level, limit=3) == [x.rstrip() for x in passing[:3]]


@given(st.lists(st.binary() | lines().map(str.encode)))
def test_no_bytes_are_fatal_and_both_ways_of_reading_agree(parts: list[bytes]) -> None:
    log = b"".join(parts)
    counted, groups = scanned(log, "debug")
    kept = records_of(log, level="debug", limit=10_000)

    assert len(kept) == counted.total == sum(group.count for group in groups)


@pytest.mark.parametrize("day", ["2026-11-28", "2026-11-29"])
def test_the_real_log_has_an_ordinary_mix_on_both_days(real_log: Path, day: str) -> None:
    with real_log.open("rb") as file:
        groups = Scan(Filter.of(day, "info")).groups(file)
    kinds = {group.kind for group in groups}

    assert kinds >= {"upstream timed out", "connection reset", "missing file", "body too large"}
    assert kinds >= {"rate limited", "TLS handshake failed", "application error"}
    assert sum(group.count for group in groups) > 1_000


def test_the_real_log_has_two_days_in_order(real_log: Path) -> None:
    lines = real_log.read_text(encoding="utf-8").splitlines()
    clocks = [each[:19] for each in lines if each.startswith("2026/11/2")]

    assert clocks == sorted(clocks)
    assert {clock[:10] for clock in clocks} == {"2026/11/28", "2026/11/29"}
    assert len(clocks) > 5_000
    assert real_log.stat().st_size < 1_500_000
