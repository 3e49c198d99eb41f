import os
from pathlib import Path
from typing import cast

import pytest

from hermes.errors import ToolError
from hermes.tools import NOT_DONE, BuiltinOptions, Tool, builtin_tools


@pytest.fixture
def tools(workdir: Path) -> dict[str, Tool]:
    options = BuiltinOptions(workspace=workdir)
    return {tool.name: tool for tool in builtin_tools(["files"], options=options)}


def folder_of(workdir: Path) -> Path:
    folder = workdir / "草稿"
    (folder / "旧").mkdir(parents=True)
    (folder / "a.md").write_text("一二三")
    (folder / "旧" / "b.md").write_text("四")
    return folder


def test_a_file_is_moved_and_folders_are_made(tools: dict[str, Tool], workdir: Path) -> None:
    folder_of(workdir)

    assert tools["move_file"](path="草稿/a.md", to="报告/十一月.md") == {"path": "报告/十一月.md"}

    assert (workdir / "报告/十一月.md").read_text() == "一二三"
    assert not (workdir / "草稿/a.md").exists()


def test_a_move_replaces_a_file_only_when_asked(tools: dict[str, Tool], workdir: Path) -> None:
    folder_of(workdir)
    (workdir / "b.md").write_text("旧文")
    move = tools["move_file"]

    with pytest.raises(ToolError, match="there already"):
        move(path="草稿/a.md", to="b.md")
    assert move(path="草稿/a.md", to="b.md", overwrite=True) == {
        "path": "b.md",
        "replaced_bytes": 6,
    }


@pytest.mark.parametrize(
    ("path", "to", "code"),
    [
        ("草稿", "b.md", "exists"),
        ("b.md", "草稿", "exists"),
        ("草稿", "草稿/x/y", "same"),
        ("b.md", "b.md", "same"),
        ("nothing", "c.md", "not_found"),
    ],
)
def test_a_move_that_cannot_be_is_refused(
    tools: dict[str, Tool], workdir: Path, path: str, to: str, code: str
) -> None:
    folder_of(workdir)
    (workdir / "b.md").write_text("旧文")

    with pytest.raises(ToolError) as caught:
        tools["move_file"](path=path, to=to, overwrite=True)

    assert caught.value.code == code
    assert (workdir / "草稿/a.md").read_text() == "一二三"
    assert (workdir / "b.md").read_text() == "旧文"


def test_a_link_is_moved_itself(tools: dict[str, Tool], workdir: Path) -> None:
    (workdir / "link").symlink_to("/etc/passwd")

    tools["move_file"](path="link", to="other")

    assert os.readlink(workdir / "other") == "/etc/passwd"


def test_a_move_of_unknown_outcome_is_looked_up(tools: dict[str, Tool], workdir: Path) -> None:
    look = tools["move_file"].reconcile
    arguments: dict[str, object] = {"path": "a", "to": "b/c"}
    assert look is not None

    with pytest.raises(ToolError, match="neither"):
        look("key", arguments)
    (workdir / "a").write_text("x")
    assert look("key", arguments) is NOT_DONE
    tools["move_file"](**arguments)
    assert look("key", arguments) == {"path": "b/c"}


def test_a_deletion_shows_what_and_how_much_and_then_does_it(
    tools: dict[str, Tool], workdir: Path
) -> None:
    folder_of(workdir)
    preview = tools["delete_file"].preview
    assert preview is not None

    assert preview(path="草稿", recursive=True) == {
        "would_delete": "草稿",
        "kind": "folder",
        "files": 2,
        "folders": 2,
        "size_bytes": 12,
    }
    assert (workdir / "草稿/旧/b.md").exists()
    deleted = tools["delete_file"](path="草稿", recursive=True)
    assert deleted == {"deleted": "草稿", "files": 2, "folders": 2, "size_bytes": 12}
    assert os.listdir(workdir) == []


def test_a_full_folder_is_deleted_only_with_recursive(
    tools: dict[str, Tool], workdir: Path
) -> None:
    folder_of(workdir)
    (workdir / "空").mkdir()

    with pytest.raises(ToolError, match="holds 2 files and 1 folders") as caught:
        tools["delete_file"](path="草稿")

    assert caught.value.code == "not_empty"
    assert cast("dict[str, object]", tools["delete_file"](path="空"))["folders"] == 1


def test_a_link_is_deleted_and_not_what_it_leads_to(tools: dict[str, Tool], workdir: Path) -> None:
    folder = folder_of(workdir)
    (workdir / "link").symlink_to("草稿")
    (folder / "out").symlink_to("/etc")

    tools["delete_file"](path="link")
    tools["delete_file"](path="草稿", recursive=True)

    assert os.listdir(workdir) == []
    assert os.path.exists("/etc/passwd")


def test_a_folder_with_something_protected_in_it_stays_whole(
    tools: dict[str, Tool], workdir: Path
) -> None:
    (workdir / "project/.git").mkdir(parents=True)
    (workdir / "project/a.txt").write_text("x")

    with pytest.raises(ToolError, match=r"holds 'project/.git', which is protected"):
        tools["delete_file"](path="project", recursive=True)

    assert (workdir / "project/a.txt").exists()
