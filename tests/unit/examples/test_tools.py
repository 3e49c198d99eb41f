import os
import tracemalloc
from pathlib import Path

import pytest

from examples.log_report import tools
from hermes import ToolError

DAY = "2026-11-29"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "error.log"
    path.write_text(
        "2026/11/28 09:00:00 [error] 7#7: *1 access forbidden by rule, client: 203.0.113.7\n"
        "2026/11/29 09:00:00 [error] 7#7: *2 access forbidden by rule, client: 203.0.113.7\n"
        "2026/11/29 09:00:01 [crit] 7#7: *3 write() failed (28: No space left on device)\n"
        "2026/11/29 09:00:02 [warn] 7#7: *4 delaying request, excess: 0.2, client: 203.0.113.7\n"
    )
    return path


@pytest.mark.parametrize("date", [DAY, "2026/11/29"])
@pytest.mark.parametrize("level", ["crit", "critical"])
def test_reading_takes_either_spelling(log: Path, date: str, level: str) -> None:
    found = tools.read_error_logs(log, date, level)

    assert (found.date, found.level, found.total, found.returned) == (DAY, "crit", 1, 1)
    assert found.lines == [
        "2026/11/29 09:00:01 [crit] 7#7: *3 write() failed (28: No space left on device)"
    ]


def test_reading_returns_at_most_max_lines_and_the_true_total(real_log: Path) -> None:
    found = tools.read_error_logs(real_log, DAY, max_lines=3)

    assert found.returned == len(found.lines) == 3
    assert found.total == tools.summarise_errors(real_log, DAY).total == 2_450


def test_the_summary_counts_each_kind_and_puts_severe_ones_first(log: Path) -> None:
    summary = tools.summarise_errors(log, DAY, "warning")

    assert [(group.severity, group.kind) for group in summary.groups] == [
        ("crit", "disk full"),
        ("error", "access forbidden"),
        ("warn", "delayed by rate limit"),
    ]
    assert (summary.date, summary.level, summary.total, summary.kinds) == (DAY, "warn", 3, 3)


def test_the_worst_of_the_real_log_are_these(real_log: Path) -> None:
    summary = tools.summarise_errors(real_log, DAY, top=5)

    assert [(group.kind, group.count) for group in summary.groups] == [
        ("broken configuration", 2),
        ("worker died", 1),
        ("disk full", 43),
        ("upstream socket missing", 27),
        ("upstream refused", 664),
    ]
    assert summary.kinds == 18


def test_the_summary_of_the_real_log_by_time(real_log: Path) -> None:
    groups = tools.summarise_errors(real_log, DAY, order="time").groups
    errors = [group.first for group in groups if group.severity == "error"]

    assert errors == sorted(errors)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"date": "soon"}, "no date: 'soon'"),
        ({"level": "fatal"}, "one of emerg, alert, crit, error"),
        ({"max_lines": 0}, "max_lines is 0; allowed: 1 to 2000"),
        ({"max_lines": 2_001}, "allowed: 1 to 2000"),
    ],
)
def test_wrong_arguments_are_told_with_what_is_allowed(
    log: Path, arguments: dict[str, str | int], said: str
) -> None:
    with pytest.raises(ToolError, match=said) as caught:
        tools.read_error_logs.function(**{"log_path": log, "date": DAY, **arguments})  # pyright: ignore[reportArgumentType]  # wrong on purpose

    assert caught.value.code == "argument"
    assert not caught.value.retryable


def test_a_wrong_top_is_told_with_what_is_allowed(log: Path) -> None:
    with pytest.raises(ToolError, match="top is 0; allowed: 1 to 100"):
        tools.summarise_errors(log, DAY, top=0)


def test_a_missing_log_is_named_with_the_folder_looked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ToolError, match=r"cannot read logs/none.log: No such file") as caught:
        tools.summarise_errors(Path("logs/none.log"), DAY)

    assert caught.value.hint == f"looked in {tmp_path}"


def test_what_is_no_plain_text_file_is_refused(tmp_path: Path) -> None:
    packed, pipe = tmp_path / "error.log.1.gz", tmp_path / "pipe"
    packed.write_bytes(b"\x1f\x8b\x08\x00")
    os.mkfifo(pipe)

    for path, said in (
        (tmp_path, "no regular file"),
        (pipe, "no regular file"),
        (packed, "unpack"),
    ):
        with pytest.raises(ToolError, match=said):
            tools.read_error_logs(path, DAY)


def test_memory_does_not_grow_with_the_file(tmp_path: Path, real_log: Path) -> None:
    path = tmp_path / "large.log"
    data = real_log.read_bytes()
    with path.open("wb") as file:
        for _ in range(10_000_000 // len(data) + 1):
            file.write(data)
        file.write(b"2026/11/29 no end of line" * 100_000)

    tracemalloc.start()
    summary = tools.summarise_errors(path, DAY, "debug")
    found = tools.read_error_logs(path, DAY, "debug")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert summary.total == found.total > 20_000
    assert peak_bytes < 2_000_000


def test_a_report_appears_whole_in_a_new_folder(tmp_path: Path, real_log: Path) -> None:
    path = tmp_path / "reports/today.md"
    summary = tools.summarise_errors(real_log, DAY)

    report = tools.write_report(path, "nginx errors", summary.groups, summary.total)

    assert report.path == str(path)
    assert report.text == path.read_text(encoding="utf-8")
    assert report.text.startswith("# nginx errors\n\n2,450 lines in all.\n")
    assert list(path.parent.iterdir()) == [path]


def test_writing_again_replaces_the_report(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    first = tools.write_report(path, "one", [])
    again = tools.write_report(path, "一", [], lang="zh")

    assert first.text != again.text
    assert path.read_text(encoding="utf-8") == again.text == "# 一\n\n没有此类错误。\n"


def test_a_report_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    path.mkdir()

    with pytest.raises(ToolError, match=r"cannot write .*report.md: Is a directory"):
        tools.write_report(path, "title", [])

    assert list(tmp_path.iterdir()) == [path]
