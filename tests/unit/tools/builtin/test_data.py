import tracemalloc
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.errors import ToolError
from hermes.tools import ArgumentFault, BuiltinOptions, ToolContext, builtin_tools
from hermes.tools.builtin import data_aggregate
from hermes.tools.builtin.data_cells import EXACT, moment, number, parsed, percentile, plain

if TYPE_CHECKING:
    from ..conftest import MemoryBench

Result = dict[str, object]
ORDERS = (
    "订单号,地区,金额,日期,备注\n"
    "001,华东,10.10,2026-11-01,\n"
    '002,华北,0.20,2026/11/02,"两,行\n文字"\n'
    "003,华东,N/A,2026年12月3日,加急\n"
    '004,华东,"1,000.05",2026-12-03 08:00,\n'
)


class Desk:
    """The tools of one workspace, called by name with plain arguments."""

    def __init__(self, folder: Path, context: ToolContext) -> None:
        self.folder, self.context = folder, context
        options = BuiltinOptions(workspace=folder, files_max_bytes=100_000)
        self.tools = {tool.name: tool for tool in builtin_tools(["data"], options=options)}

    async def __call__(self, name: str, path: str, **arguments: object) -> Result:
        tool = self.tools[name]
        bound = tool.bind({"path": path, **arguments})
        return cast("Result", await tool.invoke(bound, self.context))

    async def rows(self, path: str, **arguments: object) -> list[Result]:
        return cast("list[Result]", (await self("query_data", path, **arguments))["rows"])

    def put(self, name: str, text: str, encoding: str = "utf-8") -> str:
        (self.folder / name).write_bytes(text.encode(encoding))
        return name


@pytest.fixture
def desk(workdir: Path, context: ToolContext) -> Desk:
    return Desk(workdir, context)


@pytest.fixture
def orders(desk: Desk) -> str:
    return desk.put("订单.csv", ORDERS)


def column(described: Mapping[str, object], name: str) -> Result:
    return next(each for each in cast("list[Result]", described["columns"]) if each["name"] == name)


async def test_a_table_is_described_by_columns_types_and_rows(desk: Desk, orders: str) -> None:
    said = await desk("describe_data", orders)

    assert said["rows"] == 4
    assert said["read_as"] == "CSV, utf-8, separator ',' (detected)"
    types = {name: column(said, name)["type"] for name in ("订单号", "金额", "日期", "备注")}
    assert types == {"订单号": "text", "金额": "text", "日期": "datetime", "备注": "text"}
    assert column(said, "金额")["holds"] == {"number": 3, "text": 1}
    assert column(said, "金额")["first_text"] == "N/A"
    assert column(said, "备注")["empty"] == 2
    assert (column(said, "日期")["min"], column(said, "日期")["max"]) == (
        "2026-11-01",
        "2026-12-03 08:00",
    )


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8-sig (byte order mark)"),
        ("utf-16", "utf-16 (byte order mark)"),
        ("gb18030", "gb18030 (guessed: it is not utf-8)"),
    ],
)
async def test_the_encoding_is_found_and_said(desk: Desk, encoding: str, said: str) -> None:
    path = desk.put("订单.csv", ORDERS, encoding)

    found = await desk("query_data", path, columns=["地区"], limit=1)

    assert found["rows"] == [{"地区": "华东"}]
    assert said in str(found["read_as"])


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
async def test_the_separator_is_found_and_said(desk: Desk, separator: str) -> None:
    path = desk.put("a.csv", f"甲{separator}乙\n1.5{separator}2\n3{separator}4\n")

    found = await desk("query_data", path)

    assert found["rows"] == [{"甲": "1.5", "乙": "2"}, {"甲": "3", "乙": "4"}]
    assert ("tab" if separator == "\t" else repr(separator)) in str(found["read_as"])


