"""The schema that a ReAct reply is held to: what it lets through, and how narrow it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Annotated, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from hermes import tool
from hermes.core.chat import ToolSpec
from hermes.core.json import as_list, as_object
from hermes.models.react_read import as_call_object, as_finish_object
from hermes.models.react_schema import reply_schema


class Unit(Enum):
    METRE = "m"
    FOOT = "ft"


class Node(BaseModel):
    name: str
    below: list[Node] = []


class Order(BaseModel):
    article: Annotated[str, Field(min_length=1, max_length=20, pattern="^[a-z]+$")]
    count: Annotated[int, Field(ge=1, le=9)]
    unit: Unit = Unit.METRE
    note: str | None = None
    tags: list[str] = []


@tool(effect="read")
async def place(order: Order, urgent: bool = False) -> str:
    """Place an order."""
    return "ok"


@tool(effect="read")
async def tree(
    root: Node, kind: Literal["a", "b"] = "a", more: dict[str, int] | None = None
) -> str:
    """Walk a tree."""
    return "ok"


FOREIGN = ToolSpec(
    name="foreign",
    description="Of an MCP server.",
    parameters={
        "type": "object",
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {
            "when": {"type": "string", "format": "date-time"},
            "mail": {"type": "string", "format": "email", "pattern": "@"},
            "same": {"$ref": "#/properties/when"},
            "old": {"$ref": "#/definitions/Old"},
            "far": {"$ref": "https://example.invalid/schema.json"},
            "any": True,
            "never": False,
            "many": {"type": ["array", "null"], "items": {"type": "number"}, "uniqueItems": True},
            "free": {"type": "object"},
            "all": {"allOf": [{"type": "integer", "minimum": 3}]},
        },
        "required": ["when", "never"],
        "definitions": {"Old": {"oneOf": [{"const": 1}, {"type": "string"}]}},
        "if": {"required": ["mail"]},
        "then": {"required": ["old"]},
        "dependentRequired": {"mail": ["old"]},
    },
)
SPECS = (place.spec, tree.spec, FOREIGN)
REFUSED = {"pattern", "oneOf", "allOf", "not", "if", "then", "uniqueItems", "dependentRequired"}


def schemas(value: object) -> Iterator[Mapping[str, object]]:
    """All schemas in a schema."""
    schema = as_object(value)
    if schema is None:
        return
    yield schema
    inner: list[object] = [*as_list(schema.get("anyOf"))]
    inner += [schema.get("items"), schema.get("additionalProperties")]
    for keyword in ("properties", "$defs"):
        inner += (as_object(schema.get(keyword)) or {}).values()
    for item in inner:
        yield from schemas(item)


def fits(schema: Mapping[str, object], text: str) -> bool:
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema).is_valid(json.loads(text))  # pyright: ignore[reportUnknownMemberType]  # its stubs name a type that is missing


@pytest.mark.parametrize(
    ("name", "arguments", "is_fit"),
    [
        ("place", '{"order": {"article": "lamp", "count": 2}}', True),
        ("place", '{"order": {"article": "lamp", "count": 2, "unit": "ft", "note": null}}', True),
        ("place", '{"order": {"article": "lamp", "count": 10}}', False),
        ("place", '{"order": {"article": "lamp", "count": 2, "unit": "inch"}}', False),
        ("place", '{"order": {"article": "lamp", "count": 2}, "colour": "red"}', False),
        ("place", "{}", False),
        ("tree", '{"root": {"name": "x", "below": [{"name": "y", "below": []}]}}', True),
        ("tree", '{"root": {"name": "x", "below": [{"below": []}]}}', False),
        ("tree", '{"root": {"name": "x"}, "more": {"a": 1}}', True),
        ("foreign", '{"when": "2026-11-30T10:00:00Z", "old": 1, "many": null}', True),
        ("foreign", '{"when": "2026-11-30T10:00:00Z", "old": "x", "all": 3, "far": []}', True),
        ("foreign", '{"when": "2026-11-30T10:00:00Z", "all": 2}', False),
        ("search", "{}", False),
    ],
)
def test_only_the_offered_tools_with_arguments_of_their_own_fit(
    name: str, arguments: str, is_fit: bool
) -> None:
    schema = reply_schema(SPECS, may_finish=True)

    assert fits(schema, as_call_object("t", name, arguments)) is is_fit


def test_finish_is_there_only_where_the_run_may_end() -> None:
    done = as_finish_object("t", "All is done.")

    assert fits(reply_schema(SPECS, may_finish=True), done)
    assert not fits(reply_schema(SPECS, may_finish=False), done)
    assert fits(reply_schema((), may_finish=True), done)


def test_the_schema_of_one_tool_and_no_finish_leaves_no_choice() -> None:
    schema = reply_schema((FOREIGN,), may_finish=False)

    assert "anyOf" not in schema
    assert schema["type"] == "object"


def test_the_final_answer_fits_the_output_schema() -> None:
    schema = reply_schema(SPECS, may_finish=True, output_schema=Order.model_json_schema())
    good = {"action": {"type": "finish"}, "final_answer": {"article": "lamp", "count": 1}}

    assert fits(schema, json.dumps({"thought": "t", **good}))
    assert not fits(schema, as_finish_object("t", "a lamp"))


def test_every_text_and_every_list_is_bounded() -> None:
    schema = reply_schema(SPECS, may_finish=True, output_schema=Node.model_json_schema())
    found = list(schemas(schema))

    assert len(found) > 40
    for inner in found:
        if inner.get("type") == "string":
            assert "maxLength" in inner or "format" in inner
        if inner.get("type") == "array":
            assert "maxItems" in inner
        assert not REFUSED & inner.keys()


def test_a_tools_own_narrower_bounds_hold() -> None:
    found = [s for s in schemas(reply_schema((place.spec,), may_finish=False)) if "minLength" in s]

    assert found == [{"type": "string", "minLength": 1, "maxLength": 20}]


def test_references_lead_nowhere_out_of_the_schema() -> None:
    schema = reply_schema(SPECS, may_finish=True)
    defined = schema["$defs"]

    assert isinstance(defined, dict)
    for inner in schemas(schema):
        if "$ref" in inner:
            assert str(inner["$ref"]).removeprefix("#/$defs/") in defined


def test_a_tool_without_arguments_is_called_with_an_empty_object() -> None:
    spec = ToolSpec(name="now", description="The time.", parameters={"type": "object"})
    schema = reply_schema((spec,), may_finish=False)

    assert fits(schema, as_call_object("t", "now", "{}"))
