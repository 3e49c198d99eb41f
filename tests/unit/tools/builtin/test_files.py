import os
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from hermes.errors import NotDone, ToolError
from hermes.tools import NOT_DONE, BuiltinOptions, Tool, builtin_tools
from hermes.tools.builtin.files_workspace import Workspace
from hermes.tools.builtin.files_write import write

Call = Mapping[str, object]


class Desk:
    """The tools of one workspace, called by name."""

    def __init__(self, folder: Path, *, max_bytes: int = 100_000) -> None:
        options = BuiltinOptions(workspace=folder, files_max_bytes=max_bytes)
        self.tools = {tool.name: tool for tool in builtin_tools(["files"], options=options)}

    def __call__(self, name: str, **arguments: object) -> dict[str, object]:
        return cast("dict[str, object]", self.tools[name](**arguments))


@pytest.fixture
def desk(workdir: Path) -> Desk:
    return Desk(workdir)


def test_what_is_written_is_read_to_the_letter(desk: Desk, workdir: Path) -> None:
    text = "# 日报\r\n退款 3 件\u2028，\ttotal\n"

    written = desk("write_file", path="报告/十一月/日报.md", text=text)

    assert written == {
        "path": "报告/十一月/日报.md",
        "size_bytes": len(text.encode()),
        "done": "created",
    }
    read = desk("read_file", path=str(workdir / "报告/十一月/日报.md"))
    assert read["text"] == text
    assert read["lines"] == "1 to 2 of 2"
    assert "more" not in read


def test_a_page_of_a_long_file_says_the_total_and_how_to_go_on(desk: Desk, workdir: Path) -> None:
    (workdir / "log.txt").write_text("".join(f"第{n}行\n" for n in range(1, 1001)))

    page = desk("read_file", path="log.txt", start_line=11, max_lines=2)

    assert page["text"] == "第11行\n第12行\n"
    assert page["lines"] == "11 to 12 of 1000"
    assert page["more"] == "go on with start_line=13"
    assert desk("read_file", path="log.txt", start_line=-1)["text"] == "第1000行\n"


def test_pages_of_a_file_with_long_lines_come_to_its_whole_text(desk: Desk, workdir: Path) -> None:
    text = "短\n" + "长" * 25_000 + "\n" + "x" * 11_999 + "\n末"
    (workdir / "long.txt").write_text(text)
    seen, more = "", "start_line=1"

    while more:
        where = dict(part.split("=") for part in more.replace(",", " ").split() if "=" in part)
        page = desk("read_file", path="long.txt", **{name: int(n) for name, n in where.items()})
        assert len(str(page["text"])) <= 12_000
        seen += str(page["text"])
        more = str(page.get("more", ""))

    assert seen == text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"start_line": 4}, "beyond_end"),
        ({"start_line": 1, "start_char": 9}, "beyond_end"),
        ({"start_line": 0}, "bad_line"),
    ],
)
def test_a_place_that_is_not_there_is_said(
    desk: Desk, workdir: Path, arguments: Call, code: str
) -> None:
    (workdir / "a.txt").write_text("一\n二\n三\n")

    with pytest.raises(ToolError) as caught:
        desk("read_file", path="a.txt", **arguments)

    assert caught.value.code == code


def test_a_file_in_another_encoding_is_said_with_those_that_read_it(
    desk: Desk, workdir: Path
) -> None:
    (workdir / "gb.csv").write_bytes("订单\n退款金额\n".encode("gb18030"))

    with pytest.raises(ToolError, match=r"'gb.csv' is not utf-8: byte 0 \(line 1\)") as caught:
        desk("read_file", path="gb.csv")

    assert "gb18030 reads it, with a line as '订单'" in caught.value.hint
    assert desk("read_file", path="gb.csv", encoding="gb18030")["text"] == "订单\n退款金额\n"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_stronger_than_the_encoding_asked_for(
    desk: Desk, workdir: Path, encoding: str
) -> None:
    (workdir / "excel.csv").write_bytes("订单,金额\n".encode(encoding))

    read = desk("read_file", path="excel.csv")

    assert (read["text"], read["encoding"]) == ("订单,金额\n", encoding)


@pytest.mark.parametrize(
    ("data", "what"),
    [(b"\x89PNG\r\n\x1a\n", "a PNG image"), (b"%PDF-1.7", "a PDF"), (b"a\0b", "binary data")],
)
def test_a_binary_file_is_refused_politely(
    desk: Desk, workdir: Path, data: bytes, what: str
) -> None:
    (workdir / "a.bin").write_bytes(data)

    with pytest.raises(ToolError, match=f"'a.bin' is not text but {what}") as caught:
        desk("read_file", path="a.bin")

    assert caught.value.code == "binary"


