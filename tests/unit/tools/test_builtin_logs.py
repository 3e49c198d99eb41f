"""Logs of many formats, as tools read them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes.core.json import as_list, as_object
from hermes.errors import ToolError
from hermes.tools import Tool, ToolContext
from hermes.tools.builtin import logs
from hermes.tools.builtin.logs_groups import template_of
from hermes.tools.builtin.logs_lines import Filter, read_line
from hermes.tools.builtin.options import BuiltinOptions
from tests.unit.tools.conftest import MemoryBench

NGINX = """\
2026/11/28 23:59:59 [error] 12#12: *1 yesterday, client: 1.2.3.4, server: x
2026/11/29 00:00:01 [error] 12#12: *2 upstream timed out (110: Timed out), client: 1.2.3.4
2026/11/29 00:00:02 [warn] 12#12: *3 a client request body is buffered
2026/11/29 08:00:00 [crit] 12#12: *4 open() "/var/a b/c.tmp" failed (28: No space left on device)
 a line that goes on
2026/11/29 09:00:00 [error] 99#99: *7 upstream timed out (110: Timed out), client: 9.9.9.9
2026/11/30 00:00:00 [error] 12#12: *9 tomorrow
"""


@pytest.fixture
def tools(tmp_path: Path) -> Mapping[str, Tool]:
    made = logs.tools(BuiltinOptions(workspace=tmp_path))
    return {tool.name: tool for tool in made}


class Reader:
    """The tools over one file."""

    def __init__(self, folder: Path, context: ToolContext, bench: MemoryBench) -> None:
        self.folder, self.context, self.bench = folder, context, bench

    def __call__(self, name: str, content: str | bytes, **arguments: object) -> dict[str, object]:
        raw = content.encode() if isinstance(content, str) else content
        (self.folder / "a.log").write_bytes(raw)
        made = {tool.name: tool for tool in logs.tools(BuiltinOptions(workspace=self.folder))}
        given = {("file_path" if name == "search_logs" else "log_path"): "a.log", **arguments}
        found = as_object(made[name].function(ctx=self.context, **given))
        assert found is not None
        return dict(found)


@pytest.fixture
def read(tmp_path: Path, context: ToolContext, bench: MemoryBench) -> Reader:
    return Reader(tmp_path, context, bench)


def test_what_they_may_do_is_said(tools: Mapping[str, Tool]) -> None:
    assert [*tools] == ["read_error_logs", "summarise_errors", "search_logs"]
    assert all(tool.effect == "read" and tool.untrusted for tool in tools.values())


@pytest.mark.parametrize("day", ["2026-11-29", "2026/11/29", "2026年11月29日", "2026/11/29 "])
@pytest.mark.parametrize("level", ["crit", "critical", "[CRIT]", "严重"])
def test_both_spellings_of_a_date_and_of_a_level(read: Reader, day: str, level: str) -> None:
    found = read("read_error_logs", NGINX, date=day, level=level)
    assert (found["date"], found["level"], found["total"]) == ("2026-11-29", "crit", 1)
    [line] = as_list(found["lines"])
    assert str(line).endswith("No space left on device)\n a line that goes on")


def test_one_day_and_all_that_is_as_severe(read: Reader) -> None:
    found = read("read_error_logs", NGINX, date="2026-11-29", max_lines=2)
    assert (found["total"], found["returned"], found["unparsed"]) == (3, 2, 1)
    assert read("read_error_logs", NGINX)["total"] == 5


def test_the_same_message_is_one_kind_and_severe_kinds_come_first(read: Reader) -> None:
    found = read("summarise_errors", NGINX, date="2026-11-29", level="warn")
    assert (found["total"], found["kinds"]) == (4, 3)
    groups = [as_object(group) or {} for group in as_list(found["groups"])]
    assert [(group["severity"], group["count"]) for group in groups] == [
        ("crit", 1),
        ("error", 2),
        ("warn", 1),
    ]
    assert groups[0]["template"] == 'open() "…" failed (N: No space left on device)'
    assert groups[1] == {
        "template": "upstream timed out (N: Timed out)",
        "severity": "error",
        "count": 2,
        "first": "2026-11-29 00:00:01",
        "last": "2026-11-29 09:00:00",
        "sample": NGINX.splitlines()[5],
    }


@pytest.mark.parametrize("order", ["count", "time"])
def test_kinds_are_sorted_by_count_or_by_time(read: Reader, order: str) -> None:
    lines = [
        "2026/11/29 01:00:00 [error] 1#1: first",
        *["2026/11/29 02:00:00 [error] 1#1: often"] * 3,
    ]
    found = read("summarise_errors", "\n".join(lines), order=order)
    names = [str((as_object(group) or {})["template"]) for group in as_list(found["groups"])]
    assert names == (["often", "first"] if order == "count" else ["first", "often"])


@pytest.mark.parametrize(
    ("line", "time", "level", "message"),
    [
        (
            '1.2.3.4 - bob [29/Nov/2026:20:14:03 +0800] "GET /a/b?token=x HTTP/1.1" 502 7 "-" "ua"',
            "2026-11-29 20:14:03",
            "error",
            "GET /a/b",
        ),
        (
            '::1 - - [29/Nov/2026:20:14:03 +0800] "POST /\\"x HTTP/1.1" 404 7 "-" "ua"',
            "2026-11-29 20:14:03",
            "warn",
            'POST /\\"x',
        ),
        (
            "<34>Nov  9 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8",
            "11-09 22:14:15",
            "crit",
            "su: 'su root' failed for lonvick on /dev/pts/8",
        ),
        (
            "Nov 29 22:14:15 web1 sshd[123]: Failed password for root",
            "11-29 22:14:15",
            "error",
            "sshd[123]: Failed password for root",
        ),
        ("Nov 29 22:14:15 web1 cron[1]: run", "11-29 22:14:15", "info", "cron[1]: run"),
        (
            '<165>1 2026-11-29T22:14:15.003Z host evntslog - ID [a b="\\]"][e f="g"] \ufeffAn app',
            "2026-11-29 22:14:15",
            "notice",
            "evntslog: An app",
        ),
        (
            "<11>1 2026-11-29T22:14:15+08:00 host app - - - 数据库连接失败",
            "2026-11-29 22:14:15",
            "error",
            "app: 数据库连接失败",
        ),
        (
            "2026-11-29T20:14:03.123456+08:00 web1 app[7]: panic: nil map",
            "2026-11-29 20:14:03",
            "emerg",
            "web1 app[7]: panic: nil map",
        ),
        (
            "2026-11-29 20:14:03,123 ERROR [main] c.e.Shop - order 7 lost",
            "2026-11-29 20:14:03",
            "error",
            "ERROR [main] c.e.Shop - order 7 lost",
        ),
        (
            "[2026-11-29 20:14:03] production.WARNING: slow",
            "2026-11-29 20:14:03",
            "warn",
            "production.WARNING: slow",
        ),
        (
            '{"time": "2026-11-29T20:14:03Z", "level": "ERROR", "msg": "支付失败", "id": 7}',
            "2026-11-29 20:14:03",
            "error",
            "支付失败",
        ),
        (
            '{"ts": 1795983243.5, "severity": "Critical", "message": "down"}',
            "2026-11-29 20:14:03",
            "crit",
            "down",
        ),
        (
            '{"@timestamp": 1795983243500, "level": 50, "event": {"a": 1}}',
            "2026-11-29 20:14:03",
            "error",
            '{"a": 1}',
        ),
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_each_format_is_read(line: str, time: str, level: str, message: str) -> None:
    record = read_line(line)
    assert record is not None
    assert (record.time, record.level, record.message) == (time, level, message)


@pytest.mark.parametrize(
    "line",
    ["", "  at com.example.Shop", "{broken", "[1, 2]", "2026/11/29 no", "<999999>x", "29/Nov"],
)
def test_what_is_no_record_is_none(line: str) -> None:
    assert read_line(line) is None


def test_a_day_is_found_in_every_format(read: Reader) -> None:
    lines = [
        '1.2.3.4 - - [29/Nov/2026:20:14:03 +0800] "GET / HTTP/1.1" 500 7',
        "Nov 29 22:14:15 web1 app: error",
        "<11>1 2026-11-29T22:14:15Z host app - - - x",
        "2026-11-29 20:14:03 ERROR x",
        "2026/11/29 00:00:01 [error] 12#12: x",
        '{"ts": 1795983243, "level": "error", "msg": "x"}',
    ]
    other = [line.replace("29", "28").replace("1795983243", "1795896843") for line in lines]
    found = read("read_error_logs", "\n".join([*other, *lines, *other]), date="2026-11-29")
    assert as_list(found["lines"]) == lines


def test_a_stack_trace_belongs_to_its_record(read: Reader) -> None:
    text = "2026-11-29 20:14:03 ERROR lost\n  at a\n  at b\n2026-11-29 20:14:04 INFO fine\n  at c\n"
    found = read("read_error_logs", text, date="2026-11-29")
    assert as_list(found["lines"]) == ["2026-11-29 20:14:03 ERROR lost\n  at a\n  at b"]


def test_a_word_is_found_with_its_line(read: Reader) -> None:
    found = read("search_logs", NGINX, keyword="UPSTREAM", limit=1)
    assert found == {"total": 2, "hits": [{"line": 2, "text": NGINX.splitlines()[1]}]}
    found = read("search_logs", NGINX, keyword="upstream", limit=1, latest=True)
    assert found == {"total": 2, "hits": [{"line": 6, "text": NGINX.splitlines()[5]}]}
    assert read("search_logs", NGINX, keyword=".*") == {"total": 0, "hits": []}


def test_chinese_is_found_in_either_encoding(read: Reader) -> None:
    line = "2026-11-29 20:14:03 错误 支付失败"
    for encoding in ("utf-8", "gb18030"):
        found = read("search_logs", line.encode(encoding), keyword="支付失败")
        assert found == {"total": 1, "hits": [{"line": 1, "text": line}]}


def test_a_packed_file_is_read_as_the_file_it_was(read: Reader) -> None:
    assert read("read_error_logs", gzip.compress(NGINX.encode()))["total"] == 5
    with pytest.raises(ToolError, match="cannot be read to its end"):
        read("search_logs", gzip.compress(NGINX.encode() * 9)[:-20], keyword="x")


def test_a_line_without_end_does_not_fill_the_memory(read: Reader) -> None:
    line = "2026-11-29 20:14:03 ERROR needle " + "x" * 3_000_000
    found = read("read_error_logs", f"{line}\n{NGINX}", date="2026-11-29")
    assert len(json.dumps(found)) < 5_000
    found = read("search_logs", line, keyword="needle")
    assert len(json.dumps(found)) < 5_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"date": "yesterday"}, "no date: 'yesterday'"),
        ({"date": "2026-02-30"}, "no date"),
        ({"level": "loud"}, "unknown level 'loud'"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    read: Reader, arguments: dict[str, object], said: str
) -> None:
    with pytest.raises(ToolError, match=said):
        read("read_error_logs", NGINX, **arguments)


@pytest.mark.parametrize("path", ["../x.log", "/etc/passwd", "link.log", ".env", "folder"])
def test_nothing_outside_the_workspace_is_read(
    tools: Mapping[str, Tool], tmp_path: Path, context: ToolContext, path: str
) -> None:
    (tmp_path / "link.log").symlink_to("/etc/passwd")
    (tmp_path / "folder").mkdir()
    (tmp_path / ".env").write_text("API_KEY=1")
    with pytest.raises(ToolError):
        tools["search_logs"].function(file_path=path, keyword="root", ctx=context)


def test_a_cancelled_call_stops(read: Reader) -> None:
    read.bench.cancelled = True
    with pytest.raises(ToolError, match="stopped"):
        read("search_logs", "x\n" * 20_000, keyword="x")


def test_templates_hide_what_differs() -> None:
    one = template_of("user 17 at 10.0.0.7:80 (2001:db8::1) lost /a/b.txt id deadbeefcafe")
    two = template_of("user 9 at 10.9.9.9:99 (2001:db8::2) lost /c id cafebabe00")
    assert one == two == "user N at N (N) lost /… id N"


def test_requests_are_kinds_by_method_and_status(read: Reader) -> None:
    line = '1.2.3.4 - - [29/Nov/2026:20:14:03 +0800] "GET /a/{} HTTP/1.1" {} 7 "-" "ua"'
    text = "\n".join(line.format(number, 502 + number % 2) for number in range(5))
    found = read("summarise_errors", text)
    groups = [as_object(group) or {} for group in as_list(found["groups"])]
    assert [(group["template"], group["count"]) for group in groups] == [
        ("GET /… -> 502", 3),
        ("GET /… -> 503", 2),
    ]


def test_the_filter_knows_how_a_day_is_spelled() -> None:
    assert b"Nov  9" in Filter.of("2026-11-9", "error").signs