async def test_what_is_given_is_not_guessed(desk: Desk) -> None:
    path = desk.put("a.txt", "甲;1,5\n乙;2,5\n", "gb18030")
    reading = {"form": "csv", "separator": ";", "encoding": "gbk", "header": False}

    found = await desk("query_data", path, reading=reading)

    assert found["rows"] == [
        {"column_1": "甲", "column_2": "1,5"},
        {"column_1": "乙", "column_2": "2,5"},
    ]
    assert found["read_as"] == "CSV, gbk, separator ';'"


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("a.json", '[{"x": {"y": 1}, "z": [1, "二"]}]', [{"x.y": 1, "z": '[1, "二"]'}]),
        ("a.json", '{"page": 1, "items": [{"x": 0.1}]}', [{"x": "0.1"}]),
        ("a.jsonl", '{"x": 1}\n\n{"x": null}\n', [{"x": 1}, {"x": None}]),
        ("a.log", '{"x": "甲"}\n{"x": "乙"}', [{"x": "甲"}, {"x": "乙"}]),
    ],
)  # fmt: skip
async def test_json_of_each_form_is_a_table(
    desk: Desk, name: str, text: str, rows: list[Result]
) -> None:
    assert await desk.rows(desk.put(name, text)) == rows


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("a.json", "[1, 2]", "no array of objects"),
        ("a.json", '{"a": [{"x": 1}], "b": [{"x": 1}]}', "2 arrays of objects"),
        ("a.json", '[{"x": NaN}]', "NaN is no number"),
        ("a.json", "[" * 200_000, "more than 100,000"),
        ("a.json", "[" * 90_000, "no JSON"),
        ("a.jsonl", '{"x": 1}\n[2]\n', "line 2 is no object"),
        ("a.jsonl", '{"x": 1}\n{"x": \n', "no JSON on line 2"),
        ("a.csv", 'a,b\n1,2\n3,"4\n5,6\n', "near line"),
        ("a.csv", "", "holds no rows"),
        ("a.csv", "a,b\n" + "x" * 1_000_001, "a line of more than 1,000,000"),
        ("a.jsonl", '{"x": "' + "x" * 1_000_001, "a line of more than 1,000,000"),
        ("a.csv", "a,b\0\n", "binary"),
    ],
)
async def test_what_is_no_table_is_refused_with_the_place(
    desk: Desk, name: str, text: str, what: str
) -> None:
    with pytest.raises(ToolError, match=what):
        await desk("query_data", desk.put(name, text))


async def test_a_late_byte_of_another_encoding_is_said_with_its_line(desk: Desk) -> None:
    lines = "".join(f"{n},x\n" for n in range(20_000))
    (desk.folder / "a.csv").write_bytes(f"n,t\n{lines}".encode() + "1,退款\n".encode("gb18030"))

    with pytest.raises(ToolError, match=r"is not utf-8 after line \d+") as caught:
        await desk("query_data", "a.csv")

    assert caught.value.code == "wrong_encoding"


async def test_rows_of_another_width_are_kept_and_said(desk: Desk) -> None:
    path = desk.put("a.csv", "a,b,a\n1,2\n1,2,3,4\n1,2,3\n")

    found = await desk("query_data", path)

    assert cast("list[Result]", found["rows"])[0] == {"a": "1", "b": "2", "a_2": ""}
    assert found["notes"] == [
        "a further column 'a' is called 'a_2'",
        "2 rows do not have 3 fields (the first ends on line 2): missing fields count as empty, "
        "further ones are left out",
    ]


async def test_groups_are_summed_exactly(desk: Desk, orders: str) -> None:
    found = await desk(
        "query_data",
        orders,
        group_by=["地区"],
        aggregates=[
            {"op": "count"},
            {"op": "sum", "column": "金额"},
            {"op": "avg", "column": "金额"},
            {"op": "percentile", "column": "金额", "percent": 95},
            {"op": "max", "column": "日期"},
            {"op": "count_distinct", "column": "订单号"},
            {"op": "count", "column": "备注"},
        ],
        sort_by="sum(金额)",
        descending=True,
    )

    assert found["rows"] == [
        {
            "地区": "华东",
            "count": 3,
            "sum(金额)": "1010.15",
            "avg(金额)": "505.075",
            "p95(金额)": "950.5525",
            "max(日期)": "2026-12-03 08:00",
            "count_distinct(订单号)": 3,
            "count(备注)": 1,
        },
        {
            "地区": "华北",
            "count": 1,
            "sum(金额)": "0.2",
            "avg(金额)": "0.2",
            "p95(金额)": "0.2",
            "max(日期)": "2026/11/02",
            "count_distinct(订单号)": 1,
            "count(备注)": 1,
        },
    ]
    assert found["notes"] == ["金额: 1 values are no numbers and were left out, as 'N/A'"]


async def test_ten_thousand_cents_are_a_hundred_to_the_cent(desk: Desk) -> None:
    path = desk.put("a.csv", "x\n" + "0.01\n" * 10_000)

    assert await desk.rows(path, aggregates=[{"op": "sum", "column": "x"}]) == [{"sum(x)": 100}]


async def test_dates_are_grouped_by_month_in_whatever_form(desk: Desk, orders: str) -> None:
    assert await desk.rows(orders, group_by=["日期"], date_part="month", sort_by="日期") == [
        {"日期": "2026-11", "count": 2},
        {"日期": "2026-12", "count": 2},
    ]