def test_a_file_beyond_the_bound_is_refused_with_the_setting(workdir: Path) -> None:
    (workdir / "big.log").write_text("x" * 101)

    with pytest.raises(ToolError, match="101 bytes, more than 100") as caught:
        Desk(workdir, max_bytes=100)("read_file", path="big.log")

    assert "HERMES_FILES_MAX_BYTES" in caught.value.hint


def test_a_file_is_replaced_only_when_asked_and_keeps_its_mode(desk: Desk, workdir: Path) -> None:
    file = workdir / "run.sh"
    file.write_text("old")
    file.chmod(0o750)

    with pytest.raises(ToolError, match=r"there already \(3 bytes\)"):
        desk("write_file", path="run.sh", text="new")
    assert file.read_text() == "old"

    assert desk("write_file", path="run.sh", text="new", overwrite=True)["done"] == "replaced"
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("new", 0o750)
    assert desk("write_file", path="run.sh", text="new")["done"] == "unchanged"
    assert os.listdir(workdir) == ["run.sh"]


def test_a_character_that_the_encoding_lacks_is_said_and_nothing_is_written(
    desk: Desk, workdir: Path
) -> None:
    with pytest.raises(ToolError, match=r"latin-1 cannot write '退' \(line 2\)"):
        desk("write_file", path="a/a.txt", text="x\n退款", encoding="latin-1")

    assert os.listdir(workdir) == []


def test_a_write_of_unknown_outcome_is_looked_up(desk: Desk, workdir: Path) -> None:
    tool = desk.tools["write_file"]
    arguments: dict[str, object] = {"path": "a/日报.md", "text": "完"}
    assert tool.reconcile is not None

    assert tool.reconcile("key", arguments) is NOT_DONE
    desk("write_file", **arguments)
    assert tool.reconcile("key", arguments) == {
        "path": "a/日报.md",
        "size_bytes": 3,
        "done": "written",
    }
    (workdir / "a/日报.md").write_text("其他")
    assert tool.reconcile("key", arguments) is NOT_DONE


def test_a_file_that_appears_in_between_is_not_written_over(workdir: Path) -> None:
    with Workspace(workdir).spot("a.txt") as spot:
        (workdir / "a.txt").write_text("another's")
        with pytest.raises(NotDone, match="appeared"):
            write(spot, b"mine")

    assert (workdir / "a.txt").read_text() == "another's"
    assert os.listdir(workdir) == ["a.txt"]


def test_a_folder_swapped_for_a_link_while_a_call_runs_leads_nowhere(workdir: Path) -> None:
    outside, inside = workdir / "outside", workdir / "ws"
    outside.mkdir()
    (inside / "a").mkdir(parents=True)

    with Workspace(inside).spot("a/new.txt") as spot:
        (inside / "a").rename(inside / "b")
        (inside / "a").symlink_to(outside)
        write(spot, "文".encode())

    assert os.listdir(outside) == []
    assert (inside / "b" / "new.txt").read_text() == "文"


def test_a_link_that_is_swapped_all_the_time_never_lets_a_call_out(workdir: Path) -> None:
    outside, inside = workdir / "outside", workdir / "ws"
    (inside / "real").mkdir(parents=True)
    outside.mkdir()
    (outside / "x.md").write_text("SECRET")
    (inside / "real" / "x.md").write_text("mine")
    is_over = threading.Event()

    def swap() -> None:
        spare, turn = inside / "spare", 0
        while not is_over.is_set():
            spare.symlink_to((outside, "real")[turn % 2])
            spare.rename(inside / "way")
            turn += 1

    swapper = threading.Thread(target=swap)
    swapper.start()
    desk, read = Desk(inside), set[object]()
    for _ in range(500):
        try:
            read.add(desk("read_file", path="way/x.md")["text"])
        except ToolError as fault:
            read.add(fault.code)
    is_over.set()
    swapper.join()

    assert read <= {"mine", "outside", "not_found"}


def test_text_is_added_on_a_new_line_and_in_the_files_own_encoding(
    desk: Desk, workdir: Path
) -> None:
    (workdir / "log.md").write_text("一")

    assert desk("append_file", path="log.md", text="二\n")["size_bytes"] == 8
    desk("append_file", path="log.md", text="三")
    desk("append_file", path="log.md", text="四", on_new_line=False)
    desk("append_file", path="新/log.md", text="五")

    assert (workdir / "log.md").read_text() == "一\n二\n三四"
    assert (workdir / "新/log.md").read_text() == "五"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "gb18030"])
def test_text_added_in_any_encoding_stays_readable(
    desk: Desk, workdir: Path, encoding: str
) -> None:
    desk("append_file", path="a.txt", text="一", encoding=encoding)
    desk("append_file", path="a.txt", text="二\n", encoding=encoding)

    assert (workdir / "a.txt").read_bytes().decode(encoding) == "一\n二\n"


