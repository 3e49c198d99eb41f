"""Every input of `tests/hostile/files`: refused, with nothing outside read, made or changed."""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.errors import ToolError
from hermes.tools import BuiltinOptions, Tool, ToolContext, builtin_tools

FOLDER = Path(__file__).parents[3] / "hostile" / "files"
CASES = sorted(FOLDER.glob("*.json"))
SECRET = "SECRET-7731"


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A folder with the workspace `amy` in it, and what must stay out of reach beside it."""
    workspace, sibling = tmp_path / "amy", tmp_path / "amy-old"
    for folder in (workspace / "报告", workspace / ".hermes", workspace / ".git/hooks", sibling):
        folder.mkdir(parents=True)
    (sibling / "x.md").write_text(SECRET)
    (workspace / "报告" / "日报.md").write_text("退款 3 件\n")
    for name in (".env", ".ENV.production", ".hermes/hermes.db", "hermes.toml"):
        (workspace / name).write_text(SECRET)
    links = {
        "link-file": sibling / "x.md",
        "link-relative": "../amy-old/x.md",
        "link-folder": sibling,
        "link-dangling": sibling / "new.md",
        "link-chain": "link-relative",
        "link-circle": "link-circle",
        "link-proc": "/proc/self/root",
        "link-env": ".env",
    }
    for name, target in links.items():
        (workspace / name).symlink_to(target)
    os.link(sibling / "x.md", workspace / "hard.md")
    os.mkfifo(workspace / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(workspace / "socket"))
        yield tmp_path


@pytest.fixture
def tools(outside: Path) -> Mapping[str, Tool]:
    options = BuiltinOptions(workspace=outside / "amy")
    return {tool.name: tool for tool in builtin_tools(["files"], options=options)}


def everything(folder: Path) -> dict[str, object]:
    """Kind, mode and content of all that a folder holds."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path)] = (info.st_mode, info.st_ino, content)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: cast("Path", case).stem)
async def test_a_hostile_path_reaches_nothing(
    case: Path, outside: Path, tools: Mapping[str, Tool], context: ToolContext
) -> None:
    given = json.loads(case.read_text())
    before = everything(outside)

    for call in given["calls"]:
        arguments = {
            name: value.replace("{outside}", str(outside)) if isinstance(value, str) else value
            for name, value in call["arguments"].items()
        }
        tool = tools[call["tool"]]
        with pytest.raises(ToolError) as caught:
            await tool.invoke(tool.bind(arguments), context)
        assert caught.value.code in given["refused_as"], f"{call}: {caught.value}"
        assert SECRET not in str(caught.value)

    assert everything(outside) == before


def test_there_are_inputs_of_every_family() -> None:
    assert len(CASES) >= 14


@pytest.mark.parametrize("case", CASES, ids=lambda case: cast("Path", case).stem)
def test_a_preview_of_a_hostile_call_changes_nothing_either(
    case: Path, outside: Path, tools: Mapping[str, Tool]
) -> None:
    given = json.loads(case.read_text())
    before = everything(outside)

    for call in given["calls"]:
        preview = tools[call["tool"]].preview
        if preview is None:
            continue
        try:
            shown = preview(**call["arguments"])
        except ToolError as fault:
            shown = fault
        assert SECRET not in str(shown)

    assert everything(outside) == before


PARTS = st.sampled_from(
    [
        *("..", ".", "", "/", "~", "报告", "日报.md", "amy", "amy-old", "x.md", "new", "%2e%2e"),
        *("link-folder", "link-relative", "link-dangling", "link-chain", "link-proc", "hard.md"),
        *("..%2f..", "\\..", "\u2025", ".git", "hermes.toml", "proc", "self", "root", "pipe"),
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(parts=st.lists(PARTS, min_size=1, max_size=7), is_absolute=st.booleans())
def test_no_way_of_parts_leads_out(
    outside: Path, tools: Mapping[str, Tool], parts: list[str], is_absolute: bool
) -> None:
    path = "/".join([str(outside / "amy"), *parts] if is_absolute else parts)
    sibling = outside / "amy-old"
    before = everything(sibling)

    for name, more in (
        ("read_file", {}),
        ("list_files", {"pattern": "**"}),
        ("write_file", {"text": "x", "overwrite": True}),
        ("move_file", {"to": f"{path}2"}),
    ):
        try:
            told = tools[name](path=path, **more)
        except ToolError:
            continue
        assert "hard.md" in path or SECRET not in str(told)

    assert everything(sibling) == before
    assert {*os.listdir(outside)} == {"amy", "amy-old"}


async def test_a_search_through_everything_finds_no_secret(
    tools: Mapping[str, Tool], outside: Path, context: ToolContext
) -> None:
    (outside / "amy" / "hard.md").unlink()

    found = await tools["search_files"].invoke({"text": "SECRET"}, context)
    listed = await tools["list_files"].invoke({"pattern": "**"}, context)

    assert "SECRET" not in str(found)
    assert not any(name in str(listed) for name in (".env", "hermes", ".git", "amy-old"))
