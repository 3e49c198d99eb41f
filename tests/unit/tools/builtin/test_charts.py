import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from hermes.errors import ToolError
from hermes.tools import ArgumentFault, BuiltinOptions, Tool, ToolContext, builtin_tools
from hermes.tools.builtin import charts_picture
from hermes.tools.builtin.charts_text import cells

if TYPE_CHECKING:
    from ..conftest import MemoryBench

Result = dict[str, object]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def tools(workdir: Path) -> dict[str, Tool]:
    (workdir / "订单.csv").write_text(
        "地区,金额,日期,code\n北京,10.5,2026-11-03,A\n上海,30,2026-11-09,B\n上海,5,2026-12-01,A\n"
        "Shenzhen,-4,2026-12-02,A\n"
    )
    options = BuiltinOptions(workspace=workdir)
    return {tool.name: tool for tool in builtin_tools(["data"], options=options)}


async def call(tool: Tool, context: ToolContext, **arguments: object) -> object:
    return await tool.invoke(tool.bind({"path": "订单.csv", **arguments}), context)


async def test_bars_of_text_stand_in_line_under_chinese_labels(
    tools: dict[str, Tool], context: ToolContext
) -> None:
    chart = await call(
        tools["chart_data"], context, label="地区", value={"op": "sum", "column": "金额"}
    )

    lines = str(chart).splitlines()
    assert lines == [
        f"上海     │{'█' * 40} 35",
        f"北京     │{'█' * 12} 10.5",
        "Shenzhen │░░░░ -4",
        "sum(金额); 3 of 3 shown, 4 rows",
        "░ is below zero",
    ]
    assert len({cells(line.partition("│")[0]) for line in lines[:3]}) == 1


async def test_a_chart_counts_rows_by_month_in_order(
    tools: dict[str, Tool], context: ToolContext
) -> None:
    chart = await call(
        tools["chart_data"], context, label="日期", date_part="month", order="label", limit=1
    )

    assert str(chart).splitlines() == [f"2026-11 │{'█' * 40} 2", "count; 1 of 2 shown, 4 rows"]


async def test_nothing_to_draw_is_said(tools: dict[str, Tool], context: ToolContext) -> None:
    none = [{"column": "地区", "value": "拉萨"}]

    assert "no row fits" in str(
        await call(tools["chart_data"], context, label="地区", filters=none)
    )
    with pytest.raises(ToolError, match="nothing to draw"):
        await call(tools["save_chart"], context, label="地区", filters=none, save_as="a.png")


async def test_a_picture_is_saved_and_kept_with_the_task(
    tools: dict[str, Tool], context: ToolContext, bench: "MemoryBench", workdir: Path
) -> None:
    saved = cast(
        "Result",
        await call(
            tools["save_chart"], context, label="code", save_as="图/按code.png", title="$a$ & b"
        ),
    )

    png = (workdir / "图/按code.png").read_bytes()
    assert png.startswith(PNG)
    assert saved == {
        "path": "图/按code.png",
        "size_bytes": len(png),
        "artifact": "按code.png",
        "drawn": 2,
        "total": 2,
    }
    assert bench.blobs["按code.png"] == png


@pytest.mark.parametrize("kind", ["bar", "line"])
async def test_the_same_table_gives_the_same_picture(
    tools: dict[str, Tool], context: ToolContext, workdir: Path, kind: str
) -> None:
    for _ in range(2):  # the second call finds the same picture there, and that is no overwriting
        await call(tools["save_chart"], context, label="code", save_as="a.png", kind=kind)

    with pytest.raises(ToolError, match="there already") as caught:
        await call(tools["save_chart"], context, label="日期", save_as="a.png", kind=kind)
    assert caught.value.code == "exists"


async def test_texts_that_no_font_can_show_become_numbers_and_are_said(
    tools: dict[str, Tool], context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts_picture, "_CHINESE", ())
    monkeypatch.setattr(charts_picture, "_SOUND_CHINESE", ())

    saved = cast("Result", await call(tools["save_chart"], context, label="地区", save_as="a.png"))

    (note,) = cast("list[str]", saved["notes"])
    assert "Noto Sans CJK" in note
    assert "is 北京" in note
    assert "Shenzhen" not in note


async def test_without_matplotlib_the_extra_is_named(
    tools: dict[str, Tool], context: ToolContext, monkeypatch: pytest.MonkeyPatch, workdir: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(ToolError, match="not installed") as caught:
        await call(tools["save_chart"], context, label="code", save_as="a.png")

    assert "hermes-courier[charts]" in caught.value.hint
    assert not (workdir / "a.png").exists()


@pytest.mark.parametrize("save_as", ["../a.png", "/tmp/a.png", "x/../../a.png"])
async def test_a_picture_stays_in_the_workspace(
    tools: dict[str, Tool], context: ToolContext, save_as: str
) -> None:
    with pytest.raises(ToolError) as caught:
        await call(tools["save_chart"], context, label="code", save_as=save_as)

    assert caught.value.code in ("outside", "not_found")


def test_only_png_is_written(tools: dict[str, Tool]) -> None:
    with pytest.raises(ArgumentFault):
        tools["save_chart"].bind({"path": "a.csv", "label": "x", "save_as": "hermes.py"})