def test_text_of_another_encoding_is_not_added_to_a_marked_file(desk: Desk, workdir: Path) -> None:
    (workdir / "a.txt").write_bytes("一".encode("utf-16"))

    with pytest.raises(ToolError, match="is utf-16 by its byte order mark, not utf-8"):
        desk("append_file", path="a.txt", text="二")


def test_a_file_does_not_grow_beyond_the_bound(workdir: Path) -> None:
    (workdir / "a.txt").write_text("x" * 99)

    with pytest.raises(ToolError, match="would have 103 bytes"):
        Desk(workdir, max_bytes=100)("append_file", path="a.txt", text="三")

    assert (workdir / "a.txt").read_text() == "x" * 99


def test_a_disk_that_is_full_half_way_is_said_with_what_was_added(
    desk: Desk, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workdir / "a.txt").write_text("一\n")
    real, calls = os.write, list[int]()

    def fills_up(fd: int, data: bytes) -> int:
        calls.append(fd)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return real(fd, bytes(data)[:3])

    monkeypatch.setattr(os, "write", fills_up)

    with pytest.raises(ToolError, match=r"No space left on device; 3 of 6 bytes were added"):
        desk("append_file", path="a.txt", text="二三")


def test_a_disk_that_is_full_leaves_the_old_file_and_nothing_else(
    desk: Desk, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workdir / "a.txt").write_text("旧")

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)

    with pytest.raises(ToolError, match="no space left"):
        desk("write_file", path="a.txt", text="新", overwrite=True)
    assert {path.name: path.read_text() for path in workdir.iterdir()} == {"a.txt": "旧"}


@pytest.mark.parametrize(
    ("path", "code"),
    [("a/" * 66 + "x", "too_long"), ("report/", "not_a_folder"), ("a\u202egnp.exe", "bad_path")],
)
def test_a_name_that_is_no_good_is_refused_before_anything_is_made(
    desk: Desk, workdir: Path, path: str, code: str
) -> None:
    with pytest.raises(ToolError) as caught:
        desk("write_file", path=path, text="x")

    assert caught.value.code == code
    assert os.listdir(workdir) == []


def test_a_workspace_that_is_not_set_is_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tool,) = (tool for tool in builtin_tools(["files"]) if tool.name == "write_file")
    for name in ("甲", "乙"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        tool(path="a.txt", text=name)

    assert (tmp_path / "甲/a.txt").read_text() == "甲"
    assert (tmp_path / "乙/a.txt").read_text() == "乙"


def test_a_missing_workspace_is_said_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot be opened") as caught:
        Desk(tmp_path / "none")("list_files")

    assert "HERMES_WORKSPACE" in caught.value.hint


def test_links_within_the_workspace_are_followed(desk: Desk, workdir: Path) -> None:
    (workdir / "2026").mkdir()
    (workdir / "2026/a.md").write_text("甲")
    (workdir / "latest").symlink_to("2026")
    (workdir / "absolute").symlink_to(workdir / "2026" / "a.md")

    assert desk("read_file", path="latest/a.md")["path"] == "2026/a.md"
    assert desk("read_file", path="absolute")["text"] == "甲"
    desk("write_file", path="absolute", text="乙", overwrite=True)
    assert (workdir / "absolute").is_symlink()
    assert (workdir / "2026/a.md").read_text() == "乙"


def test_effects_are_told_honestly(desk: Desk, workdir: Path) -> None:
    effects = {name: tool.effect for name, tool in desk.tools.items()}

    assert effects == {
        "read_file": "read",
        "list_files": "read",
        "search_files": "read",
        "write_file": "reconcile",
        "move_file": "reconcile",
        "append_file": "unsafe",
        "delete_file": "unsafe",
    }
    assert desk.tools["delete_file"].requires_approval is True


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_workspace_of_foreign_files_makes_what_they_say_untrusted(
    workdir: Path, is_trusted: bool
) -> None:
    options = BuiltinOptions(workspace=workdir, files_trusted=is_trusted)
    tools: dict[str, Tool] = {tool.name: tool for tool in builtin_tools(["files"], options=options)}

    assert {tools[name].untrusted for name in ("read_file", "search_files", "list_files")} == {
        not is_trusted
    }


def test_previews_say_what_would_happen(desk: Desk, workdir: Path) -> None:
    (workdir / "a.txt").write_text("一二")
    shown = {name: tool.preview for name, tool in desk.tools.items() if tool.preview}

    assert shown["write_file"](path="新/b", text="三") == "create '新/b' (3 bytes)"
    assert shown["write_file"](path="a.txt", text="三", overwrite=True) == (
        "replace 'a.txt' (6 bytes) by 3 bytes"
    )
    assert shown["append_file"](path="a.txt", text="三") == "add 3 bytes to 'a.txt' (6 bytes)"
    assert shown["move_file"](path="a.txt", to="b/c") == (
        "move the file 'a.txt' to 'b/c', making folders for it"
    )
    assert os.listdir(workdir) == ["a.txt"]