@pytest.mark.parametrize(
    ("op", "name", "value", "numbers"),
    [
        ("eq", "金额", 0.2, ["002"]),
        ("eq", "金额", "1000.05", ["004"]),
        ("ne", "地区", "华东", ["002"]),
        ("gt", "金额", 0.2, ["001", "004"]),
        ("ge", "金额", "0.20", ["001", "002", "004"]),
        ("lt", "金额", 10, ["002"]),
        ("eq", "日期", "2026-12-03", ["003", "004"]),
        ("le", "日期", "2026-11-02", ["001", "002"]),
        ("gt", "日期", "2026-12-03 07:59", ["004"]),
        ("in", "地区", ["华北", "西南"], ["002"]),
        ("not_in", "地区", ["华北"], ["001", "003", "004"]),
        ("contains", "备注", "行\n文", ["002"]),
        ("not_contains", "备注", "行", ["001", "003", "004"]),
        ("starts_with", "备注", "加", ["003"]),
        ("ends_with", "备注", "急", ["003"]),
        ("is_empty", "备注", None, ["001", "004"]),
        ("not_empty", "备注", None, ["002", "003"]),
        ("eq", "订单号", "1", []),
        ("eq", "订单号", "001", ["001"]),
    ],
)
async def test_rows_are_filtered(
    desk: Desk, orders: str, op: str, name: str, value: object, numbers: list[str]
) -> None:
    condition = {"column": name, "op": op, **({} if value is None else {"value": value})}

    found = await desk("query_data", orders, filters=[condition], columns=["订单号"])

    assert [row["订单号"] for row in cast("list[Result]", found["rows"])] == numbers
    assert (found["matched"], found["scanned"]) == (len(numbers), 4)


async def test_rows_are_sorted_with_empty_ones_last_either_way(desk: Desk) -> None:
    path = desk.put("a.csv", "x,y\n10,a\n,b\n9,c\n100,d\n")

    up = await desk.rows(path, sort_by="x")
    down = await desk.rows(path, sort_by="x", descending=True, limit=2)

    assert [row["x"] for row in up] == ["9", "10", "100", ""]
    assert [row["x"] for row in down] == ["100", "10"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"columns": ["金"]}, "unknown_column"),
        ({"sort_by": "金"}, "unknown_column"),
        ({"group_by": ["金"]}, "unknown_column"),
        ({"filters": [{"column": "金", "value": 1}]}, "unknown_column"),
        ({"group_by": ["地区"], "sort_by": "金额"}, "unknown_column"),
        ({"aggregates": [{"op": "sum"}]}, "bad_aggregate"),
        ({"aggregates": [{"op": "percentile", "column": "金额"}]}, "bad_aggregate"),
        ({"aggregates": [{"op": "sum", "column": "金额", "percent": 5}]}, "bad_aggregate"),
        ({"filters": [{"column": "金额", "op": "in", "value": 1}]}, "bad_filter"),
        ({"filters": [{"column": "金额", "op": "gt"}]}, "bad_filter"),
        ({"group_by": ["地区"], "columns": ["金额"]}, "bad_query"),
        ({"date_part": "month"}, "bad_query"),
        ({"reading": {"separator": "::"}}, "bad_reading"),
    ],
)
async def test_a_question_that_cannot_be_answered_is_refused(
    desk: Desk, orders: str, arguments: Result, code: str
) -> None:
    with pytest.raises(ToolError) as caught:
        await desk("query_data", orders, **arguments)

    assert caught.value.code == code


async def test_a_column_of_json_lines_is_checked_once_all_rows_are_known(desk: Desk) -> None:
    path = desk.put("a.jsonl", '{"x": 1}\n{"y": 2}\n')

    assert await desk.rows(path, filters=[{"column": "y", "op": "not_empty"}]) == [
        {"x": None, "y": 2}
    ]
    with pytest.raises(ToolError, match="there is no column 'z'"):
        await desk("query_data", path, filters=[{"column": "z", "op": "is_empty"}])


@pytest.mark.parametrize(
    "arguments",
    [
        {"filters": [{"column": "x", "op": "__import__('os')"}]},
        {"filters": [{"column": "x", "value": 1, "code": "1"}]},
        {"aggregates": [{"op": "eval", "column": "x"}]},
        {"limit": 0},
        {"aggregates": [{"op": "percentile", "column": "x", "percent": 101}]},
        {"date_part": "week"},
    ],
)
def test_only_what_the_schema_names_is_taken(desk: Desk, arguments: Result) -> None:
    with pytest.raises(ArgumentFault):
        desk.tools["query_data"].bind({"path": "a.csv", **arguments})


