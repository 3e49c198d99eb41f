"""What a model will stumble over is found, in English and in Chinese, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, cast

import pytest
from pydantic import Field

from hermes import tool
from hermes.core.effects import Effect
from hermes.tools import Tool, register_tool
from hermes.tools.lint.findings import Finding, lint


def made(
    description: str = "Look up the stock of one article.",
    *,
    name: str = "look_up_stock",
    effect: str = "read",
    parameters: dict[str, object] | None = None,
    required: list[str] | None = None,
) -> Tool:
    schema: dict[str, object] = {
        "type": "object",
        "properties": parameters or {},
        "required": list(parameters or {}) if required is None else required,
    }

    def function(**_: object) -> str:
        return ""

    return register_tool(name, description, schema, effect=cast("Effect", effect))(function)


def rules(*tools: Tool) -> list[str]:
    return [finding.rule for finding in lint(tools)]


def only(rule: str, *tools: Tool) -> list[Finding]:
    return [finding for finding in lint(tools) if finding.rule == rule]


@tool(effect="read")
def stock_of(
    article: str,
    unit: Literal["piece", "box"] = "piece",
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
) -> list[str]:
    """Look up how many of an article are in stock, by warehouse.

    Use it when a question is about what is there now; not for orders that are under way.

    Args:
        article: Name or number of the article, for example `lamp-3`.
        unit: What is counted.
        limit: Warehouses at most.

    Returns:
        One line for each warehouse; an empty list if there is none of it.
    """
    return []


@tool(effect="read")
def stock_in_chinese(
    article: str, days: Annotated[int, Field(ge=1, le=90)] = 7, kind: str | None = None
) -> str:
    """查询某个商品在各仓库的现有库存。

    当用户问到“现在还有多少”时使用；不要用于查询在途订单。返回每个仓库一行。

    Args:
        article: 商品名称或编号，例如 lamp-3
        days: 统计最近多少天
        kind: 商品类别，不填则不限
    """
    return ""


@pytest.mark.parametrize("good", [stock_of, stock_in_chinese])
def test_a_tool_that_says_all_of_it_is_clean(good: Tool) -> None:
    assert lint([good]) == []


@pytest.mark.parametrize(
    ("description", "is_found"),
    [
        ("look up stock", True),
        ("Stock.", True),
        ("库存", True),
        ("查询库存", False),
        ("Look up the stock.", False),
    ],
)
def test_a_description_says_what_the_tool_does(description: str, is_found: bool) -> None:
    found = only("what", made(description))
    assert bool(found) is is_found
    assert all(finding.level == "error" for finding in found)


def test_without_a_docstring_there_is_no_description() -> None:
    @tool(effect="read")
    def look_up_stock() -> str:
        return ""

    assert rules(look_up_stock)[0] == "what"


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("returns", "Returns: the number."),
        ("returns", "It gives a number."),
        ("returns", "返回数量。"),
        ("when", "Use it when stock is asked for."),
        ("when", "Call this before an order is made."),
        ("when", "用户问库存时使用。"),
        ("when", "适用于库存问题。"),
        ("when_not", "Not for orders."),
        ("when_not", "For orders use find_order instead."),
        ("when_not", "不要用于订单。"),
        ("when_not", "订单请改用 find_order。"),
        ("example", "For example lamp-3."),
        ("example", "Takes names such as lamp-3."),
        ("example", "例如 lamp-3。"),
        ("example", "商品编号，如“lamp-3”。"),
    ],
)
def test_each_part_of_the_template_is_missed_until_it_is_there(rule: str, says: str) -> None:
    first = "Look up the stock of one article."
    assert only(rule, made(first))[0].level == "warning"
    assert only(rule, made(f"{first}\n\n{says}")) == []


def test_an_example_may_stand_with_a_parameter() -> None:
    described = {"type": "string", "description": "Its number, for example 3"}
    assert only("example", made(parameters={"article": described})) == []
    exampled = {"type": "string", "description": "Its number", "examples": ["3"]}
    assert only("example", made(parameters={"article": exampled})) == []


def test_a_description_that_some_providers_refuse_is_too_long() -> None:
    assert only("length", made("Look up stock. " * 70))
    assert not only("length", made("Look up stock. " * 60))


@pytest.mark.parametrize(
    ("name", "effect", "level"),
    [
        ("get_stock", "unsafe", "error"),
        ("listOrders", "unsafe", "error"),
        ("read_stock", "idempotent", "warning"),
        ("delete_order", "read", "error"),
        ("sendMail", "read", "error"),
        ("get_stock", "read", None),
        ("delete_order", "unsafe", None),
        ("add", "read", None),
        ("getaway", "unsafe", None),
        ("sender_of", "read", None),
    ],
)
def test_a_name_does_not_contradict_the_effect(name: str, effect: str, level: str | None) -> None:
    found = only("name", made(name=name, effect=effect))
    assert [finding.level for finding in found] == ([level] if level else [])


def test_what_destroys_shows_first_what_that_would_be() -> None:
    bare = made(name="delete_order", effect="unsafe")
    assert [f.level for f in only("preview", bare)] == ["warning"]
    assert only("preview", replace(bare, preview=lambda: "one")) == []
    assert only("preview", replace(bare, requires_approval=True)) == []

    @tool
    def delete_order(number: str, dry_run: bool = False) -> str:
        """Delete an order."""
        return ""

    assert only("preview", delete_order) == []


NUMBER = {"type": "integer", "minimum": 1, "maximum": 9, "description": "It"}


@pytest.mark.parametrize(
    ("name", "schema", "found"),
    [
        ("x", {"type": "string"}, ["parameter"]),
        ("x", {"type": "string", "description": "It"}, []),
        ("x", NUMBER, []),
        ("x", {"type": "integer", "description": "It"}, ["range"]),
        ("x", {"type": "number", "minimum": 0, "description": "It"}, []),
        ("limit", {"type": "integer", "minimum": 1, "description": "It"}, ["range"]),
        ("x", {"type": "integer", "description": "From 1 to 9"}, []),
        ("x", {"type": "integer", "description": "至少 1"}, []),
        ("order_id", {"type": "integer", "description": "It"}, []),
        ("x", {"type": "integer", "enum": [1, 2], "description": "It"}, []),
        ("timeout", NUMBER, ["unit"]),
        ("timeout_s", NUMBER, []),
        ("timeout", {**NUMBER, "description": "In seconds"}, []),
        ("timeout", {**NUMBER, "description": "单位：秒"}, []),
        ("price", NUMBER, ["unit"]),
        ("price", {**NUMBER, "description": "In CNY"}, []),
        ("x", {"type": "string", "description": "One of low, high"}, ["enum"]),
        ("x", {"type": "string", "description": "`low` or `high`"}, ["enum"]),
        ("x", {"type": "string", "description": "low|high"}, ["enum"]),
        ("x", {"type": "string", "description": "可选值：低、高"}, ["enum"]),
        ("x", {"type": "string", "enum": ["low"], "description": "One of low"}, []),
        ("x", {"type": "string", "description": "For example `low` or `high`"}, []),
    ],
)
def test_parameters_have_meaning_bounds_units_and_choices(
    name: str, schema: dict[str, object], found: list[str]
) -> None:
    told = [finding for finding in lint([made(parameters={name: schema})]) if finding.parameter]
    assert [finding.rule for finding in told] == found
    assert all(finding.parameter == name for finding in told)


@pytest.mark.parametrize(
    ("schema", "is_found"),
    [
        ({"type": "string", "description": "It"}, True),
        ({"type": "string", "description": "It", "default": "a"}, False),
        ({"type": "string", "description": "It", "default": None}, True),
        ({"type": "string", "description": "All of them if not given"}, False),
        ({"type": "string", "description": "类别，不填则不限", "default": None}, False),
    ],
)
def test_what_may_be_left_out_says_what_holds_then(
    schema: dict[str, object], is_found: bool
) -> None:
    assert len(only("default", made(parameters={"x": schema}, required=[]))) == is_found


def test_parameters_of_nested_objects_are_looked_at_too() -> None:
    schema: dict[str, object] = {
        "lines": {
            "type": "array",
            "description": "What is ordered",
            "items": {
                "type": "object",
                "properties": {"article": {"type": "string"}},
                "required": ["article"],
            },
        }
    }
    [finding] = only("parameter", made(parameters=schema))
    assert finding.parameter == "lines[].article"


@pytest.mark.parametrize(
    ("one", "other", "level"),
    [
        (("a", "Look up stock by article."), ("b", "look up stock by article."), "error"),
        (("get_order", "One thing here."), ("fetch_orders", "Another matter there."), "warning"),
        (("orderGet", "One thing here."), ("get_order", "Another matter there."), "warning"),
        (
            ("a", "Find the orders of a customer by name."),
            ("b", "Find an order of one customer by its name."),
            "warning",
        ),
        (
            ("a", "查询某个客户最近的全部订单信息"),
            ("b", "查询某个客户最近的全部订单信息吗"),
            "warning",
        ),
        (("a", "Delete a file."), ("b", "Delete a folder."), None),
        (("list_files", "List the files."), ("search_files", "Search in all files."), None),
    ],
)
def test_two_tools_that_could_be_taken_for_each_other_are_told_once(
    one: tuple[str, str], other: tuple[str, str], level: str | None
) -> None:
    pair = made(one[1], name=one[0]), made(other[1], name=other[0])
    found = only("overlap", *pair)
    assert [finding.level for finding in found] == ([level] if level else [])
    beside = [f.rule for f in lint(pair[:1], beside=pair)]
    assert beside.count("overlap") == len(found)
