import os
import sys
from pathlib import Path

import pytest

from hermes.errors import ConfigError
from hermes.tools import load_tools

ONE = '''
from hermes import tools

@tools.tool
def {name}(x: int) -> int:
    """A tool."""
    return x
'''


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def test_a_file_gives_its_tools_in_the_order_of_its_lines(tmp_path: Path) -> None:
    folder = write(tmp_path, mine=ONE.format(name="zebra") + ONE.format(name="ant"))

    loaded = load_tools(folder / "mine.py")

    assert [tool.name for tool in loaded] == ["zebra", "ant"]
    assert loaded[0].origin == f"{folder.resolve() / 'mine.py'}:4"
    assert loaded[0](3) == 3


def test_a_folder_gives_the_tools_of_all_its_files(tmp_path: Path) -> None:
    folder = write(
        tmp_path, b=ONE.format(name="b"), a=ONE.format(name="a"), _c=ONE.format(name="c"), d=""
    )

    assert [tool.name for tool in load_tools(folder)] == ["a", "b"]


def test_a_file_may_have_any_name(tmp_path: Path) -> None:
    file = tmp_path / "my tools.txt"
    file.write_text(ONE.format(name="a"), encoding="utf-8")

    assert [tool.name for tool in load_tools(file)] == ["a"]


def test_a_file_s_name_need_not_be_utf8(tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"\xff.py")
    file.write_text(ONE.format(name="a"))

    assert [tool.name for tool in load_tools(file)] == ["a"]


def test_neighbours_can_be_imported_and_stay_private(tmp_path: Path) -> None:
    text = "from shared import WORD\n" + ONE.format(name="say").replace("return x", "return WORD")
    folders = [
        write(tmp_path / word, mine=text, shared=f"WORD = {word!r}\n") for word in ("one", "two")
    ]

    said = [load_tools(folder / "mine.py")[0](0) for folder in folders]

    assert said == ["one", "two"]
    assert "shared" not in sys.modules
    assert not {str(folder) for folder in folders} & set(sys.path)


def test_imported_tools_do_not_count(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        other=ONE.format(name="theirs"),
        mine="from other import theirs\n" + ONE.format(name="mine"),
        only="from other import theirs\n",
    )

    assert [tool.name for tool in load_tools(folder / "mine.py")] == ["mine"]
    with pytest.raises(ConfigError, match="no tool is made in it"):
        load_tools(folder / "only.py")


def test_a_tool_made_of_an_imported_function_counts(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        library="def shout(text: str) -> str:\n    return text.upper()\n",
        mine="from hermes.tools import tool\nfrom library import shout\n"
        "loud = tool(effect='read')(shout)\nagain = loud\n",
    )

    (loud,) = load_tools(folder / "mine.py")
    assert loud("a") == "A"


def test_types_of_the_file_can_be_annotations(tmp_path: Path) -> None:
    text = """
from __future__ import annotations
from dataclasses import dataclass
from hermes.tools import tool

@dataclass
class Point:
    x: int

@tool
def move(to: list[Point]) -> int:
    return to[0].x
"""
    (move,) = load_tools(write(tmp_path, mine=text) / "mine.py")

    assert move(**move.bind({"to": [{"x": 3}]})) == 3


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    folder = write(tmp_path, mine=ONE.format(name="a"))
    load_tools(folder / "mine.py")
    write(folder, mine=ONE.format(name="b"))

    assert [tool.name for tool in load_tools(folder / "mine.py")] == ["b"]
    assert not (folder / "__pycache__").exists()


BROKEN = {
    "syntax": ("x = 1\ndef (:\n", "mine.py:2: SyntaxError: "),
    "import": ("\n\nimport no_such_module_here\n", "mine.py:3: ModuleNotFoundError: "),
    "raises": ("def f():\n    return 1 / 0\nf()\n", "mine.py:2: ZeroDivisionError: "),
    "exits": ("import sys\nsys.exit(3)\n", "mine.py:2: SystemExit: 3"),
    "definition": (
        "from hermes.tools import tool\n@tool\ndef f(x): ...\n",
        "mine.py:2: ToolDefinitionError: tool 'f': parameter 'x' has no annotation",
    ),
    "not-utf8": ("# coding: no-such-coding\n", "mine.py:1: SyntaxError: "),
    "empty": ("", "mine.py: no tool is made in it"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_one_line_with_file_and_line(
    tmp_path: Path, text: str, message: str
) -> None:
    folder = write(tmp_path, mine=text)
    with pytest.raises(ConfigError) as caught:
        load_tools(folder / "mine.py")

    assert message in caught.value.message
    assert "\n" not in str(caught.value)


def test_a_fault_in_a_neighbour_keeps_its_cause(tmp_path: Path) -> None:
    folder = write(tmp_path, mine="import other\n", other="1 / 0\n")
    with pytest.raises(ConfigError, match=r"mine\.py:1: ZeroDivisionError") as caught:
        load_tools(folder / "mine.py")

    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "other" not in sys.modules


def test_a_missing_file_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file or folder"):
        load_tools(tmp_path / "gone.py")
    with pytest.raises(ConfigError, match="no tool is made in it"):
        load_tools(tmp_path)