@pytest.mark.parametrize("path", ["../x.csv", "/etc/passwd", ".env", "link.csv"])
async def test_tables_are_bound_to_the_workspace(desk: Desk, path: str) -> None:
    (desk.folder / "link.csv").symlink_to("/etc/passwd")

    with pytest.raises(ToolError) as caught:
        await desk("query_data", path)

    assert caught.value.code in ("outside", "protected")


async def test_numbers_beyond_all_measure_are_text(desk: Desk) -> None:
    path = desk.put("a.jsonl", '{"x": 1e999999}\n{"x": 1e-999999}\n{"x": 2}\n')

    found = await desk("query_data", path, aggregates=[{"op": "sum", "column": "x"}])

    assert found["rows"] == [{"sum(x)": 2}]
    assert "2 values are no numbers" in str(found["notes"])


async def test_long_cells_are_told_apart_in_little_memory(desk: Desk) -> None:
    cells = [f"{'长' * 50_000}{n % 3}" for n in range(30)]
    path = desk.put("a.csv", "x\n" + "\n".join(cells))

    rows = await desk.rows(path, aggregates=[{"op": "count_distinct", "column": "x"}])
    described = await desk("describe_data", path)

    assert rows == [{"count_distinct(x)": 3}]
    assert column(described, "x")["distinct"] == 3
    with pytest.raises(ToolError, match="more than 1,000 characters"):
        await desk("query_data", path, group_by=["x"])


async def test_groups_and_kept_values_are_bounded(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = desk.put("a.csv", "x\n" + "\n".join(map(str, range(20))))
    monkeypatch.setattr(data_aggregate, "MAX_GROUPS", 10)
    monkeypatch.setattr(data_aggregate, "MAX_KEPT", 10)

    for arguments in (
        {"group_by": ["x"]},
        {"aggregates": [{"op": "count_distinct", "column": "x"}]},
        {"aggregates": [{"op": "percentile", "column": "x", "percent": 50}]},
    ):
        with pytest.raises(ToolError) as caught:
            await desk("query_data", path, **arguments)
        assert caught.value.code == "too_large"


async def test_a_long_table_is_summed_row_by_row(desk: Desk) -> None:
    with (desk.folder / "big.csv").open("w") as file:
        file.write("n,文\n")
        file.writelines(f"{n},{'长' * 900}\n" for n in range(8_000))

    tracemalloc.start()
    rows = await desk.rows("big.csv", aggregates=[{"op": "sum", "column": "n"}])

    assert rows == [{"sum(n)": sum(range(8_000))}]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000  # the file has 21 MB


async def test_a_query_ends_when_its_call_does(desk: Desk) -> None:
    cast("MemoryBench", desk.context.bench).cancelled = True
    path = desk.put("a.csv", "x\n" + "1\n" * 5_000)

    with pytest.raises(ToolError, match="stopped after 2,000 rows"):
        await desk("query_data", path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.50", Decimal("1234.50")),
        (" -0.5 ", Decimal("-0.5")),
        ("1e3", Decimal(1000)),
        *((text, None) for text in ("1,5", "12,34", "007", "¥3", "12%", "nan", "1_000", "１")),
    ],
)
def test_only_what_is_surely_a_number_is_one(text: str, value: Decimal | None) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", ["2026-02-30", "2026-13-01", "26-1-1", "2026-01", "2026.01.02"])
def test_only_what_is_surely_a_date_is_one(text: str) -> None:
    assert moment(text) is None


def test_dates_are_read_in_the_forms_that_people_write() -> None:
    assert len({moment(text) for text in ("2026-1-2", "2026/01/02", "2026年1月2日")}) == 1
    assert moment("2026-11-29T08:00:00+0800") == moment("2026-11-29 00:00")


@given(st.lists(st.decimals(-(10**12), 10**12, places=4), min_size=1, max_size=30))
def test_sums_and_percentiles_are_exact(values: list[Decimal]) -> None:
    total = Decimal(0)
    for value in values:
        total = EXACT.add(total, cast("Decimal", number(str(plain(value)))))

    assert Fraction(total) == sum(map(Fraction, values))
    median = percentile(sorted(values), Decimal(50))
    assert float(median) == pytest.approx(float(numpy.percentile([*map(float, values)], 50)))


@given(st.text(max_size=30))
def test_any_cell_has_a_kind(text: str) -> None:
    kind, value = parsed(text)

    assert (kind in ("integer", "number")) is isinstance(value, Decimal)
    assert (number(text) is not None) is (kind in ("integer", "number"))
    assert (moment(text) is not None) is (kind in ("date", "datetime"))
