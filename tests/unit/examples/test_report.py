import pytest

from examples.log_report.kinds import KINDS
from examples.log_report.nginx_log import LEVELS, ErrorGroup
from examples.log_report.report import Language, render

REFUSED = ErrorGroup(
    kind="upstream refused",
    severity="error",
    count=1664,
    first="2026-11-29 20:14:51",
    last="2026-11-29 20:56:46",
    template="connect() failed (N: Connection refused)",
    sample="2026/11/29 20:56:46 [error] 7#7: *9 connect() failed (111: Connection refused), "
    'client: 203.0.113.7, request: "GET /pay?token=secret HTTP/1.1"',
)
RESET = ErrorGroup(kind="connection reset", severity="error", count=7)


def rendered(
    groups: list[ErrorGroup], language: Language = "en", *, title: str = "Errors", top: int = 5
) -> str:
    total = sum(group.count for group in groups)
    return render(groups, title=title, total=total, language=language, top=top)


def test_an_english_report_reads_well() -> None:
    assert rendered([REFUSED, RESET], top=1) == (
        "# Errors\n"
        "\n"
        "1,671 lines in all.\n"
        "The 1 worst kinds, severe ones first:\n"
        "\n"
        "1. **upstream refused** (error): 1,664×, 20:14:51 to 20:56:46\n"
        "   `connect() failed (111: Connection refused)`\n"
        "   The application server is down or listens elsewhere.\n"
        "\n"
        "Also: connection reset 7×.\n"
    )


def test_a_chinese_report_reads_well() -> None:
    assert rendered([REFUSED, RESET], "zh", title="错误报告", top=1) == (
        "# 错误报告\n"
        "\n"
        "共 1,671 行。\n"
        "最严重的 1 类，按严重程度排列：\n"
        "\n"
        "1. **上游拒绝连接**（错误 error）：1,664 次，20:14:51 至 20:56:46\n"
        "   `connect() failed (111: Connection refused)`\n"
        "   应用服务未运行，或监听在其他地址。\n"
        "\n"
        "其他：连接被重置 7 次。\n"
    )


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_kind_and_level_can_be_reported(language: Language) -> None:
    groups = [ErrorGroup(kind=kind.name, severity="crit", count=1) for kind in KINDS]
    groups += [ErrorGroup(kind="unheard of", severity=level, count=1) for level in LEVELS]
    text = rendered(groups, language, top=100)

    assert text.count("\n1. ") == 1
    assert f"\n{len(groups)}. **`unheard of`**" in text


def test_without_errors_it_says_so() -> None:
    assert rendered([]) == "# Errors\n\nNo such errors.\n"
    assert rendered([], "zh") == "# Errors\n\n没有此类错误。\n"


def test_what_a_request_carried_stays_out() -> None:
    assert "secret" not in rendered([REFUSED])


def test_a_single_moment_is_no_span() -> None:
    moment = "2026-11-29 20:31:00"
    group = ErrorGroup(kind="worker died", severity="alert", count=1, first=moment, last=moment)

    assert "(alert): 1×, at 20:31:00\n" in rendered([group])


def test_text_from_a_log_cannot_break_out_of_its_place() -> None:
    evil = "[click](http://evil.example) `**\n# Everything is fine"
    text = rendered([ErrorGroup(kind=evil, severity="error", count=1, sample=evil)], title=evil)

    assert text.count("\n#") == 0
    assert "`[click](http://evil.example) '** # Everything is fine`" in text
