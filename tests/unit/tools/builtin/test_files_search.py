import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from hermes.errors import ToolError
from hermes.tools import BuiltinOptions, Tool, ToolContext, builtin_tools
from hermes.tools.builtin import files_search
from hermes.tools.builtin.files_find import Pattern

if TYPE_CHECKING:
    from ..conftest import MemoryBench

Found = dict[str, object]
Search = Callable[..., Awaitable[Found]]


@pytest.fixture
def tools(workdir: Path) -> dict[str, Tool]:
    options = BuiltinOptions(workspace=workdir, files_max_bytes=50_000)
    return {tool.name: tool for tool in builtin_tools(["files"], options=options)}


@pytest.fixture
def tickets(workdir: Path) -> Path:
    folder = workdir / "工单"
    (folder / "旧").mkdir(parents=True)
    (folder / "1.md").write_text("客户要求退款\n金额 120 元\n")
    (folder / "旧/2.md").write_text("Refund done\n退款 80 元")
    (folder / "3.csv").write_text("id\n1\n")
    return folder


@pytest.fixture
def search(tools: dict[str, Tool], context: ToolContext) -> Search:
    async def call(**arguments: object) -> Found:
        return cast("Found", await tools["search_files"].invoke(arguments, context))

    return call


def names(found: object, key: str = "entries") -> list[str]:
    return [entry["path"] for entry in cast("dict[str, list[dict[str, str]]]", found)[key]]


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("*", ["工单/1.md", "工单/3.csv", "工单/旧"]),
        ("*.md", ["工单/1.md"]),
        ("**/*.md", ["工单/1.md", "工单/旧/2.md"]),
        ("旧/*", ["工单/旧/2.md"]),
        ("[0-2].*", ["工单/1.md"]),
    ],
)
def test_files_are_listed_by_pattern(
    tools: dict[str, Tool], tickets: Path, pattern: str, paths: list[str]
) -> None:
    found = tools["list_files"](path="工单", pattern=pattern)

    assert names(found) == paths


def test_a_long_list_is_cut_and_says_the_total(tools: dict[str, Tool], workdir: Path) -> None:
    for n in range(30):
        (workdir / f"{n:02}.txt").touch()

    found = cast("Found", tools["list_files"](limit=5))

    assert (len(names(found)), found["found"]) == (5, 30)


def test_links_are_listed_and_never_followed(tools: dict[str, Tool], workdir: Path) -> None:
    (workdir / "loop").symlink_to(".")
    (workdir / "etc").symlink_to("/etc")

    found = cast("dict[str, list[Found]]", tools["list_files"](pattern="**"))

    assert [(entry["path"], entry["kind"]) for entry in found["entries"]] == [
        ("etc", "link"),
        ("loop", "link"),
    ]


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("**", "a/b/c", True),
        ("**/c", "c", True),
        ("a/**/c", "a/c", True),
        ("a/**/c", "a/b/b/c", True),
        ("a/**/c", "b/c", False),
        ("*", "a/b", False),
        ("*a*a*a*a*a*b", "a" * 250, False),
        ("./*.md", "日报.md", True),
    ],
)
def test_patterns_hold_against_paths(pattern: str, path: str, fits: bool) -> None:
    assert Pattern(pattern).fits(path) is fits


async def test_words_are_found_with_their_lines(search: Search, tickets: Path) -> None:
    found = await search(text="退款")

    assert found["matches"] == [
        {"path": "工单/1.md", "line": 1, "text": "客户要求退款"},
        {"path": "工单/旧/2.md", "line": 2, "text": "退款 80 元"},
    ]
    assert (found["found"], found["files_searched"]) == (2, 3)


async def test_case_counts_unless_it_is_ignored(search: Search, tickets: Path) -> None:
    assert (await search(text="refund"))["found"] == 0
    assert (await search(text="refund", ignore_case=True))["found"] == 1


async def test_text_is_no_expression_unless_asked(search: Search, tickets: Path) -> None:
    assert (await search(text=r"\d+ 元"))["found"] == 0
    assert (await search(text=r"\d+ 元", regex=True))["matches"] == [
        {"path": "工单/1.md", "line": 2, "text": "金额 120 元"},
        {"path": "工单/旧/2.md", "line": 2, "text": "退款 80 元"},
    ]


async def test_a_wrong_expression_is_said(search: Search, tickets: Path) -> None:
    with pytest.raises(ToolError, match="missing \\)") as caught:
        await search(text="(退款", regex=True)

    assert caught.value.code == "bad_pattern"


async def test_an_expression_that_never_ends_is_ended(
    search: Search, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_search, "REGEX_TIMEOUT_S", 0.5)
    (workdir / "a.txt").write_text("a" * 60 + "b")

    with pytest.raises(ToolError, match=r"did not come to an end within 0.5 s") as caught:
        await search(text="(a+)+$", regex=True)

    assert caught.value.code == "slow_pattern"


async def test_what_was_left_out_is_said(search: Search, tickets: Path) -> None:
    (tickets / "bild.png").write_bytes(b"\x89PNG\0")
    (tickets / "gb.md").write_bytes("退款".encode("gb18030"))
    (tickets / "big.log").write_text("退款\n" * 20_000)
    os.mkfifo(tickets / "pipe")

    found = await search(text="退款")

    assert found["found"] == 2
    skipped = cast("list[str]", found["skipped"])
    assert [text.split("'")[1] if "'" in text else text for text in skipped] == [
        "工单/big.log: too large",
        "工单/bild.png",
        "工单/gb.md",
    ]


async def test_a_long_line_is_searched_at_its_beginning_and_shown_in_part(
    search: Search, workdir: Path
) -> None:
    (workdir / "a.txt").write_text("x" * 5_000 + "退款" + "y" * 9_000 + "退款")

    found = await search(text="退款")

    (match,) = cast("list[dict[str, str]]", found["matches"])
    assert "退款" in match["text"]
    assert len(match["text"]) <= 302
    assert "1 lines were searched in their first 10,000 characters" in str(found["long_lines"])


async def test_a_search_ends_when_its_call_does(
    search: Search, tickets: Path, bench: "MemoryBench"
) -> None:
    bench.cancelled = True

    with pytest.raises(ToolError, match="was stopped"):
        await search(text="退款")


async def test_a_file_with_an_undecodable_name_is_searched_too(
    search: Search, workdir: Path
) -> None:
    (workdir / os.fsdecode(b"\xb2\xe2.txt")).write_text("退款")

    for is_regex in (False, True):
        assert (await search(text="退款", regex=is_regex))["found"] == 1
